package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/term"

	"github.com/napistall/napistall/internal/runner"
)

// A screen shows progress on stderr. On a terminal each running trial has one line at the bottom that
// is drawn anew; elsewhere a line is written at each change of phase. Log lines pass through it, so
// that they don't break the drawing. It may be used concurrently.
type screen struct {
	mu       sync.Mutex
	f        *os.File
	terminal bool
	lines    []shown // drawn at the bottom of the terminal
}

// shown is the newest line about one trial or arm.
type shown struct{ key, phase, line string }

func newScreen(f *os.File) *screen {
	return &screen{f: f, terminal: term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"}
}

// progress shows p.
func (s *screen) progress(p runner.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, line := p.Trial+"/"+p.Arm, runner.Line(p)
	i := slices.IndexFunc(s.lines, func(l shown) bool { return l.key == key })
	if i < 0 {
		s.lines = append(s.lines, shown{key: key})
		i = len(s.lines) - 1
	}
	changed := s.lines[i].phase != p.Phase || p.Done
	var b bytes.Buffer
	s.erase(&b)
	if p.Done {
		s.lines = slices.Delete(s.lines, i, i+1)
	} else {
		s.lines[i].phase, s.lines[i].line = p.Phase, line
	}
	if p.Done || changed && !s.terminal {
		fmt.Fprintln(&b, line)
	}
	s.draw(&b)
	s.put(&b)
}

// Write writes whole lines of a log above the drawing.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	s.erase(&b)
	b.Write(text)
	s.draw(&b)
	s.put(&b)
	return len(text), nil
}

// close leaves the terminal without a drawing.
func (s *screen) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	s.erase(&b)
	s.lines = nil
	s.put(&b)
}

// erase goes back to where the drawing began; what is drawn there next clears the rest.
func (s *screen) erase(b *bytes.Buffer) {
	if drawn := s.drawn(); drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", drawn)
	}
}

func (s *screen) draw(b *bytes.Buffer) {
	if !s.terminal {
		return
	}
	for _, l := range s.lines {
		if l.line != "" {
			fmt.Fprintln(b, l.line)
		}
	}
}

// drawn is how many lines the drawing has.
func (s *screen) drawn() int {
	if !s.terminal {
		return 0
	}
	n := 0
	for _, l := range s.lines {
		if l.line != "" {
			n++
		}
	}
	return n
}

func (s *screen) put(b *bytes.Buffer) {
	_, _ = s.f.Write(b.Bytes()) // stderr gone: there is nobody to tell
}
