package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/napistall/napistall/internal/explain"
)

//go:embed html/page.tmpl
var pageTemplate string

//go:embed html/page.css
var pageCSS string

//go:embed html/page.js
var pageJS string

//go:embed html/live.js
var liveJS string

// PageFormat names the document that is embedded in a page: a report of JSONFormat, and what was counted in each second.
const PageFormat = "napistall/page/1"

// page is what the template is given. Its strings are clean.
type page struct {
	CSP, Title, Name, Question, Setting, Host, Version, Live, State string
	CSS                                                             template.CSS
	JS, LiveJS                                                      template.JS
	Tone, Word                                                      string
	Sentences, Caveats, NotMeasured, Remarks                        []string
	Results                                                         []resultRow
	Met                                                             string
	Noun                                                            string
	Rows                                                            []armRow
	Lockups, Several                                                bool
	Strip                                                           strip
	CDF                                                             cdf
	Time                                                            timeline
	Waits                                                           waitFigure
	Heat                                                            *heatMap
	Arms                                                            []string
	Differ, Same                                                    []fact
	Slow                                                            []slowRow
	MoreSlow                                                        int
	Repeat                                                          []string
	Commands                                                        []commandBlock
	Experiment                                                      string
	Logs                                                            []trialLog
	Comparisons                                                     []item
	Tests                                                           string
}

// A resultRow is what became of one expectation.
type resultRow struct{ Text, Status, Got, Tone string }

// A trialLog is the excerpts of one trial's log.
type trialLog struct {
	Trial    string
	Excerpts []pageExcerpt
	Omitted  int
}

type pageExcerpt struct {
	What  string
	Lines []ExcerptLine
	Open  bool
}

// HTML writes r as one page that needs nothing else: no network, no other file. It holds its data as a document of PageFormat. What is
// drawn may be thinned, which the page then says; numbers come from all values.
func HTML(w io.Writer, r Run, x Extras) error {
	t, err := template.New("page").Funcs(template.FuncMap{"name": func(i item) string { return i.name }, "text": func(i item) string { return i.text }}).
		Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	out := bufio.NewWriterSize(w, 64<<10)
	p := newPage(r, x)
	if err := t.ExecuteTemplate(out, "top", p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	if err := writeData(out, r, x); err != nil {
		return err
	}
	if err := t.ExecuteTemplate(out, "bottom", p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// writeData embeds the data. Package json writes <, > and & as escapes, so that no text in them ends the script.
func writeData(w *bufio.Writer, r Run, x Extras) error {
	text, err := json.Marshal(struct {
		Format  string       `json:"format"`
		Report  document     `json:"report"`
		Seconds []pageSecond `json:"seconds"` // per second of a hold
	}{PageFormat, newDocument(r), pageSeconds(x)})
	if err != nil {
		return fmt.Errorf("encode page's data: %w", err)
	}
	for _, part := range [][]byte{[]byte("<script type=\"application/json\" id=\"data\">"), printable(text), []byte("</script>\n")} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write page: %w", err)
		}
	}
	return nil
}

// pageSecond is what was counted in about a second; full_polls is left out where it was not.
type pageSecond struct {
	Trial     string  `json:"trial"`
	FromNS    int64   `json:"from_ns"` // since the target's boot
	TookNS    int64   `json:"took_ns"`
	Polls     uint64  `json:"polls"`
	FullPolls *uint64 `json:"full_polls,omitempty"`
	Packets   uint64  `json:"packets"`
	Voluntary uint64  `json:"voluntary"`
	Nonvol    uint64  `json:"nonvoluntary"`
	RunNS     int64   `json:"run_ns"`
}

func pageSeconds(x Extras) []pageSecond {
	out := []pageSecond{}
	for _, t := range x.Trials {
		for _, s := range t.Seconds {
			p := pageSecond{Trial: t.Trial, FromNS: int64(s.From), TookNS: int64(s.Took), Polls: s.Polls, Packets: s.Packets,
				Voluntary: s.Sleeps, Nonvol: s.Nonvol, RunNS: int64(s.RunTime)}
			if s.Traced {
				p.FullPolls = &s.Full
			}
			out = append(out, p)
		}
	}
	return out
}

func newPage(r Run, x Extras) page {
	sc := lengthScale(r)
	p := page{
		Title: r.title(), Name: clean(r.Experiment.Name), Question: clean(r.Experiment.Question), Setting: r.setting(), Host: clean(r.Host),
		Version: clean(r.Version), Live: clean(x.Live), State: clean(x.State),
		CSS: template.CSS(pageCSS), JS: template.JS(pageJS),
		Word: string(r.Verdict.Word), Tone: tone(r.Verdict.Word), Sentences: cleaned(r.Verdict.Sentences),
		NotMeasured: cleaned(r.Verdict.NotMeasured), Caveats: r.caveats(), Remarks: r.remarks(),
		Noun: r.noun(), Rows: r.armRows(), Strip: newStrip(r, x, sc), CDF: newCDF(r, sc), Time: newTimeline(r, x, sc),
		Waits: newWaits(r), Heat: newHeatMap(r), Repeat: cleaned(r.Repeat), Commands: r.commands(x), Experiment: cleanLines(r.Text),
		Comparisons: r.comparisons(), Logs: logs(r, x),
	}
	for _, problem := range x.Problems {
		p.Remarks = append(p.Remarks, "left out: "+clean(problem))
	}
	if p.Question == "" {
		p.Question = p.Name
	}
	if x.Live != "" {
		p.LiveJS = template.JS(liveJS)
	}
	p.Several = r.Experiment.Reps > 1
	p.CSP = policy(x.Live != "")
	p.results(r)
	for _, a := range r.measured() {
		p.Arms = append(p.Arms, clean(a.Arm.Name))
	}
	for _, a := range r.Arms {
		p.Lockups, p.Several = p.Lockups || a.SoftLockups > 0, p.Several || len(a.Trials) > 1
	}
	if len(p.Arms) > 0 {
		p.Differ, p.Same = r.facts()
	}
	if n := len(p.Comparisons); n > 0 {
		p.Tests = testsMade(n)
	}
	p.Slow, p.MoreSlow = r.slowRows(x)
	return p
}

func (p *page) results(r Run) {
	tones := map[explain.Status]string{explain.Met: "good", explain.NotMet: "bad", explain.Unknown: "unsure"}
	for _, res := range r.Results {
		p.Results = append(p.Results, resultRow{clean(res.Expectation.Text), string(res.Status), clean(res.Got), tones[res.Status]})
	}
	p.Met = fmt.Sprintf("%d of %d expectations met", len(r.Results)-r.Unmet(), len(r.Results))
}

func cleaned(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, clean(s))
	}
	return out
}

// tone is the class of a verdict: what a reader has to do with it, not whether it is welcome.
func tone(w explain.Word) string {
	switch w {
	case explain.Reproduced:
		return "bad"
	case explain.NotReproduced:
		return "good"
	}
	return "unsure"
}

// policy lets the page run its own scripts and styles and nothing else, whatever a kernel or a file said.
func policy(live bool) string {
	scripts, connect := "'"+digest(pageJS)+"'", "'none'"
	if live {
		scripts, connect = scripts+" '"+digest(liveJS)+"'", "'self'"
	}
	return strings.Join([]string{"default-src 'none'", "style-src '" + digest(pageCSS) + "'", "script-src " + scripts, "connect-src " + connect,
		"img-src data:", "base-uri 'none'", "form-action 'none'"}, "; ")
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// logs are the trials with excerpts, the first of which is open.
func logs(r Run, x Extras) []trialLog {
	var out []trialLog
	for _, a := range r.Arms {
		for _, t := range a.Trials {
			extra := x.trial(t.ID)
			if len(extra.Excerpts) == 0 {
				continue
			}
			l := trialLog{Trial: clean(t.ID), Omitted: extra.Omitted}
			for _, e := range extra.Excerpts {
				shown := pageExcerpt{What: clean(e.What), Open: len(out) == 0 && len(l.Excerpts) == 0}
				for _, line := range e.Lines {
					shown.Lines = append(shown.Lines, ExcerptLine{Text: cleanLines(line.Text), Own: line.Own})
				}
				l.Excerpts = append(l.Excerpts, shown)
			}
			out = append(out, l)
		}
	}
	return out
}
