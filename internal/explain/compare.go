package explain

import (
	"fmt"

	"github.com/napistall/napistall/internal/stats"
)

const (
	// Alpha is the level below which a difference counts as shown.
	Alpha = 0.05
	// Confidence is that of every interval.
	Confidence = stats.Confidence
	// MinDeletes is the fewest deletes of which "none over 1 s" says something: with 0 of 6 the exact
	// 95 % interval of the share ends below one half (Clopper–Pearson: 0.459; 0 of 5 gives 0.522).
	MinDeletes = 6
)

// A Comparison holds arm A against arm B, by their operations that began in the hold.
type Comparison struct {
	A, B           string
	ShareA, ShareB stats.Proportion // over SlowLimit
	// Over compares the shares by Fisher's exact test, Lengths all lengths by a rank test. Both take the
	// operations of a trial for independent, which they are not. Trials is a rank test on the longest of
	// each trial, which are: the honest one, once there are trials enough.
	Over, Lengths, Trials Test
}

// A Test is a two-sided p value, or why there is none.
type Test struct {
	P     float64 // means nothing without HasP
	HasP  bool
	Words string // without P: "not enough trials (n=1 and 1)"
	// Sign is -1 when A is lower than B, 1 when it is higher, 0 when neither, or when cut values leave
	// it open.
	Sign int
}

// Significant reports whether t shows a difference.
func (t Test) Significant() bool { return t.HasP && t.P < Alpha }

func (t Test) String() string {
	if !t.HasP {
		return t.Words
	}
	return "p " + FormatP(t.P)
}

// FormatP writes a p value with two digits, and the smallest as a bound.
func FormatP(p float64) string {
	switch {
	case p < 0.0001:
		return "< 0.0001"
	case p < 0.001:
		return fmt.Sprintf("= %.1g", p)
	case p < 0.1:
		return fmt.Sprintf("= %.2g", p)
	}
	return fmt.Sprintf("= %.2f", p)
}

// Compare holds a against b.
func Compare(a, b ArmSummary) Comparison {
	return Comparison{
		A: a.Arm.Name, B: b.Arm.Name, ShareA: a.Hold.Over, ShareB: b.Hold.Over,
		Over:    fisher(a.Hold.Over, b.Hold.Over),
		Lengths: rank(a.Hold.Values, b.Hold.Values),
		Trials:  rank(stats.WorstPerTrial(a.Hold.Values), stats.WorstPerTrial(b.Hold.Values)),
	}
}

func fisher(a, b stats.Proportion) Test {
	c := stats.CompareProportions(a, b)
	return Test{P: c.P, HasP: c.HasP, Words: c.Words, Sign: compareShares(a, b)}
}

func rank(a, b []stats.Value) Test { return testOf(stats.Rank(a, b)) }

func testOf(c stats.Comparison) Test {
	t := Test{P: c.P, HasP: c.HasP, Words: c.Words}
	switch {
	case c.GreaterLo > 0.5:
		t.Sign = 1
	case c.GreaterHi < 0.5:
		t.Sign = -1
	}
	return t
}

// compareShares returns the sign of a's share minus b's, in whole numbers.
func compareShares(a, b stats.Proportion) int {
	x, y := int64(a.K)*int64(b.N), int64(b.K)*int64(a.N)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
