// Package traceevent writes JSON in Chrome's trace event format, which ui.perfetto.dev and chrome://tracing open. Names and
// arguments may be any text.
package traceevent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// A Writer writes one trace. Its instants are nanoseconds from any beginning, not negative. The first error is kept, and
// nothing is written after it; Finish returns it. It is not for concurrent use.
type Writer struct {
	w      *bufio.Writer
	opened bool
	first  bool // the next thing written is the first of the array
	err    error
}

// A Track says where an event is drawn: a process and a thread in it, by their numbers.
type Track struct{ PID, TID int }

// Args are what a viewer shows of an event beside its name. Values are what encoding/json takes.
type Args map[string]any

// NewWriter returns a Writer to w, which the caller closes after Finish.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 1<<16)} }

// Open begins the trace; other says what it is of. It must come first, and does nothing a second time.
func (t *Writer) Open(other Args) {
	if t.opened {
		return
	}
	t.opened, t.first = true, true
	t.write(`{"displayTimeUnit":"ns","otherData":%s,"traceEvents":[`, t.json(other))
}

// Process names the process pid.
func (t *Writer) Process(pid int, name string) {
	t.put(`{"name":"process_name","ph":"M","pid":%d,"tid":0,"args":{"name":%s}}`, pid, t.json(name))
}

// Thread names a track and puts it in the order of its TID.
func (t *Writer) Thread(at Track, name string) {
	t.put(`{"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":%s}}`, at.PID, at.TID, t.json(name))
}

// Slice is something that lasted from from to to.
func (t *Writer) Slice(at Track, name string, from, to int64, args Args) {
	t.put(`{"name":%s,"ph":"X","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":%s}`, t.json(name), at.PID, at.TID, micros(from), micros(max(0, to-from)), t.json(args))
}

// Instant is a mark on its track.
func (t *Writer) Instant(at Track, name string, when int64, args Args) {
	t.instant('t', at, name, when, args)
}

// Across is a mark across all tracks of its process.
func (t *Writer) Across(at Track, name string, when int64, args Args) {
	t.instant('p', at, name, when, args)
}

func (t *Writer) instant(scope rune, at Track, name string, when int64, args Args) {
	t.put(`{"name":%s,"ph":"i","s":"%c","pid":%d,"tid":%d,"ts":%s,"args":%s}`, t.json(name), scope, at.PID, at.TID, micros(when), t.json(args))
}

// Counter is a value that holds from when on.
func (t *Writer) Counter(pid int, name string, when int64, value float64) {
	t.put(`{"name":%s,"ph":"C","pid":%d,"ts":%s,"args":{"value":%s}}`, t.json(name), pid, micros(when), t.json(value))
}

// Err is what writing failed of, if it did.
func (t *Writer) Err() error { return t.err }

// Finish ends the trace and writes out what is buffered.
func (t *Writer) Finish() error {
	t.Open(nil)
	t.write("\n]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("write the trace: %w", t.err)
	}
	return nil
}

func (t *Writer) put(format string, args ...any) {
	separator := ",\n"
	if t.first {
		separator, t.first = "\n", false
	}
	t.write(separator+format, args...)
}

func (t *Writer) write(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

func (t *Writer) json(v any) string {
	if args, is := v.(Args); is && args == nil {
		return "{}"
	}
	text, err := json.Marshal(v)
	if err != nil && t.err == nil {
		t.err = err
	}
	return string(text)
}

// micros writes nanoseconds as microseconds, which is the format's unit.
func micros(ns int64) string {
	ns = max(0, ns)
	return fmt.Sprintf("%d.%03d", ns/1000, ns%1000)
}
