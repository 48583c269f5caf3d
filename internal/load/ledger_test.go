package load

import (
	"math/rand/v2"
	"testing"
)

// A loop is a queue of frames that loses some.
type loop struct {
	queue  []int
	counts []sighting
	window int
	lose   func() bool
}

// turn takes n frames from the queue and puts back those that go on.
func (l *loop) turn(n int) {
	for range min(n, len(l.queue)) {
		i := l.queue[0]
		l.queue = l.queue[1:]
		if l.lose() {
			continue
		}
		l.counts[i].taken++
		if i >= l.window {
			l.counts[i].gone++
			continue
		}
		l.queue = append(l.queue, i)
	}
}

func (l *loop) read() []sighting { return append([]sighting(nil), l.counts...) }

// Whatever is lost, and however the window changes, no frame is ever in the loop twice, none above the
// window's largest value, and what was lost comes back.
func TestLedgerUnderLoss(t *testing.T) {
	const size = 32
	rng := rand.New(rand.NewPCG(1, 2))
	lossy := true
	truth := uint64(0)
	l := &loop{counts: make([]sighting, size), lose: func() bool {
		gone := lossy && rng.IntN(100) == 0
		if gone {
			truth++
		}
		return gone
	}}
	led := newLedger(size)
	for step := range 20000 {
		switch {
		case step == 19000:
			lossy, l.window = false, 8
		case step < 19000 && step%500 == 0:
			l.window = 1 + rng.IntN(size)
		}
		first := l.read()
		l.turn(rng.IntN(5)) // the receiver goes on between the readings
		second := l.read()
		led.look(first, second, len(l.queue) == 0 && l.still(second))
		for _, i := range led.missing(l.window, second) {
			led.sent(i)
			l.queue = append(l.queue, i)
		}
		checkLoop(t, step, l)
		l.turn(rng.IntN(40))
	}
	if len(l.queue) != 8 {
		t.Errorf("%d frames go round in the end; want 8", len(l.queue))
	}
	if led.all != truth || truth < 1000 {
		t.Errorf("%d found lost; want all of %d", led.all, truth)
	}
}

// still reports whether nothing has happened since s was read.
func (l *loop) still(s []sighting) bool {
	for i := range s {
		if s[i] != l.counts[i] {
			return false
		}
	}
	return true
}

func checkLoop(t *testing.T, step int, l *loop) {
	t.Helper()
	there := map[int]bool{}
	for _, i := range l.queue {
		if there[i] {
			t.Fatalf("step %d: frame %d goes round twice: %v", step, i, l.queue)
		}
		there[i] = true
	}
}

func TestLedgerWaits(t *testing.T) {
	led := newLedger(2)
	counts := []sighting{{}, {}}
	for _, i := range led.missing(2, counts) {
		led.sent(i)
	}
	if got := led.missing(2, counts); got != nil {
		t.Errorf("missing right after they were sent: %v", got)
	}
	for _, tt := range []struct {
		taken0, taken1 uint64
		idle           bool
		lost           int
	}{
		{0, 0, false, 0},            // a receiver that stands has lost nothing
		{surely - 1, 0, false, 0},   // too early to tell
		{surely, 0, false, 0},       // frame 1 may have been sent a moment ago
		{2*surely - 1, 0, false, 0}, // too early again
		{2 * surely, 0, false, 1},   // frame 1
		{3 * surely, 0, false, 0},   // which is not lost twice
		{3 * surely, 0, true, 1},    // a receiver that sleeps has lost frame 0 as well
	} {
		now := []sighting{{taken: tt.taken0}, {taken: tt.taken1}}
		if n := led.look(now, now, tt.idle); n != tt.lost {
			t.Errorf("taken %d and %d, idle %v: %d lost; want %d", tt.taken0, tt.taken1, tt.idle, n, tt.lost)
		}
		counts = now
	}
	if got := led.missing(2, counts); len(got) != 2 {
		t.Errorf("missing: %v; want both", got)
	}
}

// A receiver that went on between the two readings was not idle all the time.
func TestLedgerDoesNotTakeAMomentForIdle(t *testing.T) {
	led := newLedger(1)
	led.sent(0)
	if n := led.look([]sighting{{taken: 1}}, []sighting{{taken: 2}}, true); n != 0 {
		t.Errorf("%d lost; want none", n)
	}
}
