package sim

import (
	"errors"
	"fmt"
	"io"

	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/traceevent"
)

// A Trace writes the events of one trial as JSON in Chrome's trace event format, which Perfetto's and Chrome's viewers
// open: a track for each CPU whose slices are what runs there and for how long, and marks for what it brings
// about. It is not for concurrent use.
type Trace struct {
	// From and To bound what is written, in nanoseconds from the load's start; To of 0 is no bound.
	From, To int64
	// Max is how many events are written at most; 0 is DefaultTraceMax. What is beyond is counted.
	Max int

	w       *traceevent.Writer
	n       int
	skipped int
	last    [2]int64 // when the last slice of each CPU ended
}

// DefaultTraceMax is as much as the viewers open without trouble: some hundred megabytes.
const DefaultTraceMax = 1_000_000

// NewTrace returns a trace that writes to w, which the caller closes after the trial.
func NewTrace(w io.Writer) *Trace { return &Trace{w: traceevent.NewWriter(w)} }

var errNoTrace = errors.New("nothing was traced: the trial has no event in the span that was asked for")

// step writes what happened now.
func (t *Trace) step(e *engine, out model.Outcome) {
	at := e.now - e.rec.begin
	cpu := int(out.CPU)
	from := max(t.last[cpu&1], at-e.p.cost(out, e.p.interrupt))
	t.last[cpu&1] = at
	switch {
	case t.w.Err() != nil || at < t.From || t.To > 0 && at > t.To || out.Step == model.StepNone:
		return
	case t.n >= t.limit():
		t.skipped++
		return
	}
	t.open(e)
	t.n++
	track := traceevent.Track{PID: 1, TID: cpu}
	args := traceevent.Args{"task": fmt.Sprint(out.Task), "n": out.N}
	if cost := at - from; cost > 0 && out.Step != model.StepAge && out.Step != model.StepArrive {
		t.w.Slice(track, fmt.Sprint(out.Step), from, from+cost, args)
	} else {
		t.w.Instant(track, fmt.Sprint(out.Step), at, args)
	}
	if f := out.Effects &^ quiet; f != 0 {
		t.n++
		t.w.Across(track, fmt.Sprint(f), at, nil)
	}
}

// cost is what a step took before its effect.
func (p prices) cost(out model.Outcome, interrupt int64) int64 {
	switch out.Step {
	case model.StepPoll, model.StepNetRXPoll:
		return p.step[out.Step] + int64(out.N)*p.packet
	case model.StepTick, model.StepNICInterrupt, model.StepExpIPI, model.StepReschedIPI:
		return 0 // it happens at its begin
	}
	return p.step[out.Step]
}

func (t *Trace) limit() int {
	if t.Max > 0 {
		return t.Max
	}
	return DefaultTraceMax
}

// open writes what comes before the first event.
func (t *Trace) open(e *engine) {
	if t.n > 0 {
		return
	}
	t.w.Open(traceevent.Args{"source": "napistall sim", "arm": e.rec.arm.Name})
	t.w.Process(1, "model of "+e.rec.facts.Kernel)
	for cpu, name := range []string{"CPU under test", "CPU of the probes"} {
		t.w.Thread(traceevent.Track{PID: 1, TID: cpu}, name)
	}
}

// finish ends the JSON.
func (t *Trace) finish() error {
	if t.n == 0 && t.w.Err() == nil {
		return errNoTrace
	}
	return t.w.Finish()
}

// Skipped is how many events were beyond Max.
func (t *Trace) Skipped() int { return t.skipped }
