package machine

import (
	"cmp"
	"slices"
	"time"
)

// A Watch is what a machine did for a while. Times are nanoseconds in JSON.
type Watch struct {
	Took    time.Duration `json:"took"`
	Step    time.Duration `json:"step"` // between two looks at the threads
	Threads []Watched     `json:"threads,omitempty"`
	// GracePeriods are RCU's, in turn: each is one membarrier(MEMBARRIER_CMD_GLOBAL), which is synchronize_rcu.
	GracePeriods []Wait `json:"grace_periods,omitempty"`
	NoGP         string `json:"no_grace_periods,omitempty"` // why there is none
	// Turns are how long an ordinary thread had to wait until it ran on a CPU where a poll thread was busy.
	Turns []Wait `json:"turns,omitempty"`
	// Polls are what the tracepoint napi:napi_poll counted, by device; NoPolls says why it did not.
	Polls   []Polls `json:"polls,omitempty"`
	NoPolls string  `json:"no_polls,omitempty"`
	// Interrupts and Packets are what came while it was watched, by number and by device.
	Interrupts []IRQCount `json:"interrupts,omitempty"`
	Packets    []Count    `json:"packets,omitempty"`
	Softnet    []Softnet  `json:"softnet,omitempty"` // what was added
}

// From when on a wait is late, and is given up as censored.
const (
	// LateGP is that of a grace period: idle machines end one within 60 ms, and lazy ones under a load in the band
	// within some hundred.
	LateGP = time.Second
	// LateTurn is that of a thread that waits for a CPU. Fair competitors take turns within milliseconds.
	LateTurn = 500 * time.Millisecond
)

// A Watched is a poll thread's use of its CPU. Its counts are differences.
type Watched struct {
	PID          int           `json:"pid"`
	Name         string        `json:"name"`
	CPU          int           `json:"cpu"` // at the last look
	Looks        int           `json:"looks"`
	Took         time.Duration `json:"took"`
	RunTime      time.Duration `json:"run_time"`
	Voluntary    uint64        `json:"voluntary"` // sleeps
	Nonvoluntary uint64        `json:"nonvoluntary"`
	// Longest is the longest time over which it ran at every look and was never switched out. The true
	// one can be up to two steps longer. A schedule() that picked the same thread again, which is a quiescent
	// state, is not seen.
	Longest time.Duration `json:"longest"`
}

// Busy is the share of the time in which the thread ran, 0 to 1.
func (w Watched) Busy() float64 {
	if w.Took <= 0 {
		return 0
	}
	return min(1, w.RunTime.Seconds()/w.Took.Seconds())
}

// A Wait is how long something took, or had taken when nobody waited any more.
type Wait struct {
	CPU      *int          `json:"cpu,omitempty"`
	Took     time.Duration `json:"took"`
	Censored bool          `json:"censored,omitempty"` // it still went on
}

// Polls are a device's calls of its poll function. An entry into the loop ends with a poll that does not use its budget.
type Polls struct {
	Device  string        `json:"device"`
	Took    time.Duration `json:"took"`
	Polls   uint64        `json:"polls"`
	Full    uint64        `json:"full_budget"`
	Packets uint64        `json:"packets"`
}

// Entries is how often the loop was entered.
func (p Polls) Entries() uint64 { return p.Polls - min(p.Full, p.Polls) }

// A Count is something's number of occurrences.
type Count struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// An IRQCount is how often an interrupt came.
type IRQCount struct {
	IRQ   int    `json:"irq"`
	Count uint64 `json:"count"`
}

// A look is one reading of a thread.
type look struct {
	at    time.Duration // since the watch began
	usage Usage
	cpu   int
}

// ran is the share of the time between two looks from which on a thread counts as running all the time: the
// kernel brings a running thread's run time up to date at its tick, and a virtual CPU can itself be
// kept waiting.
const ran = 0.5

// A tally adds up the looks at one thread.
type tally struct {
	watched     Watched
	first, last look
	since       time.Duration // when the run that goes on was first seen
	begun       bool          // it is a run: since then the thread has run, and was not switched out
}

func (t *tally) add(l look) {
	w := &t.watched
	w.Looks++
	if w.Looks == 1 {
		t.first, t.last, t.since = l, l, l.at
		w.CPU = l.cpu
		return
	}
	switched := l.usage.Voluntary != t.last.usage.Voluntary || l.usage.Nonvoluntary != t.last.usage.Nonvoluntary
	ran := t.running(l)
	// Once it was seen running, it is on its CPU until it is switched out, however little it gets of it: a virtual CPU
	// can be kept waiting for longer than a step.
	if switched || !ran && !t.begun {
		t.since = l.at
	}
	t.begun = !switched && (ran || t.begun)
	w.Longest = max(w.Longest, l.at-t.since)
	w.CPU = l.cpu
	w.Took = l.at - t.first.at
	w.RunTime = max(0, l.usage.RunTime-t.first.usage.RunTime)
	w.Voluntary = l.usage.Voluntary - min(t.first.usage.Voluntary, l.usage.Voluntary)
	w.Nonvoluntary = l.usage.Nonvoluntary - min(t.first.usage.Nonvoluntary, l.usage.Nonvoluntary)
	t.last = l
}

// running reports whether the thread ran from the last look to l.
func (t *tally) running(l look) bool {
	return float64(l.usage.RunTime-t.last.usage.RunTime) >= ran*float64(l.at-t.last.at) && l.at > t.last.at
}

// busy reports whether the thread has run without a switch for at least d.
func (t *tally) busy(d time.Duration) bool { return t.watched.Looks > 1 && t.last.at-t.since >= d }

// StepFor is the pause between two looks at n threads: reading one takes some 50 µs, and on a small
// board ten times that, which has to stay a small share of the time.
func StepFor(n int) time.Duration {
	return max(50*time.Millisecond, time.Duration(n)*5*time.Millisecond)
}

// sortWaits keeps waits in the order of their CPUs, and otherwise as they came.
func sortWaits(waits []Wait) {
	slices.SortStableFunc(waits, func(a, b Wait) int {
		if a.CPU == nil || b.CPU == nil {
			return 0
		}
		return cmp.Compare(*a.CPU, *b.CPU)
	})
}
