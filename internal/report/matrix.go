package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/napistall/napistall/internal/explain"
)

// Matrix writes r, a run of stock and patched kernels under several preemption models, for a terminal: a row for each
// kernel and model, stock and patched, a column for each place of the load, and what it proves.
func Matrix(w io.Writer, r Run, o Options) error {
	table := layout(r.matrix(false), o.Width)
	width := o.Width
	if width <= 0 {
		width = minProse
		for _, l := range table {
			width = max(width, runes(l))
		}
	}
	lines := append(heading(r.title(), r.setting(), width), table...)
	lines = append(lines, wrap(matrixLegend(r.noun()), width, "  ")...)
	for _, s := range r.remarks() {
		lines = append(lines, wrap(s, width, "  ")...)
	}
	p := explain.Prove(r.Arms)
	lines = append(lines, wrap("verdict: "+string(p.Word)+". "+clean(strings.Join(p.Sentences, " ")), width, "  ")...)
	if len(p.NotMeasured) > 0 {
		lines = append(lines, wrap("not measured: "+clean(strings.Join(p.NotMeasured, " ")), width, "  ")...)
	}
	lines = append(lines, r.resultLines(width, o.Long)...)
	return flush(bufio.NewWriter(w), lines)
}

func matrixLegend(noun string) string {
	return fmt.Sprintf("a cell: worst (number) of the %s that began under the load, and classic+expedited RCU stalls; !: its load was not where it was meant to be.", noun)
}

// matrix has a row for each kernel and model, and a column for each place. Narrow, it leaves out the kernels, and
// blanks within cells.
func (r Run) matrix(narrow bool) []column {
	cols := []column{{head: "model"}, {head: "side"}}
	if !narrow {
		cols = append(cols, column{head: "kernel"})
	}
	for _, p := range explain.Places() {
		cols = append(cols, column{head: string(p)})
	}
	for _, row := range explain.ProofRows(r.Arms) {
		cells := []string{clean(string(row.Model)), sideWord(row)}
		if !narrow {
			cells = append(cells, matrixKernel(row))
		}
		for _, p := range explain.Places() {
			cell := matrixCell(row.Arms[p], p)
			if narrow {
				cell = strings.ReplaceAll(cell, " s ", "s ")
			}
			cells = append(cells, cell)
		}
		for i := range cols {
			cols[i].cells = append(cols[i].cells, cells[i])
		}
	}
	return cols
}

func sideWord(row explain.ProofRow) string {
	switch {
	case row.Patched:
		return "patched"
	case !row.Built:
		return "shipped"
	}
	return "stock"
}

// matrixKernel is what the row's kernel says of itself, or its spec while none of its arms has run.
func matrixKernel(row explain.ProofRow) string {
	for _, p := range explain.Places() {
		if a := row.Arms[p]; a.KernelName() != "" {
			return clean(strings.ReplaceAll(a.KernelName(), " +patch", "")) // the side says so
		}
	}
	return clip(clean(row.Kernel), 24)
}

// matrixCell is "15.2 s (3) 3+6".
func matrixCell(a explain.ArmSummary, p explain.Place) string {
	switch {
	case a.Arm.Name == "":
		return notApplicable
	case len(a.Trials) == 0:
		return "not run"
	}
	cell := fmt.Sprintf("%s (%s) %s+%s", worstCell(a.Hold), count(len(a.Hold.Values)), count(a.Classic), count(a.Expedited))
	if a.SoftLockups > 0 {
		cell += fmt.Sprintf(" %sL", count(a.SoftLockups))
	}
	if !inPlace(a.Band, p) {
		cell += " !"
	}
	return cell
}

// inPlace reports whether a load was where it was meant to be.
func inPlace(b explain.Band, p explain.Place) bool {
	switch p {
	case explain.InBand:
		return b == explain.In
	case explain.AboveBand:
		return b == explain.Above
	}
	return true
}

// MatrixMail writes r as Matrix does, as plain text for a kernel mailing list: ASCII, lines of at most mailWidth,
// the question first and how to repeat it last. Commands and the kernel's own words are left whole.
func MatrixMail(w io.Writer, r Run) error {
	var lines []string
	section := func(title string, body []string) {
		if len(body) > 0 {
			lines = append(lines, "", title, "")
			lines = append(lines, body...)
		}
	}
	p := explain.Prove(r.Arms)
	lines = append(lines, wrap(ascii(r.title()), mailWidth, "")...)
	section("Result", append(indented(proofSentence(p.Word)), bullets(p.Sentences)...))
	section("Measured", r.matrixMail())
	section("The kernel's own words", r.reportLines())
	section("What was run", append(bullets(r.loads()), bullets(r.settings())...))
	section("Kernels", r.kernels())
	section("Not measured", bullets(p.NotMeasured))
	var repeat []string
	for _, c := range r.Repeat {
		repeat = append(repeat, "  $ "+ascii(clean(c)))
	}
	section("To repeat it", repeat)
	if r.Version != "" {
		lines = append(lines, "", ascii(clean("napistall "+r.Version+", backend "+r.Backend)))
	}
	return flush(bufio.NewWriter(w), lines)
}

// proofSentence is the verdict's word as a sentence for somebody who has read nothing else.
func proofSentence(w explain.ProofWord) string {
	switch w {
	case explain.ProvedFixed:
		return "The stall is reproduced without the patch and gone with it."
	case explain.NotFixed:
		return "The patch does not end it."
	case explain.NothingToFix:
		return "The stall was not reproduced without the patch."
	}
	return "Inconclusive."
}

func (r Run) matrixMail() []string {
	var lines []string
	for _, l := range layout(inASCII(r.matrix(true)), mailWidth-2) {
		lines = append(lines, strings.TrimRight("  "+l, " "))
	}
	lines = append(lines, "")
	lines = append(lines, indented(matrixLegend(r.noun()))...)
	return append(lines, bullets(r.remarks())...)
}
