package check

import (
	"testing"

	"github.com/napistall/napistall/internal/model"
)

// What happen takes for granted: only the events and effects that it lists give CPU 1 something to do at once.
func TestWhatReachesCPU1(t *testing.T) {
	for _, q := range []Question{
		{Variant: Variant{Loop: softirqLoop}, Property: NormalGP}, {Property: Callbacks}, {Property: Kworker}, {Property: LinkDel},
		{Variant: Variant{Preempt: "lazy", Generation: "7.3"}, Property: ExpeditedGP},
		{Variant: Variant{Preempt: "lazy", Generation: "7.3", Dynamic: true}, Property: Callbacks},
	} {
		sys, err := q.system()
		if err != nil {
			t.Fatal(err)
		}
		g, err := explore(t.Context(), sys, 0, Limits{States: 200_000})
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
