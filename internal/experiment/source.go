package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A ParseError is one mistake in an experiment file. Its text is "file:line:col: message", the source
// line, and under it a caret with what was expected.
type ParseError struct {
	File string
	Line int    // from 1
	Col  int    // from 1, in characters
	Msg  string // what is wrong
	// Source is the line it is on, and Want what was expected there; either may be empty.
	Source string
	Want   string
}

// Error returns the mistake as up to three lines without a final newline.
func (e *ParseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
	line, pad := e.excerpt()
	if line == "" && e.Want == "" {
		return b.String()
	}
	fmt.Fprintf(&b, "\n    %s\n    %s^", line, pad)
	if e.Want != "" {
		b.WriteString(" " + e.Want)
	}
	return b.String()
}

// excerpt returns the part of the source line around the column that fits on a terminal, and the
// white space that puts a caret under the column.
func (e *ParseError) excerpt() (line, pad string) {
	const before, width = 60, 100
	text := []rune(e.Source)
	at := min(max(e.Col-1, 0), len(text))
	from, to := 0, len(text)
	if len(text) > width {
		from = max(at-before, 0)
		to = min(from+width, len(text))
	}
	blank := func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}
	line = strings.Map(clean, string(text[from:to]))
	pad = strings.Map(blank, string(text[from:at]))
	if from > 0 {
		line, pad = "…"+line, " "+pad
	}
	if to < len(text) {
		line += "…"
	}
	return line, pad
}

// clean replaces what could do something to a terminal.
func clean(r rune) rune {
	if r != '\t' && !unicode.IsPrint(r) {
		return unicode.ReplacementChar
	}
	return r
}

// A pos is a place in a source, counted from 1.
type pos struct{ line, col int }

// right returns the place n characters further on the same line.
func (p pos) right(n int) pos { return pos{p.line, p.col + n} }

// A source is a file's text, and the mistakes found in it so far.
type source struct {
	file   string
	lines  []string
	errors []*ParseError
}

func newSource(file string, text string) *source {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "\r")
	}
	return &source{file: file, lines: lines}
}

// mistake notes that msg is wrong at p, where want was expected. Only the first mistake at a place
// is kept: what several arms inherit is wrong once. After a hundred it stops listening.
func (s *source) mistake(p pos, want, msg string, args ...any) {
	if len(s.errors) >= 100 {
		return
	}
	p.line = min(max(p.line, 1), len(s.lines))
	line := s.lines[p.line-1]
	p.col = min(max(p.col, 1), len([]rune(line))+1)
	for _, e := range s.errors {
		if e.Line == p.line && e.Col == p.col {
			return
		}
	}
	s.errors = append(s.errors, &ParseError{
		File: s.file, Line: p.line, Col: p.col, Msg: fmt.Sprintf(msg, args...), Source: line, Want: want,
	})
}

// err returns the first few mistakes in the order of the text, joined, or nil when there are none.
func (s *source) err() error {
	const few = 5
	slices.SortStableFunc(s.errors, func(a, b *ParseError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	var errs []error
	for i, e := range s.errors {
		if i == few {
			errs = append(errs, fmt.Errorf("%s: and %d more", s.file, len(s.errors)-few))
			break
		}
		errs = append(errs, e)
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// nearest returns the name that word was most likely meant to be, or "" when none is close.
func nearest(word string, names []string) string {
	if near := Nearest(word, names); len(near) > 0 {
		return near[0]
	}
	return ""
}

// Nearest returns the names that word may have been meant to be, the likeliest first and at most five. Of its
// letters a third may be wrong, one in any case and three at most; small and capital ones are the same.
func Nearest(word string, names []string) []string {
	if len(word) < 2 {
		return nil
	}
	most := min(max(1, len(word)/3), 3) // further, edits only says that it is far
	lower := strings.ToLower(word)
	byEdits := make([][]string, most+1)
	for _, n := range names {
		if d := edits(lower, strings.ToLower(n)); d <= most {
			byEdits[d] = append(byEdits[d], n)
		}
	}
	near := slices.Concat(byEdits...)
	return near[:min(len(near), 5)]
}

// edits counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	if d := len(x) - len(y); d > 3 || d < -3 {
		return max(d, -d)
	}
	older, old, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range old {
		old[j] = j
	}
	for i := range x {
		row[0] = i + 1
		for j := range y {
			differ := 1
			if x[i] == y[j] {
				differ = 0
			}
			row[j+1] = min(old[j+1]+1, row[j]+1, old[j]+differ)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(y)]
}

// choose says which of names was expected in word's place.
func choose(word string, names []string) string {
	if n := nearest(word, names); n != "" {
		return "did you mean " + n + "?"
	}
	return "want " + orList(names)
}

func orList(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}
