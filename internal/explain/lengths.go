package explain

import (
	"fmt"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/stats"
)

// Lengths are how long operations of one kind took.
type Lengths struct {
	Values  []stats.Value
	Summary stats.Summary
	// Over is how many took more than SlowLimit, of those of which that is known; Undecided is how many
	// were cut before SlowLimit, of which it is not.
	Over      stats.Proportion
	Undecided int
	Refused   int // refused by the kernel: in none of the other numbers
}

// add appends the samples of trial rep.
func (l *Lengths) add(rep int, samples []experiment.Sample) {
	for _, s := range samples {
		l.Values = append(l.Values, stats.Value{D: s.Took, Censored: s.Censored, Trial: rep})
	}
}

// sum sums up what was added.
func (l *Lengths) sum() {
	l.Summary = stats.Summarize(l.Values, SlowLimit)
	l.Undecided = l.Summary.Unknown
	l.Over = stats.Proportion{K: l.Summary.Over.K, N: l.Summary.Over.N - l.Undecided}
}

// Worst returns the longest of l, and whether all that is known is that the longest took at least
// that: where one was cut it may be the longest. It returns false when l is empty.
func (l Lengths) Worst() (worst time.Duration, atLeast, ok bool) {
	return l.Summary.Worst, l.Summary.Censored > 0, len(l.Values) > 0
}

// MedianWords writes the median with its interval at Confidence, or says that there are too few for one.
func (l Lengths) MedianWords() string {
	if len(l.Values) == 0 {
		return "unknown"
	}
	s := l.Summary
	if !s.HasInterval {
		return l.medianWords() + " (not enough for an interval)"
	}
	return fmt.Sprintf("%s (95 %% interval %s to %s)", l.medianWords(), FormatDuration(s.MedianLo), boundWords(s.MedianHi, s.MedianHiCensored))
}

func (l Lengths) medianWords() string { return boundWords(l.Summary.Median, l.Summary.MedianCensored) }

func boundWords(d time.Duration, atLeast bool) string {
	if atLeast {
		return "over " + FormatDuration(d)
	}
	return FormatDuration(d)
}
