package sim

import "github.com/napistall/napistall/internal/experiment"

// A steering holds a load in the band, where it is asked to: it looks at what the NAPI did in the last period and
// makes the rate, or the window, a bit larger when the thread slept and smaller when polls used the whole budget or
// became few. A step that is followed by one the same way grows by half; one that turns back is halved.
type steering struct {
	on                  bool
	set, least, most    int64
	step                int64 // the next change, in thousandths of a percent of set
	last                int64 // direction of the last change
	polls, full, sleeps uint64
}

// steerPeriod is the time between two looks.
const steerPeriod = second / 5

// The steps, in thousandths of a percent: 4 %, at least 0.25 %, at most 25 %.
const (
	steerFirst = 4_000
	steerLeast = 250
	steerMost  = 25_000
	steerWhole = 100_000
)

func newSteering(l experiment.Load) steering {
	s := steering{on: l.Band == experiment.HoldBand, set: int64(l.Rate), step: steerFirst}
	if l.Kind != experiment.Paced {
		s.set = int64(l.Window)
	}
	s.least, s.most = max(1, s.set/16), s.set*16
	return s
}

// turn looks, and steers.
func (s *steering) turn(e *engine) {
	r := e.rec
	polls, full, sleeps := r.polls-s.polls, r.full-s.full, r.voluntary-s.sleeps
	s.polls, s.full, s.sleeps = r.polls, r.full, r.voluntary
	way := int64(0)
	switch {
	case full > 0 && full >= sleeps:
		way = -1
	case sleeps > 0 || polls == 0:
		way = 1
	case polls*uint64(second) < experiment.MinEntries*uint64(steerPeriod):
		way = -1
	}
	switch {
	case way == 0:
		s.last = 0
		return
	case way == s.last:
		s.step = min(s.step*3/2, steerMost)
	case way == -s.last:
		s.step = max(s.step/2, steerLeast)
	}
	s.last = way
	s.set = min(max(s.set+way*max(s.set*s.step/steerWhole, 1), s.least), s.most)
	e.load.resize(s.set)
}

// resize changes what a load is steered by: the rate of an open loop, the window of a closed one.
func (t *traffic) resize(n int64) {
	if t.closed() {
		t.window = n
		t.cwnd = min(t.cwnd, n)
		if t.kind == experiment.Windowed {
			t.cwnd = n
		}
		return
	}
	if at := t.next(); at < t.end {
		t.front = segmentOf(at, n, t.front.batch, endless)
	}
}
