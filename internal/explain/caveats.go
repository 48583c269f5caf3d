package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// NotMeasured says what arms leave open: whatever a reader might take the numbers for and they are not.
// Each sentence comes from what the trials reported.
func NotMeasured(arms []ArmSummary) []string {
	return notMeasured(arms, differences)
}

// notMeasured leaves out what more than one difference between arms leaves open, unless differ says it.
func notMeasured(arms []ArmSummary, differ func([]ArmSummary) []string) []string {
	ran := slices.DeleteFunc(slices.Clone(arms), func(a ArmSummary) bool { return len(a.Trials) == 0 })
	if len(ran) == 0 {
		return nil
	}
	caveats := []func([]ArmSummary) []string{
		busyHost, emulation, hardware, repetitions, builds, differ, timeouts, inferences, stacks, silence, earlyReports, factGaps, losses,
	}
	var s []string
	if simulated(ran) {
		s = []string{"No kernel ran. The simulator shows what its model of the poll loop, the scheduler and RCU does; rates and short" +
			" times follow from the costs that it was given."}
		caveats = []func([]ArmSummary) []string{repetitions, differ, timeouts, inferences, losses}
	}
	for _, f := range caveats {
		s = append(s, f(ran)...)
	}
	return s
}

// simulated reports whether the trials are a model's. A run has one backend, so that one trial tells.
func simulated(arms []ArmSummary) bool {
	i := slices.IndexFunc(arms, func(a ArmSummary) bool { return len(a.Trials) > 0 })
	return i >= 0 && arms[i].Trials[0].Command.Accel == "model"
}

// hostShare is the share of its time that a guest's CPUs may have waited for the host's without a word
// about it. Four trials of mainline on 2 cores with nothing else to do had 6 to 10 %, for QEMU has more
// threads than a guest has CPUs; beside fuzzers and compilers, trials had 47 to 64 %.
const hostShare = 0.2

// busyHost names the arms whose guests did not have the host's CPUs to themselves.
func busyHost(arms []ArmSummary) []string {
	var busy []string
	for _, a := range arms {
		var waited, ran time.Duration
		for _, t := range a.Trials {
			waited += t.HostWait
			ran += time.Duration(max(1, t.Facts.CPUs)) * a.Arm.Duration
		}
		if float64(waited) > hostShare*float64(ran) {
			busy = append(busy, fmt.Sprintf("%s %.0f %%", a.Arm.Name, 100*min(1, waited.Seconds()/ran.Seconds())))
		}
	}
	if len(busy) == 0 {
		return nil
	}
	return []string{"The host was busy with others, which a guest takes for time of its own: long times may be the host's. So much of their time the CPUs waited for the host's: " +
		strings.Join(busy, ", ") + "."}
}

// emulation says what runs the instructions.
func emulation(arms []ArmSummary) []string {
	var tcg, kvm []string
	for _, a := range arms {
		switch a.Trials[0].Command.Accel {
		case "tcg":
			tcg = append(tcg, a.Arm.Name)
		case "kvm":
			kvm = append(kvm, a.Arm.Name)
		}
	}
	var s []string
	if len(tcg) > 0 {
		s = append(s, which(tcg, arms)+"ran under TCG, which emulates instructions: rates and short times say nothing of real hardware.")
	}
	if len(kvm) > 0 {
		s = append(s, which(kvm, arms)+"ran in a virtual machine: the host may have taken its CPUs away at any time.")
	}
	return s
}

func hardware(arms []ArmSummary) []string {
	var bounce, flood []string
	for _, a := range arms {
		switch a.Arm.Load.Kind {
		case experiment.Bounce, experiment.Windowed:
			bounce = append(bounce, a.Arm.Name)
		case experiment.Flood, experiment.Paced, experiment.TCP:
			flood = append(flood, a.Arm.Name)
		}
	}
	switch {
	case len(bounce)+len(flood) == 0:
		return nil
	case len(flood) == 0:
		return []string{"No network device, interrupt coalescing or real traffic: frames bounce between the ends of a veth pair."}
	}
	return []string{"No network device, interrupt coalescing or real traffic: all frames are made on the machine itself, for a veth pair."}
}

func repetitions(arms []ArmSummary) []string {
	least := len(arms[0].Trials)
	for _, a := range arms {
		least = min(least, len(a.Trials))
	}
	if least == 1 {
		return []string{"With one trial of an arm, how much trials differ is unknown; deletes of one trial are not independent of each" +
			" other, and a test over them says nothing of other trials."}
	}
	return []string{fmt.Sprintf("%d trials or more of each arm; deletes of one trial are not independent of each other, which the tests over them"+
		" don't know.", least)}
}

func builds(arms []ArmSummary) []string {
	kernels := map[string]bool{}
	for _, a := range arms {
		for _, t := range a.Trials {
			kernels[t.Facts.Release+" "+t.Facts.Version+" "+t.Facts.Arch] = true
		}
	}
	s := []string{fmt.Sprintf("%s only; other configurations, compilers and versions were not tried.", plural(len(kernels), "kernel build"))}
	var edited []string
	for _, a := range arms {
		if a.Facts.KconfigDiff != "" {
			edited = append(edited, a.Arm.Name)
		}
	}
	if len(edited) > 0 {
		s = append(s, strings.Join(edited, ", ")+": kernel/Kconfig.preempt was edited to allow a preemption model that the source forbids there (+kconfig)."+
			" Nobody ships such a kernel.")
	}
	return s
}

// differences names the threaded arms that differ from the first in more than their model, so that
// nobody takes the model for the only cause.
func differences(arms []ArmSummary) []string {
	var s []string
	first := arms[0]
	for _, a := range arms[1:] {
		var d []string
		add := func(differs bool, what string) {
			if differs {
				d = append(d, what)
			}
		}
		add(a.Facts.Preempt != first.Facts.Preempt, "preemption model")
		add(a.Facts.Arch != first.Facts.Arch, "architecture")
		add(shortRelease(a.Facts.Release) != shortRelease(first.Facts.Release), "version")
		add(a.Facts.CPUs != first.Facts.CPUs, "number of CPUs")
		add(a.Facts.HZ != first.Facts.HZ, "HZ")
		add(a.Trials[0].Command.Accel != first.Trials[0].Command.Accel, "accelerator")
		add(!slices.Equal(a.Arm.Patch, first.Arm.Patch), "patch")
		add(a.Arm.Threaded != first.Arm.Threaded || a.Arm.Load != first.Arm.Load, "load")
		if len(d) > 1 {
			s = append(s, fmt.Sprintf("%s and %s differ in %s: no single one of them is shown to be the cause.",
				first.Arm.Name, a.Arm.Name, strings.Join(d, ", ")))
		}
	}
	return s
}

// timeouts says where a stall could not have been reported at all: classic reports come after
// rcu_cpu_stall_timeout (kernel/rcu/tree_stall.h).
func timeouts(arms []ArmSummary) []string {
	var short, lowered []string
	for _, a := range arms {
		limit := a.Facts.StallSec
		if limit > 0 && a.Arm.Load.Kind != experiment.NoLoad && a.Arm.Load.Hold.Seconds() < float64(limit) {
			short = append(short, a.Arm.Name)
		}
		if a.Arm.StallTimeout > 0 || a.Arm.ExpStallTimeout > 0 {
			lowered = append(lowered, a.Arm.Name)
		}
	}
	var s []string
	if len(short) > 0 {
		s = append(s, which(short, arms)+"had a hold shorter than the kernel's stall timeout: no classic stall could be reported.")
	}
	if len(lowered) > 0 {
		s = append(s, which(lowered, arms)+"ran with a stall timeout set by the experiment: how many stalls are reported depends on it.")
	}
	return s
}

func inferences(arms []ArmSummary) []string {
	var names []string
	for _, a := range arms {
		if slices.ContainsFunc(a.Trials, func(t TrialSummary) bool { return t.Band.Inferred }) {
			names = append(names, a.Arm.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{which(names, arms) + "had no tracepoint to count polls at: polls are packets ÷ frames in flight, and the band is inferred from them."}
}

// stacks says where it was not seen what deletes waited for, or only by the function that they slept in.
func stacks(arms []ArmSummary) []string {
	var unseen, slept []string
	for _, a := range arms {
		switch {
		case a.Facts.Stacks:
		case a.waitsKnown():
			slept = append(slept, a.Arm.Name)
		default:
			unseen = append(unseen, a.Arm.Name)
		}
	}
	var s []string
	if len(unseen) > 0 {
		s = append(s, which(unseen, arms)+"had no readable kernel stacks: where deletes waited was not seen.")
	}
	if len(slept) > 0 {
		s = append(s, which(slept, arms)+"had no readable kernel stacks: where deletes waited is known by the function that they slept in alone.")
	}
	return s
}

// waitsKnown reports whether any operation of the hold was found in a wait.
func (a ArmSummary) waitsKnown() bool {
	for _, t := range a.Trials {
		for _, s := range t.Main().Hold {
			for w, n := range s.Waits {
				if w != rcu.OtherWait && n > 0 {
					return true
				}
			}
		}
	}
	return false
}

func silence(arms []ArmSummary) []string {
	var s []string
	for _, a := range arms {
		if a.Panicked+a.Silent > 0 {
			s = append(s, fmt.Sprintf("%s: %d of %s ended in a panic and %d in silence; what was in flight then is in no number.",
				a.Arm.Name, a.Panicked, plural(len(a.Trials), "trial"), a.Silent))
		}
	}
	return s
}

func earlyReports(arms []ArmSummary) []string {
	var s []string
	for _, a := range arms {
		if a.Early > 0 {
			s = append(s, fmt.Sprintf("%s: %s of the kernel from before the load, not counted.", a.Arm.Name, plural(a.Early, "report")))
		}
	}
	return s
}

// factGaps names what targets could not say, and arms whose trials ran on different kernels.
func factGaps(arms []ArmSummary) []string {
	var s []string
	for _, a := range arms {
		for _, t := range a.Trials[1:] {
			if t.Facts.Release != a.Facts.Release || t.Facts.Version != a.Facts.Version || t.Facts.Preempt != a.Facts.Preempt {
				s = append(s, fmt.Sprintf("%s: its trials ran on different kernels or models (%s, %s).", a.Arm.Name, a.Trials[0].ID, t.ID))
				break
			}
		}
		if a.Facts.Preempt == rcu.Preemption("") {
			s = append(s, a.Arm.Name+": the preemption model is unknown.")
		}
	}
	return s
}

// losses sums up what each arm missed.
func losses(arms []ArmSummary) []string {
	var s []string
	for _, a := range arms {
		if l := a.LossWords(); l != "" {
			s = append(s, fmt.Sprintf("%s: missed %s.", a.Arm.Name, l))
		}
	}
	return s
}

// LossWords sums up what a's trials missed, "3 kmsg lines, 1 record", or "".
func (a ArmSummary) LossWords() string {
	counts := map[string]int{}
	var order []string
	for _, t := range a.Trials {
		for _, l := range t.Losses {
			if _, ok := counts[l.What]; !ok {
				order = append(order, l.What)
			}
			counts[l.What] += l.Count
		}
	}
	slices.Sort(order)
	var parts []string
	for _, what := range order {
		parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
	}
	return strings.Join(parts, ", ")
}

// which begins a sentence about names of arms: nothing but "All arms" when it is all of several.
func which(names []string, arms []ArmSummary) string {
	if len(names) == len(arms) && len(arms) > 1 {
		return "All arms "
	}
	return strings.Join(names, ", ") + " "
}
