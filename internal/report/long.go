package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/klog"
)

// maxSlow is how many slow operations of an arm the long form shows; JSON and CSV have them all.
const maxSlow = 20

// item is a named line of the long form.
type item struct{ name, text string }

// long is what the long form adds: each arm by itself, then the arms against each other.
func (r Run) long(width int) []string {
	var lines []string
	for _, a := range r.Arms {
		lines = append(lines, "", "arm "+clean(a.Arm.Name))
		lines = append(lines, items(r.armItems(a), width)...)
	}
	if c := r.comparisons(); len(c) > 0 {
		lines = append(lines, "")
		lines = append(lines, wrap("comparisons. "+testsMade(len(c)), width, "  ")...)
		lines = append(lines, items(c, width)...)
	}
	return lines
}

func items(list []item, width int) []string {
	name := 0
	for _, i := range list {
		name = max(name, runes(i.name))
	}
	var lines []string
	for _, i := range list {
		indent := strings.Repeat(" ", name+4)
		lines = append(lines, wrapItem("  "+pad(i.name, name, false)+"  ", i.text, width, indent)...)
	}
	return lines
}

// wrapItem breaks text behind head, whose own spaces are kept.
func wrapItem(head, text string, width int, indent string) []string {
	body := wrap(text, max(20, width-runes(indent)), "")
	if width <= 0 || len(body) == 0 {
		return []string{strings.TrimRight(head+text, " ")}
	}
	for i, l := range body {
		if i == 0 {
			body[i] = head + l
		} else {
			body[i] = indent + l
		}
	}
	return body
}

func (r Run) armItems(a explain.ArmSummary) []item {
	if len(a.Trials) == 0 {
		return []item{{"trials", r.trialsWords(a)}}
	}
	list := []item{
		{"kernel", kernelWords(a)},
		{"load", loadWords(a.Arm) + "; " + probeWords(a.Arm)},
		{"trials", r.trialsWords(a)},
		{r.armNoun(a), lengthsWords(a.Hold)},
	}
	list = append(list, slowItems(a)...)
	list = append(list, item{"  after the hold", lengthsWords(a.Tail)})
	if a.SlowTime > 0 {
		list = append(list, item{"time over 1 s", fmt.Sprintf("%s in %s with a hold of %s", explain.FormatDuration(a.SlowTime),
			plural(len(a.Trials), "trial"), explain.FormatDuration(a.Arm.Load.Hold))})
	}
	for _, op := range a.Ops() {
		hold, tail := a.Op(op)
		list = append(list, item{clean(op), lengthsWords(hold)})
		if len(tail.Values) > 0 {
			list = append(list, item{"  after the hold", lengthsWords(tail)})
		}
	}
	list = append(list, item{"reports", reportsWords(a)})
	list = append(list, eventItems(a)...)
	for _, t := range a.Trials {
		list = append(list, item{"band", fmt.Sprintf("%s: %s (%s)", t.ID, bandCell(t.Band.Band), t.Band.Evidence)})
	}
	list = append(list, item{"rates", ratesWords(a)})
	if l := a.LossWords(); l != "" {
		list = append(list, item{"missed", l})
	}
	for i := range list {
		list[i].text = clean(list[i].text)
	}
	return list
}

func (r Run) armNoun(a explain.ArmSummary) string {
	if a.Arm.Probe.Op == experiment.LinkDel {
		return "deletes"
	}
	return clean(a.Arm.Probe.Op)
}

// trialsWords says how many trials are data, how they ended, and how many tries were not.
func (r Run) trialsWords(a explain.ArmSummary) string {
	s := fmt.Sprintf("%d of %d", len(a.Trials), max(1, r.Experiment.Trials(a.Arm)))
	if n := a.Panicked; n > 0 {
		s += fmt.Sprintf(", %d ended in a panic", n)
	}
	if n := a.Silent; n > 0 {
		s += fmt.Sprintf(", %d went silent", n)
	}
	if n := r.aborted(a.Arm.Name); n > 0 {
		s += fmt.Sprintf("; %s aborted, in no number", plural(n, "try"))
	}
	for _, n := range r.NotRun {
		if n.Arm == a.Arm.Name {
			s += "; not run: " + clean(n.Why)
		}
	}
	return s
}

func kernelWords(a explain.ArmSummary) string {
	f := a.Facts
	s := []string{f.Release + " " + f.Arch, "model " + orUnknown(explain.Model(f))}
	if f.HZ > 0 {
		s = append(s, fmt.Sprintf("HZ %d", f.HZ))
	}
	if f.Flavor != "" {
		s = append(s, string(f.Flavor))
	}
	s = append(s, timeWords(f)...)
	s = append(s, fmt.Sprintf("%d CPUs, load on %d, probes on %d", f.CPUs, f.LoadCPU, f.ProbeCPU), "from "+a.Arm.Kernel)
	return strings.Join(s, ", ")
}

// timeWords are the stall timeouts in force.
func timeWords(f experiment.Facts) []string {
	var s []string
	if f.StallSec > 0 {
		s = append(s, fmt.Sprintf("stall timeout %d s", f.StallSec))
	}
	if f.ExpMillis > 0 {
		s = append(s, fmt.Sprintf("expedited stall timeout %d ms", f.ExpMillis))
	}
	return s
}

// loadWords says what an arm does to the NAPI under test.
func loadWords(a experiment.Arm) string {
	mode := "threaded NAPI"
	if !a.Threaded {
		mode = "NAPI in softirq"
	}
	switch l := a.Load; l.Kind {
	case experiment.NoLoad:
		return "no load, " + mode
	case experiment.Bounce:
		return fmt.Sprintf("%s sent back and forth between the ends of a veth pair by XDP for %s, %s", plural(l.Inflight, "frame"),
			explain.FormatDuration(l.Hold), mode)
	default:
		return fmt.Sprintf("load %s for %s, %s", l, explain.FormatDuration(l.Hold), mode)
	}
}

// probeWords says what an arm times.
func probeWords(a experiment.Arm) string {
	what := a.Probe.Op
	if what == experiment.LinkDel {
		what = "the deletion of a " + a.Probe.Device + " device"
	}
	return fmt.Sprintf("timed: %s, %s after the last one ended", what, explain.FormatDuration(a.Probe.Every))
}

func reportsWords(a explain.ArmSummary) string {
	s := fmt.Sprintf("%d classic and %s, %s; stalled in %d of %s", a.Classic, plural(a.Expedited, "expedited RCU stall"),
		plural(a.SoftLockups, "soft lockup"), a.Stalled, plural(len(a.Trials), "trial"))
	for _, k := range []struct {
		n    int
		noun string
	}{{a.HungTasks, "hung task"}, {a.TasksRCU, "Tasks RCU stall"}, {a.Workqueue, "workqueue lockup"},
		{a.Starved, "starved grace-period kthread"}} {
		if k.n > 0 {
			s += ", " + plural(k.n, k.noun)
		}
	}
	return s
}

// eventItems are the kernel's own words, the first line of each report.
func eventItems(a explain.ArmSummary) []item {
	var list []item
	for _, t := range a.Trials {
		for _, e := range t.Events {
			list = append(list, item{"  " + string(e.Kind), t.ID + ": " + eventWords(e)})
		}
	}
	if n := len(list) - maxSlow; n > 0 {
		list = append(list[:maxSlow], item{"", fmt.Sprintf("and %s more", plural(n, "report"))})
	}
	return list
}

func eventWords(e klog.Event) string {
	s := ""
	if e.HasTime {
		s = fmt.Sprintf("at %.1f s, ", e.First.Seconds())
	}
	if e.GP != "" {
		s += e.GP + ", "
	}
	if e.Reports > 1 {
		s += fmt.Sprintf("reported %d times, ", e.Reports)
	}
	if len(e.Lines) > 0 {
		s += e.Lines[0]
	}
	return s
}

func ratesWords(a explain.ArmSummary) string {
	r := a.Rates
	if r.Windows == 0 {
		return "not counted"
	}
	var s []string
	per := func(n uint64, noun string) {
		x, _ := r.PerSecond(n)
		s = append(s, rate(x)+" "+noun)
	}
	per(r.Polls, "polls")
	if r.Traced {
		per(r.Full, "full-budget polls")
	}
	per(r.Packets, "packets")
	if a.Arm.Threaded {
		per(r.Sleeps, "voluntary switches")
		per(r.Nonvol, "nonvoluntary switches")
	}
	per(r.Interrupts, "interrupts")
	per(r.Squeezed, "time squeezes")
	text := "per second: " + strings.Join(s, ", ")
	if share, ok := r.RunShare(); ok && a.Arm.Threaded {
		text += fmt.Sprintf("; the NAPI thread ran %s of the time", explain.FormatShare(share))
	}
	return text + fmt.Sprintf("; over %.1f s of the hold", r.Took.Seconds())
}

// slowItems say where each slow operation waited.
func slowItems(a explain.ArmSummary) []item {
	var list []item
	slow := a.SlowOnes()
	for _, s := range slow[:min(len(slow), maxSlow)] {
		list = append(list, item{"  waited", slowWords(s)})
	}
	if n := len(slow) - maxSlow; n > 0 {
		list = append(list, item{"", fmt.Sprintf("and %d more over 1 s; JSON and CSV have them all", n)})
	}
	return list
}

func slowWords(s explain.Slow) string {
	took := explain.FormatDuration(s.Sample.Took)
	if s.Sample.Censored {
		took = "> " + took
	}
	text := fmt.Sprintf("%s: %s", s.Trial, took)
	if s.Waits.Taken == 0 {
		return text + ", where is unseen: no stack samples"
	}
	var shares []string
	for _, w := range s.Waits.Shares {
		shares = append(shares, fmt.Sprintf("%s %s", w.Wait, explain.FormatShare(w.Share)))
	}
	return text + fmt.Sprintf(" in %s of %s", strings.Join(shares, ", "), plural(s.Waits.Taken, "stack sample")) +
		fmt.Sprintf(" (%s of the time looked at)", explain.FormatShare(s.Waits.Coverage))
}

// comparisons are the pairs in words.
func (r Run) comparisons() []item {
	var list []item
	for _, p := range r.pairs() {
		list = append(list, item{clean(p[0].Arm.Name + " vs " + p[1].Arm.Name), clean(comparisonWords(explain.Compare(p[0], p[1])))})
	}
	return list
}

// pairs are the first arm with trials against each other, and whatever the experiment expects
// something of, each once, whichever way round.
func (r Run) pairs() [][2]explain.ArmSummary {
	var pairs [][2]explain.ArmSummary
	seen := map[[2]string]bool{}
	pair := func(a, b explain.ArmSummary) {
		key := [2]string{min(a.Arm.Name, b.Arm.Name), max(a.Arm.Name, b.Arm.Name)}
		if key[0] == key[1] || seen[key] || len(a.Trials) == 0 || len(b.Trials) == 0 || a.Arm.Probe.Op != b.Arm.Probe.Op {
			return
		}
		seen[key] = true
		pairs = append(pairs, [2]explain.ArmSummary{a, b})
	}
	if i := slices.IndexFunc(r.Arms, func(a explain.ArmSummary) bool { return len(a.Trials) > 0 }); i >= 0 {
		for _, b := range r.Arms[i+1:] {
			pair(r.Arms[i], b)
		}
	}
	for _, e := range r.Experiment.Expect {
		pair(r.arm(e.Arm), r.arm(e.Vs))
	}
	return pairs
}

func (r Run) arm(name string) explain.ArmSummary {
	for _, a := range r.Arms {
		if a.Arm.Name == name {
			return a
		}
	}
	return explain.ArmSummary{}
}

// testsMade says what the p values of n comparisons are and take for granted.
func testsMade(n int) string {
	return fmt.Sprintf("Two-sided p, Fisher's exact test on the shares over 1 s, rank tests on the lengths, of %s, not corrected for their"+
		" number. The first two take the operations of a trial for independent, which they are not: their p is too small.", plural(n, "pair"))
}

func comparisonWords(c explain.Comparison) string {
	shares := fmt.Sprintf("over 1 s %d of %d against %d of %d: ", c.ShareA.K, c.ShareA.N, c.ShareB.K, c.ShareB.N)
	if !c.Over.HasP && !c.Lengths.HasP && !c.Trials.HasP {
		return shares + "not enough trials for a test"
	}
	return fmt.Sprintf("%s%s; all lengths: %s; longest of each trial: %s", shares, c.Over, c.Lengths, c.Trials)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
