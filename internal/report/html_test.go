package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// extras plays what a Watch would have found in the scenes of r: a second each second, a report at 21 s.
func extras(r Run) Extras {
	var x Extras
	for _, a := range r.Arms {
		for _, t := range a.Trials {
			w := NewWatch(t.ID)
			w.Add(experiment.Record{At: began, Phase: &experiment.Phase{Name: experiment.Hold}})
			for i := range 31 {
				n := uint64(i)
				w.Add(experiment.Record{At: began.Add(time.Duration(i) * time.Second), Counters: &experiment.Counters{
					InHold: true, Traced: t.Rates.Traced, Polls: n * 300_000, FullPolls: n * t.Rates.Full / 30, Voluntary: n * 2}})
			}
			for _, e := range t.Events {
				for _, l := range e.Lines {
					w.Add(experiment.Record{At: began.Add(21 * time.Second), Kmsg: &experiment.Kmsg{Stamp: e.First, Text: l}})
				}
			}
			w.Add(experiment.Record{At: began.Add(t.Arm.Load.Hold), Phase: &experiment.Phase{Name: experiment.Tail}})
			x.Trials = append(x.Trials, w.Extra(t))
		}
	}
	return x
}

func pageOf(t *testing.T, r Run) string {
	t.Helper()
	return written(t, func(w io.Writer, r Run) error { return HTML(w, r, extras(r)) }, r)
}

var (
	scripts = regexp.MustCompile(`(?s)(<script[^>]*>)(.*?)(</script>)`)
	styles  = regexp.MustCompile(`(?s)(<style>)(.*?)(</style>)`)
)

// An element is a start tag, with what encloses it.
type element struct {
	name string
	attr map[string]string
	path []string
	plot string // data-plot of the figure or table that it is in
}

// elements reads a page strictly: every tag is closed, every entity known.
func elements(t *testing.T, text string) []element {
	t.Helper()
	text = styles.ReplaceAllString(scripts.ReplaceAllString(text, "$1$3"), "$1$3")
	d := xml.NewDecoder(strings.NewReader(text))
	var out []element
	var path, plots []string
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			el := element{name: e.Name.Local, attr: map[string]string{}, path: append([]string{}, path...)}
			for _, a := range e.Attr {
				el.attr[a.Name.Local] = a.Value
			}
			plot := el.attr["data-plot"]
			if plot == "" && len(plots) > 0 {
				plot = plots[len(plots)-1]
			}
			el.plot = plot
			path, plots = append(path, el.name), append(plots, plot)
			out = append(out, el)
		case xml.EndElement:
			path, plots = path[:len(path)-1], plots[:len(plots)-1]
		}
	}
}

// marks counts what a plot draws: symbols, titled boxes, and what its paths stand for.
func marks(els []element, plot string) int {
	n := 0
	for _, e := range els {
		if e.plot != plot {
			continue
		}
		class := " " + e.attr["class"] + " "
		drawn, _ := strconv.Atoi(e.attr["data-marks"])
		n += drawn
		if strings.Contains(class, " mark ") || strings.Contains(class, " cell ") && !strings.Contains(class, " empty ") {
			n++
		}
	}
	return n
}

func TestPageIsWellFormed(t *testing.T) {
	for name, r := range runs() {
		t.Run(name, func(t *testing.T) {
			text := pageOf(t, r)
			if again := pageOf(t, runs()[name]); again != text {
				t.Error("the same run gives another page")
			}
			if len(text) > 1<<20 {
				t.Errorf("%d bytes; want under 1 MiB", len(text))
			}
			checkStructure(t, elements(t, text))
		})
	}
}

// checkStructure holds a page against what makes one accessible and self-contained.
func checkStructure(t *testing.T, els []element) {
	t.Helper()
	ids, h1 := map[string]bool{}, 0
	for _, e := range els {
		if id := e.attr["id"]; id != "" {
			if ids[id] {
				t.Errorf("id %s is there twice", id)
			}
			ids[id] = true
		}
	}
	captions, tables := 0, 0
	for _, e := range els {
		href := e.attr["href"]
		switch {
		case e.name == "h1":
			h1++
		case e.name == "table":
			tables++
		case e.name == "caption":
			captions++
		case e.name == "th" && e.attr["scope"] == "":
			t.Error("a th without a scope")
		case e.name == "svg" && strings.Contains(e.attr["class"], "plot") && (e.attr["role"] != "img" || e.attr["aria-label"] == ""):
			t.Error("a plot without a label")
		case href != "" && !strings.HasPrefix(href, "#") && href != "data:,":
			t.Errorf("%s refers to %s", e.name, href)
		case href != "" && href != "data:," && !ids[href[1:]]:
			t.Errorf("%s refers to %s, which is not there", e.name, href)
		}
		if by := e.attr["aria-labelledby"]; by != "" && !ids[by] {
			t.Errorf("%s is labelled by %s, which is not there", e.name, by)
		}
		for a := range e.attr {
			if a == "src" || a == "style" || strings.HasPrefix(a, "on") {
				t.Errorf("%s has %s", e.name, a)
			}
		}
		if strings.Contains(e.attr["class"], "scroll") && e.attr["tabindex"] != "0" {
			t.Error("what scrolls can't be reached by keyboard")
		}
	}
	if h1 != 1 || tables != captions || tables == 0 {
		t.Errorf("%d h1, %d tables, %d captions", h1, tables, captions)
	}
}

func TestPageOrder(t *testing.T) {
	text := pageOf(t, runs()["models"])
	last := 0
	for _, part := range []string{"<h1>", `class="word"`, `id="table"`, `id="strip"`, `id="cdf"`, `id="time"`, `id="waits"`, `id="matrix"`,
		`id="targets"`, `id="commands"`, `id="logs"`, `id="limits"`, `id="raw"`, `id="data"`} {
		i := strings.Index(text, part)
		if i < last {
			t.Errorf("%s is missing or out of order", part)
		}
		last = i
	}
}

func TestPageTellsItsOutcome(t *testing.T) {
	for name, want := range map[string][]string{
		"reproduced":   {`class="verdict bad"`, `verdict</span> reproduced`, "2 of 2 expectations met"},
		"fixed":        {`class="verdict good"`, `verdict</span> not reproduced`},
		"not-in-band":  {`class="verdict unsure"`, `verdict</span> not in the band`},
		"inconclusive": {`class="verdict unsure"`, `verdict</span> inconclusive`, "1 of 2 expectations met"},
		"broken":       {"not run: stock: two tries failed", "interrupted: 1 of 2 trials", "signal: killed"},
		"censored":     {"by Kaplan and Meier", "missed 7 kmsg lines", "&gt; 32"},
		"zero":         {"has no value", "that there is no wait to take apart", "reported nothing since the load began"},
		"quick":        {"quick: holds are shortened"},
		"reps":         {`>trials</th>`, "stock-2"},
	} {
		text := pageOf(t, runs()[name])
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: the page lacks %q", name, w)
			}
		}
	}
}

// Every operation of a hold is drawn, whatever the outcome, and every second of one.
func TestPlotsHaveTheirMarks(t *testing.T) {
	for name, r := range runs() {
		x := extras(r)
		els := elements(t, pageOf(t, r))
		n, all, seconds, curves, cut := 0, 0, 0, 0, 0
		for _, a := range r.Arms {
			n += len(a.Hold.Values)
			if len(a.Hold.Values) > 0 {
				curves++
			}
			for _, tr := range a.Trials {
				all += len(tr.Main().Hold) + len(tr.Main().Tail)
				cut += a.Hold.Summary.Censored
				extra := x.trial(tr.ID)
				for _, s := range extra.Seconds {
					for i, rt := range rates() {
						if _, ok := rt.value(s); ok && (tr.Arm.Threaded || i == 0) {
							seconds++
						}
					}
					seconds += explain.JudgeBand(tr.Arm, tr.Facts, []explain.Window{s.Window}).Seconds()
				}
			}
		}
		if s := newStrip(r, x, lengthScale(r)); s.PerMark == 1 {
			if got := marks(els, "strip"); got != n {
				t.Errorf("%s: strip has %d marks; want %d", name, got, n)
			}
		}
		if got := marks(els, "cdf"); got != curves {
			t.Errorf("%s: cdf has %d curves; want %d", name, got, curves)
		}
		if got := marks(els, "time"); got != all+seconds+cut {
			t.Errorf("%s: time has %d marks; want %d operations, %d seconds and %d ends that were cut", name, got, all, seconds, cut)
		}
	}
}

func TestWaitsAddUp(t *testing.T) {
	r := runs()["models"]
	f := newWaits(r)
	if len(f.Bars) != 1 || f.Bars[0].Count != 8 || len(f.None) != 1 {
		t.Fatalf("waits of %+v", f)
	}
	var sum time.Duration
	for _, p := range f.Bars[0].Parts {
		sum += p.took
	}
	var want time.Duration
	for _, s := range r.Arms[0].SlowOnes() {
		want += s.Sample.Took
	}
	if d := want - sum; d < -time.Millisecond || d > 50*time.Millisecond {
		t.Errorf("the parts are %v together; want %v", sum, want)
	}
	if got := marks(elements(t, pageOf(t, r)), "waits"); got != len(f.Bars[0].Parts) {
		t.Errorf("waits has %d marks; want %d", got, len(f.Bars[0].Parts))
	}
}

func TestHeatMap(t *testing.T) {
	h := newHeatMap(runs()["models"])
	if h == nil || len(h.Rows) != 1 || strings.Join(h.Models, " ") != "NONE dyn LAZY" {
		t.Fatalf("heat map of %+v", h)
	}
	if c := h.Rows[0].Cells[0]; c.Shade != "h4" || c.Stall == "" || c.Over != "8 of 14" {
		t.Errorf("cell of none: %+v", c)
	}
	if h := newHeatMap(runs()["fixed"]); h != nil {
		t.Errorf("two kinds of arm under a model each have a heat map: %+v", h)
	}
}

// TestHeatSteps: a length has the shade that the legend says, to the nanosecond.
func TestHeatSteps(t *testing.T) {
	for i, b := range heatBounds() {
		if got := heatStep(b.most); got != i {
			t.Errorf("heatStep(%v) = %d; want %d", b.most, got, i)
		}
		if got := heatStep(b.most + 1); got != i+1 {
			t.Errorf("heatStep(%v) = %d; want %d", b.most+1, got, i+1)
		}
		if want := "to " + b.words; heatWords(i) != want {
			t.Errorf("heatWords(%d) = %q; want %q", i, heatWords(i), want)
		}
		if d, err := time.ParseDuration(strings.ReplaceAll(b.words, " ", "")); err != nil || d != b.most {
			t.Errorf("%q is said of %v", b.words, b.most)
		}
	}
	if got := heatStep(time.Hour); got != len(heatBounds()) || heatWords(got) != "over 10 s" {
		t.Errorf("an hour has the shade %d, %q", got, heatWords(got))
	}
}

// TestHeatCellKeepsEveryStall: of two arms, the one with the longest operation does not hide the other's stall.
func TestHeatCellKeepsEveryStall(t *testing.T) {
	slow, reported := softirq(), stock()
	slow.deletes, reported.deletes = []time.Duration{4 * time.Second}, some(3, time.Second)
	r := run("two", "", slow, reported)
	if quiet := newHeatCell(r.Arms[:1]); quiet.Stall != "" {
		t.Fatalf("the slow arm alone has %q", quiet.Stall)
	}
	c := newHeatCell(r.Arms)
	if c.Stall != string(explain.StallReport) || c.Worst != "4 s" || c.Over != "1 of 1" {
		t.Errorf("cell of both: %+v", c)
	}
}

// Nothing that a kernel, a file or an arm says comes through as markup or as a control character.
func TestPageIsHarmless(t *testing.T) {
	for name, r := range runs() {
		text := pageOf(t, r)
		for _, bad := range []string{"<img", "<b>\\xff", "\x1b", "\u2028", "\u202e", "\r", "</script><b>"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the page has %q", name, bad)
			}
		}
		if n := strings.Count(text, "<script"); n != 2 || strings.Count(text, "</script") != n {
			t.Errorf("%s: %d scripts; want 2", name, n)
		}
	}
	text := pageOf(t, runs()["hostile"])
	for _, want := range []string{`<h1>&lt;/script&gt;&lt;b&gt;\xff\xfe\x0d\x0abcc: all</h1>`, `=cmd|&#39;/c calc&#39;!A1`, `\x1b[31mvb`} {
		if !strings.Contains(text, want) {
			t.Errorf("hostile: the page lacks %q", want)
		}
	}
}

func TestPageHoldsItsData(t *testing.T) {
	for name, r := range runs() {
		text := pageOf(t, r)
		_, rest, _ := strings.Cut(text, `id="data">`)
		data, _, _ := strings.Cut(rest, "</script>")
		var d struct {
			Format  string
			Report  json.RawMessage
			Seconds []pageSecond
		}
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got, want bytes.Buffer
		if err := errors.Join(json.Compact(&got, d.Report), json.Compact(&want, []byte(written(t, JSON, r)))); err != nil {
			t.Fatal(err)
		}
		if d.Format != PageFormat || got.String() != want.String() {
			t.Errorf("%s: the page's report is not what JSON writes", name)
		}
		if n := len(pageSeconds(extras(r))); len(d.Seconds) != n {
			t.Errorf("%s: %d seconds; want %d", name, len(d.Seconds), n)
		}
	}
}

func TestPagePolicyNamesItsScripts(t *testing.T) {
	r := runs()["zero"]
	text := pageOf(t, r)
	for _, want := range []string{digest(pageJS), digest(pageCSS), "connect-src &#39;none&#39;"} {
		if !strings.Contains(strings.ReplaceAll(text, "&#43;", "+"), want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	for _, s := range append(scripts.FindAllStringSubmatch(text, -1), styles.FindAllStringSubmatch(text, -1)...) {
		if !strings.Contains(s[1], "json") && s[2] != pageJS && s[2] != pageCSS {
			t.Errorf("a script or style is not what was digested: %.60q", s[2])
		}
	}
	live := written(t, func(w io.Writer, r Run) error { return HTML(w, r, Extras{Live: "1 of <2>", State: "x"}) }, r)
	if !strings.Contains(live, "1 of &lt;2&gt;") || !strings.Contains(live, "connect-src &#39;self&#39;") {
		t.Error("a live page does not say how far it is, or may not ask")
	}
	const none = "loads nothing and sends nothing"
	if strings.Contains(live, none) || !strings.Contains(live, "asks the napistall view that served it") || !strings.Contains(text, none) {
		t.Error("a page does not say whether it asks for more")
	}
}

func TestWatchFindsReportsAndTheirSurroundings(t *testing.T) {
	tr := runs()["reproduced"].Arms[0].Trials[0]
	e := tr.Events[0]
	w := NewWatch(tr.ID)
	for i := range 10 {
		w.Add(experiment.Record{At: rcu.Ktime(i), Kmsg: &experiment.Kmsg{Stamp: e.First - 1, Text: fmt.Sprintf("before %d", i)}})
	}
	for _, l := range e.Lines {
		w.Add(experiment.Record{At: 77, Kmsg: &experiment.Kmsg{Stamp: e.First, Text: l}})
	}
	w.Add(experiment.Record{At: 99, Kmsg: &experiment.Kmsg{Stamp: e.Last + time.Second, Text: "after"}})
	x := w.Extra(tr)
	if len(x.Reports) != 1 || x.Reports[0].At != 77 || x.Reports[0].Kind != klog.Classic {
		t.Errorf("reports: %+v", x.Reports)
	}
	lines := x.Excerpts[0].Lines
	if n := linesBefore + len(e.Lines) + 1; len(lines) != n || lines[0].Own || !lines[linesBefore].Own || lines[n-1].Own {
		t.Errorf("excerpt: %+v", lines)
	}
	if other := x.Excerpts[1]; len(other.Lines) != len(tr.Events[1].Lines) || !other.Lines[0].Own {
		t.Errorf("a report that is not in the log: %+v", other)
	}
}

func TestWatchShowsHowASilentTrialEnded(t *testing.T) {
	tr := runs()["censored"].Arms[0].Trials[0]
	w := NewWatch(tr.ID)
	for i := range 100 {
		w.Add(experiment.Record{Console: &experiment.Console{Text: fmt.Sprintf("[%5d.000000] line %d\n", i, i)}})
	}
	x := w.Extra(tr)
	last := x.Excerpts[len(x.Excerpts)-1]
	if n := len(last.Lines); n != lastLines || !strings.HasSuffix(last.Lines[n-1].Text, "line 99") {
		t.Errorf("last lines: %+v", last)
	}
}

func TestWatchCountsSecondsOfTheHoldOnly(t *testing.T) {
	w := NewWatch("x")
	read := func(at int, polls uint64, hold bool) {
		w.Add(experiment.Record{At: rcu.Ktime(at) * rcu.Ktime(time.Second), Counters: &experiment.Counters{Polls: polls, InHold: hold}})
	}
	read(1, 0, true)
	read(2, 5000, true)
	read(3, 4000, true) // went down
	read(4, 9000, true)
	read(5, 9500, false)
	read(6, 9900, false)
	x := w.Extra(explain.TrialSummary{})
	if len(x.Seconds) != 2 || x.Seconds[0].Polls != 5000 || x.Seconds[1].Polls != 5000 {
		t.Errorf("seconds: %+v", x.Seconds)
	}
}
