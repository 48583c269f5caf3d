package kimage

import (
	_ "embed" // for guestConfig
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

//go:embed guest.config
var guestConfig string

// defaultHZ is what distributions build for x86 with.
const defaultHZ = 250

// fragment returns what is asked of a kernel's configuration. Without a model it gets all that it can
// have, by PREEMPT_DYNAMIC.
func fragment(model rcu.Preemption, hz int) (string, error) {
	options := map[rcu.Preemption]string{
		rcu.None: "PREEMPT_NONE", rcu.Voluntary: "PREEMPT_VOLUNTARY", rcu.Full: "PREEMPT", rcu.Lazy: "PREEMPT_LAZY", rcu.RT: "PREEMPT_RT",
	}
	if hz == 0 {
		hz = defaultHZ
	}
	if !slices.Contains([]int{100, 250, 300, 1000}, hz) { // kernel/Kconfig.hz
		return "", fmt.Errorf("HZ %d: a kernel takes 100, 250, 300 or 1000", hz)
	}
	text := guestConfig + fmt.Sprintf("\n# What was wished for.\nCONFIG_HZ_%d=y\n", hz)
	if model == "" {
		return text + "CONFIG_PREEMPT_DYNAMIC=y\n", nil
	}
	option, ok := options[model]
	if !ok {
		return "", fmt.Errorf("preemption model %q: want none, voluntary, full, lazy or rt", model)
	}
	return text + "CONFIG_PREEMPT_DYNAMIC=n\nCONFIG_" + option + "=y\n", nil
}

// An option is one line of a configuration, without CONFIG_; the value n stands for "is not set" too.
type option struct{ name, value string }

func parseConfig(text string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && strings.HasPrefix(name, "CONFIG_") {
			values[strings.TrimPrefix(name, "CONFIG_")] = value
		}
	}
	return values
}

// renamed returns what an option of older sources is called in newer ones; both are asked for.
func renamed(name string) string {
	if name == "PROC_SYSCTL" { // in 6.12 it alone selects SYSCTL, which is what it's called in 7.3
		return "SYSCTL"
	}
	return ""
}

// unheld returns the options in asked that are otherwise in got, by name.
func unheld(asked, got string) []option {
	values := parseConfig(got)
	var wrong []option
	for name, want := range parseConfig(asked) {
		have, ok := values[name]
		if want == "n" && !ok || have == want || values[renamed(name)] == want {
			continue
		}
		wrong = append(wrong, option{name, want})
	}
	slices.SortFunc(wrong, func(a, b option) int { return strings.Compare(a.name, b.name) })
	return wrong
}

// A kconfigEntry is what Kconfig says about an option, as far as it can keep it from being set.
type kconfigEntry struct {
	where   string // file:line
	depends []string
}

var kconfigHead = regexp.MustCompile(`^\s*(?:menu)?config\s+([A-Za-z0-9_]+)\s*$`)

// kconfigOf looks options up in a source tree, arch's own Kconfig files among it.
func kconfigOf(tree, arch string, names []string) (map[string]kconfigEntry, error) {
	found := make(map[string]kconfigEntry)
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
		readKconfig(string(text), rel, names, found)
		return nil
	})
	return found, err
}

// readKconfig adds the entries of names in one file to found.
func readKconfig(text, file string, names []string, found map[string]kconfigEntry) {
	now := "" // the option whose entry we are in
	n := 0
	for line := range strings.Lines(text) {
		n++
		if m := kconfigHead.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			now = ""
			if slices.Contains(names, m[1]) {
				now = m[1]
				if e := found[now]; e.where == "" {
					e.where = fmt.Sprintf("%s:%d", file, n)
					found[now] = e
				}
			}
			continue
		}
		words := strings.Fields(line)
		switch {
		case now == "" || len(words) == 0:
		case slices.Contains([]string{"choice", "endchoice", "menu", "endmenu", "if", "endif", "comment", "source"}, words[0]) &&
			!strings.HasPrefix(line, "\t"), words[0] == "help":
			now = ""
		case len(words) > 2 && words[0] == "depends" && words[1] == "on":
			e := found[now]
			e.depends = append(e.depends, strings.Join(words[2:], " "))
			found[now] = e
		}
	}
}

// why says why options couldn't be set in a tree.
func why(tree, arch string, wrong []option) string {
	var names []string
	for _, o := range wrong {
		names = append(names, o.name)
	}
	entries, err := kconfigOf(tree, arch, names)
	if err != nil {
		return fmt.Sprintf("CONFIG_%s can't be had (and why not couldn't be read: %v)", strings.Join(names, ", CONFIG_"), err)
	}
	var words []string
	for _, o := range wrong {
		text := fmt.Sprintf("CONFIG_%s=%s doesn't hold", o.name, o.value)
		switch e := entries[o.name]; {
		case e.where == "":
			text += ": this source has no such option"
		case len(e.depends) > 0:
			text += fmt.Sprintf(": it depends on %s (%s)", strings.Join(e.depends, " and "), e.where)
		default:
			text += fmt.Sprintf(": another option that is set decides it (%s)", e.where)
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}
