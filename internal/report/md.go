package report

import (
	"bufio"
	"io"
	"strings"
	"unicode"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/klog"
)

// MD writes r in Markdown as GitHub renders it: the verdict, the table and the expectations, with all
// else folded away. Whatever was said from outside is shown as it is: it makes no markup, mentions nobody and
// links to nothing.
func MD(w io.Writer, r Run) error {
	m := &mdWriter{}
	m.say("## " + md(r.title()))
	m.say("**" + md(resultWords(r.Verdict.Word)) + "** " + md(strings.Join(r.Verdict.Sentences, " ")))
	m.table(r.table(0))
	if s := r.setting(); s != "" {
		m.say(md(upperFirst(s) + "."))
	}
	m.list(r.remarks())
	m.expectations(r.Results)
	m.folded("Not measured", len(r.Verdict.NotMeasured), func() { m.list(r.Verdict.NotMeasured) })
	m.folded("The kernel's own words", r.reports(), func() { m.code(r.kernelWords()) })
	m.folded("Comparisons", len(r.pairs()), func() { m.comparisons(r) })
	m.folded("Arms", len(r.Arms), func() { m.arms(r) })
	m.folded("To repeat it", len(r.Repeat), func() {
		m.code(r.Repeat)
		if r.Text != "" {
			m.say("with this file:")
			m.code(strings.Split(strings.TrimRight(r.Text, "\n"), "\n"))
		}
	})
	if r.Version != "" {
		m.say("napistall " + md(r.Version) + ", backend " + md(r.Backend))
	}
	return flush(bufio.NewWriter(w), m.lines)
}

// An mdWriter collects blocks with an empty line between them.
type mdWriter struct{ lines []string }

func (m *mdWriter) say(block ...string) {
	if len(block) == 0 {
		return
	}
	if len(m.lines) > 0 {
		m.lines = append(m.lines, "")
	}
	m.lines = append(m.lines, block...)
}

func (m *mdWriter) list(items []string) {
	var lines []string
	for _, s := range items {
		lines = append(lines, "- "+md(s))
	}
	m.say(lines...)
}

func (m *mdWriter) table(cols []column) {
	head, rule := "|", "|"
	for _, c := range cols {
		head += " " + md(c.head) + " |"
		if c.right {
			rule += "--:|"
		} else {
			rule += ":--|"
		}
	}
	lines := []string{head, rule}
	for i := range cols[0].cells {
		row := "|"
		for _, c := range cols {
			row += " " + md(c.cells[i]) + " |"
		}
		lines = append(lines, row)
	}
	m.say(lines...)
}

func (m *mdWriter) expectations(results []explain.Result) {
	if len(results) == 0 {
		return
	}
	cols := []column{{head: "expectation"}, {head: "result"}, {head: "found"}}
	for _, x := range results {
		for i, cell := range []string{x.Expectation.Text, string(x.Status), x.Got} {
			cols[i].cells = append(cols[i].cells, clean(cell))
		}
	}
	m.table(cols)
}

// folded puts what body says into a block that opens on a click; without n there is none.
func (m *mdWriter) folded(title string, n int, body func()) {
	if n == 0 {
		return
	}
	m.say("<details><summary>" + title + "</summary>")
	body()
	m.say("</details>")
}

// code shows lines as they are. The fence is longer than any run of backquotes in them.
func (m *mdWriter) code(lines []string) {
	fence := "```"
	for _, l := range lines {
		for strings.Contains(l, fence) {
			fence += "`"
		}
	}
	block := []string{fence}
	for _, l := range lines {
		block = append(block, clean(strings.ReplaceAll(strings.TrimSuffix(l, "\r"), "\t", "    ")))
	}
	m.say(append(block, fence)...)
}

func (m *mdWriter) comparisons(r Run) {
	list := r.comparisons()
	m.say(md(testsMade(len(list))))
	cols := []column{{head: "arms"}, {head: "result"}}
	for _, i := range list {
		cols[0].cells, cols[1].cells = append(cols[0].cells, i.name), append(cols[1].cells, i.text)
	}
	m.table(cols)
}

func (m *mdWriter) arms(r Run) {
	for _, a := range r.Arms {
		m.say("**" + md(a.Arm.Name) + "**")
		var lines []string
		for _, i := range r.armItems(a) {
			name := strings.TrimSpace(i.name)
			if name != "" {
				name += ": "
			}
			lines = append(lines, "- "+md(name+i.text))
		}
		m.say(lines...)
	}
}

// reports counts the kernel's reports.
func (r Run) reports() int {
	n := 0
	for _, a := range r.Arms {
		for _, t := range a.Trials {
			n += len(t.Events)
		}
	}
	return n
}

// kernelWords are the first report of each kind of each trial that has one, to about 10*maxSlow lines, and how many more there are.
func (r Run) kernelWords() []string {
	var lines []string
	more := 0
	for _, a := range r.Arms {
		for _, t := range a.Trials {
			seen := map[klog.Kind]bool{}
			for _, e := range t.Events {
				if seen[e.Kind] || len(lines) > 10*maxSlow {
					more++
					continue
				}
				if len(seen) == 0 {
					lines = append(lines, t.ID+":")
				}
				seen[e.Kind] = true
				for _, l := range e.Lines {
					lines = append(lines, "  "+l)
				}
			}
		}
	}
	if more > 0 {
		lines = append(lines, "and "+plural(more, "more report"))
	}
	return lines
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// md writes text so that it is shown as it is. Beside what CommonMark and its tables give a
// meaning, GitHub links @names, #numbers and addresses, and sets formulas between $: a comment in
// between keeps it from that.
func md(s string) string {
	runes := []rune(strings.TrimSpace(clean(s)))
	var b strings.Builder
	at := func(i int) rune {
		if i < 0 || i >= len(runes) {
			return ' '
		}
		return runes[i]
	}
	for i, c := range runes {
		word := func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }
		switch {
		case strings.ContainsRune("\\`*[]<|&~", c), c == '_' && !(word(at(i-1)) && word(at(i+1))):
			b.WriteString(`\` + string(c))
		case (c == '@' || c == '#' || c == '$') && at(i+1) != ' ', c == '#' && i == 0:
			b.WriteString(`\` + string(c) + "<!-- -->")
		case c == ':' && at(i+1) == '/' && at(i+2) == '/', c == '.' && i >= 3 && strings.EqualFold(string(runes[i-3:i]), "www"):
			b.WriteString(string(c) + "<!-- -->")
		case i == 0 && strings.ContainsRune("+-=>", c):
			b.WriteString(`\` + string(c))
		case (c == '.' || c == ')') && i > 0 && at(i+1) == ' ' && numeral(runes[:i]):
			b.WriteString(`\` + string(c))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// numeral reports whether all of s is digits: with a full stop behind it, it would begin a list.
func numeral(s []rune) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
