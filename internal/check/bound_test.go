package check

import (
	"errors"
	"math/rand/v2"
	"testing"
)

const entry = 1 << 50

func TestLongestInKnownGraphs(t *testing.T) {
	tests := []struct {
		name  string
		size  int
		edges [][3]uint64
		want  int
		err   error
	}{
		{"nothing", 1, nil, 0, nil},
		{"a chain", 4, [][3]uint64{{0, 1, entry}, {1, 2, 0}, {2, 3, entry}}, 2, nil},
		{"the longer way", 4, [][3]uint64{{0, 3, entry}, {0, 1, entry}, {1, 2, entry}, {2, 3, entry}}, 3, nil},
		{"a cycle without entries", 3, [][3]uint64{{0, 1, entry}, {1, 1, 0}, {1, 2, entry}, {2, 1, 0}}, 0, errUnbounded},
		{"a cycle, then more", 4, [][3]uint64{{0, 1, 0}, {1, 0, 0}, {0, 2, entry}, {1, 3, 0}, {3, 2, entry}}, 1, nil},
		{"for ever", 2, [][3]uint64{{0, 1, 0}, {1, 1, entry}}, 0, errUnbounded},
	}
	for _, tt := range tests {
		sys := &listed{marks: make([]uint64, tt.size), edges: make([][]Edge, tt.size)}
		for _, e := range tt.edges {
			sys.edge(int(e[0]), int(e[1]), e[2])
		}
		g, err := explore(t.Context(), sys, 0, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.longest(entry)
		if !errors.Is(err, tt.err) || err == nil && got != tt.want {
			t.Errorf("%s: longest() = %d, %v; want %d, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// mostEntries answers by keeping the set of states that walks with n entries can be in.
func (l *listed) mostEntries() (int, error) {
	now := map[int]bool{0: true}
	for n := 0; ; n++ {
		next := map[int]bool{}
		queue := []int{}
		for i := range now {
			queue = append(queue, i)
		}
		for len(queue) > 0 {
			i := queue[0]
			queue = queue[1:]
			for _, e := range l.edges[i] {
				to := int(e.To[0])
				if e.Marks&entry != 0 {
					next[to] = true
				} else if !now[to] {
					now[to] = true
					queue = append(queue, to)
				}
			}
		}
		if len(next) == 0 {
			return n, nil
		}
		if n > len(l.edges) {
			return 0, errUnbounded
		}
		now = next
	}
}

func TestLongestInRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	bounded := 0
	for range 3000 {
		n := 1 + r.IntN(8)
		sys := &listed{marks: make([]uint64, n), edges: make([][]Edge, n)}
		for i := range n {
			for range r.IntN(3) {
				to, marks := r.IntN(n), uint64(0)
				if to > i || r.IntN(20) == 0 { // mostly no cycle with an entry
					marks = entry * r.Uint64N(2)
				}
				sys.edge(i, to, marks)
			}
		}
		want, wantErr := sys.mostEntries()
		g, err := explore(t.Context(), sys, 0, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.longest(entry)
		if !errors.Is(err, wantErr) || err == nil && got != want {
			t.Fatalf("longest() = %d, %v; want %d, %v\n%v", got, err, want, wantErr, sys.edges)
		}
		if err == nil && got > 0 {
			bounded++
		}
	}
	if bounded < 300 {
		t.Errorf("only %d graphs had a bound above 0: a poor test", bounded)
	}
}

// The hog polls for ever; a help that comes in time ends the wait with the next entry but one.
func TestBound(t *testing.T) {
	const tick = 1
	p := testWait.Pending
	sys := &listed{marks: []uint64{0, p, p, p | tick}, edges: make([][]Edge, 4)}
	sys.edge(0, 1, 0)             // the wait begins
	sys.edge(1, 1, entry)         // another round
	sys.edge(1, 2, tick)          // the tick sets a flag
	sys.edge(2, 2, tick)          // ticks go on
	sys.edge(2, 3, entry)         // the flag is seen in the round after
	sys.edge(3, 0, testWait.Done) // and ends it
	fair := &Fairness{Weak: tick}
	g, err := explore(t.Context(), sys, 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := g.bound(t.Context(), testWait, fair, Pace{Entry: entry, Once: tick}, Limits{})
	if err != nil || got != 2 { // one at once, one after the tick
		t.Errorf("bound() = %d, %v; want 2", got, err)
	}
	if _, _, err := g.bound(t.Context(), testWait, fair, Pace{Entry: entry}, Limits{}); !errors.Is(err, errUnbounded) {
		t.Errorf("bound() without a tick = %v; want errUnbounded", err)
	}
}
