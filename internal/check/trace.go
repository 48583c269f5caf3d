package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/napistall/napistall/internal/model"
)

// A Trace is a counterexample as a file of JSON lines: a header, then one event a line. What a header means is
// all that it takes to build the same model; the events, let happen one after the other from the initial
// state, are the run, and from event Stem on it repeats.
type Trace struct {
	Header
	Events []TraceEvent
}

// traceVersion is the format's version. It changes when an old reader would misread a new file.
const traceVersion = 1

// A Header is a trace's first line.
type Header struct {
	Version int `json:"napistallTrace"`
	Question
	Invariant string `json:"invariant,omitempty"` // the one that the last event breaks; there is no cycle then
	Stem      int    `json:"stem"`                // events before the cycle
	Cycle     int    `json:"cycle"`               // events of the cycle
}

// A TraceEvent is one line. Event and Arrive are what happens; the rest is what it did, for the reader, and is
// compared with what the model does if it is there.
type TraceEvent struct {
	Event  string `json:"event"`            // in the words of model.Event
	Arrive int    `json:"arrive,omitempty"` // packets that arrive, if not 1
	Step   string `json:"step,omitempty"`   // the kernel function
	CPU    int    `json:"cpu"`
	Task   string `json:"task,omitempty"`
	N      int    `json:"n,omitempty"` // packets polled, or dropped
	Does   string `json:"does,omitempty"`
}

// Trace returns a's run as a trace.
func (a *Answer) Trace() (*Trace, error) {
	if a.Run == nil {
		return nil, fmt.Errorf("there is no counterexample: %s", a.Verdict)
	}
	sys, err := a.Question.system()
	if err != nil {
		return nil, err
	}
	t := &Trace{Header: Header{Version: traceVersion, Question: a.Question, Invariant: a.Invariant, Stem: len(a.Run.Stem), Cycle: len(a.Run.Cycle)}}
	s := sys.m.Initial()
	w := walk{keep: true}
	for _, h := range append(slices.Clone(a.Run.Stem), a.Run.Cycle...) {
		sys.one(&s, h, &w)
	}
	for _, o := range w.events {
		t.Events = append(t.Events, traceEvent(o.Happening, &o.outcome))
	}
	return t, nil
}

func traceEvent(h Happening, o *model.Outcome) TraceEvent {
	return TraceEvent{
		Event: h.Event.String(), Arrive: h.Packets,
		Step: o.Step.String(), CPU: int(o.CPU), Task: o.Task.String(), N: int(o.N), Does: o.Effects.String(),
	}
}

// WriteTo writes t as JSON lines.
func (t *Trace) WriteTo(w io.Writer) (int64, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t.Header); err != nil {
		return 0, err
	}
	for _, e := range t.Events {
		if err := enc.Encode(e); err != nil {
			return 0, err
		}
	}
	return buf.WriteTo(w)
}

// A TraceError is about a line of a trace.
type TraceError struct {
	Line int
	Err  error
}

// Error says which line, and what is wrong with it.
func (e *TraceError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *TraceError) Unwrap() error { return e.Err }

// maxTraceEvents bounds what ReadTrace takes: no counterexample is near it.
const maxTraceEvents = 1 << 20

// ReadTrace reads what WriteTo wrote. What is wrong with the text is a *TraceError.
func ReadTrace(r io.Reader) (*Trace, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), 1<<20)
	t := &Trace{}
	line := 0
	for sc.Scan() {
		line++
		var err error
		if line == 1 {
			err = t.readHeader(sc.Bytes())
		} else {
			err = t.readEvent(sc.Bytes())
		}
		if err != nil {
			return nil, &TraceError{line, err}
		}
	}
	if err := sc.Err(); err != nil {
		return nil, &TraceError{line + 1, err}
	}
	if line == 0 {
		return nil, &TraceError{1, fmt.Errorf("no header")}
	}
	if len(t.Events) != t.Stem+t.Cycle {
		return nil, &TraceError{line, fmt.Errorf("ends after %d events; the header says %d and %d", len(t.Events), t.Stem, t.Cycle)}
	}
	return t, nil
}

func (t *Trace) readHeader(text []byte) error {
	if err := strict(text, &t.Header); err != nil {
		return err
	}
	switch {
	case t.Version != traceVersion:
		return fmt.Errorf("trace version %d; want %d", t.Version, traceVersion)
	case t.Stem < 0 || t.Cycle < 0 || t.Stem > maxTraceEvents || t.Cycle > maxTraceEvents:
		return fmt.Errorf("a stem of %d and a cycle of %d events: want 0 to %d", t.Stem, t.Cycle, maxTraceEvents)
	case t.Invariant != "" && t.Cycle > 0:
		return fmt.Errorf("an invariant is broken by the last event: no cycle follows")
	}
	return nil
}

func (t *Trace) readEvent(text []byte) error {
	var e TraceEvent
	if err := strict(text, &e); err != nil {
		return err
	}
	if len(t.Events) >= t.Stem+t.Cycle {
		return fmt.Errorf("more events than the header says: %d and %d", t.Stem, t.Cycle)
	}
	t.Events = append(t.Events, e)
	return nil
}

// strict decodes one value, of known keys only.
func strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("more than one value on the line")
	}
	return nil
}

// Replay lets t's events happen from the initial state and returns an error unless they can, do what the trace says,
// and show what its header claims: a fair cycle in which the wait never ends, or the broken invariant. What is wrong
// with one line is a *TraceError.
func (t *Trace) Replay() error {
	sys, err := t.Question.system()
	if err != nil {
		return &TraceError{1, err}
	}
	p, err := t.Question.Property.find()
	if err != nil {
		return &TraceError{1, err}
	}
	r, err := t.run(sys)
	if err != nil {
		return err
	}
	err = sys.verify(r, p.wait(), fairness(true, t.TicksOutside), t.Invariant)
	if e, ok := errors.AsType[*eventError](err); ok {
		return &TraceError{e.at + 2, e.err}
	}
	return err
}

// run reads the events, and holds what they do against what t says.
func (t *Trace) run(sys *interleaving) (*Run, error) {
	events, err := eventsByName()
	if err != nil {
		return nil, err
	}
	r := &Run{}
	s := sys.m.Initial()
	for i, te := range t.Events {
		e, ok := events[te.Event]
		if !ok || te.Arrive < 0 || te.Arrive > 1<<16 || te.Arrive > 0 && e != model.Arrive {
			return nil, &TraceError{i + 2, fmt.Errorf("event %q with %d packets: want an event of the model, and packets with arrive only", te.Event, te.Arrive)}
		}
		h := Happening{e, te.Arrive}
		w := walk{keep: true}
		sys.one(&s, h, &w)
		if len(w.events) == 0 {
			return nil, &TraceError{i + 2, fmt.Errorf("%v can't happen here", e)}
		}
		if did := traceEvent(h, &w.events[0].outcome); te.Step != "" && te != did {
			return nil, &TraceError{i + 2, fmt.Errorf("%v does %q in %s; the trace says %q in %s", e, did.Does, did.Step, te.Does, te.Step)}
		}
		if i < t.Stem {
			r.Stem = append(r.Stem, h)
		} else {
			r.Cycle = append(r.Cycle, h)
		}
	}
	return r, nil
}

func eventsByName() (map[string]model.Event, error) {
	events := map[string]model.Event{}
	for e := range model.Event(markEventsEnd) {
		if _, ok := events[e.String()]; ok {
			return nil, fmt.Errorf("two events are called %q", e)
		}
		events[e.String()] = e
	}
	return events, nil
}
