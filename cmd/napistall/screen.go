package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/napistall/napistall/internal/runner"
)

// A screen shows progress on stderr. On a terminal each running trial has one line at the bottom, and the
// run one below them, all drawn anew; elsewhere a line is written at each change of phase. Log lines pass
// through it, so that they don't break the drawing. It may be used concurrently.
type screen struct {
	mu       sync.Mutex
	f        *os.File
	terminal bool
	glyphs   glyphs
	size     func() (width, height int)
	lines    []shown  // the newest of each running trial or arm
	drawn    []string // at the bottom of the terminal
	run      wholeRun
}

// shown is the newest that is known about one trial or arm.
type shown struct {
	key string
	p   runner.Progress
}

func newScreen(f *os.File) *screen {
	return &screen{f: f, terminal: isScreen(f), glyphs: localeGlyphs(), size: func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	}}
}

// progress shows p.
func (s *screen) progress(p runner.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := p.Trial + "/" + p.Arm
	i := slices.IndexFunc(s.lines, func(l shown) bool { return l.key == key })
	changed := p.Done || i < 0 || s.lines[i].p.Phase != p.Phase
	switch {
	case i < 0 && !p.Done:
		s.lines = append(s.lines, shown{key, p})
	case i >= 0 && p.Done:
		s.lines = slices.Delete(s.lines, i, i+1)
	case i >= 0:
		s.lines[i].p = p
	}
	s.run.see(p)
	var b bytes.Buffer
	s.erase(&b)
	if p.Done || changed && !s.terminal {
		fmt.Fprintln(&b, runner.Line(p))
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

// erase clears the drawing and leaves the cursor where it began. A terminal that has become narrower has broken its
// lines. The cursor is not in the first column where somebody pressed a key.
func (s *screen) erase(b *bytes.Buffer) {
	if len(s.drawn) == 0 {
		return
	}
	width, height := s.size()
	rows := 0
	for _, l := range s.drawn {
		rows += max(1, (utf8.RuneCountInString(l)+width-1)/width)
	}
	fmt.Fprintf(b, "\r\x1b[%dA\x1b[J", min(rows, height-1))
	s.drawn = nil
}

// draw shows as many lines as there is room for; the run's own is the last.
func (s *screen) draw(b *bytes.Buffer) {
	if !s.terminal || len(s.lines) == 0 {
		return
	}
	width, height := s.size()
	room := max(1, height-1) // the cursor has a row of its own
	summary := s.run.line(s.lines, s.glyphs)
	if summary != "" && room > 1 {
		room--
	} else {
		summary = ""
	}
	for i, l := range s.lines {
		if i == room-1 && len(s.lines) > room {
			s.drawn = append(s.drawn, fmt.Sprintf("and %d more", len(s.lines)-i))
			break
		}
		s.drawn = append(s.drawn, liveLine(l.p, width-1, s.glyphs)) // the last column would break the line
	}
	if summary != "" {
		s.drawn = append(s.drawn, summary)
	}
	for i := range s.drawn {
		s.drawn[i] = s.glyphs.clip(s.drawn[i], width-1)
		fmt.Fprintln(b, s.drawn[i])
	}
}

func (s *screen) put(b *bytes.Buffer) {
	_, _ = s.f.Write(b.Bytes()) // stderr gone: there is nobody to tell
}

// A wholeRun adds up what is shown of a run.
type wholeRun struct {
	newest runner.Progress // of a trial
	stalls int             // in trials that are data
}

func (r *wholeRun) see(p runner.Progress) {
	if p.Trial == "" {
		return
	}
	r.newest = p
	if p.Done && p.Err == nil {
		r.stalls += p.Stalls
	}
}

// line says how far the run is, while running is under way; "" before its first trial.
func (r *wholeRun) line(running []shown, g glyphs) string {
	p := r.newest
	if p.Trial == "" {
		return ""
	}
	stalls := r.stalls
	for _, l := range running {
		stalls += l.p.Stalls
	}
	s := fmt.Sprintf("%d of %d trials done  %s so far", p.Whole, p.Planned, counted(stalls, "stall"))
	if p.Left > 0 {
		s += "  about " + roughly(p.Left) + " left"
	}
	return s + "   " + strings.Join(g.legend(), " ")
}
