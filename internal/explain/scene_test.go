package explain

import (
	"fmt"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// holdStart is when the load of every scene begins, on the target's clock.
const holdStart = rcu.Ktime(5 * time.Second)

// A scene is a trial told in brief, to be played as records.
type scene struct {
	arm     experiment.Arm
	rep     int
	facts   experiment.Facts
	accel   string
	second  experiment.Counters // what each second of the hold adds
	seconds int                 // default: those of the hold
	deletes []time.Duration     // begun in the hold, one after another
	cut     bool                // the last delete is censored
	tail    []time.Duration
	waits   map[rcu.Wait]int // of deletes over 1 s
	kmsg    []string         // printed 22 s into the hold
	early   []string         // printed before it
	outcome string           // default Completed
	losses  []experiment.Loss
}

// inBand is a stock kernel's second: a loop that neither sleeps nor uses its budget.
func inBand() experiment.Counters {
	return experiment.Counters{Traced: true, Polls: 340_000, Packets: 340_000, RunTime: time.Second, Interrupts: 250}
}

func aboveBand() experiment.Counters {
	return experiment.Counters{Traced: true, Polls: 6_000, FullPolls: 6_000, Packets: 384_000, Nonvoluntary: 24, RunTime: time.Second}
}

func belowBand() experiment.Counters {
	return experiment.Counters{Traced: true, Polls: 4_000, Packets: 9_000, Voluntary: 3_800, RunTime: time.Second / 3}
}

func stockFacts() experiment.Facts {
	return experiment.Facts{Release: "7.2.13-armmp-lpae", Version: "#1 SMP Debian 7.2.13-1", Arch: "armv7l", Preempt: rcu.Voluntary,
		Flavor: rcu.Sched, HZ: 250, CPUs: 2, StallSec: 21, Stacks: true, PollTrace: true, LoadCPU: 1, Thread: "napi/vb-8193", ThreadPID: 71}
}

func lazyFacts() experiment.Facts {
	f := stockFacts()
	f.Release, f.Arch, f.Preempt, f.Dynamic, f.Flavor = "7.3.4-cloud-amd64", "x86_64", rcu.Lazy, true, rcu.Preempt
	return f
}

func arm(name string) experiment.Arm {
	return experiment.Arm{
		Name: name, Kernel: "debian:sid/armhf", VCPUs: 2, Threaded: true,
		Load:     experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: 30 * time.Second, CPU: experiment.LastCPU},
		Probe:    experiment.Probe{Op: experiment.LinkDel, Device: "dummy", Every: 250 * time.Millisecond},
		Duration: 33 * time.Second,
	}
}

// some returns n times d.
func some(n int, d time.Duration) []time.Duration {
	s := make([]time.Duration, n)
	for i := range s {
		s[i] = d + time.Duration(i)*time.Millisecond
	}
	return s
}

// Headers as kernels print them (print_cpu_stall and print_other_cpu_stall in kernel/rcu/tree_stall.h).
func classicStall(g int) []string {
	return []string{
		"rcu: INFO: rcu_sched self-detected stall on CPU",
		"rcu: \t1-....: (5250 ticks this GP) idle=5f1c/1/0x40000002 softirq=86/86 fqs=2625",
		fmt.Sprintf("rcu: \t(t=5250 jiffies g=%d q=12 ncpus=2)", g),
	}
}

func expeditedStall(s int) []string {
	return []string{fmt.Sprintf("rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-.... } 5253 jiffies s: %d root: 0x2/.", s)}
}

func softLockup() []string {
	return []string{"watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [napi/vb-8193:71]"}
}

func (s scene) records() []experiment.Record {
	hold := s.arm.Load.Hold
	if s.seconds == 0 {
		s.seconds = int(hold / time.Second)
	}
	if s.outcome == "" {
		s.outcome = experiment.Completed
	}
	r := []experiment.Record{{Command: &experiment.Command{Argv: []string{"qemu-system-arm"}, Accel: s.accel}}, {Facts: &s.facts}}
	for i, l := range s.early {
		r = append(r, experiment.Record{Kmsg: &experiment.Kmsg{Stamp: time.Duration(i+1) * time.Millisecond, Level: 3, Text: l}})
	}
	r = append(r, experiment.Record{At: holdStart, Phase: &experiment.Phase{Name: experiment.Hold, Expect: hold}})
	total := experiment.Counters{InHold: true, Traced: s.second.Traced}
	for i := range s.seconds + 1 {
		c := total
		r = append(r, experiment.Record{At: holdStart.Add(time.Duration(i) * time.Second), Counters: &c})
		total.Polls += s.second.Polls
		total.FullPolls += s.second.FullPolls
		total.Packets += s.second.Packets
		total.Voluntary += s.second.Voluntary
		total.Nonvoluntary += s.second.Nonvoluntary
		total.RunTime += s.second.RunTime
		total.Interrupts += s.second.Interrupts
	}
	for i, l := range s.kmsg {
		at := time.Duration(holdStart) + 22*time.Second + time.Duration(i)*time.Millisecond
		r = append(r, experiment.Record{Kmsg: &experiment.Kmsg{Stamp: at, Level: 3, Text: l}})
	}
	r = append(r, s.samples(s.deletes, experiment.Hold, holdStart)...)
	r = append(r, s.samples(s.tail, experiment.Tail, holdStart.Add(hold))...)
	for _, l := range s.losses {
		r = append(r, experiment.Record{Loss: &l})
	}
	return append(r, experiment.Record{End: &experiment.End{Outcome: s.outcome}})
}

func (s scene) samples(took []time.Duration, phase string, at rcu.Ktime) []experiment.Record {
	var r []experiment.Record
	for i, d := range took {
		x := experiment.Sample{Op: s.arm.Probe.Op, Start: at, Took: d, Phase: phase,
			Censored: s.cut && phase == experiment.Hold && i == len(took)-1}
		if d > SlowLimit {
			x.Waits = s.waits
		}
		r = append(r, experiment.Record{Sample: &x})
		at = at.Add(d + s.arm.Probe.Every)
	}
	return r
}

func (s scene) summary() TrialSummary {
	t := NewTrial(experiment.Trial{Rep: max(1, s.rep), Arm: s.arm})
	for _, r := range s.records() {
		t.Add(r)
	}
	return t.Summary()
}

// armOf pools scenes, which must share their arm.
func armOf(scenes ...scene) ArmSummary {
	var trials []TrialSummary
	for i, s := range scenes {
		s.rep = i + 1
		trials = append(trials, s.summary())
	}
	return Summarize(scenes[0].arm, trials)
}

func stock() scene {
	return scene{arm: arm("stock"), facts: stockFacts(), accel: "tcg", second: inBand(),
		deletes: []time.Duration{30100 * time.Millisecond}, tail: some(10, 20*time.Millisecond),
		waits: map[rcu.Wait]int{rcu.SynchronizeNet: 590, rcu.Barrier: 10},
		kmsg:  append(classicStall(101), expeditedStall(201)...)}
}

func lazy() scene {
	s := scene{arm: arm("lazy"), facts: lazyFacts(), accel: "tcg", second: inBand(), deletes: some(70, 140*time.Millisecond)}
	s.second.Nonvoluntary = 4
	s.arm.Kernel = "debian:sid/amd64"
	return s
}

func softirq() scene {
	s := scene{arm: arm("softirq"), facts: stockFacts(), accel: "tcg", second: inBand(),
		deletes: append(some(40, 200*time.Millisecond), 2*time.Second, 2300*time.Millisecond)}
	s.arm.Threaded, s.facts.Thread, s.facts.ThreadPID = false, "", 0
	return s
}

func above() scene {
	s := scene{arm: arm("above-band"), facts: stockFacts(), accel: "tcg", second: aboveBand(), deletes: some(59, 100*time.Millisecond)}
	s.arm.Load.Inflight = 40
	return s
}

func contains(t *testing.T, s []string, want string) {
	t.Helper()
	for _, x := range s {
		if containsFold(x, want) {
			return
		}
	}
	t.Errorf("no sentence says %q:\n%q", want, s)
}
