package stats

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
)

// apart returns a value for each length, each of a trial of its own.
func apart(lengths ...float64) []Value {
	var values []Value
	for i, x := range lengths {
		values = append(values, Value{D: time.Duration(math.Round(x * float64(time.Second))), Trial: i})
	}
	return values
}

func TestRank(t *testing.T) {
	tests := []struct {
		name string
		a, b []Value
		want float64
	}{
		// Permeability constants of placental membranes: Hollander and Wolfe (1973), 69f, as in R's wilcox.test:
		// W = 35, exact one-sided p = 0.1272, so twice that.
		{"Hollander and Wolfe", apart(0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46),
			apart(1.15, 0.88, 0.90, 0.74, 1.21), 0.2544},
		// Mann and Whitney, Annals of Mathematical Statistics 18 (1947), table I: n=m=4, U=0: 0.014; U=1: 0.029.
		{"U=0", apart(1, 2, 3, 4), apart(5, 6, 7, 8), 2.0 / 70},
		{"U=1", apart(1, 2, 3, 5), apart(4, 6, 7, 8), 4.0 / 70},
		{"4 against 140", apart(201, 202, 203, 204), apart(count(140)...), 2 / choose(144, 4)},
		{"equal", apart(1, 1, 1, 1), apart(1, 1, 1, 1, 1), 1},
		{"symmetric", apart(1, 4, 5, 8), apart(2, 3, 6, 7), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Rank(tt.a, tt.b)
			if !c.HasP || math.Abs(c.P-tt.want) > 2e-4*tt.want || len(c.Caveats) > 0 {
				t.Errorf("Rank = %+v; want P %.6g and no caveats", c, tt.want)
			}
		})
	}
}

func count(n int) []float64 {
	var out []float64
	for i := range n {
		out = append(out, float64(i))
	}
	return out
}

func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

func TestRankTooFew(t *testing.T) {
	c := Rank(apart(30), apart(count(140)...))
	if c.HasP || c.Words != "not enough trials (n=1 and 140)" {
		t.Errorf("Rank = %+v; want words only", c)
	}
	if c := Rank(nil, nil); c.HasP || c.Words != "not enough trials (n=0 and 0)" {
		t.Errorf("Rank(nil, nil) = %+v; want words only", c)
	}
}

func TestRankCensored(t *testing.T) {
	short := apart(0.1, 0.2, 0.3, 0.4)
	cut := []Value{{30 * time.Second, true, 0}, {30 * time.Second, true, 1}, {30 * time.Second, true, 2}, {20 * time.Second, true, 3}}
	if c := Rank(cut, short); math.Abs(c.P-2.0/70) > 1e-9 || c.GreaterLo != 1 || c.GreaterHi != 1 || len(c.Caveats) != 0 {
		t.Errorf("cut far above = %+v; want p 2/70: each is longer whatever its end", c)
	}
	if c := Rank(cut, cut); c.P != 1 {
		t.Errorf("cut against cut = %+v; want p 1: either could be longer", c)
	}
	// A value cut below the others may belong anywhere above.
	early := append(apart(10, 11, 12), Value{D: time.Millisecond, Censored: true, Trial: 9})
	c := Rank(early, apart(1, 2, 3, 4))
	// P(U ≤ 4) for 4 and 4 is 12/70 (Mann and Whitney 1947, table I: 0.171).
	if want := 2 * 12.0 / 70; math.Abs(c.P-want) > 1e-9 || c.GreaterLo != 0.75 || c.GreaterHi != 1 {
		t.Errorf("cut early = %+v; want p %v, larger in 75 to 100 %% of pairs", c, want)
	}
	if c.Words != "the first is larger in 75 to 100 % of pairs, p = 0.34" || len(c.Caveats) != 1 {
		t.Errorf("cut early: words %q, caveats %q", c.Words, c.Caveats)
	}
}

func TestRankSaysDependence(t *testing.T) {
	values := apart(1, 2, 3, 4, 5)
	values[4].Trial = 0
	if c := Rank(values, apart(1, 2, 3, 4)); len(c.Caveats) != 1 || c.Caveats[0] != dependence {
		t.Errorf("caveats %q; want %q", c.Caveats, dependence)
	}
}

// TestRankEnumerates holds the exact p, ties included, against all ways to deal the ranks out.
func TestRankEnumerates(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 150 {
		n, m := 4+r.IntN(4), 4+r.IntN(4)
		kinds := 2 + r.IntN(12)
		all := make([]float64, n+m)
		for i := range all {
			all[i] = float64(r.IntN(kinds))
		}
		want := enumerate(all, n)
		if got := Rank(apart(all[:n]...), apart(all[n:]...)).P; math.Abs(got-want) > 1e-9 {
			t.Fatalf("P of %v and %v = %v; want %v", all[:n], all[n:], got, want)
		}
	}
}

// enumerate returns twice the smaller tail of the first n values' U among all choices of n.
func enumerate(all []float64, n int) float64 {
	u := func(set uint) float64 {
		s := 0.0
		for i := range all {
			for j := range all {
				if set>>i&1 == 1 && set>>j&1 == 0 {
					if all[i] > all[j] {
						s++
					} else if all[i] == all[j] {
						s += 0.5
					}
				}
			}
		}
		return s
	}
	ours := u(1<<n - 1)
	below, above, total := 0.0, 0.0, 0.0
	for set := uint(0); set < 1<<len(all); set++ {
		if bits.OnesCount(set) != n {
			continue
		}
		total++
		if x := u(set); x <= ours {
			below++
		}
		if x := u(set); x >= ours {
			above++
		}
	}
	if ours == float64(n*(len(all)-n))/2 {
		return 1
	}
	// The tail is the one that the observed U is in.
	tail := below
	if ours > float64(n*(len(all)-n))/2 {
		tail = above
	}
	return min(1, 2*tail/total)
}

func TestRankProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	some := func(n int) []Value {
		values := make([]Value, n)
		for i := range values {
			values[i] = Value{D: time.Duration(r.IntN(1 + r.IntN(1000))), Censored: r.IntN(5) == 0, Trial: r.IntN(3)}
		}
		return values
	}
	for range 150 {
		a, b := some(r.IntN(60)), some(r.IntN(60))
		x, y := Rank(a, b), Rank(b, a)
		if x.HasP != y.HasP || math.Abs(x.P-y.P) > 1e-9 {
			t.Fatalf("Rank(%v, %v) = %+v but %+v the other way round", a, b, x, y)
		}
		if !x.HasP {
			continue
		}
		if !(x.P > 0 && x.P <= 1) || !(0 <= x.GreaterLo && x.GreaterLo <= x.GreaterHi && x.GreaterHi <= 1) {
			t.Fatalf("Rank(%v, %v) = %+v", a, b, x)
		}
		if math.Abs(x.GreaterLo+y.GreaterHi-1) > 1e-9 {
			t.Fatalf("shares %v and %v do not add up to 1", x.GreaterLo, y.GreaterHi)
		}
		// Whatever the cut values' true lengths, a test that knew them would not give a larger p.
		if p := Rank(reveal(r, a), reveal(r, b)).P; p > x.P+1e-9 && exact(len(a), len(b)) {
			t.Fatalf("p = %v for cut values; %v for one way that they could have ended", x.P, p)
		}
	}
}

// exact leaves out sizes at which one of the two tests may be exact and the other approximate.
func exact(n, m int) bool { return (n+m)*max(n, m)*2*n*m <= exactTiesLimit && n*n*m*m <= exactLimit }

// reveal gives the cut values a true length, different from all others.
func reveal(r *rand.Rand, values []Value) []Value {
	out := make([]Value, len(values))
	for i, v := range values {
		if v.Censored {
			v.D += time.Duration(r.IntN(1000))
			v.Censored = false
		}
		out[i] = v
	}
	return out
}

// The normal approximation takes over where the exact distribution leaves off, without a jump.
func TestRankLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	a, b := make([]float64, 45), make([]float64, 45)
	for i := range a {
		a[i], b[i] = r.Float64(), r.Float64()+0.05
	}
	pr := newPair(lengths(apart(a...), false), lengths(apart(b...), false))
	if e, n := pr.p(), pr.normal(); math.Abs(e-n) > 0.05*e {
		t.Errorf("exact p %v, normal %v; want within 5 %%", e, n)
	}
	many := make([]Value, 20000)
	for i := range many {
		many[i] = Value{D: time.Duration(r.IntN(1000)), Trial: i}
	}
	if c := Rank(many[:10000], many[10000:]); !(c.P > 0.001 && c.P <= 1) {
		t.Errorf("Rank of 10000 and 10000 of one kind = %+v; want no difference", c)
	}
}
