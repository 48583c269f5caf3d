package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/explain"
)

// A Comparison is what a report of arms held against each other is written of.
type Comparison struct {
	Runs []ComparedRun
	explain.Comparisons
	Kept      []explain.Kept // thresholds, in the order in which they were given
	Unmatched []string       // labels of arms that nothing was held against
}

// A ComparedRun is where arms come from.
type ComparedRun struct {
	Number        int // as in labels, from 1
	Path          string
	Experiment    string
	Backend       string
	Version       string // of napistall
	Created       time.Time
	Planned, Done int      // trials
	Ended         bool     // by its plan
	LeftOut       []string // what of the run can't be used, and why
}

// Unkept returns how many thresholds were not kept, unknown ones included.
func (c Comparison) Unkept() int {
	n := 0
	for _, k := range c.Kept {
		if k.Status != explain.Met {
			n++
		}
	}
	return n
}

// CompareText writes c for a terminal, on lines of at most width runes (0: as wide as the table, 80 at least). Only a
// word or a cell that is longer goes beyond.
func CompareText(w io.Writer, c Comparison, width int) error {
	table := layout(c.table(0), width)
	if width <= 0 {
		width = minProse
		for _, l := range table {
			width = max(width, runes(l))
		}
	}
	var lines []string
	paragraph := func(s string) { lines = append(lines, wrap(clean(s), width, "  ")...) }
	for _, r := range c.Runs {
		paragraph(r.words())
	}
	lines = append(lines, "")
	lines = append(lines, table...)
	for _, p := range c.Pairs {
		lines = append(lines, "")
		lines = append(lines, wrap(clean(p.A+" vs "+p.B+": "+string(p.Outcome)), width, "  ")...)
		for _, l := range wrap(clean(p.Sentence), width-2, "") {
			lines = append(lines, "  "+l)
		}
		lines = append(lines, items(comparedPair{p}.items(), width)...)
	}
	lines = append(lines, "")
	for _, s := range c.remarks() {
		paragraph(s)
	}
	for _, s := range c.warnings() {
		paragraph("warning: " + s)
	}
	for _, k := range c.Kept {
		paragraph(keptWords(k))
	}
	return flush(bufio.NewWriter(w), lines)
}

// words says what a run is: "run 1: runs/a (band on sim, 8 of 8 trials, 2026-11-30 17:00 UTC, napistall v0.1)".
func (r ComparedRun) words() string {
	s := []string{r.Experiment + " on " + r.Backend, fmt.Sprintf("%d of %s", r.Done, plural(r.Planned, "trial"))}
	if !r.Created.IsZero() {
		s = append(s, r.Created.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if r.Version != "" {
		s = append(s, "napistall "+r.Version)
	}
	text := fmt.Sprintf("run %d: %s (%s)", r.Number, r.Path, strings.Join(s, ", "))
	if !r.Ended {
		text += ", not ended"
	}
	return text
}

// table has an arm a row.
func (c Comparison) table(limit int) []column {
	cols := []column{{head: "arm"}, {head: "trials", right: true}, {head: "n", right: true}, {head: "median", right: true}, {head: "95 % interval"},
		{head: "p95", right: true}, {head: "95 % interval"}, {head: "worst", right: true}, {head: ">1 s", right: true}, {head: "share", right: true},
		{head: "95 % interval"}}
	for _, f := range c.Arms {
		for i, cell := range figureCells(f) {
			cols[i].cells = append(cols[i].cells, clip(cell, limit))
		}
	}
	return cols
}

func figureCells(f explain.Figures) []string {
	row := []string{clean(f.Label), count(f.Trials), count(f.N)}
	if f.N == 0 {
		return append(row, notApplicable, notApplicable, notApplicable, notApplicable, notApplicable, notApplicable, notApplicable, notApplicable)
	}
	interval := "too few"
	if f.HasInterval {
		interval = explain.IntervalWords(f.MedianLo, f.MedianHi)
	}
	over, share := count(f.Over.K), notApplicable
	if f.Undecided > 0 {
		over = "≥ " + over
	}
	if f.Over.N > 0 {
		share = explain.FormatShare(float64(f.Over.K) / float64(f.Over.N))
	}
	return append(row, explain.BoundWords(f.Median), interval, explain.BoundWords(f.P95.At), explain.IntervalWords(f.P95.From, f.P95.To),
		explain.BoundWords(f.Worst), over, share, explain.FormatShare(f.OverLo)+" to "+explain.FormatShare(f.OverHi))
}

// A comparedPair is a pair with its words.
type comparedPair struct{ explain.Pair }

// items are a pair's tests. Of those that take all operations for independent the words say so.
func (p comparedPair) items() []item {
	var list []item
	if p.Medians.HasP || p.Longest.HasP {
		list = append(list, item{"by trial", "medians " + p.Medians.String() + ", longest " + p.Longest.String()})
	}
	if p.Lengths.HasP || p.LogRank.HasP {
		list = append(list, item{"by sample", "ranks " + p.Lengths.String() + ", log-rank " + p.LogRank.String() +
			"; these take the samples of a trial for independent, which they are not"})
	}
	if p.Enough != "" && p.Outcome != explain.NotDecided {
		list = append(list, item{"how many", p.Enough})
	}
	for i := range list {
		list[i].text = clean(list[i].text)
	}
	return list
}

// remarks say how the numbers were come by.
func (c Comparison) remarks() []string {
	var s []string
	differ := 0
	for _, p := range c.Pairs {
		if p.Outcome == explain.Differs {
			differ++
		}
	}
	if c.Tests > 0 {
		s = append(s, fmt.Sprintf("%d of %s said to differ: p below %g after Holm's correction for %s, rank tests on the median and on the longest of each trial.",
			differ, plural(len(c.Pairs), "pair"), explain.Alpha, plural(c.Tests, "test")))
	}
	for _, f := range c.Arms {
		if f.MedianBy == explain.ByKaplanMeier {
			s = append(s, "Where operations were cut, the median is Kaplan and Meier's, with the interval of log(-log S).")
			break
		}
	}
	if len(c.Unmatched) > 0 {
		s = append(s, "Held against nothing: "+strings.Join(c.Unmatched, ", ")+".")
	}
	return s
}

// warnings are those of runs, arms and pairs, each once.
func (c Comparison) warnings() []string {
	var s []string
	for _, r := range c.Runs {
		if n := len(r.LeftOut); n > 0 {
			s = add(s, fmt.Sprintf("run %d: %s left out: %s", r.Number, plural(n, "part"), strings.Join(r.LeftOut, "; ")))
		}
		if r.Done < r.Planned {
			s = add(s, fmt.Sprintf("run %d has %d of %s.", r.Number, r.Done, plural(r.Planned, "trial")))
		}
	}
	for _, list := range c.Comparisons.Warnings {
		for _, w := range list {
			s = add(s, w)
		}
	}
	for _, p := range c.Pairs {
		for _, w := range p.Warnings {
			s = add(s, w)
		}
	}
	return s
}

func keptWords(k explain.Kept) string {
	word := map[explain.Status]string{explain.Met: "kept", explain.NotMet: "not kept", explain.Unknown: "not kept, since undecided"}[k.Status]
	s := fmt.Sprintf("threshold %s: %s (%s)", k.Threshold.Text, word, k.Got)
	if k.Enough != "" {
		s += "; " + k.Enough
	}
	return s
}
