package stats

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSummarize(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	tests := []struct {
		name   string
		values []Value
		want   Summary
	}{
		{"none", nil, Summary{Caveats: []string{"not enough trials: no values"}}},
		{"one", []Value{{D: 30 * s}}, Summary{N: 1, Trials: 1, Min: 30 * s, Median: 30 * s, Worst: 30 * s, Over: Proportion{1, 1},
			Caveats: []string{"not enough trials for a 95 % interval of the median (n=1, needs 6)"}}},
		{"one cut", []Value{{D: 30 * s, Censored: true}}, Summary{N: 1, Censored: 1, Trials: 1, Min: 30 * s, Median: 30 * s, MedianCensored: true,
			Worst: 30 * s, WorstCensored: true, Over: Proportion{1, 1},
			Caveats: []string{"not enough trials for a 95 % interval of the median (n=1, needs 6)"}}},
		{"at the limit", apart(1, 1), Summary{N: 2, Trials: 2, Min: s, Median: s, Worst: s, Over: Proportion{0, 2},
			Caveats: []string{"not enough trials for a 95 % interval of the median (n=2, needs 6)"}}},
		{"six", apart(0.6, 0.1, 0.2, 0.5, 0.4, 0.3), Summary{N: 6, Trials: 6, Min: 100 * ms, Median: 350 * ms,
			HasInterval: true, MedianLo: 100 * ms, MedianHi: 600 * ms, Worst: 600 * ms, Over: Proportion{0, 6}}},
		// Ranks 2 and 9 of 10 hold the median with 97.9 %: Conover's and every other table of order statistics.
		{"ten of one trial", sameTrial(apart(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)), Summary{N: 10, Trials: 1, Min: s, Median: 5500 * ms,
			HasInterval: true, MedianLo: 2 * s, MedianHi: 9 * s, Worst: 10 * s, Over: Proportion{9, 10},
			Caveats: []string{"all 10 values come from one trial: they are not independent, and how trials differ is not known"}}},
		{"cut above the median", cut(apart(1, 2, 3, 4, 5, 6, 7), 6), Summary{N: 7, Censored: 1, Trials: 7, Min: s, Median: 4 * s,
			HasInterval: true, MedianLo: s, MedianHi: 7 * s, MedianHiCensored: true, Worst: 7 * s, WorstCensored: true, Over: Proportion{6, 7}}},
		// The shortest was cut: it may be anything, so the median is at least 4 s, and may be 5 s.
		{"cut below", cut(apart(0.5, 2, 3, 4, 5, 6, 7), 0), Summary{N: 7, Censored: 1, Trials: 7, Min: 500 * ms, Median: 4 * s, MedianCensored: true,
			HasInterval: true, MedianLo: 500 * ms, MedianHi: 7 * s, MedianHiCensored: true, Worst: 7 * s, Over: Proportion{6, 7}, Unknown: 1,
			Caveats: []string{"1 of 7 were cut before 1s: whether they would have been longer is not known"}}},
		{"cut between", cut(apart(1, 2, 3, 4, 5, 6, 7), 5), Summary{N: 7, Censored: 1, Trials: 7, Min: s, Median: 4 * s,
			HasInterval: true, MedianLo: s, MedianHi: 7 * s, MedianHiCensored: true, Worst: 7 * s, Over: Proportion{6, 7},
			Caveats: []string{"1 were cut and may have been longer than the worst shown"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Summarize(tt.values, time.Second)); diff != "" {
				t.Errorf("Summarize (-want +got):\n%s", diff)
			}
		})
	}
}

func sameTrial(values []Value) []Value {
	for i := range values {
		values[i].Trial = 7
	}
	return values
}

func cut(values []Value, i int) []Value {
	values[i].Censored = true
	return values
}

// Ranks of the interval of a median at 95 %, from tables of the sign test (e.g. Conover, table A3 at ½).
func TestIntervalRank(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 12: 3, 15: 4, 20: 6, 25: 8, 30: 10, 50: 18, 100: 40} {
		if got := intervalRank(n); got != want {
			t.Errorf("intervalRank(%d) = %d; want %d", n, got, want)
		}
	}
}

// Whatever the cut values' true lengths are, what is said of the values holds for them.
func TestSummarizeHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 3000 {
		values := make([]Value, 1+r.IntN(20))
		for i := range values {
			values[i] = Value{D: time.Duration(r.IntN(100)), Censored: r.IntN(3) == 0, Trial: r.IntN(3)}
		}
		known := Summarize(values, 50)
		truth := Summarize(reveal(r, values), 50)
		if truth.Median < known.Median || !known.MedianCensored && truth.Median != known.Median {
			t.Fatalf("%v: median %v, cut %v, but may be %v", values, known.Median, known.MedianCensored, truth.Median)
		}
		if known.HasInterval && (truth.MedianLo < known.MedianLo || truth.MedianHi > known.MedianHi && !known.MedianHiCensored) {
			t.Fatalf("%v: interval %v to %v, but may be %v to %v", values, known.MedianLo, known.MedianHi, truth.MedianLo, truth.MedianHi)
		}
		if truth.Over.K < known.Over.K || truth.Over.K > known.Over.K+known.Unknown {
			t.Fatalf("%v: %d over and %d unknown, but may be %d", values, known.Over.K, known.Unknown, truth.Over.K)
		}
		if truth.Worst < known.Worst || known.Min > known.Median || known.Median > known.Worst || known.MedianLo > known.Median {
			t.Fatalf("%v: out of order: %+v", values, known)
		}
	}
}

func TestWorstPerTrial(t *testing.T) {
	got := WorstPerTrial([]Value{{3, false, 2}, {1, false, 1}, {5, false, 2}, {5, true, 2}, {2, false, 1}})
	want := []Value{{2, false, 1}, {5, true, 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("WorstPerTrial (-want +got):\n%s", diff)
	}
	if got := WorstPerTrial(nil); len(got) != 0 {
		t.Errorf("WorstPerTrial(nil) = %v; want none", got)
	}
}
