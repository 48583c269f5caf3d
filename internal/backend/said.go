package backend

import (
	"strings"
	"sync"
	"unicode"
)

// A Said is a writer that keeps the end of what a program says, for the error that its death becomes. It
// is safe for concurrent use.
type Said struct {
	mu   sync.Mutex
	text []byte
}

// saidMax is how much is kept, in bytes.
const saidMax = 4 << 10

// Write takes a piece of text and always succeeds.
func (s *Said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	if over := len(s.text) - saidMax; over > 0 {
		s.text = append(s.text[:0], s.text[over:]...)
	}
	return len(p), nil
}

// Lines returns the last lines, at most n, without what could do something to a terminal.
func (s *Said) Lines(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(string(s.text), "\uFFFD")) {
		line = strings.TrimSpace(strings.Map(printable, line))
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-n):]
}

func printable(r rune) rune {
	if r == '\t' || r == '\n' || unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}
