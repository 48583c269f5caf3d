package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

// storyWidth is a terminal's usual width: the timeline fits it.
const storyWidth = 80

// minStory is the narrowest that a timeline is drawn.
const minStory = 60

// StoryText writes s for a terminal: what it comes to, a timeline, then each statement with how it is known and what it
// rests on. Lines are at most width characters, or 80 for a width of 0; words that are longer go beyond.
func StoryText(w io.Writer, s explain.Story, width int) error {
	if width <= 0 {
		width = storyWidth
	}
	width = max(width, minStory)
	lines := heading(clean(s.Name()), clean(storySetting(s)), width)
	lines = append(lines, wrap(clean(s.Title), width, "  ")...)
	if s.Number > 0 {
		lines = append(lines, "")
		lines = append(lines, storyTimeline(s, width)...)
	}
	lines = append(lines, "")
	name := 0
	for _, x := range s.Statements {
		name = max(name, runes(string(x.About)))
	}
	said := map[explain.Evidence]bool{}
	for i, x := range s.Statements {
		about := string(x.About)
		if i > 0 && s.Statements[i-1].About == x.About {
			about = ""
		}
		indent := strings.Repeat(" ", name+4)
		lines = append(lines, wrapItem("  "+pad(about, name, false)+"  ", fmt.Sprintf("%s (%s)", clean(x.Text), x.Sure), width, indent)...)
		for _, e := range x.Evidence {
			if said[e] {
				e.Text = "as above"
			}
			said[e] = true
			lines = append(lines, wrapItem(indent+"- ", clean(evidenceWords(e)), width, indent+"  ")...)
		}
	}
	lines = append(lines, "")
	lines = append(lines, wrap(sureWords, width, "  ")...)
	return flush(bufio.NewWriter(w), lines)
}

const sureWords = "seen: an instrument was there. counted: totals before and after leave no other reading. inferred: follows from those, by how the kernel works. " +
	"predicted: computed from the kernel's parameters. unseen: no instrument of the trial looked."

func evidenceWords(e explain.Evidence) string {
	if e.Text == "" {
		return e.By
	}
	return e.By + ": " + e.Text
}

// storySetting is the kernel and the load in short.
func storySetting(s explain.Story) string {
	var parts []string
	if s.Facts.Release != "" {
		parts = append(parts, s.Facts.Release+" "+s.Facts.Arch)
	}
	if m := explain.Model(s.Facts); m != "" {
		parts = append(parts, m)
	}
	if !s.Arm.Threaded {
		parts = append(parts, "softirq")
	}
	return strings.Join(append(parts, string(s.Arm.Load.Kind)), ", ")
}

// A storyScale puts the instants of a story on columns.
type storyScale struct {
	took    time.Duration
	columns int
}

func (c storyScale) column(t time.Duration) int {
	if c.took <= 0 {
		return 0
	}
	return min(c.columns-1, max(0, int(float64(t)/float64(c.took)*float64(c.columns))))
}

// covers returns the columns from..to-1 that an interval touches; none where it is outside.
func (c storyScale) covers(from, to time.Duration) (a, b int) {
	if to < 0 || from > c.took {
		return 0, 0
	}
	return c.column(from), c.column(to) + 1
}

// storyTimeline draws s on a line for each wait and each instrument.
func storyTimeline(s explain.Story, width int) []string {
	label := runes("napi thread")
	for _, x := range s.Spans {
		label = max(label, runes(spanLabel(x)))
	}
	label = min(label, 24)
	c := storyScale{took: s.Sample.Took, columns: width - label - 3}
	row := func(name string, cells []rune) string {
		return strings.TrimRight(pad(clip(name, label), label, false)+" |"+string(cells)+"|", " ")
	}
	lines := []string{pad("", label, false) + "  " + storyRuler(c)}
	for _, name := range spanLabels(s.Spans) {
		lines = append(lines, row(name, spanCells(s, c, name)))
	}
	legend := "#: waits there (stack samples)"
	if !s.Ordered && len(s.Spans) > 0 {
		legend = "#: its share of the time, not when"
	}
	if cells, any := tickCells(s, c); any {
		lines = append(lines, row("napi thread", cells))
		legend += "; =: polls, all below the budget, B: some use it, z: sleeps, s: switches (counters)"
	}
	if cells, any := markCells(s, c, false); any {
		lines = append(lines, row("kernel log", cells))
		legend += "; R: a report (kmsg)"
	}
	if cells, any := markCells(s, c, true); any {
		lines = append(lines, row("RCU predicted", cells))
		legend += "; u: urgent, h: heavy, i: IPI, r: a report is due"
	}
	if s.HasLoad {
		lines = append(lines, row("load", loadCells(s, c)))
	}
	return append(lines, wrap(legend, width, "")...)
}

// spanLabel names x's wait, which is whatever a record calls it.
func spanLabel(x explain.Span) string {
	if x.Call > 0 {
		return fmt.Sprintf("%s %d/%d", clean(string(x.Wait)), x.Call, x.Of)
	}
	if x.Wait == rcu.OtherWait {
		return "no known wait"
	}
	return clean(string(x.Wait))
}

// spanLabels are the rows of spans, each where its first span is.
func spanLabels(spans []explain.Span) []string {
	var names []string
	seen := map[string]bool{}
	for _, x := range spans {
		if name := spanLabel(x); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func spanCells(s explain.Story, c storyScale, name string) []rune {
	cells := blankRow(c.columns)
	for _, x := range s.Spans {
		if spanLabel(x) != name {
			continue
		}
		from, to := c.covers(x.From, x.To)
		fillRow(cells, from, to, '#')
	}
	return cells
}

func tickCells(s explain.Story, c storyScale) (cells []rune, any bool) {
	cells = blankRow(c.columns)
	for _, x := range s.Ticks {
		if x.To < 0 || x.From > c.took || x.Band == explain.NoBand {
			continue
		}
		from, to := c.covers(max(0, x.From), min(c.took, x.To))
		sign := '='
		switch {
		case x.Window.Traced && x.Window.Full > 0:
			sign = 'B'
		case x.Window.Sleeps > 0:
			sign = 'z'
		case x.Window.Nonvol > 0:
			sign = 's'
		}
		fillRow(cells, from, to, sign)
		any = true
	}
	return cells, any
}

func markCells(s explain.Story, c storyScale, predicted bool) (cells []rune, any bool) {
	cells = blankRow(c.columns)
	signs := map[explain.MarkKind]rune{explain.Urgent: 'u', explain.Heavy: 'h', explain.Resched: 'i', explain.Report: 'r'}
	for _, m := range s.Marks {
		sign := signs[m.Kind]
		if sign == 0 || m.Predicted != predicted || m.At < 0 || m.At > c.took {
			continue
		}
		if !predicted {
			sign = 'R'
		}
		at := c.column(m.At)
		for at+1 < len(cells) && predicted && cells[at] != ' ' && cells[at] != sign && sign != 'r' {
			at++ // urgent and heavy lie a tenth of a second apart
		}
		cells[at] = sign
		any = true
	}
	return cells, any
}

func loadCells(s explain.Story, c storyScale) []rune {
	cells := blankRow(c.columns)
	if s.LoadEnd < 0 || s.LoadBegin > c.took {
		return cells
	}
	from, to := c.covers(max(0, s.LoadBegin), min(c.took, s.LoadEnd))
	fillRow(cells, from, to, '-')
	if s.LoadEnd < c.took && s.Arm.Load.Kind != experiment.External {
		cells[to-1] = '>'
	}
	return cells
}

func blankRow(n int) []rune { return []rune(strings.Repeat(" ", n)) }

func fillRow(cells []rune, from, to int, sign rune) {
	for i := max(0, from); i < min(to, len(cells)); i++ {
		cells[i] = sign
	}
}

// storyRuler writes the times at the beginning, the end and the quarters between.
func storyRuler(c storyScale) string {
	cells := blankRow(c.columns)
	put := func(at int, text string) {
		for i, r := range []rune(text) {
			if at+i >= 0 && at+i < len(cells) {
				cells[at+i] = r
			}
		}
	}
	end := explain.FormatDuration(c.took)
	put(0, "0")
	for i := 1; i < 4 && c.columns >= 48; i++ {
		text := explain.FormatDuration(c.took * time.Duration(i) / 4)
		put(c.columns*i/4-runes(text)/2, text)
	}
	put(c.columns-runes(end), end)
	return strings.TrimRight(string(cells), " ")
}
