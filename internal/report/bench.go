package report

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

// Bench writes r in the format of Go's benchmarks (golang.org/design/14313-benchmark-format), for benchstat -col
// /arm. Each operation that was begun in the hold is a result of BenchmarkLinkDel or the like, each trial one
// of BenchmarkTrial. An operation that the trial's end cut has the unit cut-ns/op in the place of ns/op, so
// that it is never averaged with those whose length is known. What would keep benchstat from comparing
// two runs (kernels, napistall's version) is in lines that it passes over.
func Bench(w io.Writer, r Run) error {
	b := &benchWriter{w: bufio.NewWriter(w)}
	b.head(r)
	for _, a := range r.Arms {
		if len(a.Trials) == 0 {
			b.printf("# arm %s: not run\n", clean(a.Arm.Name))
			continue
		}
		b.printf("# arm %s: %s\n", clean(a.Arm.Name), clean(kernelWords(a)))
		for _, t := range a.Trials {
			b.trial(t)
		}
	}
	if b.err == nil {
		b.err = b.w.Flush()
	}
	if b.err != nil {
		return fmt.Errorf("write report: %w", b.err)
	}
	return nil
}

// A benchWriter keeps the first error.
type benchWriter struct {
	w   *bufio.Writer
	err error
}

func (b *benchWriter) printf(format string, args ...any) {
	if b.err == nil {
		_, b.err = fmt.Fprintf(b.w, format, args...)
	}
}

func (b *benchWriter) head(r Run) {
	b.printf("# %s\n", r.title())
	if r.Version != "" {
		b.printf("# napistall %s\n", clean(r.Version))
	}
	b.printf("# verdict: %s\n", r.Verdict.Word)
	for _, s := range r.remarks() {
		b.printf("# %s\n", s)
	}
	for _, c := range [][2]string{{"experiment", r.Experiment.Name}, {"backend", r.Backend}, {"setting", r.setting()}} {
		if v := strings.TrimSpace(clean(c[1])); v != "" {
			b.printf("%s: %s\n", c[0], v)
		}
	}
	for _, unit := range []string{"ns/op", "cut-ns/op", "worst-ns", "worst-cut-ns", "over-1s", "stalls", "lockups"} {
		b.printf("Unit %s better=lower\n", unit)
	}
}

func (b *benchWriter) trial(t explain.TrialSummary) {
	name := fmt.Sprintf("/arm=%s-%d", benchWord(t.Arm.Name), max(1, t.Facts.CPUs))
	for _, op := range t.Ops {
		for _, s := range op.Hold {
			unit := "ns/op"
			if s.Censored {
				unit = "cut-ns/op"
			}
			b.printf("Benchmark%s%s 1 %d %s\n", benchOp(op.Op), name, s.Took.Nanoseconds(), unit)
		}
	}
	b.printf("BenchmarkTrial%s 1%s\n", name, trialValues(t))
}

// trialValues are a trial's own numbers, each with its unit.
func trialValues(t explain.TrialSummary) string {
	var s strings.Builder
	add := func(x float64, unit string) { s.WriteString(" " + strconv.FormatFloat(x, 'f', -1, 64) + " " + unit) }
	a := explain.Summarize(t.Arm, []explain.TrialSummary{t})
	if worst, atLeast, ok := a.Hold.Worst(); ok && atLeast {
		add(float64(worst.Nanoseconds()), "worst-cut-ns")
	} else if ok {
		add(float64(worst.Nanoseconds()), "worst-ns")
	}
	add(float64(a.Hold.Over.K), "over-1s")
	add(float64(a.RCUStalls()), "stalls")
	add(float64(a.SoftLockups), "lockups")
	for _, x := range []struct {
		cell string
		n    uint64
		unit string
	}{{pollsCell(a), a.Rates.Polls, "polls/s"}, {switchCell(a, a.Rates.Sleeps), a.Rates.Sleeps, "voluntary/s"},
		{switchCell(a, a.Rates.Nonvol), a.Rates.Nonvol, "nonvoluntary/s"}} {
		if per, ok := a.Rates.PerSecond(x.n); ok && x.cell != notApplicable && x.cell != unknown {
			add(per, x.unit)
		}
	}
	return s.String()
}

// benchOp makes "LinkDel" of "link-del": a benchmark's name goes on with an upper-case letter.
func benchOp(op string) string {
	if op == experiment.RCUBarrier {
		return "RCUBarrier"
	}
	var s strings.Builder
	for part := range strings.FieldsFuncSeq(op, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		s.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	if s.Len() == 0 || !unicode.IsUpper(rune(s.String()[0])) {
		return "Op" + s.String()
	}
	return s.String()
}

// benchWord writes whatever would end a part of a benchmark's name, or the line, as %XX: names that differ stay
// different.
func benchWord(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("/%*=:\"\\", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
