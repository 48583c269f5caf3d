package sim

import (
	"fmt"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
)

// A kernelLog holds what the kernel's messages say beside the time.
type kernelLog struct {
	seq      uint64 // of the next line
	wide     bool   // 64 bits
	gp       int64  // number of the normal grace period
	gpJiffy  int64  // when it began
	exp      int64  // number of the expedited one
	expJiffy int64
	ticks    int64 // of CPU 0 since it noticed the grace period
	softirqs int64 // of RCU on CPU 0, all
	seen     int64 // … when it noticed
	queued   int64 // callbacks, about: what the probes have queued
}

// noticed begins the counts that are of one grace period.
func (l *kernelLog) noticed() { l.ticks, l.seen = 0, l.softirqs }

func (r *recorder) gpStarted(jiffy int64) {
	r.log.gp += 4 // RCU_SEQ_STATE_MASK is two bits
	r.log.gpJiffy = jiffy
	r.fqs = 0
}

func (r *recorder) expStarted(jiffy int64) {
	r.log.exp += 4
	r.log.expJiffy = jiffy
}

// line sends a line of the kernel's log.
func (r *recorder) line(now int64, level int, format string, args ...any) error {
	r.log.seq++
	return r.put(experiment.Record{Kmsg: &experiment.Kmsg{
		Seq: r.log.seq, Stamp: time.Duration(now / microsecond * microsecond), Level: level, Text: fmt.Sprintf(format, args...),
	}}, now)
}

// cpuLine is print_cpu_stall_info's.
func (r *recorder) cpuLine(now int64, interrupted bool) error {
	nesting := uint64(0x40000000)
	if r.log.wide {
		nesting <<= 32
	}
	if interrupted {
		nesting += 2
	}
	return r.line(now, 3, "rcu: \t%d-....: (%d ticks this GP) idle=%04x/1/0x%x softirq=%d/%d fqs=%d",
		r.facts.LoadCPU, r.log.ticks, uint16(r.log.gp<<2), nesting, r.log.seen, r.log.softirqs, r.fqs)
}

// stalled prints a stall report as kernel/rcu/tree_stall.h and tree_exp.h do, without stacks.
func (r *recorder) stalled(e *engine, f model.Effects) {
	if e.err == nil {
		e.err = r.report(f, e.now, e.k.of(e.now))
	}
}

func (r *recorder) report(f model.Effects, now, jiffy int64) error {
	flavor, cpus := r.facts.Flavor, r.facts.CPUs
	lines := []func() error{}
	add := func(format string, args ...any) {
		lines = append(lines, func() error { return r.line(now, 3, format, args...) })
	}
	age := jiffy - r.log.gpJiffy
	switch {
	case f&model.EffStallExp != 0:
		add("rcu: INFO: %s detected expedited stalls on CPUs/tasks: { %d-.... } %d jiffies s: %d root: 0x%x/.",
			flavor, r.facts.LoadCPU, jiffy-r.log.expJiffy, r.log.exp, uint64(1)<<r.facts.LoadCPU)
		add("rcu: blocking rcu_node structures (internal RCU debug):")
	case f&model.EffStallSelf != 0:
		add("rcu: INFO: %s self-detected stall on CPU", flavor)
		lines = append(lines, func() error { return r.cpuLine(now, true) })
		add("rcu: \t(t=%d jiffies g=%d q=%d ncpus=%d)", age, r.log.gp, r.log.queued, cpus)
	default:
		add("rcu: INFO: %s detected stalls on CPUs/tasks:", flavor)
		lines = append(lines, func() error { return r.cpuLine(now, false) })
		add("rcu: \t(detected by %d, t=%d jiffies, g=%d, q=%d ncpus=%d)", r.facts.ProbeCPU, age, r.log.gp, r.log.queued, cpus)
	}
	for _, line := range lines {
		if err := line(); err != nil {
			return err
		}
	}
	return nil
}

// The soft lockup detector (kernel/watchdog.c): its timer on each CPU wakes a stopper each watchdogPeriod, and reports
// when none has run for longer than lockupUnits of 2^30 ns.
const (
	watchdogPeriod = 4 * second
	lockupUnits    = 20
	lockupShift    = 30
)

// watchdog is the detector's timer. The stopper itself is not in the model: it counts as run when CPU 0 entered
// __schedule or passed a cond_resched, for it is what would be picked there; under a model that preempts, and on an
// idle CPU, it runs at once.
func (r *recorder) watchdog(e *engine) error {
	task := e.s.Current()
	if r.facts.Preempt.Preempts() || task == model.Idle || task == model.User || e.s.Asleep() {
		r.touched = e.now
	}
	now := e.now >> lockupShift
	since := max(r.touched, r.warned)
	if now <= since>>lockupShift+lockupUnits {
		return nil
	}
	r.warned = e.now
	name, pid := r.facts.Thread, r.facts.ThreadPID
	if task != model.NAPIThread {
		name, pid = "ksoftirqd", ksoftirqdPID
	}
	return r.line(e.now, 0, "watchdog: BUG: soft lockup - CPU#%d stuck for %ds! [%s:%d]",
		r.facts.LoadCPU, now-r.touched>>lockupShift, name, pid)
}

// The pids of a simulated machine's threads: like those of a small guest.
const (
	threadPID    = 111
	ksoftirqdPID = 22
)
