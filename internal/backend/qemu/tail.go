package qemu

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
)

// A tail keeps the last lines of a text, at most maxTailLines of at most maxTailLine bytes each, so
// that a guest that prints for hours costs no memory. It is safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	lines []string
	rest  []byte // of the line that has not ended yet
}

const (
	maxTailLines = 40
	maxTailLine  = 512
)

// Write takes a piece of text and always succeeds.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(p) {
		whole := line[len(line)-1] == '\n'
		if room := maxTailLine - len(t.rest); len(line) > room {
			line = line[:room]
		}
		t.rest = append(t.rest, line...)
		if whole {
			t.end()
		}
	}
	return len(p), nil
}

// end moves the current line to the others, if there is anything in it.
func (t *tail) end() {
	line := readable(t.rest)
	t.rest = t.rest[:0]
	if line == "" {
		return
	}
	if len(t.lines) == maxTailLines {
		t.lines = append(t.lines[:0], t.lines[1:]...)
	}
	t.lines = append(t.lines, line)
}

// readable returns line without what could do something to a terminal: it is shown on one.
func readable(line []byte) string {
	printable := func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}
	return strings.Map(printable, strings.TrimSpace(strings.ToValidUTF8(string(line), "\uFFFD")))
}

// last returns the newest n lines, the oldest first, with one that has not ended yet.
func (t *tail) last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := append([]string(nil), t.lines...)
	if rest := readable(t.rest); rest != "" {
		lines = append(lines, rest)
	}
	return lines[max(0, len(lines)-n):]
}
