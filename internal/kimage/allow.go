package kimage

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// kconfigPreempt is the file of a source that says which preemption models there are.
const kconfigPreempt = "kernel/Kconfig.preempt"

// forbids matches the lines by which kernel/Kconfig.preempt keeps NONE and VOLUNTARY from architectures with
// lazy preemption, since 7.0 ("sched: Further restrict the preemption modes").
var forbids = regexp.MustCompile(`^\s+depends on (?:ARCH_NO_PREEMPT|!ARCH_HAS_PREEMPT_LAZY)\s*$`)

// allowModel returns the text of kernel/Kconfig.preempt without what forbids a model, and the change as a unified
// diff; text itself and no diff where nothing of the kind is said of the model.
func allowModel(text string, model rcu.Preemption) (edited, diff string) {
	option := map[rcu.Preemption]string{rcu.None: "PREEMPT_NONE", rcu.Voluntary: "PREEMPT_VOLUNTARY"}[model]
	lines := splitLines([]byte(text))
	first, last := -1, -1
	drop := make(map[int]bool)
	within := false
	for i, line := range lines {
		if m := kconfigHead.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			within = m[1] == option
			continue
		}
		words := strings.Fields(line)
		if within && len(words) > 0 && endsEntry(line, words[0]) {
			within = false
		}
		if within && forbids.MatchString(strings.TrimRight(line, "\n")) {
			if first < 0 {
				first = i
			}
			last = i
			drop[i] = true
		}
	}
	if len(drop) == 0 {
		return text, ""
	}
	const around = 3
	from, to := max(first-around, 0), min(last+around+1, len(lines))
	var hunk, out strings.Builder
	for i, line := range lines {
		if !drop[i] {
			out.WriteString(line)
		}
		if i < from || i >= to {
			continue
		}
		sign := " "
		if drop[i] {
			sign = "-"
		}
		hunk.WriteString(sign + strings.TrimSuffix(line, "\n") + "\n")
	}
	diff = fmt.Sprintf("--- a/%s\n+++ b/%s\n@@ -%d,%d +%d,%d @@\n%s", kconfigPreempt, kconfigPreempt, from+1, to-from, from+1, to-from-len(drop), hunk.String())
	return out.String(), diff
}

// allowed returns what b's AllowKconfig makes of kernel/Kconfig.preempt, and the diff; an empty diff where
// nothing has to be changed.
func (b Build) allowed(text string) (edited, diff string) {
	if !b.AllowKconfig || b.Preempt != rcu.None && b.Preempt != rcu.Voluntary {
		return text, ""
	}
	return allowModel(text, b.Preempt)
}
