package klog

import (
	"fmt"
	"slices"
	"strings"
)

// judgeStall looks at a stall of a normal or expedited grace period.
func judgeStall(e *Event, all []Event) finding {
	starved, timer := beside(e, all, Starved), beside(e, all, Timer)
	if len(e.CPUs) == 0 {
		return judgeNobody(e, starved, timer)
	}
	accused := fmt.Sprintf("RCU accuses CPU %s", list(e.CPUs))
	if f, ok := judgeDeaf(e, accused); ok {
		return f
	}
	if e.crawling() {
		return finding{class: SlowConsole, signs: []string{"several CPUs took hardly a tick in all that time: they are all slow at once"}}
	}
	t := e.traceOf(e.CPUs)
	if t == nil {
		t = elsewhere(e, all)
	}
	elseCPU := starved != nil && len(starved.CPUs) > 0 && !slices.Contains(e.CPUs, starved.CPUs[0]) ||
		timer != nil && len(timer.CPUs) > 0 && !slices.Contains(e.CPUs, timer.CPUs[0])
	idle := e.idle(t)
	switch {
	case idle && timer != nil, elseCPU && timer != nil && !t.looping():
		f := finding{class: LostTimer, signs: []string{"the grace-period kthread's timer did not wake it"}}
		return f.plus(idle, "the accused CPU is idle").plus(e.unprobed(), "RCU asked the accused CPU for nothing")
	case idle && (starved != nil || e.unprobed()), starved != nil && e.unprobed() && elseCPU, starved != nil && !t.named():
		f := finding{class: StarvedGP}
		return f.plus(starved != nil, "the grace-period kthread was starved").plus(idle, "the accused CPU is idle").
			plus(e.unprobed(), "RCU asked the accused CPU for nothing")
	case idle && e.Kind == Expedited: // idle CPUs owe it nothing
		return finding{class: Softirq, hog: t.hog(), signs: []string{accused}}
	case idle:
		return finding{class: LostTimer, signs: []string{"RCU accuses an idle CPU"}}
	case t == nil || !t.named() && len(t.Frames) == 0:
		return judgeUntraced(e, timer, accused)
	}
	if t.swapper() && !t.looping() && !e.nested() { // neither idle for RCU nor at work
		return e.absent(starved, timer, accused)
	}
	f := e.byTrace(t, accused)
	if f.class == ThreadedNAPI && e.others() {
		return finding{class: Unknown, hog: f.hog, against: []string{"another CPU is accused too, and not of NAPI"}}
	}
	f = f.minus(e.Kind == Expedited && e.Jiffies <= hasty, fmt.Sprintf("reported after %d jiffies: this kernel's expedited timeout is short", e.Jiffies))
	return f.minus(starved != nil, "the grace-period kthread was starved too: the detector itself was held up")
}

// absent looks at a CPU that RCU waits for, and on which only the idle task is to be seen.
func (e *Event) absent(starved, timer *Event, accused string) finding {
	offline := slices.ContainsFunc(e.States, func(s CPUState) bool { return strings.HasPrefix(s.Flags, "O") })
	f := finding{signs: []string{accused}}
	switch {
	case timer != nil:
		f.class = LostTimer
	case starved != nil:
		f.class = StarvedGP
		f = f.plus(true, "the grace-period kthread was starved")
	case offline:
		f.class = DeadCPU
	default:
		f.class = Fragmentary
	}
	return f.plus(offline, "the accused CPU is offline").plus(timer != nil, "the grace-period kthread's timer did not wake it")
}

// hasty is an age, in jiffies, at which an expedited stall need not be one: kernels for phones report after 20 ms.
const hasty = 100

// others reports whether an accused CPU is at something else than a NAPI thread.
func (e *Event) others() bool {
	for i := range e.Traces {
		t := &e.Traces[i]
		if t.Role == Subject && t.HasCPU && slices.Contains(e.CPUs, t.CPU) && t.named() && !t.NAPIThread() && !t.swapper() {
			return true
		}
	}
	return false
}

func list(set []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(set), " ", ","), "[]") }

func (f finding) plus(is bool, sign string) finding {
	if is {
		f.signs = append(f.signs, sign)
	}
	return f
}

func (f finding) minus(is bool, sign string) finding {
	if is {
		f.against = append(f.against, sign)
	}
	return f
}

// judgeNobody looks at a stall in which no CPU is accused.
func judgeNobody(e, starved, timer *Event) finding {
	switch {
	case e.Blocked:
		f := finding{class: BlockedReader, signs: []string{"preempted readers hold the grace period up"}}
		if len(e.Readers) == 0 {
			return f
		}
		f.signs = append(f.signs, fmt.Sprintf("RCU names the reader: PID %d", e.Readers[0]))
		f.hog = &Hog{PID: e.Readers[0]}
		for _, t := range e.Traces {
			if t.PID == e.Readers[0] {
				f.hog.Task, f.hog.Frame, f.hog.Top = t.Task, t.loop(), t.top()
			}
		}
		return f
	case timer != nil:
		return finding{class: LostTimer, signs: []string{"the grace-period kthread's timer did not wake it"}}.plus(e.AllQSes, "no CPU or reader is accused")
	case starved != nil:
		return finding{class: StarvedGP, signs: []string{"the grace-period kthread was starved"}}.plus(e.AllQSes, "no CPU or reader is accused")
	case e.AllQSes, e.Jiffies > 0:
		return finding{class: StarvedGP, signs: []string{"no CPU or reader is accused: the kthread that ends the grace period did not run"}}
	}
	return finding{class: Fragmentary}
}

// judgeDeaf finds a CPU that took neither RCU's interrupt nor, in time, the NMI for a backtrace.
func judgeDeaf(e *Event, accused string) (finding, bool) {
	for _, s := range e.States {
		if !s.Deaf() || slices.Contains(e.Answered, s.CPU) {
			continue
		}
		if t := e.traceOf([]int{s.CPU}); t != nil && len(e.Asked) == 0 && t.looping() {
			continue
		}
		f := finding{class: DeadCPU, hog: &Hog{CPU: s.CPU, HasCPU: true}, signs: []string{accused,
			fmt.Sprintf("CPU %d did not take RCU's interrupt (flag %s)", s.CPU, s.Flags[3:])}}
		return f.plus(slices.Contains(e.Asked, s.CPU), "it gave no backtrace within 2 s"), true
	}
	return finding{}, false
}

// judgeUntraced looks at a stall without a backtrace of the accused CPU.
func judgeUntraced(e *Event, timer *Event, accused string) finding {
	switch {
	case timer != nil:
		return finding{class: LostTimer, signs: []string{"the grace-period kthread's timer did not wake it"}}
	case e.nested() && e.inIdle():
		return finding{class: Softirq, hog: &Hog{Task: "swapper", CPU: e.CPUs[0], HasCPU: true},
			signs: []string{accused, "it is in an interrupt above the idle loop"}}
	}
	return finding{class: Fragmentary, signs: []string{accused}}
}

// elsewhere looks for the accused CPU's backtrace in another report of the same stall.
func elsewhere(e *Event, all []Event) *Trace {
	for i := range all {
		o := &all[i]
		if o.Boot != e.Boot || !slices.Contains([]Kind{Classic, Expedited, SoftLockup, HardLockup}, o.Kind) {
			continue
		}
		for j := range o.Traces {
			if t := &o.Traces[j]; t.Role == Subject && t.HasCPU && slices.Contains(e.CPUs, t.CPU) {
				return t
			}
		}
	}
	return nil
}

// idle reports whether the accused CPUs were all idle, with no more than the interrupt that looked at them.
func (e *Event) idle(t *Trace) bool {
	if t != nil {
		if t.Idle {
			return true
		}
		if t.named() && !t.swapper() {
			return false
		}
	}
	known := false
	for _, s := range e.States {
		idle, nested, ok := s.Context()
		if !ok {
			continue
		}
		known = true
		if !idle || nested > e.tick() {
			return false
		}
	}
	return known && !t.looping() || !known && t.idle()
}

// crawling reports whether several CPUs did take interrupts, but hardly a tick for all the age of the grace period: that is
// not one CPU's fault, but that of what runs them all.
func (e *Event) crawling() bool {
	cpus := map[int]bool{}
	for _, s := range e.States {
		if s.Deaf() || s.Unprobed() || s.Ticks < 0 || s.Ticks > e.Jiffies/100 {
			return false
		}
		cpus[s.CPU] = true
	}
	return len(cpus) >= 3 && len(cpus) == len(e.CPUs)
}

// tick is how many interrupts the report itself accounts for.
func (e *Event) tick() int {
	if e.Self {
		return 1
	}
	return 0
}

// nested reports whether an accused CPU was in an interrupt besides the one that reported.
func (e *Event) nested() bool {
	for _, s := range e.States {
		if _, n, ok := s.Context(); ok && n > e.tick() {
			return true
		}
	}
	return false
}

// inIdle reports whether the interrupts of an accused CPU came upon its idle loop.
func (e *Event) inIdle() bool {
	for _, s := range e.States {
		if idle, _, ok := s.Context(); ok && idle {
			return true
		}
	}
	return false
}

func (e *Event) unprobed() bool {
	return slices.ContainsFunc(e.States, CPUState.Unprobed)
}

// byTrace adds to what the backtrace says what RCU measured.
func (e *Event) byTrace(t *Trace, accused string) finding {
	if t.swapper() && e.nested() {
		return finding{class: Softirq, hog: t.hog(), signs: []string{accused, "it is in an interrupt above the idle loop"}}.
			plus(t.softirq(), "softirq functions are on its stack")
	}
	f := byTrace(t, accused)
	if f.class != ThreadedNAPI {
		return f
	}
	if e.nested() && !t.threadedPoll() {
		return finding{class: Unknown, hog: t.hog(), against: []string{"the NAPI thread was interrupted, and by what is not said"}}
	}
	for _, s := range e.States {
		if s.Deaf() {
			return finding{class: Unknown, hog: t.hog(), against: []string{"the CPU takes no interrupts, and NAPI's loop leaves them on"}}
		}
		if c := s.Time; c != nil && s.CPU == first(e.CPUs) && c.Window > 0 {
			f = f.plus(c.Switches == 0 && c.System+c.SoftIRQ > c.Window/2, "the CPU did not switch tasks once while it worked")
			f = f.minus(c.System+c.SoftIRQ+c.HardIRQ == 0, "the CPU did nothing in the meantime")
		}
		if len(s.Flags) == 4 && s.Flags[3] == '.' && s.FQS > 0 {
			f.signs = add(f.signs, []string{"the CPU takes interrupts: it is not dead"})
		}
	}
	return f
}

// judgeKthread looks at a grace-period kthread's trouble when the stall's head beside it is missing.
func judgeKthread(e *Event, all []Event) (finding, bool) {
	for _, o := range all {
		if o.Boot == e.Boot && (o.Kind == Classic || o.Kind == Expedited) && o.Flavor == e.Flavor {
			return finding{}, false
		}
	}
	if e.Kind == Timer {
		return finding{class: LostTimer, signs: []string{"the grace-period kthread's timer did not wake it"}}, true
	}
	return finding{class: StarvedGP, signs: []string{"the grace-period kthread was starved"}}, true
}

// judgeTasks looks at a Tasks grace period: it waits for tasks that don't sleep by themselves.
func judgeTasks(e *Event) finding {
	t := e.traceOf(nil)
	f := finding{signs: []string{e.Flavor + " waits for the task"}}
	if t == nil {
		f.class = Fragmentary
		return f
	}
	f.hog = t.hog()
	awake := len(e.Holdouts) > 0 && e.Holdouts[0].Slept >= 0 && e.Holdouts[0].Slept == e.Holdouts[0].SleptBefore
	f = f.plus(awake, "it did not sleep once since the grace period began (nvcsw)")
	switch {
	case t.threadedPoll() && t.NAPIThread() && (t.State == "R" || awake):
		f.class = ThreadedNAPI
		f.signs = append(f.signs, "the task is a NAPI thread", "its stack is in napi_threaded_poll")
	case t.State == "R":
		f.class = DriverWorker
	default:
		f.class = BlockedReader
	}
	return f
}

// judgeSoftLockup looks at a CPU on which the watchdog's work did not run.
func judgeSoftLockup(e *Event, all []Event) finding {
	sign := fmt.Sprintf("CPU %d did not schedule (soft lockup)", first(e.CPUs))
	t := e.traceOf(e.CPUs)
	if t == nil || t.Task == "" && len(t.Frames) == 0 {
		t = &Trace{CPU: first(e.CPUs), HasCPU: len(e.CPUs) > 0, Task: e.Task, PID: e.PID}
	} else if t.Task == "" {
		named := *t
		named.Task, named.PID = e.Task, e.PID
		t = &named
	}
	f := byTrace(t, sign)
	switch {
	case f.class == ThreadedNAPI:
		stalled := slices.ContainsFunc(all, func(o Event) bool {
			return (o.Kind == Classic || o.Kind == Expedited) && len(e.CPUs) > 0 && slices.Contains(o.CPUs, e.CPUs[0])
		})
		f = f.plus(stalled, fmt.Sprintf("RCU accuses CPU %s", list(e.CPUs)))
		if !t.polls() && !stalled {
			return finding{class: Unknown, hog: t.hog(), against: []string{"only its name says that it is a NAPI thread"}}
		}
	case f.class == DriverWorker && !strings.HasPrefix(t.Task, "kworker/") && t.loop() == "":
		f.class = Unknown
	}
	return f
}
