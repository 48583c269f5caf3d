package check

import (
	"errors"
	"testing"

	"context"
)

func TestExploreFindsAllStates(t *testing.T) {
	for _, c := range []counter{{1, 1}, {1, 5}, {3, 4}, {8, 2}, {5, 10}, {17, 2}, {2, 300}} {
		states := 1
		for range c.digits {
			states *= int(c.size)
		}
		g, err := explore(t.Context(), c, 0, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if depth := c.digits * int(c.size-1); g.States() != states || g.Depth() != depth || g.Transitions != int64(states*c.digits) {
			t.Errorf("%+v: %d states, depth %d, %d transitions; want %d, %d, %d", c, g.States(), g.Depth(), g.Transitions, states, depth, states*c.digits)
		}
		for _, id := range []uint32{g.st.find(&Key{}), g.st.find(&Key{uint64(states - 1)})} {
			if k := g.st.key(id); g.st.find(&k) != id {
				t.Errorf("%+v: state %d is found as %d", c, id, g.st.find(&k))
			}
		}
		if last := g.st.find(&Key{uint64(states - 1)}); len(g.way(last)) != g.Depth() {
			t.Errorf("%+v: the way to the farthest state has %d steps; want %d", c, len(g.way(last)), g.Depth())
		}
	}
}

// The same states get the same numbers and parents however many cores there are.
func TestExploreIsDeterministic(t *testing.T) {
	c := counter{5, 11}
	want, err := explore(t.Context(), c, 0, Limits{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	for workers := 2; workers <= 8; workers += 3 {
		got, err := explore(t.Context(), c, 0, Limits{Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		for s := range want.st.shards {
			a, b := &want.st.shards[s], &got.st.shards[s]
			if a.count != b.count {
				t.Fatalf("%d workers: shard %d has %d states; want %d", workers, s, b.count, a.count)
			}
			for i := range a.chunks {
				if *a.chunks[i] != *b.chunks[i] {
					t.Fatalf("%d workers: shard %d, chunk %d differs", workers, s, i)
				}
			}
		}
	}
}

func TestExploreStops(t *testing.T) {
	c := counter{6, 12} // 3 million states
	tests := []struct {
		lim  Limits
		want string
	}{
		{Limits{Memory: 16 << 20}, "memory ran out"},
		{Limits{States: 100_000}, "the limit of states was reached"},
	}
	for _, tt := range tests {
		var counts [2]int
		for i, workers := range []int{1, 4} {
			tt.lim.Workers = workers
			g, err := explore(t.Context(), c, 0, tt.lim)
			if err != nil {
				t.Fatal(err)
			}
			if g.Complete || g.Reason != tt.want {
				t.Errorf("%+v: complete %v, %q; want %q", tt.lim, g.Complete, g.Reason, tt.want)
			}
			if tt.lim.Memory > 0 && g.Bytes() > tt.lim.Memory {
				t.Errorf("%+v: took %d bytes", tt.lim, g.Bytes())
			}
			counts[i] = g.States()
		}
		if counts[0] != counts[1] || counts[0] < 100_000 {
			t.Errorf("%+v: stopped at %d and %d states; want the same and many", tt.lim, counts[0], counts[1])
		}
	}
}

func TestExploreIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := explore(ctx, counter{6, 12}, 0, Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("explore() = %v; want context.Canceled", err)
	}
}

func TestExploreNotesForbiddenMarks(t *testing.T) {
	g, err := explore(t.Context(), counter{5, 11}, 1<<3|1<<4, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.broken) != 2 || g.broken[0].edge.Marks != 1<<3 || g.broken[1].edge.Marks != 1<<4 || g.distance(g.broken[0].from) != 0 {
		t.Errorf("noted %+v; want the first edges with marks 8 and 16", g.broken)
	}
}

func TestBytesPerState(t *testing.T) {
	long(t)
	g, err := explore(t.Context(), counter{5, 12}, 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_, s, err := g.seek(t.Context(), Wait{Pending: 1 << 32}, &Fairness{Weak: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := float64(g.States())
	t.Logf("%.0f states: %.1f bytes each for the search, %.1f more for a fair cycle", n, float64(g.Bytes())/n, float64(s.bytes())/n)
	if per := float64(g.Bytes()) / n; per > 32 {
		t.Errorf("%.1f bytes a state; want at most 32", per)
	}
}

func BenchmarkExplore(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(map[int]string{1: "1core", 2: "2cores"}[workers], func(b *testing.B) {
			b.ReportAllocs()
			states := 0
			for b.Loop() {
				g, err := explore(b.Context(), counter{6, 11}, 0, Limits{Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				states += g.States()
			}
			b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
		})
	}
}
