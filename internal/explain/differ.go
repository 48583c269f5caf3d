package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// pairWarnings says what besides the arms' own conditions may be why two differ, or seem not to.
func pairWarnings(a, b Side) []string {
	var w []string
	if len(a.Arm.Trials) == 0 || len(b.Arm.Trials) == 0 {
		return nil
	}
	if sameLengths(a, b) {
		w = append(w, fmt.Sprintf("%s and %s hold exactly the same lengths: one run twice, or one seed twice on the simulator; they tell nothing of each other.",
			a.Label, b.Label))
	}
	w = append(w, notInterleaved(a, b)...)
	if h := hidden(a, b); len(h) > 0 {
		w = append(w, fmt.Sprintf("%s and %s differ in more than the experiment says: %s.", a.Label, b.Label, strings.Join(h, "; ")))
	}
	return w
}

// fewSame is the least number of lengths that two arms don't share by chance.
const fewSame = 3

func sameLengths(a, b Side) bool {
	return len(a.Arm.Hold.Values) >= fewSame && slices.Equal(a.Arm.Hold.Values, b.Arm.Hold.Values)
}

// notInterleaved says where all trials of one arm were over before the other's began, so that whatever changed
// meanwhile counts as a difference. To a model nothing happens meanwhile.
func notInterleaved(a, b Side) []string {
	firstA, lastA, okA := span(a)
	firstB, lastB, okB := span(b)
	if !okA || !okB || a.simulated() && b.simulated() || len(a.Arm.Trials)+len(b.Arm.Trials) <= 2 && a.Run == b.Run {
		return nil
	}
	switch {
	case lastA.Before(firstB):
		return []string{notInterleavedWords(a, b, firstB.Sub(lastA))}
	case lastB.Before(firstA):
		return []string{notInterleavedWords(b, a, firstA.Sub(lastB))}
	}
	return nil
}

func notInterleavedWords(first, then Side, gap time.Duration) string {
	return fmt.Sprintf("%s and %s were not interleaved: the last trial of %s started %s before the first of %s, and what else changed in between counts as a difference.",
		first.Label, then.Label, first.Label, gapWords(gap), then.Label)
}

func gapWords(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.0f hours", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

// span is when a side's first and last trial started.
func span(s Side) (first, last time.Time, ok bool) {
	for _, t := range s.Arm.Trials {
		at, known := s.Starts[t.ID]
		if !known || at.IsZero() {
			continue
		}
		if !ok || at.Before(first) {
			first = at
		}
		if !ok || at.After(last) {
			last = at
		}
		ok = true
	}
	return first, last, ok
}

// hidden lists in what two sides' targets differ although nothing in their arms asks for it.
func hidden(a, b Side) []string {
	var d []string
	add := func(what, x, y string) {
		if x != y {
			d = append(d, fmt.Sprintf("%s %s against %s", what, orUnknown(x), orUnknown(y)))
		}
	}
	f, g, x, y := a.Arm.Facts, b.Arm.Facts, a.Arm.Arm, b.Arm.Arm
	sameKernel := x.Kernel == y.Kernel && slices.Equal(x.Patch, y.Patch) && x.Config == y.Config && slices.Equal(x.KernelElse, y.KernelElse)
	if sameKernel {
		add("kernel", f.Release, g.Release)
		add("build", f.Version, g.Version)
		add("architecture", f.Arch, g.Arch)
	}
	if sameKernel && x.Preempt == y.Preempt {
		add("preemption model", string(f.Preempt), string(g.Preempt))
	}
	if x.VCPUs == y.VCPUs {
		add("CPUs", number(f.CPUs), number(g.CPUs))
	}
	add("clocksource", f.ClockSrc, g.ClockSrc)
	add("accelerator", accelOf(a), accelOf(b))
	if x.Config.HZ == y.Config.HZ {
		add("HZ", number(f.HZ), number(g.HZ))
	}
	if x.StallTimeout == y.StallTimeout {
		add("stall timeout in seconds", number(f.StallSec), number(g.StallSec))
	}
	if x.ExpStallTimeout == y.ExpStallTimeout {
		add("expedited stall timeout in ms", number(f.ExpMillis), number(g.ExpMillis))
	}
	d = append(d, configLines(a, b)...)
	if a.Run != b.Run {
		add("load", x.Load.String()+holdWords(x), y.Load.String()+holdWords(y))
		add("probe", probeOf(x), probeOf(y))
		add("agent", f.Agent, g.Agent)
		add("napistall", a.Version, b.Version)
		add("backend", a.Backend, b.Backend)
		add("host", a.Host, b.Host)
		add("tools", a.Tools, b.Tools)
		add("quick", strconv.FormatBool(a.Quick), strconv.FormatBool(b.Quick))
	}
	return d
}

// configLines lists the lines of two kernels' configurations that decide how stalls come about and are not in both,
// but for those that the arms ask for.
func configLines(a, b Side) []string {
	lines := func(f experiment.Facts) []string {
		return slices.DeleteFunc(slices.Clone(f.Config), func(l string) bool { return !rcu.Decides(l) })
	}
	x, y := lines(a.Arm.Facts), lines(b.Arm.Facts)
	if len(x) == 0 || len(y) == 0 { // not known
		return nil
	}
	wished := func(l string) bool {
		p, q := a.Arm.Arm.Config, b.Arm.Arm.Config
		return p.HZ != q.HZ && strings.HasPrefix(l, "CONFIG_HZ=") || p.Preempt != q.Preempt && strings.Contains(l, "PREEMPT")
	}
	only := func(these, those []string) []string {
		return slices.DeleteFunc(slices.Clone(these), func(l string) bool { return slices.Contains(those, l) || wished(l) })
	}
	var d []string
	if l := only(x, y); len(l) > 0 {
		d = append(d, fmt.Sprintf("only %s has %s", a.Label, strings.Join(l, " ")))
	}
	if l := only(y, x); len(l) > 0 {
		d = append(d, fmt.Sprintf("only %s has %s", b.Label, strings.Join(l, " ")))
	}
	return d
}

func accelOf(s Side) string {
	var all []string
	for _, t := range s.Arm.Trials {
		all = append(all, t.Command.Accel)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " and ")
}

func holdWords(a experiment.Arm) string { return ", hold " + FormatDuration(a.Load.Hold) }

func probeOf(a experiment.Arm) string {
	return fmt.Sprintf("%s %s every %s", a.Probe.Op, a.Probe.Device, FormatDuration(a.Probe.Every))
}

// number is n, or "" where it is not known.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
