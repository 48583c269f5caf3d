package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	gomath "github.com/aclements/go-moremath/stats"
)

// A Comparison is the outcome of a test: a two-sided P, or only Words where there is too little to test.
type Comparison struct {
	P    float64 // over 0, at most 1; means nothing without HasP
	HasP bool
	// Words say the outcome, such as "a larger in 97 % of pairs, p = 0.0021" or "not enough trials
	// (n=1 and 140)".
	Words string
	// GreaterLo and GreaterHi bound the share of pairs of a value of a and one of b in which a's is the
	// larger, ties counted half; they differ where cut values leave it open. Only Rank sets them.
	GreaterLo, GreaterHi float64
	// Caveats are what a reader of P has to know.
	Caveats []string
}

// alpha is the level at which a test that can't find anything is not made.
const alpha = 0.05

// minRank is how many values each side of a rank test needs: with 4 and 4 the smallest possible p is
// 2/C(8,4) = 0.029, with 3 and 3 it is 0.1. Fewer against many could give a small p, from
// a difference that rests on one or two values.
const minRank = 4

const dependence = "the test takes the values for independent; those of one trial are not, so p is smaller than it should be"

func tooFew(n, m int) Comparison {
	return Comparison{Words: fmt.Sprintf("not enough trials (n=%d and %d)", n, m)}
}

// Rank tests whether values of a tend to be larger or smaller than those of b: the Mann–Whitney U test,
// two-sided, twice the smaller tail, from the exact distribution where the samples are small
// and from the normal approximation with tie and continuity correction otherwise.
//
// A cut value is taken to be anything from its length up, and P is the largest that any such true values could
// give: both extremes are tested (a's cut values as short as they can be and b's without end, and the other way
// round), the larger P counts, and where the extremes disagree on which side is larger P is 1. So a cut value is
// larger than all it had outlasted, and nothing is gained from what is not known.
//
// Values of one trial are not independent, and P is then smaller than it should be: test WorstPerTrial of
// each side instead where there are trials enough.
func Rank(a, b []Value) Comparison {
	n, m := len(a), len(b)
	if n < minRank || m < minRank {
		return tooFew(n, m)
	}
	low := newPair(lengths(a, false), lengths(b, true))
	high := newPair(lengths(a, true), lengths(b, false))
	c := Comparison{HasP: true, GreaterLo: low.greater(), GreaterHi: high.greater()}
	if c.GreaterLo < 0.5 && c.GreaterHi > 0.5 {
		c.P = 1
	} else {
		c.P = max(low.p(), high.p())
	}
	c.Words = c.words()
	if trials(a) < n || trials(b) < m {
		c.Caveats = append(c.Caveats, dependence)
	}
	if c.GreaterLo != c.GreaterHi {
		c.Caveats = append(c.Caveats, "cut values are taken at their worst for the test, so p is an upper bound")
	}
	return c
}

func (c Comparison) words() string {
	lo, hi := 100*c.GreaterLo, 100*c.GreaterHi
	share := fmt.Sprintf("%.0f %%", lo)
	if math.Round(lo) != math.Round(hi) {
		share = fmt.Sprintf("%.0f to %.0f %%", lo, hi)
	}
	return fmt.Sprintf("the first is larger in %s of pairs, p = %s", share, twoDigits(c.P))
}

func trials(values []Value) int {
	seen := map[int]bool{}
	for _, v := range values {
		seen[v.Trial] = true
	}
	return len(seen)
}

// lengths returns the values' lengths in order; cut ones are without end if endless.
func lengths(values []Value, endless bool) []time.Duration {
	out := make([]time.Duration, 0, len(values))
	for _, v := range values {
		d := v.D
		if v.Censored && endless {
			d = never
		}
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

// A pair is two samples by rank.
type pair struct {
	n, m int
	u2   int64 // twice the U of the first: 2 for each pair in which its value is larger, 1 for a tie
	ties []int // how many values share each rank, smallest first
}

// newPair ranks two sorted samples.
func newPair(a, b []time.Duration) pair {
	p := pair{n: len(a), m: len(b)}
	for len(a) > 0 || len(b) > 0 {
		d := next(a, b)
		i, j := run(a, d), run(b, d)
		below := int64(p.m - len(b))
		p.u2 += int64(i) * (2*below + int64(j))
		p.ties = append(p.ties, i+j)
		a, b = a[i:], b[j:]
	}
	return p
}

func next(a, b []time.Duration) time.Duration {
	switch {
	case len(a) == 0:
		return b[0]
	case len(b) == 0:
		return a[0]
	}
	return min(a[0], b[0])
}

// run returns how many values at the head of sorted are d.
func run(sorted []time.Duration, d time.Duration) int {
	i, _ := slices.BinarySearchFunc(sorted, d, func(x, d time.Duration) int {
		if x <= d {
			return -1
		}
		return cmp.Compare(x, d)
	})
	return i
}

// greater returns the share of pairs in which the first sample's value is larger.
func (p pair) greater() float64 {
	return float64(p.u2) / 2 / float64(p.n) / float64(p.m)
}

// The exact distribution is used while the library's tables for it stay small: N1²·N2² entries without
// ties, (N1+N2)·N1·2·N1·N2 with. Both take some 10 ms at the limit, as its own limits of 50 and 25 a side do.
const (
	exactLimit     = 50 * 50 * 50 * 50
	exactTiesLimit = 50 * 25 * 2 * 25 * 25
)

// p returns the two-sided p value.
func (p pair) p() float64 {
	all := 2 * int64(p.n) * int64(p.m)
	if len(p.ties) < 2 || 2*p.u2 == all {
		return 1 // all equal, or in the middle
	}
	if 2*p.u2 > all { // the smaller tail, seen from the sample whose U it is
		p.n, p.m, p.u2 = p.m, p.n, all-p.u2
	}
	if p.small() {
		d := gomath.UDist{N1: p.n, N2: p.m, T: p.ties}
		return probability(2 * d.CDF(float64(p.u2)/2))
	}
	return p.normal()
}

func (p pair) small() bool {
	n, m := float64(p.n), float64(p.m)
	if len(p.ties) == p.n+p.m {
		return n*n*m*m <= exactLimit
	}
	return (n+m)*n*2*n*m <= exactTiesLimit
}

// normal returns p by the normal approximation of U: mean nm/2, variance nm/12·(N+1 - Σ(t³-t)/(N(N-1))),
// continuity ½ (Conover, section 5.1; Hollander and Wolfe, section 4.1).
func (p pair) normal() float64 {
	n, m := float64(p.n), float64(p.m)
	total := n + m
	tied := 0.0
	for _, t := range p.ties {
		f := float64(t)
		tied += f*f*f - f
	}
	sigma := math.Sqrt(n * m / 12 * (total + 1 - tied/(total*(total-1))))
	if !(sigma > 0) {
		return 1
	}
	z := min((float64(p.u2)/2-n*m/2+0.5)/sigma, 0)
	return probability(math.Erfc(-z / math.Sqrt2))
}
