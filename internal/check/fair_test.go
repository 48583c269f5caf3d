package check

import (
	"math/rand/v2"
	"testing"
)

var testWait = Wait{Name: "the wait", Pending: 1 << 40, Done: 1 << 41}

func search(t *testing.T, sys System, wait Wait, fair *Fairness) (*Lasso, *Graph) {
	t.Helper()
	g, err := explore(t.Context(), sys, 0, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	c, s, err := g.seek(t.Context(), wait, fair, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return nil, g
	}
	l, err := s.lasso(c)
	if err != nil {
		t.Fatal(err)
	}
	return &l, g
}

func TestFairCycleInKnownGraphs(t *testing.T) {
	const a, b, often, then = 1, 2, 4, 8
	p := testWait.Pending
	weak := &Fairness{Weak: a | b}
	strong := &Fairness{Weak: a, Strong: []Strong{{often, then}}}
	tests := []struct {
		name  string
		fair  *Fairness
		marks []uint64
		edges [][3]uint64 // from, to, marks
		want  bool
		stem  int
		cycle int
	}{
		{"nothing ever happens", weak, []uint64{p | a | b}, nil, true, 0, 0},
		{"an event that has to happen ends it", weak, []uint64{p | a, 0}, [][3]uint64{{0, 1, b}}, false, 0, 0},
		{"a loop without b", weak, []uint64{p, 0}, [][3]uint64{{0, 0, a}, {0, 1, b}}, false, 0, 0},
		{"two loops make it fair", weak, []uint64{p, p}, [][3]uint64{{0, 0, a}, {0, 1, 0}, {1, 0, b}}, true, 0, 3},
		{"the cycle passes the end", weak, []uint64{p}, [][3]uint64{{0, 0, a | b | testWait.Done}}, false, 0, 0},
		{"the cycle leaves the pending states", weak, []uint64{p, 0}, [][3]uint64{{0, 1, a}, {1, 0, b}}, false, 0, 0},
		{"reached by a stem", weak, []uint64{0, 0, p}, [][3]uint64{{0, 1, 0}, {1, 2, 0}, {2, 2, a | b}}, true, 2, 1},
		{"can't happen in one state of the cycle", weak, []uint64{p | b, p}, [][3]uint64{{0, 1, a}, {1, 0, 0}}, true, 0, 2},
		{"strong: asked for and never done", strong, []uint64{p | often}, [][3]uint64{{0, 0, a}}, false, 0, 0},
		{"strong: asked for and done", strong, []uint64{p | often}, [][3]uint64{{0, 0, a | then}}, true, 0, 1},
		{"strong: done elsewhere than in the nearest loop", strong, []uint64{p | often, p},
			[][3]uint64{{0, 0, a}, {0, 1, 0}, {1, 0, then}}, true, 0, 3},
		{"strong: a part of the component never asks", strong, []uint64{p | often, p, p},
			[][3]uint64{{0, 1, a}, {1, 2, a}, {2, 1, 0}, {2, 0, 0}}, true, 1, 2},
		{"strong: what remains isn't weakly fair", strong, []uint64{p | often, p, p},
			[][3]uint64{{0, 1, a}, {1, 2, 0}, {2, 1, 0}, {2, 0, 0}}, false, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sys := &listed{marks: tt.marks, edges: make([][]Edge, len(tt.marks))}
			for _, e := range tt.edges {
				sys.edge(int(e[0]), int(e[1]), e[2])
			}
			l, _ := search(t, sys, testWait, tt.fair)
			if (l != nil) != tt.want {
				t.Fatalf("found %v; want a lasso: %v", l, tt.want)
			}
			if l == nil {
				return
			}
			if len(l.Stem) != tt.stem || len(l.Cycle) != tt.cycle {
				t.Errorf("stem of %d, cycle of %d; want %d and %d", len(l.Stem), len(l.Cycle), tt.stem, tt.cycle)
			}
			if err := verify(*l, sys, testWait, tt.fair); err != nil {
				t.Error(err)
			}
		})
	}
}

// Random graphs against an oracle that follows every walk.
func TestFairCycleInRandomGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	const n = 5_000
	for range n {
		fair := &Fairness{Weak: 0b11, Strong: []Strong{{1 << 4, 1 << 5}, {1 << 6, 1 << 7}}[:r.IntN(3)]}
		sys := random(r, 7, fair, testWait)
		want := sys.hasFairCycle(fair, testWait)
		l, _ := search(t, sys, testWait, fair)
		if (l != nil) != want {
			t.Fatalf("found %v; want a lasso: %v\nmarks %#x\nedges %v\n%+v", l, want, sys.marks, sys.edges, fair)
		}
		if l != nil {
			found++
			if err := verify(*l, sys, testWait, fair); err != nil {
				t.Fatalf("%v\n%v\nmarks %#x\nedges %v", err, l, sys.marks, sys.edges)
			}
		}
	}
	if found < n/10 || found > n*9/10 {
		t.Errorf("%d of %d graphs have a lasso: a poor test", found, n)
	}
}

func TestTheOracleRefuses(t *testing.T) {
	sys := &listed{marks: []uint64{0, testWait.Pending, 0}, edges: make([][]Edge, 3)}
	sys.edge(0, 1, 0)
	sys.edge(1, 1, 1)
	sys.edge(1, 1, 1|testWait.Done)
	sys.edge(1, 2, 1)
	sys.edge(2, 1, 1)
	enter, loop, done, out, in := sys.edges[0][0], sys.edges[1][0], sys.edges[1][1], sys.edges[1][2], sys.edges[2][0]
	fair := &Fairness{Weak: 1}
	for _, tt := range []struct {
		name string
		l    Lasso
		want string
	}{
		{"good", Lasso{[]Edge{enter}, []Edge{loop}}, ""},
		{"no such edge in the stem", Lasso{[]Edge{loop}, []Edge{loop}}, "step 1 of the stem can't happen"},
		{"not pending", Lasso{nil, nil}, "the wait isn't pending where the cycle starts"},
		{"no such edge", Lasso{[]Edge{enter}, []Edge{enter}}, "step 1 of the cycle can't happen"},
		{"ends", Lasso{[]Edge{enter}, []Edge{done}}, "the wait ends with step 1 of the cycle"},
		{"leaves", Lasso{[]Edge{enter}, []Edge{out, in}}, "the wait ends with step 1 of the cycle"},
		{"unfair", Lasso{[]Edge{enter}, nil}, "the cycle isn't fair: it lacks 0x1"},
	} {
		got := ""
		if err := verify(tt.l, sys, testWait, fair); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: verify() = %q; want %q", tt.name, got, tt.want)
		}
	}
}
