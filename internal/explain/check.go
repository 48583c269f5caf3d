package explain

import (
	"fmt"
	"math"
	"strconv"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/stats"
)

// A Status says whether an expectation was met.
type Status string

// What became of an expectation. Unknown is not met either: what can't be said was not shown.
const (
	Met     Status = "met"
	NotMet  Status = "not met"
	Unknown Status = "unknown"
)

// A Result is what became of one expectation.
type Result struct {
	Expectation experiment.Expectation
	Status      Status
	Got         string // what was found instead or besides: "30.1 s", "not enough trials: 1 against 2"
}

// Check holds expectations against arms. One about an arm pools its trials; "worst >= 10s" asks for
// one operation that long. What was cut counts with all the lengths it may have had: an expectation
// that depends on which is Unknown. "A vs B: QUANTITY lower" wants a difference significant at Alpha:
// Fisher's test for over-1s and, over the trials with one, for stalls; a rank test on the lengths for
// median, and for worst as well while there are too few trials to test the longest of each. "same" wants
// that none is shown where one could have been. What there is too little for to test is Unknown.
func Check(expectations []experiment.Expectation, arms []ArmSummary) []Result {
	byName := map[string]ArmSummary{}
	for _, a := range arms {
		byName[a.Arm.Name] = a
	}
	results := make([]Result, 0, len(expectations))
	for _, e := range expectations {
		r := Result{Expectation: e, Status: Unknown}
		a, b := byName[e.Arm], byName[e.Vs]
		switch {
		case len(a.Trials) == 0:
			r.Got = "no trial of " + e.Arm
		case e.Vs == "":
			r.Status, r.Got = checkArm(e, a)
		case len(b.Trials) == 0:
			r.Got = "no trial of " + e.Vs
		default:
			r.Status, r.Got = checkPair(e, a, b)
		}
		results = append(results, r)
	}
	return results
}

func checkArm(e experiment.Expectation, a ArmSummary) (Status, string) {
	count := func(n int) (Status, string) {
		return within(e.Op, float64(n), float64(n), float64(e.Count)), strconv.Itoa(n)
	}
	switch e.Quantity {
	case "worst", "median":
		return checkLength(e, a)
	case "deletes":
		return count(len(a.Hold.Values))
	case "over-1s":
		over := a.Hold.Over
		return within(e.Op, float64(over.K), float64(over.K+a.Hold.Undecided), float64(e.Count)), a.overWords()
	case "stalls":
		return count(a.RCUStalls())
	case "classic":
		return count(a.Classic)
	case "expedited":
		return count(a.Expedited)
	case "soft-lockups":
		return count(a.SoftLockups)
	case "band":
		return checkBand(e, a)
	}
	return Unknown, fmt.Sprintf("%q is not measured", e.Quantity)
}

func checkLength(e experiment.Expectation, a ArmSummary) (Status, string) {
	worst, atLeast, ok := a.Hold.Worst()
	if !ok {
		return Unknown, fmt.Sprintf("no %s in the hold", a.noun())
	}
	got, want := worst, e.Duration.Seconds()
	n := plural(len(a.Hold.Values), a.noun())
	if e.Quantity == "median" {
		got, atLeast = a.Hold.Summary.Median, a.Hold.Summary.MedianCensored
	}
	hi := got.Seconds()
	words := FormatDuration(got)
	if atLeast {
		hi, words = math.Inf(1), "over "+words
	}
	return within(e.Op, got.Seconds(), hi, want), words + " of " + n
}

func checkBand(e experiment.Expectation, a ArmSummary) (Status, string) {
	if a.Band == UnknownBand {
		return Unknown, a.bandEvidence()
	}
	same := string(a.Band) == e.Word
	got := string(a.Band)
	if a.Band != NoBand && a.Band != Mixed {
		got += ": " + a.Trials[0].Band.Evidence
	}
	if same == (e.Op != "!=") {
		return Met, got
	}
	return NotMet, got
}

// within says whether "x op want" holds of every x from lo to hi, of none, or of some.
func within(op string, lo, hi, want float64) Status {
	atLo, atHi := holds(op, lo, want), holds(op, hi, want)
	inside := want > lo && want < hi
	switch {
	case (op == "==" || op == "!=") && (inside || lo != hi && (want == lo || want == hi)):
		return Unknown
	case atLo && atHi:
		return Met
	case !atLo && !atHi:
		return NotMet
	}
	return Unknown
}

func holds(op string, x, want float64) bool {
	switch op {
	case "<":
		return x < want
	case "<=":
		return x <= want
	case "==":
		return x == want
	case "!=":
		return x != want
	case ">=":
		return x >= want
	case ">":
		return x > want
	}
	return false
}

func checkPair(e experiment.Expectation, a, b ArmSummary) (Status, string) {
	var t Test
	var words string
	switch e.Quantity {
	case "over-1s":
		t = fisher(a.Hold.Over, b.Hold.Over)
		words = fmt.Sprintf("%s against %s", a.overWords(), b.overWords())
	case "worst":
		var of string
		t, of = Compare(a, b).ofWorst()
		words = fmt.Sprintf("worst %s against %s; %s", a.worstWords(), b.worstWords(), of)
	case "median":
		t = Compare(a, b).Lengths
		words = fmt.Sprintf("median %s against %s", a.Hold.medianWords(), b.Hold.medianWords())
	case "stalls", "classic", "expedited", "soft-lockups":
		x, y := trialsWith(e.Quantity, a), trialsWith(e.Quantity, b)
		t = fisher(x, y)
		words = fmt.Sprintf("in %d of %s against %d of %s", x.K, plural(x.N, "trial"), y.K, plural(y.N, "trial"))
	default:
		return Unknown, fmt.Sprintf("%s can't be compared", e.Quantity)
	}
	return pairStatus(e.Op, t), words + ", " + t.String()
}

// ofWorst is the test of the longest of each trial, or of all lengths where that has too few, and what it
// is of: the second says nothing of the longest as such.
func (c Comparison) ofWorst() (t Test, of string) {
	if c.Trials.HasP {
		return c.Trials, "longest of each trial"
	}
	return c.Lengths, "all lengths"
}

func pairStatus(op string, t Test) Status {
	if !t.HasP {
		return Unknown
	}
	met := false
	switch op {
	case "lower":
		met = t.Significant() && t.Sign < 0
	case "higher":
		met = t.Significant() && t.Sign > 0
	case "same":
		met = t.P >= Alpha
	default:
		return Unknown
	}
	if met {
		return Met
	}
	return NotMet
}

// trialsWith is the share of a's trials with a report of the quantity's kind.
func trialsWith(quantity string, a ArmSummary) stats.Proportion {
	p := stats.Proportion{N: len(a.Trials)}
	for _, t := range a.Trials {
		one := Summarize(a.Arm, []TrialSummary{t})
		n := map[string]int{"stalls": one.RCUStalls(), "classic": one.Classic, "expedited": one.Expedited,
			"soft-lockups": one.SoftLockups}[quantity]
		if n > 0 {
			p.K++
		}
	}
	return p
}
