package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/napistall/napistall/internal/explain"
)

// Options say how text is written. The zero value gives the short form on lines as long as the table
// needs.
type Options struct {
	Long bool
	// Width is the longest line in characters; the table is then broken into blocks where it must be.
	// Only a word or a cell that is longer goes beyond. 0: as wide as the table.
	Width int
	// Color marks the verdict, what was not met and what was slow or stalled, for a terminal that knows ANSI colours.
	Color bool
}

// shortCaveats is how many of the verdict's caveats the short form shows.
const shortCaveats = 3

// minProse keeps running text readable when a table is narrow.
const minProse = 80

// Text writes r for a terminal.
func Text(w io.Writer, r Run, o Options) error {
	out := bufio.NewWriter(w)
	cols := r.table(0)
	if o.Color {
		r.paint(cols)
	}
	table := layout(cols, o.Width)
	width := o.Width
	if width <= 0 {
		width = minProse
		for _, l := range layout(r.table(0), 0) {
			width = max(width, runes(l))
		}
	}
	lines := append(heading(r.title(), r.setting(), width), table...)
	for _, s := range r.remarks() {
		lines = append(lines, wrap(s, width, "  ")...)
	}
	judged := append(r.verdictLines(width, o.Long), r.resultLines(width, o.Long)...)
	if o.Color {
		r.paintJudged(judged)
	}
	lines = append(lines, judged...)
	if o.Long {
		lines = append(lines, r.long(width)...)
	}
	return flush(out, lines)
}

func flush(out *bufio.Writer, lines []string) error {
	for _, l := range lines {
		if _, err := out.WriteString(l + "\n"); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// heading puts the setting at the right end of the title's line, or below it where it doesn't fit.
func heading(title, setting string, width int) []string {
	if space := width - runes(title) - runes(setting); setting != "" && space >= len(gap) {
		return []string{title + strings.Repeat(" ", space) + setting}
	}
	lines := wrap(title, width, "  ")
	if setting != "" {
		lines = append(lines, wrap(setting, width, "  ")...)
	}
	return lines
}

func (r Run) verdictLines(width int, long bool) []string {
	v := r.Verdict
	text := "verdict: " + string(v.Word) + ". " + clean(strings.Join(v.Sentences, " "))
	lines := wrap(text, width, "  ")
	caveats := v.NotMeasured
	more := ""
	if n := len(caveats) - shortCaveats; !long && n > 0 {
		caveats = caveats[:shortCaveats]
		more = fmt.Sprintf(" (%d more with --long.)", n)
	}
	if len(caveats) > 0 {
		lines = append(lines, wrap("not measured: "+clean(strings.Join(caveats, " "))+more, width, "  ")...)
	}
	return lines
}

// resultLines says how many expectations were met, and shows those that were not; the long form shows all.
func (r Run) resultLines(width int, long bool) []string {
	if len(r.Results) == 0 {
		return nil
	}
	var lines []string
	for _, x := range r.Results {
		if x.Status != explain.Met || long {
			text := fmt.Sprintf("expect %s: %s (%s)", clean(x.Expectation.Text), x.Status, clean(x.Got))
			lines = append(lines, wrap(text, width, "  ")...)
		}
	}
	return append(lines, fmt.Sprintf("expectations: %d of %d met", len(r.Results)-r.Unmet(), len(r.Results)))
}

// lengthsWords writes l as one clause: how many, median, share over 1 s, worst.
func lengthsWords(l explain.Lengths) string {
	n := len(l.Values)
	if n == 0 {
		return "none" + refusedWords(l)
	}
	lo, hi := l.Over.Interval(explain.Confidence)
	over := fmt.Sprintf("%d of %d over 1 s", l.Over.K, l.Over.N)
	if l.Over.N > 0 {
		over += fmt.Sprintf(" (95 %% interval %s to %s)", explain.FormatShare(lo), explain.FormatShare(hi))
	}
	if l.Undecided > 0 {
		over += fmt.Sprintf(", %d cut before 1 s", l.Undecided)
	}
	return fmt.Sprintf("%d; median %s; %s; worst %s%s", n, l.MedianWords(), over, worstCell(l), refusedWords(l))
}

func refusedWords(l explain.Lengths) string {
	if l.Refused == 0 {
		return ""
	}
	return fmt.Sprintf("; %d refused by the kernel", l.Refused)
}
