// Package stats sums up measured durations, some of them cut short, and compares those of two arms.
// Every result says what it does not know: an interval only where n allows one, words where a test
// would have nothing to go by, and caveats.
//
// All intervals and tests take their values for independent. Operations within one trial are not:
// they share a boot, a placement of tasks and one stretch of load, and a long one leaves room for few
// others. With few trials the true uncertainty is larger than any number here says, and with one trial
// it cannot be known; see Value.Trial and WorstPerTrial.
package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the level of the intervals in a Summary.
const Confidence = 0.95

// A Value is one measured duration.
type Value struct {
	D time.Duration
	// Censored: the measurement was cut, so that the true value is at least D.
	Censored bool
	// Trial tells values of different trials apart; any number will do.
	Trial int
}

// A Summary describes values. The durations are 0 when N is 0.
type Summary struct {
	N        int // values
	Censored int // those of them that were cut
	Trials   int // trials that they come from

	// Min is the shortest. A cut value counts as the length it is known to have.
	Min time.Duration
	// Median is the middle value, or the mean of the middle two. With MedianCensored it is at least that.
	Median         time.Duration
	MedianCensored bool
	// MedianLo and MedianHi are the ends of an interval for the median with at least Confidence, where
	// HasInterval. They are values of the sample (order statistics k and n+1-k with k as large as the
	// binomial distribution allows: Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2), so no
	// shape of the distribution is assumed. With MedianHiCensored the upper end is at least that.
	HasInterval        bool
	MedianLo, MedianHi time.Duration
	MedianHiCensored   bool
	// Worst is the longest. With WorstCensored it was cut itself, and is at least that.
	Worst         time.Duration
	WorstCensored bool

	// Over counts the values known to be longer than the limit, out of all. Unknown counts cut values
	// that had not reached the limit: each may or may not belong in Over.K.
	Over    Proportion
	Unknown int
	// Caveats are what a reader of the numbers has to know, one sentence each without a full stop.
	Caveats []string
}

// Summarize describes values, and counts those longer than limit.
func Summarize(values []Value, limit time.Duration) Summary {
	s := Summary{N: len(values), Over: Proportion{N: len(values)}}
	trials := map[int]bool{}
	for _, v := range values {
		trials[v.Trial] = true
		if v.Censored {
			s.Censored++
		}
		switch {
		case v.D > limit:
			s.Over.K++
		case v.Censored:
			s.Unknown++
		}
	}
	s.Trials = len(trials)
	if s.N == 0 {
		s.Caveats = []string{"not enough trials: no values"}
		return s
	}
	s.order(newOrder(values))
	s.caveats(values, limit)
	return s
}

// order sets what depends on the values' ranks.
func (s *Summary) order(o order) {
	s.Min = o.least[0]
	lo, hi := (s.N-1)/2, s.N/2
	s.Median = o.least[lo] + (o.least[hi]-o.least[lo])/2
	s.MedianCensored = !o.exact(lo) || !o.exact(hi)
	s.Worst = o.least[s.N-1]
	s.WorstCensored = o.worstCut
	k := intervalRank(s.N)
	if k == 0 {
		return
	}
	s.HasInterval = true
	s.MedianLo = o.least[k-1]
	s.MedianHi, s.MedianHiCensored = o.most[s.N-k], false
	if s.MedianHi == never {
		s.MedianHi, s.MedianHiCensored = o.least[s.N-k], true
	}
}

func (s *Summary) caveats(values []Value, limit time.Duration) {
	say := func(format string, args ...any) { s.Caveats = append(s.Caveats, fmt.Sprintf(format, args...)) }
	if s.Trials == 1 && s.N > 1 {
		say("all %d values come from one trial: they are not independent, and how trials differ is not known", s.N)
	}
	if !s.HasInterval {
		say("not enough trials for a %g %% interval of the median (n=%d, needs %d)", Confidence*100, s.N, leastInterval)
	}
	if s.Unknown > 0 {
		say("%d of %d were cut before %v: whether they would have been longer is not known", s.Unknown, s.N, limit)
	}
	hidden := 0
	for _, v := range values {
		if v.Censored && v.D > limit && v.D < s.Worst {
			hidden++
		}
	}
	if hidden > 0 {
		say("%d were cut and may have been longer than the worst shown", hidden)
	}
}

// never is longer than every duration.
const never = time.Duration(math.MaxInt64)

// An order holds the least and the most that each order statistic can be: cut values at the length
// they had, and cut values without end. Both are sorted.
type order struct {
	least, most []time.Duration
	worstCut    bool // the longest is a cut one
}

func newOrder(values []Value) order {
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, func(a, b Value) int { return cmp.Compare(a.D, b.D) })
	var o order
	for _, v := range sorted {
		o.least = append(o.least, v.D)
		if !v.Censored {
			o.most = append(o.most, v.D)
		}
	}
	longest := o.least[len(sorted)-1]
	for _, v := range sorted {
		o.worstCut = o.worstCut || v.Censored && v.D == longest
	}
	for len(o.most) < len(sorted) {
		o.most = append(o.most, never)
	}
	return o
}

// exact reports whether the i-th value in order, from 0, is known.
func (o order) exact(i int) bool { return o.least[i] == o.most[i] }

// leastInterval is the smallest n with a distribution-free interval of the median at Confidence: two
// of 2^n orders lie outside, and 2/2^6 is the first to be at most 0.05.
const leastInterval = 6

// intervalRank returns the largest k, from 1, with P(k-th smallest ≤ median ≤ k-th largest) ≥ Confidence,
// which is 1 - 2·P(B < k) for B binomial with n and ½; 0 if there is none.
func intervalRank(n int) int {
	if n < leastInterval {
		return 0
	}
	b := distuv.Binomial{N: float64(n), P: 0.5}
	lo, hi := 1, n/2+1 // lo holds, hi doesn't
	for lo+1 < hi {
		k := (lo + hi) / 2
		if b.CDF(float64(k-1)) <= (1-Confidence)/2 {
			lo = k
		} else {
			hi = k
		}
	}
	return lo
}

// WorstPerTrial returns the longest value of each trial, in order of Trial. These are independent where the
// trials are, so that a test on them is honest where one on all values is not.
func WorstPerTrial(values []Value) []Value {
	worst := map[int]Value{}
	for _, v := range values {
		w, seen := worst[v.Trial]
		if !seen || v.D > w.D || v.D == w.D && v.Censored {
			worst[v.Trial] = v
		}
	}
	out := make([]Value, 0, len(worst))
	for _, v := range worst {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Value) int { return cmp.Compare(a.Trial, b.Trial) })
	return out
}
