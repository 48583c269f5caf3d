package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
)

// TestSegmentTakesAsManyAsOneByOne holds the arithmetic against counting.
func TestSegmentTakesAsManyAsOneByOne(t *testing.T) {
	g := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		rate, batch, left := 1+g.Int64N(3_000_000), 1+g.Int64N(9), 1+g.Int64N(20_000)
		s := segmentOf(g.Int64N(1000), rate, batch, left)
		slow := s
		at, n, want := int64(0), int64(0), int64(0)
		for range 40 {
			at += g.Int64N(40_000_000 / (1 + g.Int64N(1000)))
			n += s.take(at)
			for slow.left > 0 && slow.next <= at {
				k := min(slow.batch, slow.left)
				want += k
				slow.left -= k
				slow.step()
			}
			if n != want || s.left != slow.left || s.left > 0 && s.next != slow.next {
				t.Fatalf("rate %d batch %d: at %d took %d, next %d; want %d, %d", rate, batch, at, n, s.next, want, slow.next)
			}
		}
	}
}

func TestSegmentKeepsItsRate(t *testing.T) {
	s := segmentOf(0, 80_862, 1, endless)
	if n := s.take(3600*second - 1); n != 80_862*3600 {
		t.Errorf("an hour of 80862/s = %d packets; want %d", n, 80_862*3600)
	}
}

func TestArrivalsInTurn(t *testing.T) {
	var a arrivals
	a.end = 10_000
	for i := range int64(40) {
		a.add(segmentOf(i*100, 1_000_000_000, 1, 3)) // three a nanosecond apart
	}
	if at := a.next(); at != 0 {
		t.Errorf("next = %d; want 0", at)
	}
	if n := a.take(1); n != 2 {
		t.Errorf("take(1) = %d; want 2", n)
	}
	if n := a.take(150); n != 4 {
		t.Errorf("take(150) = %d; want 4", n)
	}
	if n := a.take(1 << 40); n != 114 || a.next() != never {
		t.Errorf("the rest = %d, next %d; want 114, never", n, a.next())
	}
}

// trafficOf makes a load that begins at 0.
func trafficOf(t *testing.T, load string, recorded []int64) *traffic {
	t.Helper()
	tr, err := newTraffic(armOf(t, "{name: a, kernel: model:6.18, load: "+load+"}"), 0, recorded, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestLoads(t *testing.T) {
	for _, c := range []struct {
		load     string
		recorded []int64
		until    int64
		want     int64 // packets by then, if none is polled
	}{
		{"{kind: none}", nil, second, 0},
		{"{kind: flood, hold: 1s}", nil, second - 1, 2_000_001},
		{"{kind: paced, rate: 1k/s}", nil, second, 1001},
		{"{kind: paced, rate: 1k/s, batch: 10}", nil, second / 2, 510},
		{"{kind: paced, rate: 1k/s, hold: 1s}", nil, 5 * second, 1000},
		{"{kind: windowed, window: 7}", nil, second, 7},
		{"{kind: tcp, window: 50}", nil, second, 10},
		{"{kind: tcp, window: 4}", nil, second, 4},
		{"{kind: recorded, from: x}", []int64{5, 5, 70}, 60, 2},
		{"{kind: recorded, from: x, rate: 1000/s}", []int64{0, 1000, 2000, 3000}, 4 * millisecond / 2, 3},
	} {
		tr := trafficOf(t, c.load, c.recorded)
		if n := tr.take(c.until); n != c.want {
			t.Errorf("%s: %d packets by %d; want %d", c.load, n, c.until, c.want)
		}
	}
	arm := armOf(t, "{name: a, kernel: model:6.18, load: {kind: paced, rate: 1k/s}}")
	arm.Load.Kind = experiment.External
	if _, err := newTraffic(arm, 0, nil, 1); err == nil {
		t.Error("external traffic was simulated")
	}
}

// TestClosedLoops: what is polled comes again a round trip later, what is dropped is sent again, and TCP's window opens by
// what is acknowledged and halves once for each round trip with losses.
func TestClosedLoops(t *testing.T) {
	w := trafficOf(t, "{kind: windowed, window: 4, rtt: 100us}", nil)
	if n := w.take(0) + w.take(50_000); n != 4 {
		t.Fatalf("window of 4 sent %d", n)
	}
	w.polled(3, 60_000)
	if at := w.next(); at != 160_000 {
		t.Errorf("after a poll the next packet comes at %d; want 160000", at)
	}
	w.dropped(1, 60_000)
	if n := w.take(400_000); n != 4 {
		t.Errorf("%d packets after 3 polled and 1 dropped; want 4", n)
	}
	c := trafficOf(t, "{kind: tcp, window: 64, rtt: 100us}", nil)
	c.take(0)
	c.take(90_000)
	c.polled(10, 100_000)
	if c.cwnd != 20 {
		t.Errorf("window after 10 acknowledged = %d; want 20", c.cwnd)
	}
	c.dropped(2, 200_000)
	c.dropped(1, 200_001)
	if c.cwnd != 10 {
		t.Errorf("window after losses of one round trip = %d; want 10", c.cwnd)
	}
	c.polled(5, 210_000)
	c.polled(5, 220_000)
	if c.cwnd != 11 {
		t.Errorf("window after as many acknowledged as it is = %d; want 11", c.cwnd)
	}
}

func TestSteering(t *testing.T) {
	// 20 µs and 9 µs for each packet: in the band from some 30,000 packets a second on.
	arm := armOf(t, "{name: a, kernel: model:6.18, config: {preempt: none}, load: {kind: paced, rate: 20k/s, band: hold, hold: 20s}, model: {costs: {poll: 20us, packet: 9us}}}")
	var last, before experiment.Counters
	for _, r := range records(t, arm, 1) {
		if r.Counters != nil && r.Counters.InHold {
			before, last = last, *r.Counters
		}
	}
	if sleeps := last.Voluntary - before.Voluntary; sleeps > 0 {
		t.Errorf("%d sleeps in the last second of the hold; want the load steered into the band", sleeps)
	}
}
