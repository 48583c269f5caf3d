package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/napistall/napistall/internal/model"
)

// A Trace writes the events of one trial as JSON in Chrome's trace event format, which Perfetto's and Chrome's viewers
// open: a track for each CPU whose slices are what runs there and for how long, and marks for what it brings
// about. It is not for concurrent use.
type Trace struct {
	// From and To bound what is written, in nanoseconds from the load's start; To of 0 is no bound.
	From, To int64
	// Max is how many events are written at most; 0 is DefaultTraceMax. What is beyond is counted.
	Max int

	w       *bufio.Writer
	n       int
	skipped int
	last    [2]int64 // when the last slice of each CPU ended
	err     error
}

// DefaultTraceMax is as much as the viewers open without trouble: some hundred megabytes.
const DefaultTraceMax = 1_000_000

// NewTrace returns a trace that writes to w, which the caller closes after the trial.
func NewTrace(w io.Writer) *Trace { return &Trace{w: bufio.NewWriterSize(w, 1<<16)} }

var errNoTrace = errors.New("nothing was traced: the trial has no event in the span that was asked for")

// step writes what happened now.
func (t *Trace) step(e *engine, out model.Outcome) {
	at := e.now - e.rec.begin
	cpu := int(out.CPU)
	from := max(t.last[cpu&1], at-e.p.cost(out, e.p.interrupt))
	t.last[cpu&1] = at
	switch {
	case t.err != nil || at < t.From || t.To > 0 && at > t.To || out.Step == model.StepNone:
		return
	case t.n >= t.limit():
		t.skipped++
		return
	}
	t.open(e)
	if cost := at - from; cost > 0 && out.Step != model.StepAge && out.Step != model.StepArrive {
		t.event(`{"name":%q,"ph":"X","pid":1,"tid":%d,"ts":%s,"dur":%s,"args":{"task":%q,"n":%d}}`,
			out.Step, cpu, micros(from), micros(cost), out.Task, out.N)
	} else {
		t.event(`{"name":%q,"ph":"i","s":"t","pid":1,"tid":%d,"ts":%s,"args":{"task":%q,"n":%d}}`,
			out.Step, cpu, micros(at), out.Task, out.N)
	}
	if f := out.Effects &^ quiet; f != 0 {
		t.event(`{"name":%q,"ph":"i","s":"p","pid":1,"tid":%d,"ts":%s,"args":{}}`, f, cpu, micros(at))
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
	t.write(`{"displayTimeUnit":"ns","otherData":{"source":"napistall sim","arm":%q},"traceEvents":[`+"\n", e.rec.arm.Name)
	t.write(`{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":%q}}`, "model of "+e.rec.facts.Kernel)
	names := []string{"CPU under test", "CPU of the probes"}
	for cpu, name := range names {
		t.write(",\n"+`{"name":"thread_name","ph":"M","pid":1,"tid":%d,"args":{"name":%q}}`, cpu, name)
	}
}

func (t *Trace) event(format string, args ...any) {
	t.n++
	t.write(",\n"+format, args...)
}

func (t *Trace) write(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// finish ends the JSON.
func (t *Trace) finish() error {
	if t.n == 0 && t.err == nil {
		return errNoTrace
	}
	t.write("\n]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("write the trace: %w", t.err)
	}
	return nil
}

// Skipped is how many events were beyond Max.
func (t *Trace) Skipped() int { return t.skipped }

// micros writes nanoseconds as microseconds, which is the format's unit.
func micros(ns int64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }
