package report

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var drawing = regexp.MustCompile("\x1b\\[[0-9]*m")

// Colour adds nothing else, at any width, and says nothing that isn't said without it.
func TestColorIsOnlyColor(t *testing.T) {
	for name, r := range runs() {
		for _, o := range []Options{{}, {Width: 80}, {Width: 40, Long: true}, {Width: 200, Long: true}} {
			plain := written(t, func(w io.Writer, r Run) error { return Text(w, r, o) }, r)
			o.Color = true
			colored := written(t, func(w io.Writer, r Run) error { return Text(w, r, o) }, r)
			if d := cmp.Diff(plain, drawing.ReplaceAllString(colored, "")); d != "" {
				t.Errorf("%s (-plain +colored):\n%s", name, d)
			}
			for _, line := range strings.Split(colored, "\n") {
				if n := strings.Count(line, "\x1b["); n%2 != 0 || n > 0 && strings.LastIndex(line, "\x1b[0m") < strings.LastIndex(line, "\x1b[") {
					t.Errorf("%s: a colour goes on behind its line: %q", name, line)
				}
			}
		}
	}
}

func TestColorMarksWhatMatters(t *testing.T) {
	text := func(name string) string {
		return written(t, func(w io.Writer, r Run) error { return Text(w, r, Options{Color: true}) }, runs()[name])
	}
	for name, all := range map[string][]string{
		"reproduced":   {"\x1b[31mverdict: reproduced.\x1b[0m", "\x1b[1mworst\x1b[0m", "\x1b[31m30.1 s\x1b[0m", "\x1b[31m1+1\x1b[0m", "\x1b[32mexpectations: 2 of 2 met\x1b[0m"},
		"fixed":        {"\x1b[32mverdict: not reproduced.\x1b[0m", " 0.18 s  "},
		"not-in-band":  {"\x1b[33mverdict: not in the band.\x1b[0m"},
		"inconclusive": {"\x1b[33mverdict: inconclusive.\x1b[0m", "\x1b[31mexpect patched.worst >= 10s: not met (0.12 s of 4 deletes)\x1b[0m", "\x1b[31mexpectations: 1 of 2 met\x1b[0m"},
	} {
		for _, want := range all {
			if got := text(name); !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", name, want, got)
			}
		}
	}
}
