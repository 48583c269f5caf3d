package kimage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A filePatch is what a patch does to one file.
type filePatch struct {
	from, to string // names without the a/ and b/; "" where the file isn't there
	hunks    []hunk
}

// A hunk replaces lines by others. All lines end as they do in the file.
type hunk struct {
	at       int // line in the old file, from 1, that it begins at; 0 in a new one
	old, new []string
}

var hunkHead = regexp.MustCompile(`^@@ -(\d{1,7})(?:,(\d{1,7}))? \+\d{1,7}(?:,(\d{1,7}))? @@`)

// parsePatch reads a unified diff, plain or within mails as git writes them, encoded or not. Its error begins with
// the patch's line, in an encoded mail that of its text.
func parsePatch(text []byte) ([]filePatch, error) {
	text, decoded, err := decodeMail(text)
	if err != nil {
		return nil, err
	}
	files, err := parseDiffs(text)
	if err != nil && decoded {
		return nil, fmt.Errorf("of the mail's text, %w", err)
	}
	return files, err
}

func parseDiffs(text []byte) ([]filePatch, error) {
	p := patchReader{lines: splitLines(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))}
	for p.at < len(p.lines) {
		if err := p.next(); err != nil {
			return nil, err
		}
	}
	if len(p.files) == 0 {
		return nil, errors.New("no diff in it: want a unified diff, or a mail with one")
	}
	return p.files, nil
}

// splitLines cuts text into lines that keep their ends.
func splitLines(text []byte) []string { return slices.Collect(strings.Lines(string(text))) }

// A patchReader goes through a patch's lines.
type patchReader struct {
	lines []string
	at    int
	files []filePatch
}

func (p *patchReader) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{p.at + 1}, args...)...)
}

// next reads one file's changes, or passes over a line that is not part of any.
func (p *patchReader) next() error {
	line := p.lines[p.at]
	switch {
	case strings.HasPrefix(line, "rename from "), strings.HasPrefix(line, "copy from "),
		strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
		return p.errorf("renamed, copied and binary files can't be patched (git format-patch --no-renames)")
	}
	// A line of a mail can begin with dashes, so all three have to be there.
	from, isFrom := strings.CutPrefix(line, "--- ")
	if !isFrom || p.at+2 >= len(p.lines) || !strings.HasPrefix(p.lines[p.at+1], "+++ ") || !strings.HasPrefix(p.lines[p.at+2], "@@ ") {
		p.at++
		return nil
	}
	var f filePatch
	var err error
	if f.from, err = patchedName(from); err != nil {
		return p.errorf("%w", err)
	}
	p.at++
	if f.to, err = patchedName(p.lines[p.at][len("+++ "):]); err != nil {
		return p.errorf("%w", err)
	}
	if f.from == "" && f.to == "" || f.from != "" && f.to != "" && f.from != f.to {
		return p.errorf("from %q to %q: want one file's name", f.from, f.to)
	}
	p.at++
	for p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], "@@ ") {
		h, err := p.hunk()
		if err != nil {
			return err
		}
		f.hunks = append(f.hunks, h)
	}
	p.files = append(p.files, f)
	return nil
}

// patchedName takes the first directory off a name, as patch -p1 does.
func patchedName(s string) (string, error) {
	s, _, _ = strings.Cut(strings.TrimRight(s, "\n"), "\t") // a date may follow
	if s == "/dev/null" {
		return "", nil
	}
	_, name, ok := strings.Cut(s, "/")
	if !ok || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q: want a name below a/ or b/", s)
	}
	return filepath.Clean(name), nil
}

// hunk reads one hunk. Its header says how many lines follow.
func (p *patchReader) hunk() (hunk, error) {
	m := hunkHead.FindStringSubmatch(p.lines[p.at])
	if m == nil {
		return hunk{}, p.errorf("want @@ -LINE,COUNT +LINE,COUNT @@")
	}
	count := func(s string) int {
		if s == "" {
			return 1
		}
		n, _ := strconv.Atoi(s) // up to seven digits
		return n
	}
	h := hunk{at: count(m[1])}
	olds, news := count(m[2]), count(m[3])
	for p.at++; olds > len(h.old) || news > len(h.new); p.at++ {
		if p.at == len(p.lines) {
			return hunk{}, p.errorf("the patch ends within a hunk")
		}
		line := p.lines[p.at]
		kind, rest := line[0], line[1:]
		if kind == '\n' { // an editor took the space off
			kind, rest = ' ', line
		}
		if kind != '+' {
			h.old = append(h.old, rest)
		}
		if kind != '-' {
			h.new = append(h.new, rest)
		}
		if !strings.ContainsRune(" +-", rune(kind)) || len(h.old) > olds || len(h.new) > news {
			return hunk{}, p.errorf("not the line of a hunk that was announced with %d old and %d new ones", olds, news)
		}
		p.noEnd(&h, kind)
	}
	return h, nil
}

// noEnd takes the end off the line just read if "\ No newline at end of file" follows it.
func (p *patchReader) noEnd(h *hunk, kind byte) {
	if p.at+1 == len(p.lines) || !strings.HasPrefix(p.lines[p.at+1], `\`) {
		return
	}
	p.at++
	if kind != '+' {
		h.old[len(h.old)-1] = strings.TrimSuffix(h.old[len(h.old)-1], "\n")
	}
	if kind != '-' {
		h.new[len(h.new)-1] = strings.TrimSuffix(h.new[len(h.new)-1], "\n")
	}
}

// A hunkError says which hunk doesn't apply.
type hunkError struct {
	hunk  int // from 1
	line  int // where it was looked for first, from 1
	why   string
	at    int      // where there begins, from 1
	there []string // what stands there, or where it looks most like the hunk
}

// maxThere is how many lines a hunkError shows.
const maxThere = 12

func (e *hunkError) Error() string {
	text := fmt.Sprintf("hunk %d (line %d) doesn't apply: %s", e.hunk, e.line, e.why)
	if len(e.there) > 0 {
		text += "; there stands"
	}
	for i, line := range e.there[:min(len(e.there), maxThere)] {
		text += fmt.Sprintf("\n%6d: %s", e.at+i, strings.TrimRight(line, "\n"))
	}
	return text
}

// applyHunks returns lines after hunks. Each must match in whole; it may have moved.
func applyHunks(lines []string, hunks []hunk) ([]string, error) {
	var out []string
	done, moved := 0, 0
	for i, h := range hunks {
		first := max(h.at-1, 0)
		if len(h.old) == 0 {
			first = h.at // GNU diff names the line before an insertion
		}
		at := h.find(lines, done, first+moved, h.old)
		if at < 0 {
			return nil, h.fails(lines, done, i+1, first+moved)
		}
		out = append(append(out, lines[done:at]...), h.new...)
		done, moved = at+len(h.old), at-first
	}
	return append(out, lines[done:]...), nil
}

// find returns the index nearest to want, not before from, at which lines are what; -1 if there is none.
func (hunk) find(lines []string, from, want int, what []string) int {
	last := len(lines) - len(what)
	for off := 0; want-off >= from || want+off <= last; off++ {
		for _, at := range []int{want + off, want - off} {
			if at >= from && at <= last && slices.Equal(lines[at:at+len(what)], what) {
				return at
			}
		}
		if len(what) == 0 {
			break // an insertion has one place only
		}
	}
	return -1
}

func (h hunk) fails(lines []string, done, n, want int) error {
	want = min(max(want, 0), len(lines))
	there := lines[want:min(want+len(h.old), len(lines))]
	e := &hunkError{hunk: n, line: want + 1, at: want + 1, there: there, why: "the file ends before it"}
	for i, line := range there {
		if line != h.old[i] {
			e.why = fmt.Sprintf("line %d should be %q", want+1+i, strings.TrimRight(h.old[i], "\n"))
			break
		}
	}
	if len(h.new) > 0 && h.find(lines, done, want, h.new) >= 0 {
		e.why, e.there = "the file already has what it would make of it", nil
		return e
	}
	if at := h.likeliest(lines, done, want); at != want {
		e.at, e.there = at+1, lines[at:min(at+len(h.old)+strayLines, len(lines))]
		e.why = fmt.Sprintf("nothing there is like it; what is most like it begins at line %d", at+1)
	}
	return e
}

// strayLines is how many lines may have come between those of a hunk for a place to look like it.
const strayLines = 4

// likeliest returns the index, not before from, at which most of the hunk's old lines stand in their order; want where no place
// has more of them, or at least half.
func (h hunk) likeliest(lines []string, from, want int) int {
	var old []string
	for _, line := range h.old {
		if strings.TrimSpace(line) != "" {
			old = append(old, line)
		}
	}
	if len(old) < 2 || len(old) > 200 {
		return want
	}
	most, best := max(like(lines, old, want), (len(old)-1)/2), want
	for at := from; at < len(lines); at++ {
		n := 0
		if slices.Contains(old, lines[at]) {
			n = like(lines, old, at)
		}
		if n > most || n == most && best != want && abs(at-want) < abs(best-want) {
			most, best = n, at
		}
	}
	return best
}

// like counts the lines of old that stand in their order from index at on.
func like(lines, old []string, at int) int {
	n := 0
	window := lines[at:min(at+len(old)+strayLines, len(lines))]
	for _, line := range old {
		if i := slices.Index(window, line); i >= 0 {
			n++
			window = window[i+1:]
		}
	}
	return n
}

func abs(n int) int { return max(n, -n) }
