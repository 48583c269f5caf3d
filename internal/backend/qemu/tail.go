package qemu

import (
	"bytes"
	"slices"
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
	maxTailLines = 160 // a whole oops, its registers twice, and the panic after it
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

// What is shown of a console with an error: so many of its last lines, or so many from where the kernel
// began to report its own fault, with some before.
const (
	shownLines  = 12
	shownReport = 40
	shownBefore = 5
)

// reportHeads begin a kernel's report of its own fault: x86's and arm's die(), __bug_address and panic().
func reportHeads() []string {
	return []string{"BUG: ", "kernel BUG at ", "Oops: ", "Internal error: ", "Unable to handle kernel ",
		"general protection fault", staleSays, panicSays}
}

// telling returns those of the console's last lines that say most about why it ended: after an oops,
// registers are all that the very last ones show.
func telling(lines []string) []string {
	last := max(0, len(lines)-shownLines)
	head := slices.IndexFunc(lines, func(line string) bool {
		return slices.ContainsFunc(reportHeads(), func(h string) bool { return strings.Contains(line, h) })
	})
	if head < 0 || head-shownBefore >= last {
		return lines[last:]
	}
	from := max(0, head-shownBefore)
	return lines[from:min(len(lines), from+shownReport)]
}
