package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/explain"
)

// MailWidth is the longest line of Mail, so that it can be quoted a few times within 80 columns.
const MailWidth = 72

// mailCell is the longest cell of Mail's table.
const mailCell = 22

// Mail writes r as plain text for a kernel mailing list: ASCII, lines of at most MailWidth (a command
// or a word that is longer is left whole), the question first and what was not measured last.
func Mail(w io.Writer, r Run) error {
	var lines []string
	say := func(s ...string) { lines = append(lines, s...) }
	section := func(title string) { say("", title, "") }

	say(wrap(ascii(r.title()), MailWidth, "")...)
	section("Result")
	say(indented(string(r.Verdict.Word) + ". " + strings.Join(r.Verdict.Sentences, " "))...)
	section("Kernels")
	for _, k := range r.kernels() {
		say(bullet(k)...)
	}
	if n := r.setting(); n != "" {
		say(bullet(n)...)
	}
	section("Measured")
	for _, l := range layout(inASCII(r.table(mailCell)), MailWidth-2) {
		say(strings.TrimRight("  "+l, " "))
	}
	say("")
	say(indented(fmt.Sprintf("%s: those begun while the load was on. c+e: classic and expedited RCU stalls, each grace period"+
		" once. vol/s, nonvol/s: switches of the NAPI thread. Band: in, where the thread does not sleep and no poll uses its"+
		" whole budget; above, where polls do; below, where the thread sleeps; -, where there is no such thread.", r.noun()))...)
	for _, s := range r.remarks() {
		say(bullet(s)...)
	}
	if c := r.comparisons(); len(c) > 0 {
		section("Comparisons (two-sided p, not corrected for their number)")
		for _, i := range c {
			say(bullet(i.name + ": " + i.text)...)
		}
	}
	if len(r.Verdict.NotMeasured) > 0 {
		section("Not measured")
		for _, s := range r.Verdict.NotMeasured {
			say(bullet(s)...)
		}
	}
	if len(r.Repeat) > 0 {
		section("To repeat it")
		for _, c := range r.Repeat {
			say("  $ " + ascii(clean(c)))
		}
	}
	if r.Version != "" {
		say("", ascii(clean("napistall "+r.Version+", backend "+r.Backend)))
	}
	return flush(bufio.NewWriter(w), lines)
}

// kernels describes each kernel once, with the arms that ran on it and its config facts.
func (r Run) kernels() []string {
	type kernel struct {
		arms []string
		a    explain.ArmSummary
	}
	var list []kernel
	for _, a := range r.Arms {
		if len(a.Trials) == 0 {
			continue
		}
		i := slices.IndexFunc(list, func(k kernel) bool {
			return kernelWords(k.a) == kernelWords(a) && slices.Equal(k.a.Arm.Patch, a.Arm.Patch)
		})
		if i < 0 {
			i = len(list)
			list = append(list, kernel{a: a})
		}
		list[i].arms = append(list[i].arms, a.Arm.Name)
	}
	var text []string
	for _, k := range list {
		s := strings.Join(k.arms, ", ") + ": " + kernelWords(k.a)
		if len(k.a.Arm.Patch) > 0 {
			s += ", with " + strings.Join(k.a.Arm.Patch, ", ")
		}
		if len(k.a.Facts.Config) > 0 {
			s += ", " + strings.Join(k.a.Facts.Config, " ")
		}
		text = append(text, s)
	}
	return text
}

func indented(s string) []string {
	lines := wrap(ascii(clean(s)), MailWidth-2, "")
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

func bullet(s string) []string {
	lines := wrap(ascii(clean(s)), MailWidth-4, "")
	for i := range lines {
		lines[i] = "    " + lines[i]
		if i == 0 {
			lines[i] = "  - " + lines[i][4:]
		}
	}
	return lines
}

func inASCII(cols []column) []column {
	for _, c := range cols {
		for i := range c.cells {
			c.cells[i] = ascii(c.cells[i])
		}
	}
	return cols
}

// ascii writes the signs that this package uses in ASCII, and what else there is by its number: a
// mail goes through programs that know nothing else.
func ascii(s string) string {
	s = strings.NewReplacer("–", "-", "≥", ">=", "÷", "/", "…", "~").Replace(s)
	b := strings.Builder{}
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
