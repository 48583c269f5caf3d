package klog

import (
	"fmt"
	"slices"
	"strings"
)

// A Class says what kind of thing is behind the events of a log.
type Class string

// The classes. What is no stall at all (a leaked reference, a fault, a device that does not transmit) is Unknown, and
// the Verdict's Summary says what it is.
const (
	// ThreadedNAPI is a NAPI thread that keeps its CPU: polls that end within their budget and find the device scheduled
	// again at once.
	ThreadedNAPI Class = "threaded NAPI"
	// Softirq is softirqs, in interrupts or in ksoftirqd, that keep a CPU. NAPI without threads is one.
	Softirq Class = "softirq"
	// DriverWorker is a worker, or another task, that does not come back from a driver or elsewhere in the kernel.
	DriverWorker Class = "driver worker"
	// StarvedGP is a grace-period kthread that did not run: often a virtual CPU that its host did not run.
	StarvedGP Class = "starved GP kthread/vCPU"
	// LostTimer is a timer that did not fire, or ticks that an idle CPU lost.
	LostTimer Class = "timer"
	// BlockedReader is a preempted or sleeping task within a read-side critical section.
	BlockedReader Class = "blocked reader"
	// DeadCPU is a CPU that takes no interrupts.
	DeadCPU Class = "dead CPU"
	// SlowConsole is time that went into printing, or an emulator too slow for the timeout.
	SlowConsole Class = "slow console or emulator"
	// Fragmentary is a log cut so short that nothing can be said.
	Fragmentary Class = "fragment"
	// Unknown is everything else, and everything that too little speaks for.
	Unknown Class = "unknown"
)

// A Confidence says how sure a Verdict is.
type Confidence string

// High needs three independent signs and nothing against it, Medium two, Low is one. None is the confidence of Unknown and
// Fragmentary.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
	None   Confidence = "none"
)

// A Verdict is what the events of one incident say together.
type Verdict struct {
	Class      Class
	Confidence Confidence
	// Hog is who holds a CPU up, if somebody does.
	Hog *Hog
	// Victims are the tasks that wait, at most 16.
	Victims []Victim
	// Signs are the independent observations for Class, Against those that weaken it.
	Signs, Against []string
	// Summary is one sentence, Next what to do, the first thing first.
	Summary string
	Next    []string
}

// A Hog is a thread, or what runs in interrupts, that keeps a CPU.
type Hog struct {
	Task   string
	PID    int
	CPU    int
	HasCPU bool
	// Frame is the outermost function that is not common to all threads of its kind: the loop. Top is the
	// innermost one, where it happened to be, which says little.
	Frame, Top string
}

func (h Hog) String() string {
	s := h.Task
	switch {
	case s == "" && h.PID > 0:
		s = fmt.Sprintf("PID %d", h.PID)
	case s == "":
		s = "something"
	case h.PID > 0:
		s += fmt.Sprintf(":%d", h.PID)
	}
	if h.HasCPU {
		s += fmt.Sprintf(" on CPU %d", h.CPU)
	}
	if h.Frame != "" {
		s += " in " + h.Frame
	}
	return s
}

// A finding is what one event says.
type finding struct {
	class   Class
	hog     *Hog
	signs   []string
	against []string
}

// Judge says what is behind events, which should be those of one incident (see Incidents). It never calls a NAPI
// thread the culprit because of its name: the kernel must accuse the thread or its CPU, independently
// of the name, and nothing may explain the report otherwise.
func Judge(events []Event) Verdict {
	v := Verdict{Class: Unknown, Confidence: None}
	var found []finding
	for i := range events {
		if f, ok := judge(&events[i], events); ok {
			found = append(found, f)
		}
	}
	v.Victims = victims(events)
	v.choose(found)
	v.mend(events)
	v.Summary = v.summary(events)
	v.Next = v.next(events)
	return v
}

// precedence orders classes: what is more certain where it is seen at all comes first.
func precedence() []Class {
	return []Class{DeadCPU, ThreadedNAPI, SlowConsole, Softirq, LostTimer, StarvedGP, BlockedReader, DriverWorker, Fragmentary, Unknown}
}

// choose takes the class that most events speak for, and joins what they say.
func (v *Verdict) choose(found []finding) {
	best, most := Unknown, 0
	for _, c := range precedence() {
		n := 0
		for _, f := range found {
			if f.class == c {
				n += 1 + len(f.signs)
			}
		}
		if n > most && c != Unknown && (c != Fragmentary || best == Unknown) {
			best, most = c, n
		}
	}
	v.Class = best
	for _, f := range found {
		if f.class != best {
			continue
		}
		v.Signs, v.Against = add(v.Signs, f.signs), add(v.Against, f.against)
		if v.Hog == nil || v.Hog.Frame == "" && f.hog != nil && f.hog.Frame != "" {
			v.Hog = f.hog
		}
	}
}

func add(to, from []string) []string {
	for _, s := range from {
		if !slices.Contains(to, s) && len(to) < 16 {
			to = append(to, s)
		}
	}
	return to
}

// mend sets the confidence, and withdraws a verdict that too little speaks for.
func (v *Verdict) mend(events []Event) {
	if v.Class == Unknown || v.Class == Fragmentary {
		v.Confidence = None
		return
	}
	if v.Class == ThreadedNAPI && len(v.Signs) < 2 {
		v.Class, v.Confidence = Unknown, None
		return
	}
	for _, e := range events {
		if e.Reports > 1 && (e.Kind == Classic || e.Kind == Expedited || e.Kind == SoftLockup || e.Kind == GPAge) {
			v.Signs = add(v.Signs, []string{fmt.Sprintf("the kernel reported it %d times", e.Reports)})
			break
		}
	}
	switch n := len(v.Signs) - len(v.Against); {
	case n >= 3 && len(v.Against) == 0:
		v.Confidence = High
	case n >= 2:
		v.Confidence = Medium
	default:
		v.Confidence = Low
	}
}

// judge says what one event says in the company of the others.
func judge(e *Event, all []Event) (finding, bool) {
	switch e.Kind {
	case Classic, Expedited:
		return judgeStall(e, all), true
	case TasksRCU:
		return judgeTasks(e), true
	case Starved, Timer:
		return judgeKthread(e, all)
	case SoftLockup:
		return judgeSoftLockup(e, all), true
	case HardLockup:
		if t := e.traceOf(e.CPUs); t != nil && !t.idle() && !t.NAPIThread() { // NAPI's loop leaves interrupts on
			return byTrace(t, "the CPU took no interrupts (hard lockup)"), true
		}
		return finding{class: DeadCPU, signs: []string{"the CPU took no interrupts (hard lockup)"}}, true
	case WorkqueueLockup:
		if len(e.Works) == 0 {
			return finding{}, false
		}
		if t := e.traceOf(nil); t != nil && t.named() && t.loop() != "" {
			return byTrace(t, "a worker pool made no progress"), true
		}
		return finding{class: DriverWorker, hog: &Hog{Task: "kworker", Frame: e.Works[0], CPU: first(e.CPUs), HasCPU: len(e.CPUs) == 1},
			signs: []string{"a worker pool made no progress while it was at " + e.Works[0]}}, true
	case CPUDump:
		return judgeDump(e), true
	case Fragment:
		if e.Blocked || len(e.States) > 0 && e.Jiffies > 0 {
			return judgeStall(e, all).minus(true, "the report's head is missing"), true
		}
		return finding{class: Fragmentary}, true
	}
	return finding{}, false
}

func first(set []int) int {
	if len(set) == 0 {
		return 0
	}
	return set[0]
}

// traceOf returns the backtrace of the newest report about one of cpus: the one that says most.
func (e *Event) traceOf(cpus []int) *Trace {
	var best *Trace
	for i := range e.Traces {
		t := &e.Traces[i]
		if t.Role != Subject || t.HasCPU && len(cpus) > 0 && !slices.Contains(cpus, t.CPU) || !t.HasCPU && len(cpus) > 1 {
			continue
		}
		if strings.HasPrefix(t.Task, "rcu_") && t.State == "I" {
			continue
		}
		if best == nil || len(t.Frames) > len(best.Frames) || best.Task == "" && t.Task != "" {
			best = t
		}
	}
	return best
}

// beside returns the event of kind k about the same grace period.
func beside(e *Event, all []Event, k Kind) *Event {
	for i := range all {
		o := &all[i]
		if o.Kind == k && o.Boot == e.Boot && o.Flavor == e.Flavor && (sameGP(o.GP, e.GP) || e.Kind == Expedited || e.GP == "" || o.GP == "") {
			return o
		}
	}
	return nil
}

// sameGP compares two names of grace periods. A kernel of 32 bits prints one number signed here and unsigned there.
func sameGP(a, b string) bool {
	if a == b {
		return true
	}
	x, okX := numberAfter(a, "=")
	y, okY := numberAfter(b, "=")
	return okX && okY && uint32(x) == uint32(y) && (x < 0) != (y < 0)
}

// judgeDump looks at registers that no report explains, but that may explain themselves. The taint L says that there
// was a soft lockup since boot, so that a poll found at the top of a NAPI thread's own stack is no accident.
func judgeDump(e *Event) finding {
	t := &e.Traces[0]
	accused := t.accuses()
	if !t.crawls() && (accused == "" || strings.Contains(t.Taint, "D") || t.idle()) { // D: it died before
		return finding{class: Fragmentary}
	}
	f := byTrace(t, accused)
	if f.class == ThreadedNAPI && !t.polls() {
		f.class = Fragmentary
	}
	return f.minus(f.class != SlowConsole, "the report's head is missing")
}
