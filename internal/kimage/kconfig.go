package kimage

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
)

// A kconfig is what a source tree says of its options, by their names.
type kconfig map[string]kconfigEntry

// A kconfigEntry is what Kconfig says about an option, as far as it can keep it from being set.
type kconfigEntry struct {
	where   string // file:line
	depends []string
}

var (
	kconfigHead = regexp.MustCompile(`^\s*(?:menu)?config\s+([A-Za-z0-9_]+)\s*$`)
	kconfigName = regexp.MustCompile(`!?\b[A-Z][A-Z0-9_]*`)
)

// readKconfigs reads a source tree's Kconfig files, of the architectures only arch's own.
func readKconfigs(tree, arch string) (kconfig, error) {
	k := make(kconfig)
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if filepath.Dir(rel) == "arch" && d.Name() != arch {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasPrefix(d.Name(), "Kconfig") || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		k.read(string(text), rel)
		return nil
	})
	return k, err
}

// read adds what one file says.
func (k kconfig) read(text, file string) {
	now := "" // the option whose entry we are in
	n := 0
	for line := range strings.Lines(text) {
		n++
		if m := kconfigHead.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			now = m[1]
			if e := k[now]; e.where == "" {
				e.where = fmt.Sprintf("%s:%d", file, n)
				k[now] = e
			}
			continue
		}
		words := strings.Fields(line)
		switch {
		case now == "" || len(words) == 0:
		case endsEntry(line, words[0]):
			now = ""
		case len(words) > 2 && words[0] == "depends" && words[1] == "on":
			e := k[now]
			e.depends = append(e.depends, strings.Join(words[2:], " "))
			k[now] = e
		}
	}
}

// endsEntry reports whether a line, which begins with word, ends an option's entry or begins its help.
func endsEntry(line, word string) bool {
	return word == "help" || !strings.HasPrefix(line, "\t") &&
		slices.Contains([]string{"choice", "endchoice", "menu", "endmenu", "if", "endif", "comment", "source"}, word)
}

// near returns up to three options with a name like word's, as a list; empty if there is none.
func (k kconfig) near(word string) string {
	names := experiment.Nearest(word, slices.Sorted(maps.Keys(k)))
	for i, n := range names {
		names[i] = "CONFIG_" + n
	}
	return strings.Join(names[:min(len(names), 3)], ", ")
}

// why says why options of which got is the rest couldn't be set.
func (k kconfig) why(wrong []option, got map[string]string, where func(name string) string) string {
	var words []string
	for _, o := range wrong {
		text := fmt.Sprintf("CONFIG_%s=%s", o.name, o.value)
		if at := where(o.name); at != "" {
			text += " (" + at + ")"
		}
		text += " doesn't hold"
		switch e, known := k[o.name]; {
		case !known:
			text += ": this source has no such option"
		case len(e.depends) > 0:
			text += fmt.Sprintf(": it depends on %s (%s)%s", strings.Join(e.depends, " and "), e.where, missingOf(e.depends, got))
		default:
			text += fmt.Sprintf(": another option that is set decides it (%s)", e.where)
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}

// missingOf names the options that stand in the way of depends: those that aren't set, and those under a "not" that are.
func missingOf(depends []string, got map[string]string) string {
	var missing, set []string
	for _, name := range kconfigName.FindAllString(strings.Join(depends, " "), -1) {
		not := strings.HasPrefix(name, "!")
		name = strings.TrimPrefix(name, "!")
		switch has := got[name] != "" && got[name] != "n"; {
		case not && has && !slices.Contains(set, name):
			set = append(set, name)
		case !not && !has && !slices.Contains(missing, name):
			missing = append(missing, name)
		}
	}
	text := ""
	if len(missing) > 0 {
		text = "; not set: " + strings.Join(missing, ", ")
	}
	if len(set) > 0 {
		text += "; set: " + strings.Join(set, ", ")
	}
	return text
}
