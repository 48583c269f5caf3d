package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const maxLength = time.Duration(math.MaxInt64)

// Expected values: R 4.2.2, wilcox.test(x, y, conf.int=TRUE, exact=TRUE).
func TestHodgesLehmann(t *testing.T) {
	var u, v []float64 // as in R: ((1:80)*37 %% 101)/10 + (1:80)/1000; %% binds tighter than *
	for i := range 80 {
		u = append(u, float64((i+1)*37)/10+float64(i+1)/1000)
	}
	for i := range 90 {
		v = append(v, float64((i+1)*53)/9+1+float64(i+1)/1000)
	}
	tests := []struct {
		name        string
		a, b        []Value
		d, from, to float64 // seconds
		within      float64 // seconds
	}{
		// Hollander and Wolfe (1973), 69f, permeability constants of placental membranes.
		{"Hollander and Wolfe", apart(0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46), apart(1.15, 0.88, 0.90, 0.74, 1.21),
			0.305, -0.15, 0.76, 1e-9},
		{"4 and 4", apart(1.1, 2.2, 3.7, 4.9), apart(5.3, 6.8, 7.1, 9.9), -4.4, -8.8, -0.4, 1e-9},
		// 80 and 90 are beyond the exact distribution here; R's is exact, and the ends may be a rank away.
		{"80 and 90", apart(u...), apart(v...), -119.0994444, -165.28266667, -72.91622222, 0.7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := HodgesLehmann(tt.a, tt.b)
			near := func(b Bound, want float64) bool {
				return b.Open == 0 && !b.NoValue && math.Abs(b.D.Seconds()-want) <= tt.within
			}
			if s.Lo != s.Hi || !near(Bound{D: s.Lo.D}, tt.d) && tt.within < 1e-6 || math.Abs(s.Lo.D.Seconds()-tt.d) > 1e-6 {
				t.Errorf("shift = %+v … %+v; want %v", s.Lo, s.Hi, tt.d)
			}
			if !s.HasInterval || !near(s.From, tt.from) || !near(s.To, tt.to) {
				t.Errorf("interval = %+v … %+v; want %v … %v", s.From, s.To, tt.from, tt.to)
			}
		})
	}
}

func TestHodgesLehmannTooFew(t *testing.T) {
	s := HodgesLehmann(nil, apart(1, 2))
	if !s.Lo.NoValue || !s.Hi.NoValue || s.HasInterval || s.Words != "not enough trials (n=0 and 2)" {
		t.Errorf("of nothing = %+v; want words", s)
	}
	s = HodgesLehmann(apart(3), apart(1, 2))
	if s.Lo.D != 1500*time.Millisecond || s.HasInterval || s.Words == "" {
		t.Errorf("1 against 2 = %+v; want 1.5 s without an interval", s)
	}
	if s := HodgesLehmann(apart(1, 2, 3), apart(4, 5, 6)); s.HasInterval {
		t.Errorf("3 against 3 has an interval %+v; want none: 2/C(6,3) = 0.1", s)
	}
}

func TestHodgesLehmannExtremes(t *testing.T) {
	a := []Value{{D: 0}, {D: maxLength}, {D: maxLength}, {D: maxLength}, {D: maxLength}}
	b := []Value{{D: 0}, {D: 0}, {D: 0}, {D: 0}, {D: maxLength}}
	s := HodgesLehmann(a, b)
	if s.Lo.D != maxLength || s.Hi.D != maxLength || s.Lo.Open != 0 {
		t.Errorf("of extremes = %+v; want the largest", s)
	}
	if s := HodgesLehmann(b, a); s.Lo.D != -maxLength {
		t.Errorf("of extremes = %+v; want the smallest", s)
	}
	if s := HodgesLehmann([]Value{{D: math.MinInt64}}, []Value{{D: maxLength}}); s.Lo.D != -maxLength {
		t.Errorf("of a negative length = %+v; want it taken for 0", s)
	}
}

func TestHodgesLehmannAllCut(t *testing.T) {
	cut := []Value{{D: 1, Censored: true}, {D: 2, Censored: true}, {D: 3, Censored: true}, {D: 4, Censored: true}}
	s := HodgesLehmann(cut, cut)
	if !s.Lo.NoValue || s.Lo.Open != -1 || !s.Hi.NoValue || s.Hi.Open != 1 || !s.From.NoValue || !s.To.NoValue {
		t.Errorf("of nothing but cut values = %+v; want nothing known", s)
	}
	s = HodgesLehmann(cut, apart(0, 0, 0, 0))
	if s.Lo != (Bound{D: 2}) || !s.Hi.NoValue && s.Hi.Open != 1 {
		t.Errorf("cut against 0 = %+v; want 2.5 ns or more", s)
	}
}

// The estimate by definition, at any true lengths that cut values may have had, lies between the bounds.
func TestHodgesLehmannBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		a, b := someValues(r), someValues(r)
		s := HodgesLehmann(a, b)
		for range 3 {
			x, y := finished(r, a), finished(r, b)
			want := medianDifference(x, y)
			if s.Lo.Open == 0 && want < s.Lo.D || s.Hi.Open == 0 && want > s.Hi.D {
				t.Fatalf("HodgesLehmann(%v, %v) = %v … %v; %v is possible", a, b, s.Lo, s.Hi, want)
			}
			if whole := HodgesLehmann(x, y); whole.Lo.D != want || whole.Hi.D != want {
				t.Fatalf("HodgesLehmann(%v, %v) = %v; want %v", x, y, whole.Lo, want)
			}
		}
	}
}

func someValues(r *rand.Rand) []Value {
	values := make([]Value, 1+r.IntN(12))
	for i := range values {
		values[i] = Value{D: time.Duration(r.IntN(30)), Censored: r.IntN(4) == 0, Trial: r.IntN(4)}
	}
	return values
}

// finished gives cut values some end.
func finished(r *rand.Rand, values []Value) []Value {
	out := slices.Clone(values)
	for i, v := range out {
		if v.Censored {
			out[i] = Value{D: v.D + time.Duration(r.IntN(40)), Trial: v.Trial}
		}
	}
	return out
}

func medianDifference(a, b []Value) time.Duration {
	var d []time.Duration
	for _, x := range a {
		for _, y := range b {
			d = append(d, x.D-y.D)
		}
	}
	slices.Sort(d)
	lo, hi := d[(len(d)-1)/2], d[len(d)/2]
	return lo + (hi-lo)/2
}

// Of samples from one distribution, the interval misses 0 in at most 5 of 100 pairs.
func TestHodgesLehmannCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	missed := 0
	const rounds = 600
	for range rounds {
		var a, b []Value
		for range 12 {
			a = append(a, Value{D: time.Duration(1e9 * r.ExpFloat64())})
			b = append(b, Value{D: time.Duration(1e9 * r.ExpFloat64())})
		}
		if s := HodgesLehmann(a, b); s.From.D > 0 || s.To.D < 0 {
			missed++
		}
	}
	if share := float64(missed) / rounds; share > 0.07 || share < 0.02 {
		t.Errorf("missed in %.3f of pairs; want about 0.05", share)
	}
}
