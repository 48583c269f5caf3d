package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

// storyFormat is the version of the JSON document of a story: it grows when a field goes or changes its meaning, not when
// one is added.
const storyFormat = 1

// jsonStory is a story's document. Times are nanoseconds from the operation's begin unless they say otherwise.
type jsonStory struct {
	Format     int                 `json:"format"`
	Trial      string              `json:"trial"`
	Arm        string              `json:"arm"`
	Rep        int                 `json:"rep"`
	Number     int                 `json:"number"` // of the operation in the trial, from 1; 0: it has none
	Of         int                 `json:"of"`
	Op         string              `json:"op"`
	Start      int64               `json:"start"` // on the target's CLOCK_MONOTONIC
	Took       int64               `json:"took"`
	Censored   bool                `json:"censored"`
	Phase      string              `json:"phase"`
	Held       bool                `json:"held"` // a thread kept the CPU under test for most of the time
	Slow       bool                `json:"slow"` // it took over 1 s
	Title      string              `json:"title"`
	LoadBegin  *int64              `json:"load_begin,omitempty"`
	LoadEnd    *int64              `json:"load_end,omitempty"`
	Ordered    bool                `json:"ordered"` // the spans are in the order in which they were seen
	Named      float64             `json:"named"`   // share of the time that a wait is known of
	Spans      []explain.Span      `json:"spans"`
	Marks      []explain.Mark      `json:"marks"`
	Counts     []jsonTick          `json:"counts"`
	Statements []explain.Statement `json:"statements"`
	Facts      experiment.Facts    `json:"facts"`
}

// jsonTick is what was counted between two readings.
type jsonTick struct {
	From   int64        `json:"from"`
	To     int64        `json:"to"`
	Band   explain.Band `json:"band"`
	Traced bool         `json:"traced"`
	Polls  uint64       `json:"polls"`
	Full   uint64       `json:"full_polls"`
	Sleeps uint64       `json:"sleeps"`
	Nonvol uint64       `json:"nonvoluntary"`
	Ran    int64        `json:"ran"` // nanoseconds that the NAPI thread was on a CPU
}

// StoryJSON writes s as one JSON document, which docs/explain.md describes.
func StoryJSON(w io.Writer, s explain.Story) error {
	text, err := json.MarshalIndent(storyDocument(s), "", "  ")
	if err != nil {
		return fmt.Errorf("encode story: %w", err)
	}
	if _, err := w.Write(append(printable(text), '\n')); err != nil {
		return fmt.Errorf("write story: %w", err)
	}
	return nil
}

func storyDocument(s explain.Story) jsonStory {
	j := jsonStory{
		Format: storyFormat, Trial: s.Trial, Arm: s.Arm.Name, Rep: s.Rep, Number: s.Number, Of: s.Of, Op: s.Sample.Op, Start: int64(s.Sample.Start),
		Took: int64(s.Sample.Took), Censored: s.Sample.Censored, Phase: s.Sample.Phase, Held: s.Held, Slow: s.Slow, Title: s.Title, Ordered: s.Ordered,
		Named: s.Named, Spans: list(s.Spans), Marks: list(s.Marks), Counts: []jsonTick{}, Statements: list(s.Statements), Facts: s.Facts,
	}
	if s.HasLoad {
		j.LoadBegin, j.LoadEnd = storyNanos(s.LoadBegin), storyNanos(s.LoadEnd)
	}
	for _, x := range s.Ticks {
		j.Counts = append(j.Counts, jsonTick{int64(x.From), int64(x.To), x.Band, x.Window.Traced, x.Window.Polls, x.Window.Full,
			x.Window.Sleeps, x.Window.Nonvol, int64(x.Window.RunTime)})
	}
	return j
}

func storyNanos(d time.Duration) *int64 {
	n := int64(d)
	return &n
}
