package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Power is the probability with which the sample sizes that are advised would show a difference that is there.
const Power = 0.8

// RankMinimum returns how many values of each side a rank test needs at least to be able to give a p below level: with
// fewer, not even samples that don't overlap do.
func RankMinimum(level float64) int {
	n := minRank
	for ; n < 1000; n++ {
		if 2*math.Exp(-logChoose(2*n, n)) < level {
			break
		}
	}
	return n
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// RankSize returns how many values of each side a rank test at level needs to find with Power that in the share
// greater of all pairs the first side's is the larger (Noether, Journal of the American Statistical Association 82,
// 1987); and false where greater is ½, which no number finds.
func RankSize(greater, level float64) (int, bool) {
	gap := greater - 0.5
	if !(math.Abs(gap) > 1e-3) || math.Abs(gap) > 0.5 {
		return 0, false
	}
	z := distuv.UnitNormal.Quantile(1-level/2) + distuv.UnitNormal.Quantile(Power)
	return max(RankMinimum(level), int(math.Ceil(z*z/(6*gap*gap)))), true
}

// SharesSize returns how many cases of each side a test of two proportions at level needs to find with Power a
// difference between the probabilities p and q: the normal approximation without continuity correction (Fleiss,
// Statistical Methods for Rates and Proportions, 2nd ed., section 3.2); and false where they are the same.
func SharesSize(p, q, level float64) (int, bool) {
	if math.Abs(p-q) < 1e-6 {
		return 0, false
	}
	middle := (p + q) / 2
	a := distuv.UnitNormal.Quantile(1-level/2) * math.Sqrt(2*middle*(1-middle))
	b := distuv.UnitNormal.Quantile(Power) * math.Sqrt(p*(1-p)+q*(1-q))
	return int(math.Ceil((a + b) * (a + b) / ((p - q) * (p - q)))), true
}

// NoneSize returns how many cases without one over a limit put the end of the exact interval of their share below
// limit; 0 where no number does.
func NoneSize(limit float64) int {
	if !(limit > 0 && limit < 1) {
		return 0
	}
	n := int(math.Ceil(math.Log((1-Confidence)/2) / math.Log1p(-limit)))
	return max(1, n)
}

// Holm returns p values corrected for their number so that the chance of one false alarm among them all stays at the
// level that each is held against (Holm, Scandinavian Journal of Statistics 6, 1979).
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(p))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, float64(len(p)-rank)*p[i]))
		out[i] = least
	}
	return out
}

// DesignEffect says how much less cases tell than as many independent ones because several come from one trial: the
// variance of the share between trials over that of independent cases (Rao and Scott, Biometrics 48, 1992), at least
// 1. It is 1 where there are fewer than two trials, or none has several cases.
func DesignEffect(trials []Proportion) float64 {
	var all Proportion
	several := false
	for _, t := range trials {
		all.K, all.N = all.K+t.K, all.N+t.N
		several = several || t.N > 1
	}
	if len(trials) < 2 || !several || all.K <= 0 || all.K >= all.N {
		return 1
	}
	p, n, m := share(all), float64(all.N), float64(len(trials))
	sum := 0.0
	for _, t := range trials {
		r := float64(t.K) - p*float64(t.N)
		sum += r * r
	}
	return max(1, m/(m-1)*sum/(n*p*(1-p)))
}

// Effective returns the number of independent cases that p counts for at a design effect, with its share rounded down
// and up to whole cases: what is concluded has to hold of both.
func (p Proportion) Effective(effect float64) (down, up Proportion) {
	if !(effect > 1) || p.N <= 0 {
		return p, p
	}
	n := max(1, math.Floor(float64(p.N)/effect))
	k := n * share(p)
	return Proportion{K: int(math.Floor(k)), N: int(n)}, Proportion{K: int(math.Ceil(k)), N: int(n)}
}
