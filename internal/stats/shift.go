package stats

import (
	"math"
	"slices"
	"time"

	gomath "github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// A Bound is a length, or a difference of two, that may be known from one side only.
type Bound struct {
	D time.Duration
	// Open is 1 where all that is known is "D or more", -1 for "D or less", 0 where it is D; D is then the last value
	// that is known on the way there. NoValue says that nothing at all is known.
	Open    int
	NoValue bool
}

// A Shift is the Hodges–Lehmann estimate of how much longer values of the first sample are than those of the second:
// the median of all differences between a value of the first and one of the second (Hodges and Lehmann, Annals of
// Mathematical Statistics 34, 1963).
type Shift struct {
	// Lo and Hi bound the estimate itself: the same, unless values were cut.
	Lo, Hi Bound
	// From and To are the ends of its interval at Confidence, the values of the shift that the rank test doesn't reject
	// (Hollander and Wolfe, section 4.3), where HasInterval: with 4 values of each side or more, as for the test. Cut values are taken at their worst for each end.
	HasInterval bool
	From, To    Bound
	Words       string // why there is no estimate or no interval
}

// HodgesLehmann returns the shift of a against b. A value that was cut may be anything from its length up: the
// estimate then lies between two bounds, and its interval is as wide as any such values could make it. Negative
// lengths count as 0. Time is of the order of (len(a)+len(b))·64.
func HodgesLehmann(a, b []Value) Shift {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		none := Bound{NoValue: true}
		return Shift{Lo: none, Hi: none, From: none, To: none, Words: tooFew(n, m).Words}
	}
	least := newDifferences(a, b, false) // as small as the differences can be
	most := newDifferences(a, b, true)
	all := int64(n) * int64(m)
	s := Shift{Lo: least.middle(all), Hi: most.middle(all)}
	k := int64(0)
	if min(n, m) >= minRank {
		k = shiftRank(n, m)
	}
	if k == 0 {
		none := Bound{NoValue: true}
		s.From, s.To, s.Words = none, none, tooFew(n, m).Words
		return s
	}
	s.HasInterval = true
	s.From, s.To = least.at(k), most.at(all+1-k)
	return s
}

// differences are the differences between values of two samples, in order: first below of them without end
// downwards, then those of x and y, then above without end upwards.
type differences struct {
	x, y         []time.Duration // sorted
	below, above int64
}

// newDifferences takes the cut values of one side without end, the other's at the lengths they had: a's where the
// differences are to be as large as they can be.
func newDifferences(a, b []Value, most bool) differences {
	if most {
		x := uncut(a)
		return differences{x: x, y: known(b), above: int64(len(a)-len(x)) * int64(len(b))}
	}
	y := uncut(b)
	return differences{x: known(a), y: y, below: int64(len(b)-len(y)) * int64(len(a))}
}

// known returns the lengths that values are known to have had, in order.
func known(values []Value) []time.Duration {
	out := make([]time.Duration, 0, len(values))
	for _, v := range values {
		out = append(out, max(v.D, 0))
	}
	slices.Sort(out)
	return out
}

// uncut returns the lengths of the values that were not cut, in order.
func uncut(values []Value) []time.Duration {
	return known(slices.DeleteFunc(slices.Clone(values), func(v Value) bool { return v.Censored }))
}

// middle is the median of all differences: the middle one, or the mean of the middle two.
func (d differences) middle(all int64) Bound {
	lo, hi := d.at((all+1)/2), d.at(all/2+1)
	switch {
	case lo.Open < 0:
		return lo
	case hi.Open > 0:
		return hi
	}
	return Bound{D: lo.D + time.Duration((uint64(hi.D)-uint64(lo.D))/2)}
}

// at returns the k-th smallest difference, from 1.
func (d differences) at(k int64) Bound {
	n, m := len(d.x), len(d.y)
	inside := int64(n) * int64(m)
	switch {
	case inside == 0 && k <= d.below:
		return Bound{Open: -1, D: math.MinInt64, NoValue: true}
	case inside == 0:
		return Bound{Open: 1, D: math.MaxInt64, NoValue: true}
	case k <= d.below:
		return Bound{Open: -1, D: d.x[0] - d.y[m-1]}
	case k > d.below+inside:
		return Bound{Open: 1, D: d.x[n-1] - d.y[0]}
	}
	return Bound{D: d.find(k - d.below)}
}

// find returns the k-th smallest of the finite differences: the least that k of them don't exceed.
func (d differences) find(k int64) time.Duration {
	lo, hi := d.x[0]-d.y[len(d.y)-1], d.x[len(d.x)-1]-d.y[0]
	for lo < hi {
		mid := lo + time.Duration((uint64(hi)-uint64(lo))/2)
		if d.upTo(mid) >= k {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// upTo counts the finite differences that are at most limit. No subtraction overflows: lengths are not negative.
func (d differences) upTo(limit time.Duration) int64 {
	count, j := int64(0), 0
	for i := range d.x { // the larger x, the fewer y are small enough to exceed the limit
		for j < len(d.y) && d.x[i]-d.y[j] > limit {
			j++
		}
		count += int64(len(d.y) - j)
	}
	return count
}

// shiftRank returns the largest k with P(U < k) ≤ (1-Confidence)/2, U being Mann and Whitney's of two samples without
// ties: the k-th smallest and k-th largest difference are the ends of the interval. It is 0 if there is none.
func shiftRank(n, m int) int64 {
	tail := (1 - Confidence) / 2
	all := int64(n) * int64(m)
	if f := float64(n) * float64(n) * float64(m) * float64(m); f > exactLimit {
		sigma := math.Sqrt(float64(all) * float64(n+m+1) / 12)
		return max(0, int64(math.Floor(float64(all)/2+distuv.UnitNormal.Quantile(tail)*sigma)))
	}
	u := gomath.UDist{N1: n, N2: m}
	lo, hi := int64(0), all/2+1 // lo holds (as nothing), hi doesn't
	for lo+1 < hi {
		k := (lo + hi) / 2
		if u.CDF(float64(k-1)) <= tail {
			lo = k
		} else {
			hi = k
		}
	}
	return lo
}
