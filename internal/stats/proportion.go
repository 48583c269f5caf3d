package stats

import (
	"fmt"
	"math"

	gomath "github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Proportion is K out of N.
type Proportion struct{ K, N int }

func (p Proportion) String() string { return fmt.Sprintf("%d of %d", p.K, p.N) }

// clamp makes 0 ≤ K ≤ N.
func (p Proportion) clamp() Proportion {
	p.N = max(p.N, 0)
	p.K = min(max(p.K, 0), p.N)
	return p
}

// Interval returns the exact (Clopper–Pearson) interval at level conf, such as 0.95, for the probability of
// which p is a sample: the values that a one-sided binomial test at (1-conf)/2 does not reject on
// either side, through quantiles of the beta distribution (Clopper and Pearson, Biometrika 26, 1934). It
// covers the truth with at least conf for independent cases; they are not independent where several come
// from one trial. With N = 0, or a conf that is not between 0 and 1, nothing is known: 0 to 1.
func (p Proportion) Interval(conf float64) (lo, hi float64) {
	p = p.clamp()
	if p.N == 0 || !(conf > 0 && conf < 1) {
		return 0, 1
	}
	tail := (1 - conf) / 2
	k, n := float64(p.K), float64(p.N)
	hi = 1
	switch p.K { // closed forms at the ends
	case 0:
		return 0, -math.Expm1(math.Log(tail) / n)
	case p.N:
		return math.Exp(math.Log(tail) / n), 1
	}
	lo = distuv.Beta{Alpha: k, Beta: n - k + 1}.Quantile(tail)
	hi = distuv.Beta{Alpha: k + 1, Beta: n - k}.Quantile(1 - tail)
	return min(lo, k/n), max(hi, k/n)
}

// fisher returns the two-sided p value of Fisher's exact test of the hypothesis that a and b have the same
// probability: the sum of the hypergeometric probabilities of all tables with the same margins that are at
// most as probable as the one at hand (as R's fisher.test does). It takes the cases for independent;
// where several come from one trial, p is smaller than it should be. The result is over 0 and at most 1;
// it is 1 where a or b is empty. Time is linear in the smaller margin.
func fisher(a, b Proportion) float64 {
	a, b = a.clamp(), b.clamp()
	if a.N == 0 || b.N == 0 {
		return 1
	}
	d := gomath.HypergeometicDist{N: a.N + b.N, K: a.K + b.K, Draws: a.N}
	// Tables as probable as ours count in spite of rounding; R has the same allowance.
	limit := d.PMF(float64(a.K)) * (1 + 1e-7)
	p := 0.0
	for k := max(0, d.Draws+d.K-d.N); k <= min(d.K, d.Draws); k++ {
		if q := d.PMF(float64(k)); q <= limit {
			p += q
		}
	}
	return probability(p)
}

// probability keeps rounding from making a p value 0 or more than 1.
func probability(p float64) float64 {
	return min(max(p, math.SmallestNonzeroFloat64), 1)
}

// minCases is how many cases each side of Fisher's test needs. One delete that lasts a whole hold against
// a hundred short ones gives p = 0.01, all of it from a single event; three come from three trials where
// each trial has but one.
const minCases = 3

// CompareProportions holds a against b by Fisher's exact test, or says in words that there are too few
// cases: fewer than minCases on a side, or so few that no outcome is a difference at 5 %.
func CompareProportions(a, b Proportion) Comparison {
	a, b = a.clamp(), b.clamp()
	if min(a.N, b.N) < minCases || fisher(Proportion{a.N, a.N}, Proportion{0, b.N}) > alpha {
		return tooFew(a.N, b.N)
	}
	p := fisher(a, b)
	return Comparison{P: p, HasP: true, Words: fmt.Sprintf("%v against %v, p = %.2g", a, b, p), Caveats: []string{dependence}}
}
