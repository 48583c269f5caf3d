package stats

import (
	"cmp"
	"slices"
	"sort"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"
)

func twoDigits(p float64) string { return strconv.FormatFloat(p, 'g', 2, 64) }

// A Quantile is a length that a share of values don't exceed, with its interval.
type Quantile struct {
	// At is the value of rank ⌈q·n⌉ in order; Open where it was cut, or one before it was.
	At Bound
	// From and To are the ends of an interval at Confidence: values of the sample whose ranks the binomial distribution
	// gives, so that no shape is assumed (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2). To is
	// Open where n is too small for an upper end, or cut values leave it open; From is then still one. Where n is too
	// small for a lower end, From is the least that a length can be, 0.
	From, To Bound
}

// QuantileOf returns the quantile q, between 0 and 1, of values, and false where there is none.
func QuantileOf(values []Value, q float64) (Quantile, bool) {
	n := len(values)
	if n == 0 || !(q > 0 && q < 1) {
		return Quantile{}, false
	}
	o := newOrder(values)
	rank := min(n, max(1, ceil(q*float64(n))))
	lo, hi := quantileRanks(n, q)
	x := Quantile{At: o.bound(rank), To: Bound{D: o.least[n-1], Open: 1}}
	if lo >= 1 {
		x.From = Bound{D: o.least[lo-1]}
	}
	if hi <= n {
		x.To = o.bound(hi)
	}
	return x, true
}

// quantileRanks returns the ranks, from 1, of the values that enclose the quantile with at least Confidence: the
// largest r with P(B < r) ≤ (1-Confidence)/2 and the smallest s with P(B ≥ s) no larger, B being binomial with n and q.
// r is 0 and s is n+1 where there is none.
func quantileRanks(n int, q float64) (r, s int) {
	tail := (1 - Confidence) / 2
	b := distuv.Binomial{N: float64(n), P: q}
	r = sort.Search(n, func(i int) bool { return b.CDF(float64(i)) > tail })
	s = 1 + sort.Search(n, func(i int) bool { return 1-b.CDF(float64(i)) <= tail })
	return r, s
}

// ceil is x rounded up, but for what rounding of x itself added.
func ceil(x float64) int {
	n := int(x)
	if x-float64(n) > 1e-9 {
		n++
	}
	return n
}

// bound is the value of the rank in order, from 1: open where a cut value might have it.
func (o order) bound(rank int) Bound {
	if !o.exact(rank - 1) {
		return Bound{D: o.least[rank-1], Open: 1}
	}
	return Bound{D: o.least[rank-1]}
}

// MedianPerTrial returns the median of each trial's values, in order of Trial; where cut values leave open which that
// is, it is itself cut, at the length that is known. These are independent where the trials are.
func MedianPerTrial(values []Value) []Value {
	byTrial := slices.Clone(values)
	slices.SortStableFunc(byTrial, func(a, b Value) int { return cmp.Compare(a.Trial, b.Trial) })
	var out []Value
	for len(byTrial) > 0 {
		trial := byTrial[0].Trial
		n := sort.Search(len(byTrial), func(i int) bool { return byTrial[i].Trial > trial })
		out = append(out, medianOf(byTrial[:n], trial))
		byTrial = byTrial[n:]
	}
	return out
}

func medianOf(values []Value, trial int) Value {
	s := Summarize(values, 0)
	return Value{D: s.Median, Censored: s.MedianCensored, Trial: trial}
}
