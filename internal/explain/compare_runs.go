package explain

import (
	"context"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/stats"
)

// A Side is one arm of one run, as it is held against others.
type Side struct {
	Label string // what names it in words and thresholds: "stock", or "stock@2" where there are several runs
	Run   int    // which of the runs it is of, from 1
	Arm   ArmSummary
	Origin
	// Starts say when trials started, by their ID; who made the run knows.
	Starts map[string]time.Time
}

// An Origin is what made a run, which may itself be why two runs differ.
type Origin struct {
	Version string // of napistall
	Backend string // sim, qemu, host …
	Host    string // the machine that napistall ran on
	Tools   string // the versions of what ran the targets
	Quick   bool
}

// simulated reports whether the side is a model's, to which neither a clock nor a host happens.
func (s Side) simulated() bool { return simulated([]ArmSummary{s.Arm}) }

// Figures are what one arm's operations of the hold come to.
type Figures struct {
	Label            string
	Run              int
	Trials, N, Cut   int
	Median           stats.Bound
	HasInterval      bool
	MedianLo         stats.Bound // of the interval at Confidence, where HasInterval
	MedianHi         stats.Bound
	MedianBy         string         // ByOrder or ByKaplanMeier
	P95              stats.Quantile // means nothing without N
	Worst            stats.Bound
	Over             stats.Proportion // over SlowLimit, of those of which that is known
	Undecided        int              // cut before SlowLimit: in none of Over
	OverLo, OverHi   float64          // exact interval, at Effect
	Effect           float64          // the design effect: how many times less its operations tell than independent ones
	down, up         stats.Proportion // as many independent ones as Over counts for, rounded down and up
	medians, longest []stats.Value    // of each trial
}

// How a median was found.
const (
	ByOrder       = "order statistics" // of whole values alone
	ByKaplanMeier = "Kaplan–Meier"     // where some were cut
)

func figures(s Side) Figures {
	l := s.Arm.Hold
	f := Figures{Label: s.Label, Run: s.Run, Trials: len(s.Arm.Trials), N: len(l.Values), Cut: l.Summary.Censored, Over: l.Over,
		Undecided: l.Undecided, medians: stats.MedianPerTrial(l.Values), longest: stats.WorstPerTrial(l.Values)}
	f.Effect = stats.DesignEffect(s.shares())
	f.down, f.up = f.Over.Effective(f.Effect)
	f.OverLo, _ = f.down.Interval(Confidence)
	_, f.OverHi = f.up.Interval(Confidence)
	if share, ok := shareOf(f.Over); ok { // rounding to whole cases must not lose what was seen
		f.OverLo, f.OverHi = min(f.OverLo, share), max(f.OverHi, share)
	}
	if f.N == 0 {
		return f
	}
	f.P95, _ = stats.QuantileOf(l.Values, 0.95)
	worst, atLeast, _ := l.Worst()
	f.Worst = boundOf(worst, atLeast)
	f.median(l)
	return f
}

// median takes the median by order where nothing was cut, and from the survival curve else.
func (f *Figures) median(l Lengths) {
	s := l.Summary
	f.HasInterval = s.HasInterval
	if s.Censored == 0 {
		f.MedianBy = ByOrder
		f.Median, f.MedianLo, f.MedianHi = boundOf(s.Median, false), boundOf(s.MedianLo, false), boundOf(s.MedianHi, false)
		return
	}
	f.MedianBy = ByKaplanMeier
	f.Median, f.MedianLo, f.MedianHi = stats.KaplanMeier(l.Values).Median()
	if f.Median.NoValue { // all were cut: longer than half of them were seen to be
		f.Median = boundOf(s.Median, true)
		f.MedianLo, f.MedianHi = boundOf(s.MedianLo, s.HasInterval), stats.Bound{Open: 1, NoValue: true}
	}
}

func boundOf(d time.Duration, atLeast bool) stats.Bound {
	if atLeast {
		return stats.Bound{D: d, Open: 1}
	}
	return stats.Bound{D: d}
}

func shareOf(p stats.Proportion) (float64, bool) {
	if p.N == 0 {
		return 0, false
	}
	return float64(p.K) / float64(p.N), true
}

// shares are how many operations of each trial took over SlowLimit.
func (s Side) shares() []stats.Proportion {
	byTrial := map[int]int{}
	var list []stats.Proportion
	for _, v := range s.Arm.Hold.Values {
		if v.Censored && v.D <= SlowLimit {
			continue
		}
		i, ok := byTrial[v.Trial]
		if !ok {
			i = len(list)
			byTrial[v.Trial] = i
			list = append(list, stats.Proportion{})
		}
		list[i].N++
		if v.D > SlowLimit {
			list[i].K++
		}
	}
	return list
}

// An Outcome is what holding two arms against each other came to.
type Outcome string

// The outcomes. NoDifference is never "the same": the intervals say how large one could still be.
const (
	Differs      Outcome = "differs"
	NoDifference Outcome = "no difference found"
	NotDecided   Outcome = "not decided"
)

// A Pair holds one arm against another.
type Pair struct {
	A, B   string // labels
	Op     string // what was timed
	Share  stats.Difference
	Shift  stats.Shift // how much longer A's are
	Trials bool        // Shift is of the medians of trials, which are independent; else of all lengths, which are not
	// Medians and Longest are rank tests on one value of each trial: independent where trials are. They decide.
	Medians, Longest Test
	// Lengths is a rank test on all lengths and LogRank one that knows what cut means; both take the operations of a
	// trial for independent, which they are not.
	Lengths, LogRank Test
	// P is the smaller of Medians' and Longest's, corrected by Holm's method for all such tests of the comparison.
	P        float64
	HasP     bool
	Outcome  Outcome
	Sentence string   // what it came to, in words
	Enough   string   // how many trials would do, "" where there are enough
	Warnings []string // about the two together
	greater  [2]float64
}

// Comparisons are arms held against each other.
type Comparisons struct {
	Arms     []Figures
	Pairs    []Pair
	Tests    int        // that P of the pairs is corrected for
	Warnings [][]string // about each of Arms by itself
}

// CompareRuns sums up sides and holds pairs of them, by their index, against each other. What decides is a rank test on
// the median of each trial, and one on the longest: the operations of a trial are not independent, trials are. Two
// arms differ where either gives a p below Alpha once all tests made are corrected for their number. A pair takes some
// tenths of a second; between two of them it looks whether ctx is done, and then returns its error.
func CompareRuns(ctx context.Context, sides []Side, pairs [][2]int) (Comparisons, error) {
	c := Comparisons{}
	for _, s := range sides {
		f := figures(s)
		c.Arms = append(c.Arms, f)
		c.Warnings = append(c.Warnings, warnings(s, f))
	}
	for _, p := range pairs {
		if err := ctx.Err(); err != nil {
			return Comparisons{}, err
		}
		c.Pairs = append(c.Pairs, newPair(sides[p[0]], sides[p[1]], c.Arms[p[0]], c.Arms[p[1]]))
	}
	c.correct()
	for i, p := range pairs {
		c.Pairs[i].conclude(c.Arms[p[0]], c.Arms[p[1]], sides[p[0]].Arm, max(1, c.Tests))
	}
	return c, nil
}

func newPair(a, b Side, fa, fb Figures) Pair {
	p := Pair{A: a.Label, B: b.Label, Op: a.Arm.Arm.Probe.Op, Warnings: pairWarnings(a, b)}
	if b.Arm.Arm.Probe.Op != p.Op {
		p.Outcome = NotDecided
		return p
	}
	p.Share = difference(fa, fb)
	p.Medians, p.greater[0] = rankWith(fa.medians, fb.medians)
	p.Longest, p.greater[1] = rankWith(fa.longest, fb.longest)
	x, y := a.Arm.Hold.Values, b.Arm.Hold.Values
	p.Lengths, _ = rankWith(x, y)
	log := stats.LogRank(x, y)
	p.LogRank = Test{P: log.P, HasP: log.HasP, Words: log.Words}
	p.Trials = p.Medians.HasP
	p.Shift = stats.HodgesLehmann(x, y)
	if p.Trials {
		p.Shift = stats.HodgesLehmann(fa.medians, fb.medians)
	}
	return p
}

// difference is that of the shares over SlowLimit, with as many independent operations as there are for.
func difference(a, b Figures) stats.Difference {
	d := stats.DifferenceOf(a.down, b.up)
	if a.down != a.up || b.down != b.up {
		d.Hi = stats.DifferenceOf(a.up, b.down).Hi
	}
	x, okA := shareOf(a.Over)
	y, okB := shareOf(b.Over)
	if okA && okB {
		d.D = x - y
		d.Lo, d.Hi = min(d.Lo, d.D), max(d.Hi, d.D)
	}
	return d
}

// rankWith is rank with the share of pairs in which a's value is the larger, in the middle of what it may be.
func rankWith(a, b []stats.Value) (Test, float64) {
	c := stats.Rank(a, b)
	return testOf(c), (c.GreaterLo + c.GreaterHi) / 2
}

// correct corrects the p values of all pairs together.
func (c *Comparisons) correct() {
	var ps []float64
	var of []int
	for i, p := range c.Pairs {
		for _, t := range []Test{p.Medians, p.Longest} {
			if t.HasP {
				ps, of = append(ps, t.P), append(of, i)
			}
		}
	}
	c.Tests = len(ps)
	for k, corrected := range stats.Holm(ps) {
		p := &c.Pairs[of[k]]
		if !p.HasP || corrected < p.P {
			p.P = corrected
		}
		p.HasP = true
	}
}

// noSample reports whether two arms have nothing to be held against each other by.
func noSample(a, b Figures) bool { return a.N == 0 || b.N == 0 }

// opNoun is what an operation is called.
func opNoun(op string) string {
	return ArmSummary{Arm: experiment.Arm{Probe: experiment.Probe{Op: op}}}.noun()
}
