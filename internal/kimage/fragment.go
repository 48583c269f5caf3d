package kimage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A fragment is a user's part of a configuration.
type fragment struct {
	file  string
	lines []fragmentLine
}

// A fragmentLine is one option that a fragment asks for.
type fragmentLine struct {
	option
	line int // from 1
}

// at says where an option stands, as messages do.
func (f fragment) at(line int) string { return fmt.Sprintf("%s:%d", f.file, line) }

var (
	fragmentSet   = regexp.MustCompile(`^CONFIG_([A-Za-z0-9_]+)=(y|m|n|-?[0-9]+|0[xX][0-9a-fA-F]+|"(?:[^"\\]|\\.)*")$`)
	fragmentUnset = regexp.MustCompile(`^# CONFIG_([A-Za-z0-9_]+) is not set$`)
	// Options that have a wish of their own, which the kernel is then held against.
	wishedOption = regexp.MustCompile(`^(?:PREEMPT|PREEMPT_(?:NONE|VOLUNTARY|LAZY|RT|DYNAMIC))$|^HZ(?:_[0-9]+)?$`)
)

// FindFragment returns where the fragment called name is; relative names start from dir. Its error is a
// *SpecError if there is none, or if what it says has the wrong form.
func FindFragment(dir, name string) (string, error) {
	file, err := homed(name)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	if _, err := readFragment(file); err != nil {
		return "", err
	}
	return filepath.Abs(file)
}

// homed returns name with the user's directory in the place of ~.
func homed(name string) (string, error) {
	rest, ok := strings.CutPrefix(name, "~/")
	if !ok {
		return name, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return filepath.Join(home, rest), nil
}

// maxFragment is more than any whole configuration.
const maxFragment = 4 << 20

// readFragment reads the file called name; without a name there is no fragment. Its error is a *SpecError.
func readFragment(name string) (fragment, error) {
	if name == "" {
		return fragment{}, nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fragment{}, inputError{"fragment", &SpecError{name, "there is no such file"}}
	case err != nil:
		return fragment{}, fmt.Errorf("read the fragment: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxFragment:
		return fragment{}, inputError{"fragment", &SpecError{name, "want a file of CONFIG_ lines"}}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fragment{}, fmt.Errorf("read the fragment: %w", err)
	}
	f, err := parseFragment(filepath.Base(name), string(text))
	if err != nil {
		return fragment{}, inputError{"fragment", &SpecError{name, err.Error()}}
	}
	return f, nil
}

// parseFragment reads a fragment. Its error begins with file:line.
func parseFragment(file, text string) (fragment, error) {
	f := fragment{file: file}
	seen := make(map[string]int)
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		var o option
		if m := fragmentSet.FindStringSubmatch(line); m != nil {
			o = option{m[1], m[2]}
		} else if m := fragmentUnset.FindStringSubmatch(line); m != nil {
			o = option{m[1], "n"}
		} else if line == "" || strings.HasPrefix(line, "#") {
			continue
		} else {
			return f, fmt.Errorf("%s: %q: want CONFIG_NAME=VALUE with y, n, a number or \"text\", or # CONFIG_NAME is not set", f.at(n), clipped(line))
		}
		switch first, twice := seen[o.name]; {
		case twice:
			return f, fmt.Errorf("%s: CONFIG_%s is already in line %d", f.at(n), o.name, first)
		case o.value == "m":
			return f, fmt.Errorf("%s: CONFIG_%s=m: these kernels have no modules: want y", f.at(n), o.name)
		case wishedOption.MatchString(o.name):
			return f, fmt.Errorf("%s: CONFIG_%s is asked for by --preempt or --hz (config: preempt, hz), not in a fragment", f.at(n), o.name)
		}
		seen[o.name] = n
		f.lines = append(f.lines, fragmentLine{o, n})
	}
	if len(f.lines) == 0 {
		return f, fmt.Errorf("%s: no option in it: want lines such as CONFIG_DEBUG_ATOMIC_SLEEP=y", file)
	}
	return f, nil
}

// clipped shortens a line for a message.
func clipped(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// over returns the configuration base with f's options, which win.
func (f fragment) over(base string) string {
	if len(f.lines) == 0 {
		return base
	}
	mine := make(map[string]bool)
	for _, l := range f.lines {
		mine[l.name] = true
	}
	var b strings.Builder
	for line := range strings.Lines(base) {
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "CONFIG_"), "=")
		if !ok || !strings.HasPrefix(line, "CONFIG_") || !mine[name] {
			b.WriteString(line)
		}
	}
	b.WriteString("\n# The user's.\n")
	for _, l := range f.lines {
		fmt.Fprintf(&b, "CONFIG_%s=%s\n", l.name, l.value)
	}
	return b.String()
}

// unknown returns an error about the first option that a source doesn't have.
func (f fragment) unknown(k kconfig, source string) error {
	for _, l := range f.lines {
		if _, ok := k[l.name]; ok {
			continue
		}
		text := fmt.Sprintf("%s: %s has no option CONFIG_%s", f.at(l.line), source, l.name)
		if near := k.near(l.name); near != "" {
			text += "; did you mean " + near + "?"
		}
		return errors.New(text)
	}
	return nil
}

// where says where f asks for an option; empty if it doesn't.
func (f fragment) where(name string) string {
	for _, l := range f.lines {
		if l.name == name {
			return f.at(l.line)
		}
	}
	return ""
}
