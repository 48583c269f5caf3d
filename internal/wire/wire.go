// Package wire writes and reads experiment records as lines, the same on a serial port, on a pipe
// and on disk: one JSON object a line, numbered from 0, the last an End that repeats the count.
package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/napistall/napistall/internal/experiment"
)

// MaxLine is the longest line that a Reader accepts, in bytes.
const MaxLine = 1 << 20

// ErrCut says that a stream stopped before its End.
var ErrCut = errors.New("the records stop before their end")

// A Writer numbers records and writes each as one line. It is not for concurrent use.
type Writer struct {
	w io.Writer
	n int
}

// NewWriter returns a Writer that makes one Write call on w for each record.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sets r's number, and an End's count of records, and writes r as a line.
func (w *Writer) Write(r experiment.Record) error {
	r.N = w.n
	if r.End != nil {
		end := *r.End
		end.Records = w.n
		r.End = &end
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record %d: %w", r.N, err)
	}
	if _, err := w.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write record %d: %w", r.N, err)
	}
	w.n++
	return nil
}

// A Reader reads what a Writer wrote. It is not for concurrent use.
type Reader struct {
	s     *bufio.Scanner
	next  int
	line  int
	ended bool
	lost  *experiment.Record // a record held back while the Loss before it is returned
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), MaxLine)
	return &Reader{s: s}
}

// Read returns the next record; io.EOF after the End; ErrCut where the stream stops before it; and
// for a line that is no record an error that names the line. A gap in the numbers is returned as a
// Loss record before the record that follows it, so that what was missed is counted.
func (r *Reader) Read() (experiment.Record, error) {
	if r.lost != nil {
		rec := *r.lost
		r.lost = nil
		return rec, nil
	}
	if r.ended {
		return experiment.Record{}, io.EOF
	}
	line, err := r.scan()
	if err != nil {
		return experiment.Record{}, err
	}
	rec, err := Decode(line)
	if err != nil {
		return experiment.Record{}, fmt.Errorf("line %d: %w", r.line, err)
	}
	if rec.N < r.next {
		return experiment.Record{}, fmt.Errorf("line %d: record %d after record %d", r.line, rec.N, r.next-1)
	}
	missed := rec.N - r.next
	r.next = rec.N + 1
	r.ended = rec.End != nil
	if missed > 0 {
		r.lost = &rec
		return experiment.Record{N: rec.N, At: rec.At, Loss: &experiment.Loss{
			What: "records", Count: missed, Why: "a gap in their numbers"}}, nil
	}
	return rec, nil
}

// scan returns the next line that is not blank.
func (r *Reader) scan() ([]byte, error) {
	for r.s.Scan() {
		r.line++
		if line := bytes.TrimSpace(r.s.Bytes()); len(line) > 0 {
			return line, nil
		}
	}
	err := r.s.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("not a record: longer than %d bytes", MaxLine)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", r.line+1, err)
	}
	return nil, ErrCut
}

// Decode returns the record in line, which must hold exactly one of a record's parts.
func Decode(line []byte) (experiment.Record, error) {
	if rec, ok := plainSample(line); ok {
		return rec, nil
	}
	var rec experiment.Record
	if err := json.Unmarshal(line, &rec); err != nil {
		return rec, fmt.Errorf("not a record: %w", err)
	}
	if n := parts(rec); n != 1 {
		return rec, fmt.Errorf("not a record: %d parts, want 1", n)
	}
	if rec.N < 0 {
		return rec, fmt.Errorf("not a record: number %d", rec.N)
	}
	return rec, nil
}

func parts(r experiment.Record) int {
	n := 0
	for _, set := range []bool{
		r.Command != nil, r.Console != nil, r.Facts != nil, r.Phase != nil, r.Sample != nil,
		r.Counters != nil, r.Kmsg != nil, r.Loss != nil, r.End != nil,
	} {
		if set {
			n++
		}
	}
	return n
}
