package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// A counted is the difference between two readings of the counters.
type counted struct {
	Window
	ok       bool
	from, to rcu.Ktime
}

// difference is what was counted between the readings i and j.
func (t *Teller) difference(i, j int) counted {
	if i < 0 || j <= i || j >= len(t.readings) {
		return counted{}
	}
	a, b := t.readings[i], t.readings[j]
	w, ok := window(a, b)
	return counted{Window: w, ok: ok, from: a.at, to: b.at}
}

// around is what was counted from the last reading up to begin to the first from end on.
func (t *Teller) around(begin, end rcu.Ktime) counted {
	i, j := -1, -1
	for n, r := range t.readings {
		if r.at <= begin {
			i = n
		}
		if r.at >= end && j < 0 {
			j = n
		}
	}
	return t.difference(i, j)
}

// within is what was counted from the first reading after begin to the last before end.
func (t *Teller) within(begin, end rcu.Ktime) counted {
	i, j := -1, -1
	for n, r := range t.readings {
		if r.at >= begin && i < 0 {
			i = n
		}
		if r.at <= end {
			j = n
		}
	}
	return t.difference(i, j)
}

// ticks are the windows between readings that touch s, and one on either side.
func (t *Teller) ticks(s experiment.Sample) []Tick {
	const most = 2000 // a page draws no more
	begin, end := s.Start, s.Start.Add(s.Took)
	var ticks []Tick
	for i := 1; i < len(t.readings) && len(ticks) < most; i++ {
		a, b := t.readings[i-1], t.readings[i]
		if b.at < begin.Add(-time.Second) || a.at > end.Add(time.Second) {
			continue
		}
		w, ok := window(a, b)
		if !ok || w.Took < minWindow/5 {
			continue
		}
		x := Tick{From: a.at.Sub(begin), To: b.at.Sub(begin), Window: w, Band: NoBand}
		if t.arm.Threaded && t.arm.Load.Kind != experiment.NoLoad && a.c.InHold {
			x.Band = secondBand(t.arm, t.Summary().Facts, w)
		}
		ticks = append(ticks, x)
	}
	return ticks
}

// kept reports whether in InShare of the time that was counted before until, while the operation lasted, the loop neither
// slept, nor was switched away from, nor used its budget. The window that until is in is looked at only where there is no
// earlier one: what ended the wait is in it.
func kept(ticks []Tick, until time.Duration) bool {
	in, all := time.Duration(0), time.Duration(0)
	for _, x := range ticks {
		if x.To <= 0 || x.From >= until || x.Band == NoBand || x.To > until && all > 0 {
			continue
		}
		all += x.Window.Took
		if x.Band == In && x.Window.Nonvol == 0 {
			in += x.Window.Took
		}
	}
	return all > 0 && in.Seconds() >= InShare*all.Seconds()
}

// best is what was counted within the operation while the load was on, where that is most of it, else around it.
func (s *Story) best(w witness) (c counted, edges bool) {
	took := s.Sample.Took
	if s.HasLoad && s.LoadEnd > 0 {
		took = min(took, s.LoadEnd)
	}
	if w.inner.ok && w.inner.Took.Seconds() >= 0.5*took.Seconds() {
		return w.inner, false
	}
	return w.outer, true
}

func (s *Story) counterEvidence(c counted) Evidence {
	from, to := c.from.Sub(s.Sample.Start), c.to.Sub(s.Sample.Start)
	return Evidence{"counters", fmt.Sprintf("readings at %s and %s of the operation: %d polls, %s using the budget of 64, %d sleeps, %d other switches, %s on a CPU",
		at(from), at(to), c.Polls, s.fullWords(c), c.Sleeps, c.Nonvol, FormatDuration(c.RunTime))}
}

func (s *Story) fullWords(c counted) string {
	if !c.Traced {
		return "an unknown number"
	}
	return fmt.Sprintf("%d", c.Full)
}

// at writes a time since the operation's begin.
func at(d time.Duration) string { return fmt.Sprintf("%+.3f s", d.Seconds()) }

// thread names the NAPI thread under test.
func (s Story) thread() string {
	switch {
	case !s.Arm.Threaded:
		return "softirqs"
	case s.Facts.Thread == "":
		return "the NAPI thread"
	case s.Facts.ThreadPID == 0:
		return s.Facts.Thread
	}
	return fmt.Sprintf("%s (pid %d)", s.Facts.Thread, s.Facts.ThreadPID)
}

// heldUp says which CPU had not reported, and which thread ran there.
func (s *Story) heldUp(w witness) {
	s.accused(w)
	c, _ := s.best(w)
	cpu := s.Facts.LoadCPU
	switch {
	case !s.Arm.Threaded:
		s.say(AboutThread, Inferred, fmt.Sprintf("none: the NAPI was polled in softirq on CPU %d, where grace periods end", cpu), Evidence{"records", "the arm has threaded: false"})
	case !s.HasLoad:
		s.say(AboutThread, Inferred, "none: the arm has no load", Evidence{"records", "load: none"})
	case !c.ok:
		s.say(AboutThread, Unseen, "the counters have no two readings around it", s.traceEvidence(w)...)
	default:
		share := c.RunTime.Seconds() / c.Took.Seconds()
		evidence := append([]Evidence{s.counterEvidence(c), {"facts", fmt.Sprintf("the NAPI under test is polled by %s, load on CPU %d", s.thread(), cpu)}}, s.traceEvidence(w)...)
		s.say(AboutThread, Counted, fmt.Sprintf("%s ran for %s of the time counted, on CPU %d", s.thread(), FormatShare(min(1, share)), cpu), evidence...)
	}
}

// accused says which CPU RCU or a kworker waited for.
func (s *Story) accused(w witness) {
	cpus := map[int]bool{}
	var evidence []Evidence
	for _, r := range w.reports {
		for _, cpu := range w.events[r.event].CPUs {
			cpus[cpu] = true
		}
		if len(evidence) < 3 && len(w.events[r.event].CPUs) > 0 {
			evidence = append(evidence, logEvidence(r))
		}
	}
	switch {
	case s.Held && s.longestIs(rcu.FlushWork):
		c, _ := s.best(w)
		s.say(AboutCPU, Inferred, fmt.Sprintf("CPU %d: flush_work waits for a kworker bound to it, which needs a switch there; a quiescent state is not enough", s.Facts.LoadCPU),
			append([]Evidence{s.counterEvidence(c)}, evidence...)...)
	case len(cpus) > 0:
		s.say(AboutCPU, Seen, fmt.Sprintf("%s had not reported", cpuWords(cpus)), evidence...)
	case s.Held && s.Facts.Flavor == rcu.Preempt:
		c, _ := s.best(w)
		s.say(AboutCPU, Inferred, fmt.Sprintf("CPU %d: its thread gave way to nobody, and with rcu_preempt a tick or an IPI reports for it only where it finds bottom halves on", s.Facts.LoadCPU),
			s.counterEvidence(c), Evidence{"rule", "rcu_sched_clock_irq() and rcu_exp_handler() ask whether preempt and BH counts are clear (kernel/rcu/tree_plugin.h, tree_exp.h)"})
	case s.Held:
		c, _ := s.best(w)
		s.say(AboutCPU, Inferred, fmt.Sprintf("CPU %d: its thread passed no point at which this kernel (%s) reports a quiescent state or switches", s.Facts.LoadCPU, Model(s.Facts)),
			s.counterEvidence(c), Evidence{"rule", "without preemption only a sleep, a switch, cond_resched() or a softirq of ksoftirqd reports (docs/mechanism.md)"})
	case s.Slow:
		s.say(AboutCPU, Unseen, "no report of the kernel names a CPU")
	}
}

// longestIs reports whether s waited longest in w.
func (s *Story) longestIs(w rcu.Wait) bool {
	x, ok := s.longest()
	return ok && x.Wait == w
}

func cpuWords(cpus map[int]bool) string {
	var names []string
	for cpu := range 4096 {
		if cpus[cpu] {
			names = append(names, fmt.Sprintf("CPU %d", cpu))
		}
	}
	return join(names)
}

func logEvidence(r reported) Evidence {
	return Evidence{"kmsg", fmt.Sprintf("[%.6f] %s", r.stamp.Seconds(), strings.TrimSpace(r.text))}
}

// traceEvidence is what the kernel's own backtraces and lockup reports say of who ran.
func (s *Story) traceEvidence(w witness) []Evidence {
	const most = 3
	var out []Evidence
	add := func(format string, args ...any) {
		e := Evidence{"kmsg", fmt.Sprintf(format, args...)}
		if len(out) < most && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	for _, e := range w.events {
		if e.Task != "" {
			add("a %s report names %s (pid %d)", e.Kind, e.Task, e.PID)
		}
		for _, tr := range e.Traces {
			switch loop := tr.Loop(); {
			case tr.Task == "" || !tr.HasCPU:
			case loop == "":
				add("a backtrace of CPU %d is %s's (pid %d)", tr.CPU, tr.Task, tr.PID)
			default:
				add("a backtrace of CPU %d is %s's (pid %d), in %s", tr.CPU, tr.Task, tr.PID, loop)
			}
		}
	}
	return out
}

// looped says how often the loop went round and by which exit, and whether it gave the CPU away.
func (s *Story) looped(w witness) {
	if !s.Arm.Threaded || !s.HasLoad {
		return
	}
	c, edges := s.best(w)
	if !c.ok {
		s.say(AboutLoop, Unseen, "the counters have no two readings around it")
		return
	}
	note := ""
	if edges {
		note = " (with what came right before and after it)"
	}
	e := s.counterEvidence(c)
	switch sure := Counted; {
	case !c.Traced && s.Arm.Load.Kind == experiment.Bounce && s.Arm.Load.Inflight <= bulk:
		s.say(AboutLoop, Inferred, fmt.Sprintf("%d polls%s, all below the budget: %s", c.Polls, note, s.exitWords()), e,
			Evidence{"rule", fmt.Sprintf("%d in flight never fill a poll: XDP flushes %d at once", s.Arm.Load.Inflight, bulk)})
	case !c.Traced:
		s.say(AboutLoop, Unseen, fmt.Sprintf("%d polls%s; which of them used the budget was not counted on this kernel", c.Polls, note), e)
	case c.Full == 0:
		s.say(AboutLoop, sure, fmt.Sprintf("%d polls%s, none with the whole budget: %s", c.Polls, note, s.exitWords()), e)
	default:
		s.say(AboutLoop, sure, fmt.Sprintf("%d polls%s: %d used the whole budget and went on past cond_resched(), %d did not", c.Polls, note, c.Full, c.Polls-min(c.Full, c.Polls)), e)
	}
	switch {
	case c.Sleeps == 0 && c.Nonvol == 0:
		s.say(AboutSleep, Counted, fmt.Sprintf("%s neither slept nor was switched away from%s", s.thread(), note), e)
	default:
		s.say(AboutSleep, Counted, fmt.Sprintf("%s slept %s and was switched away from %s%s", s.thread(), times(c.Sleeps), times(c.Nonvol), note), e)
	}
}

func times(n uint64) string { return plural(int(min(n, 1<<31)), "time") }

// exitWords says what a poll below its budget means in the arm's loop.
func (s Story) exitWords() string {
	switch {
	case s.Arm.Loop != experiment.Stock:
		return fmt.Sprintf("each left the loop below the budget; the arm's loop is %s", s.Arm.Loop)
	case len(s.Arm.Patch) > 0:
		return "each left the loop below the budget; the arm's kernel is patched"
	}
	if !s.Held {
		return "each left the loop without repoll; in an unpatched loop that exit passes no cond_resched()"
	}
	return "each left the loop without repoll, past neither rcu_softirq_qs_periodic() nor cond_resched()"
}
