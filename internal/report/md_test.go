package report

import (
	"bytes"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	renderer "github.com/yuin/goldmark/renderer/html"

	"github.com/napistall/napistall/klog"
)

// rendered returns text as a reader of GitHub's Markdown gets it.
func rendered(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	gfm := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(renderer.WithUnsafe()))
	if err := gfm.Convert([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	mdTag     = regexp.MustCompile(`</?([a-z0-9]+)[^>]*>`)
	mdComment = regexp.MustCompile(`<!--.*?-->`)
	mdCell    = regexp.MustCompile(`<t[hd][^>]*>(.*?)</t[hd]>`)
)

// mdTags are the elements that a report may be rendered to. There is no link and no picture among them.
var mdTags = []string{"h2", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "details", "summary", "pre", "code"}

func TestMDRendersWithoutForeignMarkup(t *testing.T) {
	for name, r := range runs() {
		page := mdComment.ReplaceAllString(rendered(t, written(t, MD, r)), "")
		for _, tag := range mdTag.FindAllStringSubmatch(page, -1) {
			if !slices.Contains(mdTags, tag[1]) {
				t.Errorf("%s: rendered with %s", name, tag[0])
			}
		}
		for _, tag := range []string{"details", "summary", "table", "pre"} {
			if a, b := strings.Count(page, "<"+tag), strings.Count(page, "</"+tag); a != b || tag != "pre" && a == 0 {
				t.Errorf("%s: %d <%s> and %d ends of it", name, a, tag, b)
			}
		}
	}
}

// The rendered table has the cells of the table in text, whatever is in them.
func TestMDTableSaysTheSame(t *testing.T) {
	for name, r := range runs() {
		page := mdComment.ReplaceAllString(rendered(t, written(t, MD, r)), "")
		page, _, _ = strings.Cut(page, "</table>")
		var got []string
		for _, c := range mdCell.FindAllStringSubmatch(page, -1) {
			got = append(got, html.UnescapeString(c[1]))
		}
		cols, want := r.table(0), []string{}
		for i := -1; i < len(cols[0].cells); i++ {
			for _, c := range cols {
				cell := c.head
				if i >= 0 {
					cell = c.cells[i]
				}
				want = append(want, cell)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestMDCountsReportsLeftOut: of a kind but the first of a trial, and all after the lines are full.
func TestMDCountsReportsLeftOut(t *testing.T) {
	report := func(kind klog.Kind, lines int) klog.Event {
		return klog.Event{Kind: kind, Lines: slices.Repeat([]string{"x"}, lines)}
	}
	for _, c := range []struct {
		name   string
		events []klog.Event
		want   string // the last line
	}{
		{"all shown", []klog.Event{report(klog.Classic, 1), report(klog.Expedited, 1)}, "  x"},
		{"one of a kind", []klog.Event{report(klog.Classic, 1), report(klog.Classic, 1)}, "and 1 more report"},
		{"too long", []klog.Event{report(klog.Classic, 300), report(klog.Expedited, 1), report(klog.TasksRCU, 1)}, "and 2 more reports"},
	} {
		r := run("x", "", lazy())
		r.Arms[0].Trials[0].Events = c.events
		if lines := r.kernelWords(); lines[len(lines)-1] != c.want {
			t.Errorf("%s: it ends with %q; want %q", c.name, lines[len(lines)-1], c.want)
		}
	}
}

func TestMDMentionsNobody(t *testing.T) {
	for text, want := range map[string]string{
		"@torvalds": `\@<!-- -->torvalds`, "#12": `\#<!-- -->12`, "a # b": "a # b", "$x$": `\$<!-- -->x$`,
		"https://x.org": `https:<!-- -->//x.org`, "www.x.org": `www.<!-- -->x.org`, "rcu_barrier": "rcu_barrier", "_a_": `\_a\_`,
		"1. a": `1\. a`, "7.2": "7.2", "- a": `\- a`, "a|b": `a\|b`, "> 1 s": `\> 1 s`, "a > 1": "a > 1", "<b>": `\<b>`,
	} {
		if got := md(text); got != want {
			t.Errorf("md(%q) = %q; want %q", text, got, want)
		}
	}
}

// FuzzMD: any text is shown as it is, in a paragraph, in a list and in a table.
func FuzzMD(f *testing.F) {
	for _, s := range []string{"a|b", "`x`", "<script>", "1) x", "- a", "&amp;", "a\\|b", "http://a.b/c_d_e", "**", "~~x~~", "[a](b)", "![a](b)",
		"#1 @x", "===", "\t", "a  b", "x@y.zz", "||", "\\", "ftp://x.yz", "mailto:a@b.cc", "[x]", "[ ] x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := strings.TrimSpace(clean(s))
		if want == "" || strings.Contains(want, "  ") {
			return // blanks are what HTML makes of them
		}
		m := &mdWriter{}
		m.say("x " + md(s))
		m.list([]string{s})
		m.table([]column{{head: "h", cells: []string{clean(s)}}})
		page := mdComment.ReplaceAllString(rendered(t, strings.Join(m.lines, "\n")), "")
		for _, frame := range []string{"<p>x %</p>", "<ul>\n<li>%</li>\n</ul>", `<td style="text-align:left">%</td>`} {
			before, after, _ := strings.Cut(frame, "%")
			_, rest, ok := strings.Cut(page, before)
			got, _, closed := strings.Cut(rest, after)
			if !ok || !closed || html.UnescapeString(got) != want {
				t.Errorf("%q in %s is rendered as\n%s", want, frame, page)
			}
		}
	})
}
