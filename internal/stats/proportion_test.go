package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

func TestInterval(t *testing.T) {
	tests := []struct {
		p      Proportion
		lo, hi float64 // to 4 digits
	}{
		// Newcombe, Statistics in Medicine 17 (1998), 857–872, table I, method 5.
		{Proportion{81, 263}, 0.2527, 0.3676},
		{Proportion{15, 148}, 0.0578, 0.1617},
		{Proportion{0, 20}, 0, 0.1684},
		{Proportion{1, 29}, 0.0009, 0.1776},
		// The usual tables for n=10.
		{Proportion{0, 10}, 0, 0.3085},
		{Proportion{1, 10}, 0.0025, 0.4450},
		{Proportion{5, 10}, 0.1871, 0.8129},
		{Proportion{10, 10}, 0.6915, 1},
		// The board's report that this project began with: 8 of 29 over 1 s, 0 of 177.
		{Proportion{8, 29}, 0.1273, 0.4724},
		{Proportion{0, 177}, 0, 0.0206},
		{Proportion{1, 1}, 0.0250, 1},
		// Nothing known.
		{Proportion{0, 0}, 0, 1},
		{Proportion{3, 0}, 0, 1},
		{Proportion{3, -5}, 0, 1},
		// More than all is all.
		{Proportion{12, 10}, 0.6915, 1},
		{Proportion{-1, 10}, 0, 0.3085},
	}
	for _, tt := range tests {
		lo, hi := tt.p.Interval(0.95)
		if math.Abs(lo-tt.lo) > 0.00006 || math.Abs(hi-tt.hi) > 0.00006 {
			t.Errorf("(%v).Interval(0.95) = %.5f, %.5f; want %.4f, %.4f", tt.p, lo, hi, tt.lo, tt.hi)
		}
	}
	for _, conf := range []float64{0, 1, -1, 2, math.NaN(), math.Inf(1)} {
		if lo, hi := (Proportion{1, 2}).Interval(conf); lo != 0 || hi != 1 {
			t.Errorf("Interval(%v) = %v, %v; want 0, 1", conf, lo, hi)
		}
	}
}

// At its ends, an exact interval leaves just the tail to the binomial distribution.
func TestIntervalInvertsBinomial(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		n := 1 + r.IntN(1+r.IntN(200000))
		p := Proportion{r.IntN(n + 1), n}
		conf := []float64{0.5, 0.9, 0.95, 0.999}[r.IntN(4)]
		lo, hi := p.Interval(conf)
		share := float64(p.K) / float64(p.N)
		if !(0 <= lo && lo <= share && share <= hi && hi <= 1) {
			t.Fatalf("(%v).Interval(%v) = %v, %v; want 0 ≤ lo ≤ %v ≤ hi ≤ 1", p, conf, lo, hi, share)
		}
		tail := (1 - conf) / 2
		if p.K > 0 {
			if got := 1 - (distuv.Binomial{N: float64(n), P: lo}).CDF(float64(p.K-1)); math.Abs(got-tail) > 1e-6 {
				t.Fatalf("(%v).Interval(%v): P(X ≥ K) at %v is %v; want %v", p, conf, lo, got, tail)
			}
		}
		if p.K < n {
			if got := (distuv.Binomial{N: float64(n), P: hi}).CDF(float64(p.K)); math.Abs(got-tail) > 1e-6 {
				t.Fatalf("(%v).Interval(%v): P(X ≤ K) at %v is %v; want %v", p, conf, hi, got, tail)
			}
		}
	}
}

func TestFisher(t *testing.T) {
	tests := []struct {
		a, b Proportion
		want float64
	}{
		// The lady tasting tea: Fisher, The Design of Experiments (1935), as in R's fisher.test: 34/70.
		{Proportion{3, 4}, Proportion{1, 4}, 34.0 / 70},
		{Proportion{4, 4}, Proportion{0, 4}, 2.0 / 70},
		// Convictions of like-sex twins: Fisher, Statistical Methods for Research Workers (14th ed., 1970),
		// section 21.02, as in R's fisher.test: 0.0005367.
		{Proportion{10, 13}, Proportion{2, 17}, 0.0005367},
		{Proportion{5, 5}, Proportion{7, 7}, 1},
		{Proportion{0, 5}, Proportion{0, 7}, 1},
		{Proportion{0, 0}, Proportion{3, 7}, 1},
		{Proportion{3, 7}, Proportion{0, 0}, 1},
		{Proportion{1, 1}, Proportion{0, 140}, 1.0 / 141},
	}
	for _, tt := range tests {
		if got := fisher(tt.a, tt.b); math.Abs(got-tt.want) > 1e-4*tt.want {
			t.Errorf("fisher(%v, %v) = %.7f; want %.7f", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestFisherProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		a := Proportion{r.IntN(60) - 2, r.IntN(60) - 2}
		b := Proportion{r.IntN(600) - 2, r.IntN(600) - 2}
		p := fisher(a, b)
		if !(p > 0 && p <= 1) {
			t.Fatalf("fisher(%v, %v) = %v; want over 0, at most 1", a, b, p)
		}
		if q := fisher(b, a); math.Abs(p-q) > 1e-9 {
			t.Fatalf("fisher(%v, %v) = %v but %v the other way round", a, b, p, q)
		}
		a, b = a.clamp(), b.clamp()
		if q := fisher(Proportion{a.N - a.K, a.N}, Proportion{b.N - b.K, b.N}); math.Abs(p-q) > 1e-9 {
			t.Fatalf("fisher(%v, %v) = %v but %v for those not counted", a, b, p, q)
		}
	}
	if p := fisher(Proportion{500000, 500000}, Proportion{0, 500000}); !(p > 0) {
		t.Errorf("Fisher of all against none of 500000 = %v; want over 0", p)
	}
}

func TestCompareProportions(t *testing.T) {
	tests := []struct {
		a, b  Proportion
		words string
		hasP  bool
	}{
		{Proportion{8, 29}, Proportion{0, 177}, "8 of 29 against 0 of 177, p = 6.1e-08", true},
		{Proportion{1, 1}, Proportion{0, 140}, "not enough trials (n=1 and 140)", false},
		{Proportion{0, 300}, Proportion{2, 2}, "not enough trials (n=300 and 2)", false},
		{Proportion{3, 3}, Proportion{0, 300}, "3 of 3 against 0 of 300, p = 2.2e-07", true},
		{Proportion{1, 1}, Proportion{0, 5}, "not enough trials (n=1 and 5)", false},
		{Proportion{3, 3}, Proportion{0, 3}, "not enough trials (n=3 and 3)", false},
		{Proportion{4, 4}, Proportion{0, 4}, "4 of 4 against 0 of 4, p = 0.029", true},
		{Proportion{}, Proportion{0, 40}, "not enough trials (n=0 and 40)", false},
	}
	for _, tt := range tests {
		c := CompareProportions(tt.a, tt.b)
		if c.Words != tt.words || c.HasP != tt.hasP || c.HasP != (len(c.Caveats) > 0) {
			t.Errorf("CompareProportions(%v, %v) = %+v; want %q, HasP %v", tt.a, tt.b, c, tt.words, tt.hasP)
		}
	}
}
