package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// A group are arms of which one sentence speaks.
type group []ArmSummary

// groups puts arms that have the same key together, each where its first one was.
func groups(arms []ArmSummary, key func(ArmSummary) string) []group {
	var out []group
	index := map[string]int{}
	for _, a := range arms {
		k := key(a)
		i, known := index[k]
		if !known {
			i = len(out)
			index[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], a)
	}
	return out
}

// each says what words gives of every arm: once where all have the same, else in the arms' order.
func (g group) each(words func(ArmSummary) string) string {
	var all []string
	for _, a := range g {
		all = append(all, words(a))
	}
	if len(slices.Compact(slices.Clone(all))) > 1 {
		return join(all)
	}
	if len(all) > 1 {
		return all[0] + " each"
	}
	return all[0]
}

// named is the arms with what is in the brackets of each: once where all have the same.
func (g group) named(inBrackets func(ArmSummary) string) string {
	var names, whole []string
	same := true
	for _, a := range g {
		names = append(names, a.Arm.Name)
		whole = append(whole, fmt.Sprintf("%s (%s)", a.Arm.Name, inBrackets(a)))
		same = same && inBrackets(a) == inBrackets(g[0])
	}
	if same {
		return fmt.Sprintf("%s (%s)", join(names), inBrackets(g[0]))
	}
	return join(whole)
}

// join makes "a, b and c" of a list.
func join(list []string) string {
	if n := len(list) - 1; n > 0 {
		return strings.Join(list[:n], ", ") + " and " + list[n]
	}
	return strings.Join(list, "")
}

// overWords is "1 of 1" or "1 of 1 (and 2 cut before 1 s)".
func (a ArmSummary) overWords() string {
	s := fmt.Sprintf("%d of %s", a.Hold.Over.K, plural(a.Hold.Over.N, a.noun()))
	if a.Hold.Undecided > 0 {
		s += fmt.Sprintf(" (and %d cut before 1 s)", a.Hold.Undecided)
	}
	return s
}

func (a ArmSummary) worstWords() string {
	worst, atLeast, ok := a.Hold.Worst()
	if !ok {
		return "unknown"
	}
	if atLeast {
		return "over " + FormatDuration(worst)
	}
	return FormatDuration(worst)
}

func (a ArmSummary) reportWords() string {
	s := fmt.Sprintf("%d classic and %s", a.Classic, plural(a.Expedited, "expedited RCU stall"))
	if a.RCUStalls() == 0 {
		s = "no RCU stall"
	}
	switch {
	case a.SoftLockups > 0 && a.RCUStalls() == 0:
		s += " but " + plural(a.SoftLockups, "soft lockup")
	case a.SoftLockups > 0:
		s += ", " + plural(a.SoftLockups, "soft lockup")
	}
	if a.Panicked > 0 {
		s += fmt.Sprintf(", %d of %s ended in a panic", a.Panicked, plural(len(a.Trials), "trial"))
	}
	return s
}

// noun is what the arm's operation is called.
func (a ArmSummary) noun() string {
	switch a.Arm.Probe.Op {
	case experiment.Membarrier:
		return "membarrier"
	case experiment.RCUBarrier:
		return "rcu_barrier"
	}
	return "delete"
}

func article(noun string) string {
	if strings.HasPrefix(noun, "r") {
		return "an " + noun
	}
	return "a " + noun
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// FormatDuration writes d to two digits or three: in milliseconds under 0.1 s, else in seconds, without a
// fraction when it is a whole number of them.
func FormatDuration(d time.Duration) string {
	ms := d.Seconds() * 1000
	switch {
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.3f ms", ms)
	case d < time.Millisecond:
		return fmt.Sprintf("%.2f ms", ms)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", ms)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", ms)
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}

// FormatShare writes a share of 1 as a percentage of two digits.
func FormatShare(x float64) string {
	switch p := 100 * x; {
	case p == 0 || p >= 9.95:
		return fmt.Sprintf("%.0f %%", p)
	case p < 0.1:
		return "under 0.1 %"
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}
