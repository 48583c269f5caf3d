package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// mailWidth is the longest line of Mail, so that it can be quoted a few times within 80 columns.
const mailWidth = 72

// mailCell is the longest cell of Mail's table.
const mailCell = 22

// Mail writes r as plain text for a kernel mailing list: ASCII, lines of at most mailWidth, the question first
// and how to repeat it last. Commands, the kernel's own words and the experiment's file are left whole,
// however long their lines are.
func Mail(w io.Writer, r Run) error {
	var lines []string
	say := func(s ...string) { lines = append(lines, s...) }
	section := func(title string, body []string) {
		if len(body) > 0 {
			say("", title, "")
			say(body...)
		}
	}
	say(wrap(ascii(r.title()), mailWidth, "")...)
	section("Result", indented(resultWords(r.Verdict.Word)+" "+strings.Join(r.Verdict.Sentences, " ")))
	section("Measured", r.mailTable())
	section("The kernel's own words", r.reportLines())
	section("What was run", append(bullets(r.loads()), bullets(r.settings())...))
	section("Kernels", r.kernels())
	section("Comparisons", r.mailComparisons())
	section("Not measured", bullets(r.Verdict.NotMeasured))
	section("To repeat it", r.mailRepeat())
	if r.Version != "" {
		say("", ascii(clean("napistall "+r.Version+", backend "+r.Backend)))
	}
	return flush(bufio.NewWriter(w), lines)
}

// resultWords is the verdict's word as a sentence for somebody who has read nothing else.
func resultWords(w explain.Word) string {
	switch w {
	case explain.Reproduced:
		return "The stall was reproduced."
	case explain.NotReproduced:
		return "The stall was not reproduced."
	case explain.NotInBand:
		return "Not put to the test: no load was in the band."
	}
	return "Inconclusive."
}

func (r Run) mailTable() []string {
	var lines []string
	for _, l := range layout(inASCII(r.table(mailCell)), mailWidth-2) {
		lines = append(lines, strings.TrimRight("  "+l, " "))
	}
	lines = append(lines, "")
	lines = append(lines, indented(fmt.Sprintf("%s: those begun while the load was on. c+e: classic and expedited RCU stalls, each"+
		" grace period once. vol/s, nonvol/s: switches of the NAPI thread. Band: in, where the thread does not sleep and no poll"+
		" uses its whole budget; above, where polls do; below, where the thread sleeps; -, where there is no such thread.", r.noun()))...)
	return append(lines, bullets(r.remarks())...)
}

// mailReports is how many reports of the kernel a mail shows.
const mailReports = 3

// reportLines are what the kernel printed in the first trial that it reported anything in: the first report of
// each kind, without the stacks below it.
func (r Run) reportLines() []string {
	for _, a := range r.Arms {
		for _, t := range a.Trials {
			if len(t.Events) == 0 {
				continue
			}
			lines := []string{"  " + ascii(clean(t.ID)) + ":"}
			seen := map[klog.Kind]bool{}
			for _, e := range t.Events {
				if seen[e.Kind] || len(seen) == mailReports {
					continue
				}
				seen[e.Kind] = true
				for _, l := range e.Lines {
					lines = append(lines, "    "+ascii(clean(strings.ReplaceAll(l, "\t", " "))))
				}
			}
			return lines
		}
	}
	return nil
}

// loads says what each arm did to the NAPI, arms that did the same together.
func (r Run) loads() []string {
	return byWords(r.Arms, func(a explain.ArmSummary) string { return loadWords(a.Arm) })
}

// settings are what was timed, and what all of it ran on.
func (r Run) settings() []string {
	s := byWords(r.Arms, func(a explain.ArmSummary) string { return probeWords(a.Arm) })
	if len(s) == 1 {
		s[0] = probeWords(r.Arms[0].Arm) // the same for all
	}
	if n := r.setting(); n != "" {
		s = append(s, n)
	}
	if r.Host != "" {
		s = append(s, "host: "+r.Host)
	}
	return s
}

// byWords lists what words says of arms, behind the names of those of which it says the same.
func byWords(arms []explain.ArmSummary, words func(explain.ArmSummary) string) []string {
	var order []string
	names := map[string][]string{}
	for _, a := range arms {
		w := words(a)
		if names[w] == nil {
			order = append(order, w)
		}
		names[w] = append(names[w], a.Arm.Name)
	}
	for i, w := range order {
		order[i] = strings.Join(names[w], ", ") + ": " + w
	}
	return order
}

// kernels describes each kernel build once, and below it how its arms ran on it.
func (r Run) kernels() []string {
	var order []string
	arms := map[string][]explain.ArmSummary{}
	for _, a := range r.Arms {
		if len(a.Trials) == 0 {
			continue
		}
		w := buildWords(a)
		if arms[w] == nil {
			order = append(order, w)
		}
		arms[w] = append(arms[w], a)
	}
	var lines []string
	for _, w := range order {
		lines = append(lines, bullet(w)...)
		for _, s := range byWords(arms[w], modelWords) {
			lines = append(lines, marked("  ", s)...)
		}
	}
	return lines
}

// buildWords names a kernel build: what it says of itself, where it comes from and what of its
// configuration decides how long RCU and a NAPI thread wait.
func buildWords(a explain.ArmSummary) string {
	f := a.Facts
	s := []string{f.Release + " " + f.Arch, f.Version, "from " + a.Arm.Kernel}
	if f.Kernel != "" {
		s[2] = "from " + f.Kernel
	}
	if f.Source != "" && f.Source != a.Arm.Kernel {
		s = append(s, "built from "+f.Source)
	}
	if len(a.Arm.Patch) > 0 {
		s = append(s, "with "+strings.Join(a.Arm.Patch, ", "))
	}
	if f.KconfigDiff != "" {
		s = append(s, "kernel/Kconfig.preempt edited to allow "+string(f.Preempt)+", which the source forbids")
	}
	if c := slices.DeleteFunc(slices.Clone(f.Config), func(l string) bool { return !rcu.Decides(l) }); len(c) > 0 {
		s = append(s, strings.Join(c, " "))
	}
	return strings.Join(slices.DeleteFunc(s, func(w string) bool { return w == "" }), ", ")
}

// modelWords are what an arm chooses of its kernel at boot.
func modelWords(a explain.ArmSummary) string {
	s := append([]string{"model " + orUnknown(explain.Model(a.Facts))}, timeWords(a.Facts)...)
	if len(a.Arm.Boot) > 0 {
		s = append(s, "boot parameters "+strings.Join(a.Arm.Boot, " "))
	}
	return strings.Join(s, ", ")
}

func (r Run) mailComparisons() []string {
	list := r.comparisons()
	if len(list) == 0 {
		return nil
	}
	lines := indented(testsMade(len(list)))
	for _, i := range list {
		lines = append(lines, bullet(i.name+": "+i.text)...)
	}
	return lines
}

func (r Run) mailRepeat() []string {
	var lines []string
	for _, c := range r.Repeat {
		lines = append(lines, "  $ "+ascii(clean(c)))
	}
	if r.Text != "" {
		lines = append(lines, "", "  with this file:", "")
		for l := range strings.Lines(r.Text) {
			lines = append(lines, strings.TrimRight("    "+ascii(clean(strings.TrimRight(l, "\r\n"))), " "))
		}
	}
	return lines
}

func indented(s string) []string {
	lines := wrap(ascii(clean(s)), mailWidth-2, "")
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

func bullet(s string) []string { return marked("- ", s) }

// marked is s behind a mark of two characters, below which its further lines are indented.
func marked(mark, s string) []string {
	lines := wrap(ascii(clean(s)), mailWidth-4, "")
	for i := range lines {
		lines[i] = "  " + mark + lines[i]
		mark = "  "
	}
	return lines
}

func bullets(list []string) []string {
	var lines []string
	for _, s := range list {
		lines = append(lines, bullet(s)...)
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
