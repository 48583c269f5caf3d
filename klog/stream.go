package klog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Events reads a whole log from r and yields its events, each once nothing more can be said about it
// (see NewParser), in order of their first line. The log can be of any length, and in any of the forms that Lines takes, as well
// as records of /dev/kmsg and of journalctl -o json and -o export. Memory does not depend on its length: no more
// than 64 KiB of a line are looked at. An error is r's and comes last, after the events of what was read.
func Events(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		more := true
		p := NewParser(func(e Event) { more = more && yield(e, nil) })
		s := source{in: r, buf: make([]byte, 0, bufSize)}
		feed := feeder{p: p}
		err := s.each(func(line []byte) bool {
			feed.line(line, &s)
			return more
		})
		if more {
			feed.record()
			p.Close()
		}
		if err != nil && more {
			yield(Event{}, fmt.Errorf("read log: %w", err))
		}
	}
}

const (
	bufSize = 256 << 10
	maxRaw  = 64 << 10 // of one line
)

// A source cuts a stream into lines.
type source struct {
	in   io.Reader
	buf  []byte // not yet used from pos on
	pos  int
	err  error
	idle int // reads in a row that gave nothing
}

// fill reads more behind what is not used yet.
func (s *source) fill() {
	if s.err != nil {
		return
	}
	n := copy(s.buf[:cap(s.buf)], s.buf[s.pos:])
	s.buf, s.pos = s.buf[:n], 0
	n, s.err = s.in.Read(s.buf[n:cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if n > 0 {
		s.idle = 0
	} else if s.idle++; s.err == nil && s.idle > 100 {
		s.err = io.ErrNoProgress
	}
}

// each calls f with every line, without its LF. A line longer than maxRaw is cut: at a CR, the line end of old
// Macs, or else its rest is left out.
func (s *source) each(f func([]byte) bool) error {
	seen := 0 // bytes without LF at pos
	skip := false
	for {
		rest := s.buf[s.pos:]
		i := bytes.IndexByte(rest[min(seen, len(rest)):], '\n')
		switch {
		case i >= 0:
			s.pos += seen + i + 1
			if !skip && !f(rest[:seen+i]) {
				return nil
			}
			seen, skip = 0, false
			continue
		case len(rest) >= maxRaw:
			cut := maxRaw
			if cr := bytes.LastIndexByte(rest[:maxRaw], '\r'); cr >= 0 {
				cut = cr + 1
			}
			s.pos += cut
			if !skip && !f(rest[:cut]) {
				return nil
			}
			skip = rest[cut-1] != '\r'
			seen = 0
			continue
		case s.err != nil:
			if len(rest) > 0 && !skip {
				f(rest)
			}
			if errors.Is(s.err, io.EOF) {
				return nil
			}
			return s.err
		}
		seen = len(rest)
		s.fill()
	}
}

// take returns the next n bytes, at most maxRaw of them, and passes over all n. They are valid until the next call.
func (s *source) take(n uint64) []byte {
	for uint64(len(s.buf)-s.pos) < min(n, maxRaw) && s.err == nil {
		s.fill()
	}
	got := s.buf[s.pos:]
	got = got[:min(uint64(len(got)), n, maxRaw)]
	left := n - uint64(len(got))
	s.pos += len(got)
	if left == 0 || len(got) < maxRaw {
		return got
	}
	got = bytes.Clone(got)
	for left > 0 {
		if s.pos == len(s.buf) {
			if s.err != nil {
				break
			}
			s.fill()
		}
		k := min(uint64(len(s.buf)-s.pos), left)
		s.pos += int(k)
		left -= k
	}
	return got
}

// A feeder unwraps what a source has and gives it to a parser.
type feeder struct {
	p      *Parser
	export bool   // journalctl -o export: fields line by line
	boot   string // the journal's id of the boot
	entry  journalEntry
	lines  []Line
}

// A journalEntry is what the journal has around a kernel line.
type journalEntry struct {
	Message   json.RawMessage `json:"MESSAGE"`
	Source    string          `json:"_SOURCE_MONOTONIC_TIMESTAMP"`
	Monotonic string          `json:"__MONOTONIC_TIMESTAMP"`
	Boot      string          `json:"_BOOT_ID"`
	Transport string          `json:"_TRANSPORT"`
	text      string
}

func (f *feeder) line(raw []byte, s *source) {
	switch {
	case f.export:
		f.field(raw, s)
	case f.p.n == 0 && bytes.HasPrefix(raw, []byte("__CURSOR=")):
		f.export = true
	case len(raw) > 2 && raw[0] == '{' && raw[len(raw)-1] == '}' && bytes.Contains(raw, []byte(`"MESSAGE"`)):
		f.json(raw)
	case f.p.idle() && !telling(raw):
		f.dull(raw)
	default:
		f.text(string(raw[:min(len(raw), maxRaw)]))
	}
}

// text gives the lines that raw holds to the parser.
func (f *feeder) text(raw string) {
	for part := range strings.SplitSeq(raw, "\r") {
		f.lines = appendUnwrapped(f.lines[:0], part)
		for _, l := range f.lines {
			f.p.line(l)
		}
	}
}

// dull passes over a line that no report can begin at. Its stamp tells of a reboot all the same.
func (f *feeder) dull(raw []byte) {
	f.p.n++
	if len(raw) > 3 && raw[0] == '<' {
		if i := bytes.IndexByte(raw[:min(len(raw), 6)], '>'); i > 0 {
			raw = raw[i+1:]
		}
	}
	if usec, ok := quickStamp(raw); ok {
		f.p.boot(Line{Stamp: usec, HasStamp: true})
	}
}

// quickStamp is stampAt for the form that the kernel prints.
func quickStamp(b []byte) (time.Duration, bool) {
	if len(b) < 15 || b[0] != '[' {
		return 0, false
	}
	i := 1
	for i < len(b) && b[i] == ' ' {
		i++
	}
	var sec, usec int64
	start := i
	for ; i < len(b) && isDigit(b[i]); i++ {
		sec = sec*10 + int64(b[i]-'0')
	}
	if n := i - start; n == 0 || n > 9 || i+7 >= len(b) || b[i] != '.' || b[i+7] != ']' {
		return 0, false
	}
	for _, c := range b[i+1 : i+7] {
		if !isDigit(c) {
			return 0, false
		}
		usec = usec*10 + int64(c-'0')
	}
	return time.Duration(sec)*time.Second + time.Duration(usec)*time.Microsecond, true
}

// json takes in one line of journalctl -o json. A message that is no text is an array of bytes there.
func (f *feeder) json(raw []byte) {
	if f.p.idle() && !telling(raw) {
		f.p.n++
		return
	}
	var e journalEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		f.text(string(raw))
		return
	}
	if json.Unmarshal(e.Message, &e.text) != nil {
		var array []uint8
		var numbers []int
		if json.Unmarshal(e.Message, &numbers) != nil {
			return
		}
		for _, n := range numbers {
			array = append(array, uint8(n))
		}
		e.text = string(array)
	}
	f.entry = e
	f.record()
}

// field takes in one line of journalctl -o export: KEY=value, or KEY and then a length of 8 bytes, little-endian,
// and that many bytes, or nothing at the end of an entry.
func (f *feeder) field(raw []byte, s *source) {
	if len(raw) == 0 {
		f.record()
		return
	}
	k, value, text := bytes.Cut(raw, []byte("="))
	key := string(k[:min(len(k), 64)]) // take moves what raw is in
	if !text {
		var n uint64
		if b := s.take(8); len(b) == 8 {
			n = binary.LittleEndian.Uint64(b)
		}
		value = s.take(n)
		defer s.take(1) // LF
	}
	e := &f.entry
	switch key {
	case "MESSAGE":
		e.text = string(value)
	case "_SOURCE_MONOTONIC_TIMESTAMP":
		e.Source = string(value[:min(len(value), 24)])
	case "__MONOTONIC_TIMESTAMP":
		e.Monotonic = string(value[:min(len(value), 24)])
	case "_TRANSPORT":
		e.Transport = string(value[:min(len(value), 24)])
	case "_BOOT_ID":
		e.Boot = string(value[:min(len(value), 64)])
	}
}

// record gives the journal's entry to the parser.
func (f *feeder) record() {
	e := f.entry
	f.entry = journalEntry{}
	if e.text == "" || e.Transport != "" && e.Transport != "kernel" {
		return
	}
	if e.Boot != f.boot && f.boot != "" {
		f.p.restart()
		f.p.stamp = 0
	}
	f.boot = e.Boot
	l := Line{Text: strings.TrimRight(e.text, " \t\x00\r")}
	for _, s := range [...]string{e.Source, e.Monotonic} {
		if usec, err := strconv.ParseUint(s, 10, 53); err == nil {
			l.Stamp, l.HasStamp = time.Duration(usec)*time.Microsecond, true
			break
		}
	}
	f.p.Line(l)
}
