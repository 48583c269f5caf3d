package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

// An armRow is an arm in the page's table.
type armRow struct {
	Name, Kernel, Model, Band string
	Trials, N                 string
	Median, Over, Worst       string
	MedianRange, OverRange    string
	Stalls, Lockups           string
	Vol, Nonvol, Polls        string
	Bad                       bool // it shows a stall
}

func (r Run) armRows() []armRow {
	var out []armRow
	for _, a := range r.Arms {
		cells := r.row(a, true, true)
		row := armRow{Name: cells[0], Kernel: cells[1], Model: cells[2], Band: cells[3], Trials: cells[4], N: cells[5], Over: cells[6],
			Worst: cells[7], Stalls: cells[8], Lockups: cells[9], Vol: cells[10], Nonvol: cells[11], Polls: cells[12],
			Median: notApplicable, Bad: a.StallEvidence() != explain.NoStall}
		if s := a.Hold.Summary; s.N > 0 {
			row.Median = atLeast(s.MedianCensored) + explain.FormatDuration(s.Median)
			row.MedianRange = "too few for a range"
			if s.HasInterval {
				row.MedianRange = explain.FormatDuration(s.MedianLo) + " – " + atLeast(s.MedianHiCensored) + explain.FormatDuration(s.MedianHi)
			}
		}
		if p := a.Hold.Over; p.N > 0 {
			lo, hi := p.Interval(explain.Confidence)
			row.OverRange = explain.FormatShare(lo) + " – " + explain.FormatShare(hi)
		}
		out = append(out, row)
	}
	return out
}

func atLeast(cut bool) string {
	if cut {
		return "> "
	}
	return ""
}

// A fact is what the targets say of themselves, by arm.
type fact struct {
	Name   string
	Values []string
}

// facts are those in which arms differ, and those which all of them share.
func (r Run) facts() (differ, same []fact) {
	arms := r.measured()
	for _, f := range allFacts(arms) {
		if len(slices.Compact(slices.Clone(f.Values))) > 1 {
			differ = append(differ, f)
		} else {
			same = append(same, fact{f.Name, f.Values[:1]})
		}
	}
	return differ, same
}

// measured are the arms with trials.
func (r Run) measured() []explain.ArmSummary {
	return slices.DeleteFunc(slices.Clone(r.Arms), func(a explain.ArmSummary) bool { return len(a.Trials) == 0 })
}

// allFacts are the facts that some arm has, in the order of a reader's interest, then the kernels' configurations.
func allFacts(arms []explain.ArmSummary) []fact {
	type read struct {
		name string
		of   func(a explain.ArmSummary) string
	}
	on := func(set bool) string { return map[bool]string{true: "yes", false: "no"}[set] }
	number := func(n int, unit string) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf("%d%s", n, unit)
	}
	list := []read{
		{"kernel asked for", func(a explain.ArmSummary) string { return a.Arm.Kernel }},
		{"kernel taken instead", kernelTaken},
		{"patches", func(a explain.ArmSummary) string { return strings.Join(a.Arm.Patch, ", ") }},
		{"release", func(a explain.ArmSummary) string { return a.Facts.Release }},
		{"version", func(a explain.ArmSummary) string { return a.Facts.Version }},
		{"architecture", func(a explain.ArmSummary) string { return a.Facts.Arch }},
		{"preemption model in force", func(a explain.ArmSummary) string { return explain.Model(a.Facts) }},
		{"PREEMPT_DYNAMIC", func(a explain.ArmSummary) string { return on(a.Facts.Dynamic) }},
		{"RCU flavor", func(a explain.ArmSummary) string { return string(a.Facts.Flavor) }},
		{"HZ", func(a explain.ArmSummary) string { return number(a.Facts.HZ, "") }},
		{"CPUs", func(a explain.ArmSummary) string { return number(a.Facts.CPUs, "") }},
		{"CPU under load", func(a explain.ArmSummary) string { return count(a.Facts.LoadCPU) }},
		{"CPU of the probes", func(a explain.ArmSummary) string { return count(a.Facts.ProbeCPU) }},
		{"accelerator", func(a explain.ArmSummary) string { return accelWords(a.Trials[0].Command.Accel) }},
		{"clock source", func(a explain.ArmSummary) string { return a.Facts.ClockSrc }},
		{"RCU stall timeout", func(a explain.ArmSummary) string { return number(a.Facts.StallSec, " s") }},
		{"expedited stall timeout", func(a explain.ArmSummary) string { return number(a.Facts.ExpMillis, " ms") }},
		{"NAPI", func(a explain.ArmSummary) string { return modeWords(a.Arm) }},
		{"NAPI thread", func(a explain.ArmSummary) string { return a.Facts.Thread }},
		{"load", func(a explain.ArmSummary) string { return loadWords(a.Arm) }},
		{"probe", func(a explain.ArmSummary) string { return probeWords(a.Arm) }},
		{"stacks can be read", func(a explain.ArmSummary) string { return on(a.Facts.Stacks) }},
		{"polls are traced", func(a explain.ArmSummary) string { return on(a.Facts.PollTrace) }},
		{"napistall on the target", func(a explain.ArmSummary) string { return a.Facts.Agent }},
		{"command line", func(a explain.ArmSummary) string { return a.Facts.Cmdline }},
		{"could not be read", func(a explain.ArmSummary) string { return strings.Join(a.Facts.Unknown, ", ") }},
	}
	for _, name := range configNames(arms) {
		list = append(list, read{name, func(a explain.ArmSummary) string { return configValue(a.Facts, name) }})
	}
	var out []fact
	for _, one := range list {
		f := fact{Name: clean(one.name)}
		some := false
		for _, a := range arms {
			v := one.of(a)
			some = some || v != ""
			f.Values = append(f.Values, orNone(clean(v)))
		}
		if some {
			out = append(out, f)
		}
	}
	return out
}

// kernelTaken is the kernel that a ran on where it is not the first that a names.
func kernelTaken(a explain.ArmSummary) string {
	if a.Facts.Kernel == a.Arm.Kernel {
		return ""
	}
	return a.Facts.Kernel
}

func orNone(s string) string {
	if s == "" {
		return notApplicable
	}
	return s
}

func modeWords(a experiment.Arm) string {
	if a.Threaded {
		return "threaded"
	}
	return "in softirq"
}

// configNames are the configuration options that some arm's facts have, sorted.
func configNames(arms []explain.ArmSummary) []string {
	var names []string
	for _, a := range arms {
		for _, line := range a.Facts.Config {
			name, _, _ := strings.Cut(line, "=")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func configValue(f experiment.Facts, name string) string {
	for _, line := range f.Config {
		if n, v, _ := strings.Cut(line, "="); n == name {
			return v
		}
	}
	if len(f.Config) == 0 {
		return "" // not known
	}
	return "not set"
}

// A slowRow is one operation over explain.SlowLimit in the page's list.
type slowRow struct{ Arm, Trial, Began, Took, Kind, Where, Seen string }

// slowRows are the longest maxSlow of each arm, and how many more there are.
func (r Run) slowRows(x Extras) (rows []slowRow, more int) {
	for _, a := range r.Arms {
		slow := a.SlowOnes()
		more += max(0, len(slow)-maxSlow)
		for _, s := range slow[:min(len(slow), maxSlow)] {
			i := slices.IndexFunc(a.Trials, func(t explain.TrialSummary) bool { return t.ID == s.Trial })
			t := a.Trials[i]
			extra := x.trial(t.ID)
			_, _, kind := kindOf(s.Sample, t, extra).look()
			rows = append(rows, slowRow{Arm: clean(a.Arm.Name), Trial: clean(t.ID), Kind: kind, Where: waitShares(s.Waits),
				Seen:  explain.FormatShare(s.Waits.Coverage),
				Began: fmt.Sprintf("%.2f s", since(beginOf(t, extra), s.Sample.Start).Seconds()),
				Took:  atLeast(s.Sample.Censored) + explain.FormatDuration(s.Sample.Took)})
		}
	}
	return rows, more
}

// waitShares writes b as "synchronize_net 90 %, rcu_barrier 10 %".
func waitShares(b explain.Breakdown) string {
	if b.Taken == 0 {
		return "unseen: no stack samples"
	}
	var shares []string
	for _, w := range b.Shares {
		shares = append(shares, clean(string(w.Wait))+" "+explain.FormatShare(w.Share))
	}
	return strings.Join(shares, ", ")
}

// A commandBlock is how a trial's target was started.
type commandBlock struct{ Trial, Text string }

// commands are those of each arm's first trial.
func (r Run) commands(x Extras) []commandBlock {
	var out []commandBlock
	for _, a := range r.measured() {
		t := a.Trials[0]
		text := x.trial(t.ID).Command
		if text == "" {
			text = strings.Join(t.Command.Argv, " ")
		}
		if text != "" {
			out = append(out, commandBlock{clean(t.ID), cleanLines(text)})
		}
	}
	return out
}

// cleanLines is clean, line by line, with tabs as spaces.
func cleanLines(text string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\t", "    "), "\n"), "\n")
	for i, l := range lines {
		lines[i] = clean(l)
	}
	return strings.Join(lines, "\n")
}

// caveats are what the trials missed and what their numbers leave open, beside what the verdict says was not measured.
func (r Run) caveats() []string {
	var out []string
	for _, a := range r.Arms {
		if l := a.LossWords(); l != "" {
			out = append(out, clean(a.Arm.Name+": missed "+l))
		}
		for _, c := range a.Hold.Summary.Caveats {
			out = append(out, clean(a.Arm.Name+": "+c))
		}
		if a.Hold.Refused > 0 {
			out = append(out, clean(fmt.Sprintf("%s: %d refused by the kernel, in no number", a.Arm.Name, a.Hold.Refused)))
		}
		for _, t := range a.Trials {
			if t.HostWait > 0 {
				out = append(out, clean(fmt.Sprintf("%s: its CPUs waited %s for the host's", t.ID, explain.FormatDuration(t.HostWait))))
			}
		}
	}
	return out
}
