package kimage

import (
	"slices"
	"strings"
)

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
