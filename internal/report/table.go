package report

import (
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

// A column is a heading with a cell for each row.
type column struct {
	head  string
	right bool // aligned to the right, as numbers are
	cells []string
	// headColor and colors are how heading and cells are drawn; "" and a missing one are plain.
	headColor string
	colors    []string
}

func (c column) width() int {
	w := runes(c.head)
	for _, cell := range c.cells {
		w = max(w, runes(cell))
	}
	return w
}

// gap is what stands between columns.
const gap = "  "

// layout writes columns as lines of at most width runes; where they don't fit, the columns that are
// left over follow in a block of their own, which repeats the first column. A width of 0 puts all of
// them side by side.
func layout(cols []column, width int) []string {
	if len(cols) == 0 {
		return nil
	}
	var lines []string
	for rest := cols[1:]; ; {
		block, used := []column{cols[0]}, cols[0].width()
		for len(rest) > 0 && (width <= 0 || len(block) == 1 || used+len(gap)+rest[0].width() <= width) {
			used += len(gap) + rest[0].width()
			block, rest = append(block, rest[0]), rest[1:]
		}
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, rows(block)...)
		if len(rest) == 0 {
			return lines
		}
	}
}

func rows(block []column) []string {
	lines := make([]string, len(block[0].cells)+1)
	for i := range lines {
		var cells []string
		for _, c := range block {
			cell, color := c.head, c.headColor
			if i > 0 {
				cell, color = c.cells[i-1], ""
				if len(c.colors) >= i {
					color = c.colors[i-1]
				}
			}
			cells = append(cells, colored(color, pad(cell, c.width(), c.right)))
		}
		lines[i] = strings.TrimRight(strings.Join(cells, gap), " ")
	}
	return lines
}

// table is the run's table: an arm a row. Cells are at most limit runes, unless that is 0.
func (r Run) table(limit int) []column {
	several, lockups := r.Experiment.Reps > 1, false
	for _, a := range r.Arms {
		several = several || len(a.Trials) > 1
		lockups = lockups || a.SoftLockups > 0
	}
	cols := []column{{head: "arm"}, {head: "kernel"}, {head: "model"}, {head: "band"}}
	if several {
		cols = append(cols, column{head: "trials", right: true})
	}
	cols = append(cols,
		column{head: r.noun(), right: true}, column{head: ">1 s", right: true}, column{head: "worst", right: true},
		column{head: "stalls c+e", right: true})
	if lockups {
		cols = append(cols, column{head: "lockups", right: true})
	}
	cols = append(cols,
		column{head: "vol/s", right: true}, column{head: "nonvol/s", right: true}, column{head: "polls/s", right: true})
	for _, a := range r.Arms {
		row := r.row(a, several, lockups)
		for i := range cols {
			cols[i].cells = append(cols[i].cells, clip(row[i], limit))
		}
	}
	return cols
}

// noun is what the arms timed.
func (r Run) noun() string {
	ops := []string{}
	for _, a := range r.Arms {
		ops = add(ops, a.Arm.Probe.Op)
	}
	switch {
	case len(ops) != 1:
		return "samples"
	case ops[0] == experiment.LinkDel:
		return "deletes"
	}
	return clean(ops[0])
}

func (r Run) row(a explain.ArmSummary, several, lockups bool) []string {
	row := []string{clean(a.Arm.Name)}
	if len(a.Trials) == 0 {
		row = append(row, clip(clean(a.Arm.Kernel), 24), unknown, "not run")
	} else {
		row = append(row, orUnknown(clean(a.KernelName())), orUnknown(explain.Model(a.Facts)), bandCell(a.Band))
	}
	if several {
		row = append(row, count(len(a.Trials)))
	}
	row = append(row, count(len(a.Hold.Values)), overCell(a), worstCell(a.Hold))
	if len(a.Trials) == 0 {
		row = append(row, unknown)
	} else {
		row = append(row, count(a.Classic)+"+"+count(a.Expedited))
	}
	if lockups {
		row = append(row, count(a.SoftLockups))
	}
	return append(row, switchCell(a, a.Rates.Sleeps), switchCell(a, a.Rates.Nonvol), pollsCell(a))
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

func bandCell(b explain.Band) string {
	switch b {
	case explain.NoBand:
		return notApplicable
	case explain.UnknownBand:
		return unknown
	}
	return string(b)
}

func overCell(a explain.ArmSummary) string {
	if len(a.Hold.Values) == 0 {
		return notApplicable
	}
	if a.Hold.Undecided > 0 {
		return "≥ " + count(a.Hold.Over.K)
	}
	return count(a.Hold.Over.K)
}

func worstCell(l explain.Lengths) string {
	worst, atLeast, ok := l.Worst()
	switch {
	case !ok:
		return notApplicable
	case atLeast:
		return "> " + explain.FormatDuration(worst)
	}
	return explain.FormatDuration(worst)
}

// switchCell is a rate of the NAPI thread's switches, of which softirq mode has no thread.
func switchCell(a explain.ArmSummary, n uint64) string {
	if !a.Arm.Threaded {
		return notApplicable
	}
	x, ok := a.Rates.PerSecond(n)
	if !ok || a.Facts.ThreadPID == 0 {
		return unknown
	}
	return rate(x)
}

func pollsCell(a explain.ArmSummary) string {
	x, ok := a.Rates.PerSecond(a.Rates.Polls)
	switch {
	case a.Arm.Load.Kind == experiment.NoLoad:
		return notApplicable
	case !ok, !a.Rates.Traced && a.Arm.Load.Kind != experiment.Bounce:
		return unknown
	}
	return rate(x)
}
