package explain

import (
	"fmt"
	"math"
	"time"

	"github.com/napistall/napistall/internal/stats"
)

// conclude forms the pair's outcome and its words; tests is how many were made over all pairs.
func (p *Pair) conclude(a, b Figures, arm ArmSummary, tests int) {
	noun := opNoun(p.Op)
	switch {
	case p.Outcome == NotDecided:
		p.Sentence = fmt.Sprintf("%s and %s timed different operations: nothing to compare.", p.A, p.B)
		return
	case noSample(a, b):
		p.Outcome = NotDecided
		p.Sentence = fmt.Sprintf("Nothing to compare: %s of %s and %s of %s.", plural(a.N, noun), p.A, plural(b.N, noun), p.B)
		return
	case !p.HasP:
		p.Outcome = NotDecided
		p.Enough = fmt.Sprintf("the least with which a test could find anything is %d of each", stats.RankMinimum(Alpha/float64(max(2, tests))))
		p.Sentence = fmt.Sprintf("%d and %d trials are too few to tell whether %s and %s differ: %s. In these trials alone, %s; %s.", a.Trials, b.Trials, p.A, p.B,
			p.Enough, p.shiftWords(noun), p.shareWords(a, b))
		return
	case p.P < Alpha:
		p.Outcome = Differs
		p.Sentence = fmt.Sprintf("%s differs from %s (%s, p %s): %s; %s.", p.A, p.B, p.shown(), FormatP(p.P), p.shiftWords(noun), p.shareWords(a, b))
		return
	}
	p.Outcome = NoDifference
	p.Enough = p.enough(a, b, tests)
	p.Sentence = fmt.Sprintf("No difference found between %s and %s (p %s): %s; %s. One within the intervals is not excluded.", p.A, p.B, FormatP(p.P),
		p.shiftWords(noun), p.shareWords(a, b))
}

// shown says which of the tests that decide shows more.
func (p *Pair) shown() string {
	if p.Longest.HasP && (!p.Medians.HasP || p.Longest.P < p.Medians.P) {
		return "the longest of each trial"
	}
	return "the median of each trial"
}

func (p *Pair) shiftWords(noun string) string {
	of := "a " + noun
	if p.Trials {
		of = "the median of a trial"
	}
	return fmt.Sprintf("%s of %s minus that of %s is %s", of, p.A, p.B, ShiftWords(p.Shift))
}

// ShiftWords writes a shift with its sign and its interval: "+0.12 s (95 % interval +0.10 s to +0.15 s)".
func ShiftWords(s stats.Shift) string {
	words := shiftEnd(s.Lo)
	if s.Lo != s.Hi {
		words = shiftRange(s.Lo, s.Hi) + ", depending on what was cut"
	}
	if !s.HasInterval {
		return words + " (too few for an interval)"
	}
	return fmt.Sprintf("%s (95 %% interval %s)", words, shiftRange(s.From, s.To))
}

func shiftRange(from, to stats.Bound) string {
	switch {
	case from.NoValue && to.NoValue:
		return "anything"
	case to.NoValue:
		return shiftEnd(stats.Bound{D: from.D}) + " or more"
	case from.NoValue:
		return shiftEnd(stats.Bound{D: to.D}) + " or less"
	}
	return shiftEnd(from) + " to " + shiftEnd(to)
}

// nothing is the shift below which it is written as 0: what is timed takes longer to time than that.
const nothing = time.Microsecond

func shiftEnd(b stats.Bound) string {
	sign, d := "+", b.D
	if d < 0 {
		sign, d = "-", -max(d, -math.MaxInt64)
	}
	words := sign + FormatDuration(d)
	if d < nothing {
		words = "0 s"
	}
	switch {
	case b.NoValue:
		return "anything"
	case b.Open > 0:
		return words + " or more"
	case b.Open < 0:
		return words + " or less"
	}
	return words
}

func (p *Pair) shareWords(a, b Figures) string {
	if p.Share.Method == "" {
		return "of the share over 1 s nothing is known"
	}
	return fmt.Sprintf("over 1 s %v against %v, %s", a.Over, b.Over, PointsWords(p.Share))
}

// PointsWords writes a difference of shares in percentage points with its interval.
func PointsWords(d stats.Difference) string {
	return fmt.Sprintf("%s points (95 %% interval %s to %s, %s)", points(d.D), points(d.Lo), points(d.Hi), d.Method)
}

// points writes a difference of shares in percentage points, with its sign.
func points(x float64) string {
	x = 100 * x
	switch {
	case x == 0:
		return "0"
	case math.Abs(x) < 0.05:
		return fmt.Sprintf("%+.1g", x)
	case math.Abs(x) < 9.95:
		return fmt.Sprintf("%+.1f", x)
	}
	return fmt.Sprintf("%+.0f", x)
}

// maxAdvice is the largest number of trials that is advised: an experiment can't have more.
const maxAdvice = 1000

// enough says how many trials would show the difference that was seen, if it is more than chance.
func (p *Pair) enough(a, b Figures, tests int) string {
	seen, what := p.greater[0], "median"
	if math.Abs(p.greater[1]-0.5) > math.Abs(seen-0.5) {
		seen, what = p.greater[1], "longest"
	}
	n, ok := stats.RankSize(seen, Alpha/float64(max(1, tests)))
	if !ok || n > maxAdvice {
		return ""
	}
	if n <= min(a.Trials, b.Trials) {
		return ""
	}
	return fmt.Sprintf("if what was seen is no chance (the %s of a trial of %s is the larger in %.0f %% of pairs), %d trials of each would show it in 4 of 5 such runs",
		what, p.A, 100*seen, n)
}

// BoundWords writes a bound: "30.1 s", "over 30.1 s" or "unknown".
func BoundWords(b stats.Bound) string {
	switch {
	case b.NoValue:
		return "unknown"
	case b.Open > 0:
		return "over " + FormatDuration(b.D)
	case b.Open < 0:
		return "under " + FormatDuration(b.D)
	}
	return FormatDuration(b.D)
}

// IntervalWords writes an interval of lengths: "0.10 s to 0.15 s", or "0.10 s or more".
func IntervalWords(lo, hi stats.Bound) string {
	if hi.NoValue || hi.Open > 0 {
		return BoundWords(stats.Bound{D: lo.D, NoValue: lo.NoValue}) + " or more"
	}
	return BoundWords(lo) + " to " + BoundWords(hi)
}
