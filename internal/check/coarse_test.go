package check

import (
	"testing"

	"github.com/napistall/napistall/internal/model"
)

// What happen takes for granted: only the events and effects that it lists give CPU 1 something to do at once.
func TestWhatReachesCPU1(t *testing.T) {
	long(t)
	for _, q := range []Question{
		{Variant: Variant{Loop: softirqLoop}, Property: NormalGP}, {Property: Callbacks}, {Property: Kworker}, {Property: LinkDel},
		{Variant: Variant{Preempt: "lazy", Generation: "7.3"}, Property: ExpeditedGP},
		{Variant: Variant{Preempt: "lazy", Generation: "7.3", Dynamic: true}, Property: Callbacks},
	} {
		sys, err := q.system()
		if err != nil {
			t.Fatal(err)
		}
		limit := 200_000
		if testing.Short() {
			limit = 20_000
		}
		g, err := explore(t.Context(), sys, 0, Limits{States: limit})
		if err != nil {
			t.Fatal(err)
		}
		each(g, func(k Key) {
			var s model.State
			sys.m.Unpack(k, &s)
			for todo := sys.enabled(&s) & ofCPU0; todo != 0; {
				var e model.Event
				e, todo = todo.Next()
				to, w := s, walk{}
				effects := sys.let(&to, Happening{Event: e}, &w)
				if next, ok := sys.atOnce(&to); ok && effects&reaches == 0 && !to.InSoftirq() {
					t.Fatalf("%v: %v with the effects %q gives CPU 1 %v at once", q.Variant, e, effects, next)
				}
			}
		})
	}
}

func each(g *Graph, f func(Key)) {
	for s := range uint32(shards) {
		for place := range g.st.shards[s].count {
			f(g.st.key(number(s, place)))
		}
	}
}

// Leaving out orders changes no verdict: every variant of the matrix, with every event an edge of its own. Without
// -short normal grace periods, too, which have some 300,000 states then; softirq's have millions, see
// docs/checker.md.
func TestCoarseAndFineAgree(t *testing.T) {
	for _, r := range Matrix() {
		for _, c := range r.Cells {
			for _, p := range c.Asks {
				large := p == NormalGP || p == Callbacks
				if p == Barrier || large && (testing.Short() || r.Variants[0].Loop == softirqLoop) {
					continue
				}
				for _, v := range r.Variants {
					compareFine(t, Question{Variant: v, Property: p})
					if large {
						break
					}
				}
			}
		}
	}
}

func compareFine(t *testing.T, q Question) {
	t.Helper()
	coarse, err := Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	q.Fine = true
	fine, err := Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if coarse.Verdict != fine.Verdict || fine.States <= coarse.States {
		t.Errorf("%v, %s: %s in %d states, fine: %s in %d", q.Variant, q.Property, coarse.Verdict, coarse.States, fine.Verdict, fine.States)
	}
}
