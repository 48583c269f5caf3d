package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

//go:embed story.html.tmpl
var storyTemplate string

// storyPage is what the page's template is given.
type storyPage struct {
	Story    explain.Story
	Name     string
	Setting  string
	Took     string
	State    string // of the page's headline: held, slow or fine
	Rows     []storyRow
	Ruler    []storyTick
	Spans    []storySpan
	Marks    []storyMark
	Document jsonStory
	SureHelp string
}

// A storyRow is one line of the drawn timeline. Places are thousandths of the operation's time.
type storyRow struct {
	Label string
	Bars  []storyBar
	Lines []storyLine
}

// A storyBar covers a time, and says what of.
type storyBar struct {
	Class string
	X, W  float64
	Title string
}

// A storyLine is an instant, and says of what.
type storyLine struct {
	Class string
	X     float64
	Title string
}

type storyTick struct {
	Percent float64
	Text    string
}

type storySpan struct{ Wait, Site, From, To, Took, Doubt, Samples string }

type storyMark struct{ At, Kind, Known, Text string }

// StoryHTML writes s as one page that needs nothing else: the sentence, a timeline that can be zoomed, every statement with
// what it rests on, and the story's JSON. Without scripts it is whole but for the zooming.
func StoryHTML(w io.Writer, s explain.Story) error {
	t, err := template.New("story").Parse(storyTemplate)
	if err != nil {
		return fmt.Errorf("the story's page: %w", err)
	}
	p := storyPage{Story: cleanStory(s), Name: clean(s.Name()), Setting: clean(storySetting(s)), Took: explain.FormatDuration(s.Sample.Took), State: "fine", Document: storyDocument(s), SureHelp: sureWords}
	switch {
	case s.Held:
		p.State = "held"
	case s.Slow:
		p.State = "slow"
	}
	if s.Number > 0 && s.Sample.Took > 0 {
		p.Rows = storyRows(s)
		for i := range 5 {
			p.Ruler = append(p.Ruler, storyTick{float64(25 * i), explain.FormatDuration(s.Sample.Took * time.Duration(i) / 4)})
		}
	}
	for _, x := range s.Spans {
		p.Spans = append(p.Spans, storySpan{spanLabel(x), clean(x.Site), seconds(x.From), seconds(x.To), explain.FormatDuration(x.Took()), explain.FormatDuration(x.Doubt), count(x.Samples)})
	}
	for _, m := range s.Marks {
		p.Marks = append(p.Marks, storyMark{seconds(m.At), string(m.Kind), map[bool]string{true: "predicted", false: "seen"}[m.Predicted], clean(m.Text)})
	}
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("write story: %w", err)
	}
	return nil
}

// cleanStory makes what s says harmless in print: the template escapes markup, not marks that turn the writing direction.
func cleanStory(s explain.Story) explain.Story {
	s.Title = clean(s.Title)
	said := s.Statements
	s.Statements = nil
	for _, x := range said {
		x.Text = clean(x.Text)
		evidence := x.Evidence
		x.Evidence = nil
		for _, e := range evidence {
			x.Evidence = append(x.Evidence, explain.Evidence{By: e.By, Text: clean(e.Text)})
		}
		s.Statements = append(s.Statements, x)
	}
	return s
}

func seconds(d time.Duration) string { return fmt.Sprintf("%+.3f s", d.Seconds()) }

// storyRows lays the timeline out.
func storyRows(s explain.Story) []storyRow {
	place := func(d time.Duration) float64 {
		return 1000 * min(max(d.Seconds(), 0), s.Sample.Took.Seconds()) / s.Sample.Took.Seconds()
	}
	bar := func(class string, from, to time.Duration, title string) storyBar {
		x := place(from)
		return storyBar{class, x, place(to) - x, clean(title)}
	}
	var rows []storyRow
	for _, name := range spanLabels(s.Spans) {
		row := storyRow{Label: name}
		for _, x := range s.Spans {
			if spanLabel(x) != name {
				continue
			}
			class := "wait"
			if x.Wait == rcu.OtherWait {
				class = "other"
			}
			row.Bars = append(row.Bars, bar(class, x.From, x.To, fmt.Sprintf("%s: %s to %s, %s of its stack, from %s", name, seconds(x.From), seconds(x.To), plural(x.Samples, "sample"), x.Site)))
		}
		rows = append(rows, row)
	}
	if row := threadRow(s, bar); len(row.Bars) > 0 {
		rows = append(rows, row)
	}
	for _, predicted := range []bool{false, true} {
		row := storyRow{Label: map[bool]string{false: "kernel log", true: "RCU, predicted"}[predicted]}
		for _, m := range s.Marks {
			onLine := m.Kind != explain.LoadBegins && m.Kind != explain.LoadEnds
			if onLine && m.Predicted == predicted && m.At >= 0 && m.At <= s.Sample.Took {
				row.Lines = append(row.Lines, storyLine{map[bool]string{false: "report", true: "due"}[predicted], place(m.At), clean(seconds(m.At) + " " + m.Text)})
			}
		}
		if len(row.Lines) > 0 {
			rows = append(rows, row)
		}
	}
	if s.HasLoad && s.LoadEnd > 0 {
		rows = append(rows, storyRow{Label: "load", Bars: []storyBar{bar("load", s.LoadBegin, s.LoadEnd, fmt.Sprintf("the load: %s to %s", seconds(s.LoadBegin), seconds(s.LoadEnd)))}})
	}
	return rows
}

// threadRow is what the loop did from reading to reading of the counters.
func threadRow(s explain.Story, bar func(string, time.Duration, time.Duration, string) storyBar) storyRow {
	row := storyRow{Label: clean(threadTrack(s))}
	for _, x := range s.Ticks {
		if x.To <= 0 || x.From >= s.Sample.Took || x.Band == explain.NoBand {
			continue
		}
		class := "in"
		switch {
		case x.Window.Traced && x.Window.Full > 0:
			class = "full"
		case x.Window.Sleeps > 0:
			class = "sleep"
		case x.Window.Nonvol > 0:
			class = "switch"
		}
		full := "budget not counted"
		if x.Window.Traced {
			full = fmt.Sprintf("%d with the whole budget", x.Window.Full)
		}
		row.Bars = append(row.Bars, bar(class, x.From, x.To, fmt.Sprintf("%s to %s: %d polls, %s, %d sleeps, %d other switches", seconds(x.From), seconds(x.To), x.Window.Polls, full, x.Window.Sleeps, x.Window.Nonvol)))
	}
	return row
}
