package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRankMinimum(t *testing.T) {
	// 2/C(8,4) = 0.0286, 2/C(10,5) = 0.0079, 2/C(12,6) = 0.0022, 2/C(14,7) = 0.00058.
	for level, want := range map[float64]int{0.05: 4, 0.02: 5, 0.005: 6, 0.001: 7} {
		if got := RankMinimum(level); got != want {
			t.Errorf("RankMinimum(%v) = %d; want %d", level, got, want)
		}
	}
}

// The size that is advised has about the power that it promises.
func TestRankSize(t *testing.T) {
	// Normal distributions half a standard deviation apart: P(X > Y) = Φ(0.5/√2) = 0.6382.
	n, ok := RankSize(0.6382, 0.05)
	if !ok || n != 69 { // (1.96+0.8416)²/(6·0.1382²) = 68.5
		t.Fatalf("RankSize(0.6382, 0.05) = %d, %v; want 69", n, ok)
	}
	r := rand.New(rand.NewPCG(5, 5))
	found := 0
	const rounds = 400
	for range rounds {
		var a, b []Value
		for i := range n {
			a = append(a, Value{D: time.Duration(1e9 * (10 + r.NormFloat64())), Trial: i})
			b = append(b, Value{D: time.Duration(1e9 * (9.5 + r.NormFloat64())), Trial: i})
		}
		if Rank(a, b).P < 0.05 {
			found++
		}
	}
	if share := float64(found) / rounds; math.Abs(share-Power) > 0.06 {
		t.Errorf("found in %.3f of pairs; want about %v", share, Power)
	}
	if n, ok := RankSize(1, 0.05); !ok || n < 4 {
		t.Errorf("RankSize of samples apart = %d, %v; want at least 4", n, ok)
	}
	for _, same := range []float64{0.5, math.NaN(), 1.2} {
		if _, ok := RankSize(same, 0.05); ok {
			t.Errorf("RankSize(%v) is one", same)
		}
	}
}

// Expected values: R 4.2.2, power.prop.test(p1=.5, p2=.75, power=.8): n = 57.67; (p1=.05, p2=.3): n = 35.06.
func TestSharesSize(t *testing.T) {
	for _, tt := range []struct {
		p, q float64
		n    int
	}{{0.5, 0.75, 58}, {0.75, 0.5, 58}, {0.05, 0.3, 36}} {
		if n, ok := SharesSize(tt.p, tt.q, 0.05); !ok || n != tt.n {
			t.Errorf("SharesSize(%v, %v) = %d, %v; want %d", tt.p, tt.q, n, ok, tt.n)
		}
	}
	if _, ok := SharesSize(0.2, 0.2, 0.05); ok {
		t.Error("SharesSize of the same is one")
	}
}

func TestNoneSize(t *testing.T) {
	for limit, want := range map[float64]int{0.05: 72, 0.01: 368, 0.5: 6, 0: 0, 1: 0, -1: 0} {
		n := NoneSize(limit)
		if n != want {
			t.Errorf("NoneSize(%v) = %d; want %d", limit, n, want)
		}
		if n == 0 {
			continue
		}
		_, hi := Proportion{0, n}.Interval(Confidence)
		_, before := Proportion{0, n - 1}.Interval(Confidence)
		if hi > limit || before <= limit {
			t.Errorf("0 of %d goes to %v, 0 of %d to %v; want %v between", n, hi, n-1, before, limit)
		}
	}
}

// Expected values: R 4.2.2, p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.9), "holm").
func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005, 0.9})
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
	if diff := cmp.Diff([]float64{0.04, 0.09, 0.09, 0.025, 0.9}, got, near); diff != "" {
		t.Errorf("Holm, -want +got:\n%s", diff)
	}
	if got := Holm([]float64{0.7, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("Holm of large ones = %v; want 1", got)
	}
	if len(Holm(nil)) != 0 {
		t.Error("Holm of none is not empty")
	}
}

func TestDesignEffect(t *testing.T) {
	alike := []Proportion{{10, 10}, {0, 10}, {10, 10}, {0, 10}} // one answer a trial: 10 times the variance, and m/(m-1)
	if d := DesignEffect(alike); math.Abs(d-10*4.0/3) > 1e-12 {
		t.Errorf("of trials that agree within = %v; want 13.33", d)
	}
	if down, up := (Proportion{20, 40}).Effective(10); down != (Proportion{2, 4}) || up != down {
		t.Errorf("20 of 40 at an effect of 10 = %v, %v; want 2 of 4", down, up)
	}
	for name, trials := range map[string][]Proportion{
		"even": {{5, 10}, {5, 10}}, "one trial": {{5, 10}}, "none": nil, "single cases": {{1, 1}, {0, 1}}, "no case": {{0, 10}, {0, 10}},
	} {
		if d := DesignEffect(trials); d != 1 {
			t.Errorf("%s: %v; want 1", name, d)
		}
	}
	for _, p := range []Proportion{{0, 0}, {3, 5}} {
		if down, up := p.Effective(1); down != p || up != p {
			t.Errorf("%v at an effect of 1 = %v, %v", p, down, up)
		}
	}
	if down, up := (Proportion{3, 5}).Effective(100); down != (Proportion{0, 1}) || up != (Proportion{1, 1}) {
		t.Errorf("3 of 5 at an effect of 100 = %v, %v; want one case, either way", down, up)
	}
}
