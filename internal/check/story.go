package check

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/model"
)

// A Line is one step of a story.
type Line struct {
	N     int    `json:"n"`     // from 1, over stem and cycle
	Where string `json:"where"` // CPU and task, or what happens to them
	What  string `json:"what"`
	Quiet bool   `json:"quiet,omitempty"` // changes nothing that the wait is about
	Cycle bool   `json:"cycle,omitempty"`
}

// A Story is a counterexample in the kernel's words.
type Story struct {
	Lines []Line   `json:"lines"`
	Waits []string `json:"waits"` // who waits for whom where the cycle starts, or the run ends
	stem  int
}

// Tell follows a's run through the model and puts it into words. It is empty if a has no run.
func (a *Answer) Tell() (Story, error) {
	var st Story
	if a.Run == nil {
		return st, nil
	}
	sys, err := a.Question.system()
	if err != nil {
		return st, err
	}
	s := sys.m.Initial()
	st.stem = len(a.Run.Stem)
	var cycle model.Effects
	atStart := s
	for i, h := range append(slices.Clone(a.Run.Stem), a.Run.Cycle...) {
		if i == st.stem {
			atStart = s
		}
		w := walk{keep: true}
		sys.one(&s, h, &w)
		if len(w.events) == 0 {
			return st, &eventError{i, fmt.Errorf("%v can't happen here", h.Event)}
		}
		o := w.events[0].outcome
		line := Line{N: i + 1, Where: where(h.Event, &o), What: what(sys.m, h, &s, &o), Cycle: i >= st.stem}
		line.Quiet = !line.Cycle && o.Effects&loud == 0 && o.Step != model.StepBegin && i+1 < st.stem
		if line.Cycle {
			cycle |= o.Effects
		}
		st.Lines = append(st.Lines, line)
	}
	if len(a.Run.Cycle) == 0 {
		atStart = s
	}
	st.Waits = waits(sys.m, &atStart, cycle, len(a.Run.Cycle) > 0)
	return st, nil
}

// loud are the effects that a stem is told for.
const loud = model.EffSwitchVol | model.EffSwitchInvol | model.EffSleep | model.EffWake | model.EffFull | model.EffLazy |
	model.EffPromote | model.EffGPStart | model.EffGPEnd | model.EffUrgent | model.EffHeavy | model.EffResched | model.EffNotice |
	model.EffQSNote | model.EffQS0 | model.EffExpStart | model.EffExpEnd | model.EffExpIPI | model.EffExpWanted | model.EffExpQS |
	model.EffTasksQS | model.EffWork | model.EffCallbacks | model.EffWait0 | model.EffWait1 | model.EffWait2 |
	model.EffDone0 | model.EffDone1 | model.EffDone2

// where says who does a step.
func where(e model.Event, o *model.Outcome) string {
	switch e {
	case model.Run0, model.Run1:
		return fmt.Sprintf("CPU %d, %v", o.CPU, o.Task)
	case model.Tick0, model.Tick1, model.NICInterrupt, model.ExpIPI, model.ReschedIPI:
		return fmt.Sprintf("CPU %d, interrupt", o.CPU)
	case model.Arrive, model.OtherInterrupt, model.OtherUnmask, model.Deadline:
		return "device"
	case model.Begin0, model.Begin1, model.Begin2:
		return fmt.Sprintf("CPU 1, %v", model.Probe0+model.Task(e-model.Begin0))
	default:
		return "time"
	}
}

// phrases are the effects in words; those of polls are told apart.
func phrases() []word[model.Effects] {
	return []word[model.Effects]{
		{"enters __schedule", model.EffSchedule},
		{"it sleeps", model.EffSwitchVol}, {"it is switched away from", model.EffSwitchInvol},
		{"finds SCHED_THREADED set and doesn't call schedule", model.EffReentry},
		{"finds MISSED and schedules itself again", model.EffMissed},
		{"the NAPI thread leaves the runqueue", model.EffSleep}, {"the NAPI thread is woken", model.EffWake},
		{"the device's interrupt is pending", model.EffLine}, {"the ring is full", model.EffDrop},
		{"softirqs run", model.EffSoftirq}, {"net_rx_action begins", model.EffNetRX}, {"leaves work over", model.EffSqueeze},
		{"ksoftirqd is woken", model.EffKsoftirqd},
		{"sets need_resched", model.EffFull}, {"sets the lazy flag", model.EffLazy}, {"makes the lazy flag a full one", model.EffPromote},
		{"a reschedule IPI is sent", model.EffReschedIPI},
		{"a normal grace period starts", model.EffGPStart}, {"the normal grace period ends", model.EffGPEnd},
		{"sleeps until the next scan", model.EffFQSTimer},
		{"sets CPU 0's rcu_urgent_qs", model.EffUrgent}, {"and rcu_need_heavy_qs", model.EffHeavy}, {"calls resched_cpu(0)", model.EffResched},
		{"CPU 0 notices the grace period", model.EffNotice}, {"notes a quiescent state", model.EffQSNote},
		{"CPU 0's quiescent state is reported", model.EffQS0}, {"CPU 1's quiescent state is reported", model.EffQS1},
		{"an expedited grace period starts", model.EffExpStart}, {"the expedited grace period ends", model.EffExpEnd},
		{"an expedited IPI is sent to CPU 0", model.EffExpIPI}, {"cannot report here: CPU 0 owes it", model.EffExpWanted},
		{"CPU 0 reports to the expedited grace period", model.EffExpQS}, {"Tasks RCU lets the NAPI thread go", model.EffTasksQS},
		{"the kworker runs its item", model.EffWork}, {"callbacks run", model.EffCallbacks},
		{"probe 0's round is over", model.EffDone0}, {"probe 1's round is over", model.EffDone1}, {"probe 2's round is over", model.EffDone2},
	}
}

// what says what a step does.
func what(m *model.Model, h Happening, after *model.State, o *model.Outcome) string {
	var parts []string
	if n := max(h.Packets, 1); h.Event == model.Arrive {
		parts = append(parts, plural(n, "packet")+" arrive"+map[bool]string{true: "s"}[n == 1])
	}
	if o.Effects&model.EffPoll != 0 {
		text := "takes " + plural(int(o.N), "packet")
		if o.Effects&model.EffFullPoll != 0 {
			text += ", its whole weight"
		}
		parts = append(parts, text)
	}
	for _, p := range phrases() {
		if o.Effects&p.value != 0 {
			parts = append(parts, p.name)
		}
	}
	for p := range model.MaxProbes {
		if o.Effects&model.ProbeWait(p) != 0 {
			parts = append(parts, fmt.Sprintf("probe %d waits in %v", p, m.ProbeOp(after, p)))
		}
	}
	name := o.Step.String()
	if o.Step == model.StepAge {
		name = h.Event.String()
	}
	if len(parts) == 0 {
		return name
	}
	return name + ": " + strings.Join(parts, "; ")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// waits says who waits for whom in s, from the probes to whoever runs on CPU 0. The effects are those of the cycle.
func waits(m *model.Model, s *model.State, cycle model.Effects, endless bool) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for p := range model.MaxProbes {
		if s.Running(p) {
			say("probe %d waits in %v", p, m.ProbeOp(s, p))
		}
	}
	normal, expedited := s.Owes()
	if active, wanted := s.Exp(); active || wanted {
		say("the expedited grace period waits for %s", owed(expedited, "CPU 0, which owes it a quiescent state", "its worker"))
	}
	if active, wanted := s.GP(); active || wanted {
		say("the normal grace period waits for %s", owed(normal, "CPU 0, which owes it a quiescent state", "its kthread or a report by rcu_core"))
	}
	if s.Callbacks(0) {
		say("CPU 0 has callbacks that wait for a grace period, or for rcu_core")
	}
	if s.WorkPending() {
		say("the work item waits for CPU 0's kworker, which waits for the CPU")
	}
	if m.ProbeOp(s, 0) == model.TasksScan {
		say("Tasks RCU waits for the NAPI thread to sleep or to report a quiescent state")
	}
	who := s.Current().String()
	switch full, lazy := s.NeedResched(); {
	case full:
		who += ", with need_resched set"
	case lazy:
		who += ", with the lazy flag set"
	}
	say("CPU 0 runs %s", who)
	if s.Asleep() && s.Packets() > 0 {
		say("the ring has %s, and the NAPI thread sleeps", plural(s.Packets(), "packet"))
	}
	if endless && cycle&model.EffSchedule == 0 {
		say("nothing in the cycle enters __schedule")
	}
	return out
}

func owed(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// Print writes the story: of the stem what matters, the cycle in full, then who waits for whom.
func (st *Story) Print(w io.Writer) {
	quiet := 0
	flush := func() {
		if quiet > 0 {
			fmt.Fprintf(w, "      …  %s of no consequence here\n", plural(quiet, "step"))
			quiet = 0
		}
	}
	width := 0
	for _, l := range st.Lines {
		width = max(width, len(l.Where))
	}
	for i, l := range st.Lines {
		if l.Quiet {
			quiet++
			continue
		}
		flush()
		if i == st.stem && l.Cycle {
			fmt.Fprintf(w, "    from here on, for ever:\n")
		}
		fmt.Fprintf(w, "  %5d  %-*s  %s\n", l.N, width, l.Where, l.What)
	}
	flush()
	if len(st.Lines) > st.stem {
		fmt.Fprintf(w, "         and again from %d\n", st.stem+1)
	}
	fmt.Fprintf(w, "    who waits for whom:\n")
	for _, line := range st.Waits {
		fmt.Fprintf(w, "         %s\n", line)
	}
}
