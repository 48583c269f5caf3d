package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/perf/benchmath"
)

// Where benchstat's own library answers the same question, it gives the same answer: the rank test's p, and the median's
// interval for samples that it computes exactly (30 values and fewer).
func TestAgreesWithBenchmath(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 200 {
		a, x := drawn(r, 6+r.IntN(20), 1)
		b, y := drawn(r, 6+r.IntN(20), 1+r.Float64())
		ours := Rank(a, b)
		theirs := benchmath.AssumeNothing.Compare(benchmath.NewSample(x, &benchmath.DefaultThresholds), benchmath.NewSample(y, &benchmath.DefaultThresholds))
		if math.Abs(ours.P-min(1, theirs.P)) > 1e-9 {
			t.Fatalf("p of %v and %v = %v; benchmath has %v", x, y, ours.P, theirs.P)
		}
		s := Summarize(a, time.Hour)
		m := benchmath.AssumeNothing.Summary(benchmath.NewSample(x, &benchmath.DefaultThresholds), Confidence)
		// Theirs takes the shortest interval at the level, ours one with equal tails: ours holds theirs.
		if math.Abs(s.Median.Seconds()-m.Center) > 1e-8 || s.MedianLo.Seconds() > m.Lo+1e-8 || s.MedianHi.Seconds() < m.Hi-1e-8 {
			t.Fatalf("median of %v = %v (%v to %v); benchmath has %v (%v to %v)", x, s.Median, s.MedianLo, s.MedianHi, m.Center, m.Lo, m.Hi)
		}
	}
}

// drawn returns n lengths of whole seconds, without ties in a sample of these few.
func drawn(r *rand.Rand, n int, scale float64) ([]Value, []float64) {
	var values []Value
	var seconds []float64
	for i := range n {
		d := time.Duration(1e8*scale*r.ExpFloat64()) * 10 * time.Nanosecond
		values = append(values, Value{D: d, Trial: i})
		seconds = append(seconds, d.Seconds())
	}
	return values, seconds
}
