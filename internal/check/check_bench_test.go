package check

import (
	"os"
	"strconv"
	"testing"
)

// Both halves of an answer on the largest variant of the matrix, and on one core and two.
func BenchmarkModel(b *testing.B) {
	q := Question{Variant: Variant{Loop: softirqLoop}, Property: NormalGP}
	sys, err := q.system()
	if err != nil {
		b.Fatal(err)
	}
	for _, workers := range []int{1, 2} {
		b.Run("explore/"+map[int]string{1: "1core", 2: "2cores"}[workers], func(b *testing.B) {
			b.ReportAllocs()
			states, bytes, edges := 0, int64(0), int64(0)
			for b.Loop() {
				g, err := explore(b.Context(), sys, allBroken, Limits{Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				states, bytes, edges = states+g.States(), g.Bytes(), edges+g.Transitions
			}
			b.ReportMetric(float64(states)/b.Elapsed().Seconds(), "states/s")
			b.ReportMetric(float64(edges)/b.Elapsed().Seconds(), "transitions/s")
			b.ReportMetric(float64(bytes)*float64(b.N)/float64(states), "bytes/state")
		})
	}
	b.Run("seek", func(b *testing.B) {
		g, err := explore(b.Context(), sys, allBroken, Limits{})
		if err != nil {
			b.Fatal(err)
		}
		p, err := q.Property.find()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.ResetTimer()
		var bytes int64
		for range b.N {
			_, s, err := g.seek(b.Context(), p.wait(), fairness(false, false), 0)
			if err != nil {
				b.Fatal(err)
			}
			bytes = s.bytes()
		}
		b.ReportMetric(float64(g.States()*b.N)/b.Elapsed().Seconds(), "states/s")
		b.ReportMetric(float64(bytes)/float64(g.States()), "more-bytes/state")
	})
}

// What SPIN has, for scripts/bench-peers-check: every state of the loop variant yield-on-exit with one expedited waiter,
// with a ring and a weight of BENCH_RING and BENCH_WEIGHT.
func BenchmarkLoop(b *testing.B) {
	number := func(name string, byDefault int) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			return byDefault
		}
		return n
	}
	v := Variant{Loop: "yield-on-exit", Ring: number("BENCH_RING", 400), Weight: number("BENCH_WEIGHT", 64)}
	sys, err := Question{Variant: v, Property: ExpeditedGP, Fine: true}.system()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var g *Graph
	for range b.N {
		if g, err = explore(b.Context(), sys, allBroken, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(g.States()), "states")
	b.ReportMetric(float64(g.Bytes()), "bytes")
	b.ReportMetric(float64(g.States())*float64(b.N)/b.Elapsed().Seconds(), "states/s")
}
