package load

import (
	"math"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// An Observation is what a NAPI has done since some instant: the counts that its band is judged by. Sleeps and
// Preempted are its thread's voluntary and other switches.
type Observation struct {
	Polls, Full, Sleeps, Preempted uint64
}

// since returns what has happened after earlier.
func (o Observation) since(earlier Observation) Observation {
	return Observation{o.Polls - earlier.Polls, o.Full - earlier.Full, o.Sleeps - earlier.Sleeps, o.Preempted - earlier.Preempted}
}

// forgive takes off the full-budget polls that preemption made, on a kernel that preempts.
func (o Observation) forgive() Observation {
	if o.Full <= o.Preempted {
		o.Full = 0
	}
	return o
}

// A control steers a rate or a window so that a NAPI stays in the band. It knows only which way is out: with
// too little load the thread sleeps, with too much its polls use the whole budget or, because each takes
// many packets, become few. A step that is followed by one the same way grows; one that turns back is
// halved, so that it settles between the edges and still follows when they move.
type control struct {
	set  float64 // what is steered, in its own unit
	lo   float64 // the bounds of set
	hi   float64
	unit float64 // the least change that means anything: 1 for a window
	step float64 // the next change, as a share of set
	last int     // the direction of the last change: -1, 0 or 1
	// patient leaves it as it is until what is out of the band is a habit: where the band is wide, and what leaves
	// it is the sender that was late or the receiver that was interrupted, another rate helps against neither.
	patient bool
}

// The steps of a control, as shares of what it steers.
const (
	firstStep = 0.04
	maxStep   = 0.25
	minStep   = 0.0025
)

// habit: out of so many polls one that uses the budget, or is followed by a sleep, is no exception.
const habit = 10

// newControl steers from set on, within a factor of 16 either way and within lo and hi.
func newControl(set, lo, hi, unit float64) *control {
	return &control{set: set, lo: max(lo, set/16), hi: min(hi, set*16), unit: unit, step: firstStep}
}

// observe takes what happened in an interval and returns the new setting.
func (c *control) observe(o Observation, interval time.Duration) float64 {
	dir := o.push(interval)
	if c.patient && o.Polls > 0 && max(o.Full, o.Sleeps) < o.Polls/habit {
		dir = 0
	}
	switch {
	case dir == 0:
		c.last = 0
		return c.set
	case dir == c.last:
		c.step = min(c.step*1.5, maxStep)
	case dir == -c.last:
		c.step = max(c.step/2, minStep)
	}
	c.last = dir
	change := max(c.step*c.set, c.unit)
	c.set = math.Min(math.Max(c.set+float64(dir)*change, c.lo), c.hi)
	if c.unit == 1 {
		c.set = math.Round(c.set)
	}
	return c.set
}

// push says which way o asks for: 1 more load, -1 less, 0 it is in the band. The edges are those of
// explain.JudgeBand for a model that doesn't preempt.
func (o Observation) push(interval time.Duration) int {
	switch {
	case o.Full > 0 && o.Full >= o.Sleeps:
		return -1
	case o.Sleeps > 0, o.Polls == 0:
		return 1
	case float64(o.Polls) < experiment.MinEntries*interval.Seconds():
		return -1 // it doesn't sleep, so that each poll takes too long
	}
	return 0
}

// in reports whether o is in the band.
func (o Observation) in(interval time.Duration) bool { return o.push(interval) == 0 }

// The intervals between two looks: often while it is out of the band, seldom while it is in, because a look
// takes time on the CPU that the sender is on.
const (
	shortLook = 200 * time.Millisecond
	longLook  = 2 * time.Second
)

// nextLook returns how long to wait after an interval that was in the band, or not.
func nextLook(last time.Duration, in bool) time.Duration {
	if !in {
		return shortLook
	}
	return min(2*last, longLook)
}
