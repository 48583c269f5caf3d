package report

import (
	"bufio"
	"io"
	"strings"
)

// CompareMail writes c as plain text for a mailing list: ASCII, lines of at most 72 characters but for words and paths
// that are longer.
func CompareMail(w io.Writer, c Comparison) error {
	var lines []string
	section := func(title string, body []string) {
		if len(body) > 0 {
			lines = append(lines, "", title, "")
			lines = append(lines, body...)
		}
	}
	for _, r := range c.Runs {
		lines = append(lines, wrap(ascii(clean(r.words())), mailWidth, "  ")...)
	}
	var result []string
	for _, p := range c.Pairs {
		result = append(result, bullet(p.A+" vs "+p.B+": "+string(p.Outcome)+". "+p.Sentence)...)
		for _, i := range (comparedPair{p}).items() {
			result = append(result, marked("  ", i.name+": "+i.text)...)
		}
	}
	section("Result", result)
	var table []string
	for _, l := range layout(inASCII(c.table(mailCell)), mailWidth-2) {
		table = append(table, strings.TrimRight("  "+l, " "))
	}
	section("Measured", table)
	section("How", bullets(c.remarks()))
	section("Warnings", bullets(c.warnings()))
	var kept []string
	for _, k := range c.Kept {
		kept = append(kept, bullet(keptWords(k))...)
	}
	section("Thresholds", kept)
	return flush(bufio.NewWriter(w), lines)
}

// CompareMD writes c in Markdown as GitHub renders it. Whatever came from a file or a kernel is text there, never markup.
func CompareMD(w io.Writer, c Comparison) error {
	m := &mdWriter{}
	for _, p := range c.Pairs {
		m.say("**" + md(p.A+" vs "+p.B+": "+string(p.Outcome)) + ".** " + md(p.Sentence))
		var list []string
		for _, i := range (comparedPair{p}).items() {
			list = append(list, i.name+": "+i.text)
		}
		m.list(list)
	}
	m.table(c.table(0))
	var kept []string
	for _, k := range c.Kept {
		kept = append(kept, keptWords(k))
	}
	m.list(kept)
	if list := c.warnings(); len(list) > 0 {
		m.say("**Warnings**")
		m.list(list)
	}
	m.list(c.remarks())
	var runs []string
	for _, r := range c.Runs {
		runs = append(runs, r.words())
	}
	m.list(runs)
	return flush(bufio.NewWriter(w), m.lines)
}
