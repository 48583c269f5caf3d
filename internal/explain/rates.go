package explain

import (
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// minWindow is the shortest time between two readings of the counters that makes a rate.
const minWindow = 50 * time.Millisecond

// reading is one Counters record with its instant.
type reading struct {
	at rcu.Ktime
	c  experiment.Counters
}

// A Window is the difference between two readings of the counters, about a second apart, both taken
// while the load was on.
type Window struct {
	Took       time.Duration
	Traced     bool
	Polls      uint64
	Full       uint64 // polls that used the whole budget; unknown unless Traced
	Packets    uint64
	Sleeps     uint64 // voluntary switches of the NAPI thread
	Nonvol     uint64 // nonvoluntary ones
	RunTime    time.Duration
	Interrupts uint64
	Softnet    uint64
	Dropped    uint64
	Squeezed   uint64
}

// Rates are the sums of a trial's windows. The time before the first reading is left out: it holds
// the load's start.
type Rates struct {
	Windows int // number of windows in the sums
	Window      // the sums
}

// PerSecond returns n of the sums as a rate, and false where nothing was counted.
func (r Rates) PerSecond(n uint64) (float64, bool) {
	if r.Took <= 0 {
		return 0, false
	}
	return float64(n) / r.Took.Seconds(), true
}

// RunShare returns the share of a CPU that the NAPI thread used, and false where nothing was counted.
func (r Rates) RunShare() (float64, bool) {
	if r.Took <= 0 {
		return 0, false
	}
	return r.RunTime.Seconds() / r.Took.Seconds(), true
}

func (t *Trial) addCounters(at rcu.Ktime, c experiment.Counters) {
	prev := t.last
	if prev != nil && at.Sub(prev.at) < minWindow && c.InHold == prev.c.InHold {
		return
	}
	t.last = &reading{at, c}
	if prev == nil || !prev.c.InHold || !c.InHold {
		return
	}
	if w, ok := window(*prev, reading{at, c}); ok {
		t.windows = append(t.windows, w)
	} else {
		t.sum.Losses = append(t.sum.Losses, experiment.Loss{What: "counter readings", Count: 1, Why: "a total went down"})
	}
}

// window returns what was counted between a and b, and false when a total went down.
func window(a, b reading) (Window, bool) {
	ok := true
	sub := func(b, a uint64) uint64 {
		if b < a {
			ok = false
			return 0
		}
		return b - a
	}
	w := Window{
		Took: b.at.Sub(a.at), Traced: a.c.Traced && b.c.Traced,
		Polls: sub(b.c.Polls, a.c.Polls), Full: sub(b.c.FullPolls, a.c.FullPolls),
		Packets: sub(b.c.Packets, a.c.Packets),
		Sleeps:  sub(b.c.Voluntary, a.c.Voluntary), Nonvol: sub(b.c.Nonvoluntary, a.c.Nonvoluntary),
		RunTime:    b.c.RunTime - a.c.RunTime,
		Interrupts: sub(b.c.Interrupts, a.c.Interrupts),
		Softnet:    sub(b.c.SoftnetDone, a.c.SoftnetDone), Dropped: sub(b.c.SoftnetDrop, a.c.SoftnetDrop),
		Squeezed: sub(b.c.Squeezed, a.c.Squeezed),
	}
	return w, ok && w.RunTime >= 0 && w.Took > 0
}

// sumRates adds up windows. The sums are traced when every window is.
func sumRates(ws []Window) Rates {
	r := Rates{}
	for _, w := range ws {
		r = r.add(Rates{Windows: 1, Window: w})
	}
	return r
}

func (r Rates) add(o Rates) Rates {
	if o.Windows == 0 {
		return r
	}
	return Rates{Windows: r.Windows + o.Windows, Window: Window{
		Took: r.Took + o.Took, Traced: o.Traced && (r.Traced || r.Windows == 0),
		Polls: r.Polls + o.Polls, Full: r.Full + o.Full, Packets: r.Packets + o.Packets,
		Sleeps: r.Sleeps + o.Sleeps, Nonvol: r.Nonvol + o.Nonvol, RunTime: r.RunTime + o.RunTime,
		Interrupts: r.Interrupts + o.Interrupts, Softnet: r.Softnet + o.Softnet,
		Dropped: r.Dropped + o.Dropped, Squeezed: r.Squeezed + o.Squeezed,
	}}
}
