package stats

import (
	"testing"
	"time"
)

// Expected ranks: R 4.2.2, qbinom(0.025, n, 0.95) and qbinom(0.975, n, 0.95)+1, the first lowered by one where it is
// the quantile itself that has more than 2.5 % below it.
func TestQuantileRanks(t *testing.T) {
	tests := []struct{ n, r, s int }{
		{10, 8, 11}, {30, 26, 31}, {59, 52, 60}, {72, 64, 72}, {100, 90, 100}, {200, 184, 197}, {1000, 936, 964},
	}
	for _, tt := range tests {
		if r, s := quantileRanks(tt.n, 0.95); r != tt.r || s != tt.s {
			t.Errorf("quantileRanks(%d, 0.95) = %d, %d; want %d, %d", tt.n, r, s, tt.r, tt.s)
		}
	}
	// Of a median they are those of intervalRank.
	for n := 6; n < 300; n++ {
		if r, s := quantileRanks(n, 0.5); r != intervalRank(n) || s != n+1-r {
			t.Errorf("quantileRanks(%d, 0.5) = %d, %d; want %d and its mirror", n, r, s, intervalRank(n))
		}
	}
}

func TestQuantileOf(t *testing.T) {
	values := apart(count(100)...) // 0 … 99 s
	q, ok := QuantileOf(values, 0.95)
	if !ok || q.At != (Bound{D: 94e9}) || q.From != (Bound{D: 89e9}) || q.To != (Bound{D: 99e9}) {
		t.Errorf("p95 of 0…99 s = %+v; want 94 s, 89 to 99 s", q)
	}
	values[98].Censored = true
	if q, _ = QuantileOf(values, 0.95); q.At != (Bound{D: 94e9}) || q.To != (Bound{D: 99e9, Open: 1}) {
		t.Errorf("with a cut one near the end = %+v; want 94 s, to 99 s or more", q)
	}
	values[10].Censored = true
	if q, _ = QuantileOf(values, 0.95); q.At != (Bound{D: 94e9, Open: 1}) {
		t.Errorf("with a cut one below = %+v; want 94 s or more", q)
	}
	if q, ok := QuantileOf(apart(3), 0.95); !ok || q.At.D != 3*time.Second || q.From.D != 0 || q.To.Open != 1 {
		t.Errorf("p95 of one value = %+v, %v; want it, from 0, without an upper end", q, ok)
	}
	for _, p := range []float64{0, 1, -1, 2} {
		if _, ok := QuantileOf(values, p); ok {
			t.Errorf("quantile %v is one", p)
		}
	}
	if _, ok := QuantileOf(nil, 0.5); ok {
		t.Error("a quantile of nothing is one")
	}
}

func TestMedianPerTrial(t *testing.T) {
	values := []Value{{D: 5, Trial: 2}, {D: 1, Trial: 1}, {D: 3, Trial: 1}, {D: 9, Trial: 1}, {D: 7, Trial: 2, Censored: true},
		{D: 4, Trial: 3, Censored: true}}
	want := []Value{{D: 3, Trial: 1}, {D: 6, Trial: 2, Censored: true}, {D: 4, Trial: 3, Censored: true}}
	got := MedianPerTrial(values)
	if len(got) != len(want) {
		t.Fatalf("MedianPerTrial = %+v; want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("trial %d: %+v; want %+v", want[i].Trial, got[i], want[i])
		}
	}
	if got := MedianPerTrial(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
