// Package report writes a run for people and for programs: a table with its verdict as text, a mail
// for a kernel mailing list, JSON and CSV. The same run gives the same bytes. Whatever a kernel or a
// file said is written so that no terminal, spreadsheet or mail program takes it for more than text.
package report

import (
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

// A Run is what a report is written of.
type Run struct {
	Experiment experiment.Experiment
	Backend    string // qemu, host …
	Version    string // of napistall
	// Arms are the experiment's, in its order; those without trials too.
	Arms    []explain.ArmSummary
	Verdict explain.Verdict
	Results []explain.Result // of the experiment's expectations, in its order
	Aborted []Aborted        // tries that gave no data, in the order in which they failed
	NotRun  []NotRun         // arms that could not run at all
	// Repeat are the commands that repeat the run, a line each.
	Repeat []string
	// Text is the experiment's file where it is not a built-in one, for whoever repeats the run elsewhere.
	Text string
	Host string // the machine that the targets ran on, and with which tools
	// Interrupted: the run was ended before its plan was.
	Interrupted bool
}

// An Aborted is a try of a trial that our own machinery failed. It is counted, and in no number.
type Aborted struct {
	Trial string // its ID
	Arm   string
	Try   int // from 1
	Why   string
}

// A NotRun is an arm that could not run, and why.
type NotRun struct {
	Arm string
	Why string
}

// New returns the Run of e over the trials that are data, with its verdict and what became of its
// expectations. The caller fills in the rest.
func New(e experiment.Experiment, trials []explain.TrialSummary) Run {
	r := Run{Experiment: e}
	for _, arm := range e.Arms {
		var own []explain.TrialSummary
		for _, t := range trials {
			if t.Arm.Name == arm.Name {
				own = append(own, t)
			}
		}
		r.Arms = append(r.Arms, explain.Summarize(arm, own))
	}
	r.Verdict = explain.Judge(r.Arms)
	r.Results = explain.Check(e.Expect, r.Arms)
	return r
}

// Unmet returns how many expectations were not met, unknown ones included.
func (r Run) Unmet() int {
	n := 0
	for _, x := range r.Results {
		if x.Status != explain.Met {
			n++
		}
	}
	return n
}

// trials counts the trials that are data and those that were planned.
func (r Run) trials() (done, planned int) {
	for _, a := range r.Arms {
		done += len(a.Trials)
		planned += max(1, r.Experiment.Trials(a.Arm))
	}
	return done, planned
}

// aborted counts the aborted tries of one arm.
func (r Run) aborted(arm string) int {
	n := 0
	for _, a := range r.Aborted {
		if a.Arm == arm {
			n++
		}
	}
	return n
}

// title is the experiment's name and question.
func (r Run) title() string {
	if r.Experiment.Question == "" {
		return clean(r.Experiment.Name)
	}
	return clean(r.Experiment.Name + ": " + r.Experiment.Question)
}

// setting says on what the arms ran: "2 vCPUs, TCG, hold 30 s".
func (r Run) setting() string {
	var cpus, accels, holds []string
	noun := "vCPUs"
	for _, a := range r.Arms {
		if a.Arm.Load.Kind != experiment.NoLoad {
			holds = add(holds, explain.FormatDuration(a.Arm.Load.Hold))
		}
		if len(a.Trials) == 0 {
			continue
		}
		cpus = add(cpus, count(a.Facts.CPUs))
		accel := a.Trials[0].Command.Accel
		if accel == "none" {
			noun = "CPUs"
		}
		accels = add(accels, accelWords(accel))
	}
	var parts []string
	if len(cpus) > 0 {
		parts = append(parts, strings.Join(cpus, " or ")+" "+noun, strings.Join(accels, " and "))
	}
	if len(holds) > 0 {
		parts = append(parts, "hold "+strings.Join(holds, " or "))
	}
	return strings.Join(parts, ", ")
}

func accelWords(accel string) string {
	switch accel {
	case "":
		return "accelerator unknown"
	case "none":
		return "live machine"
	case "model":
		return "simulated"
	}
	return strings.ToUpper(clean(accel))
}

// add appends s unless it is there.
func add(set []string, s string) []string {
	for _, x := range set {
		if x == s {
			return set
		}
	}
	return append(set, s)
}

// remarks are the lines that belong to a table: what was cut short, and the experiment's own notes.
func (r Run) remarks() []string {
	var s []string
	if r.Experiment.Quick {
		s = append(s, "quick: holds are shortened and rcu_cpu_stall_timeout is set to 3 s, so that stalls are reported sooner and waits"+
			" end earlier than with the experiment's own times.")
	}
	if r.Interrupted {
		done, planned := r.trials()
		s = append(s, "interrupted: "+count(done)+" of "+count(planned)+" trials are in this table.")
	}
	s = append(s, r.choices()...)
	for _, n := range r.Experiment.Notes {
		s = append(s, "note: "+clean(n))
	}
	for _, n := range r.NotRun {
		s = append(s, "not run: "+clean(n.Arm)+": "+clean(n.Why))
	}
	for _, a := range r.Aborted {
		s = append(s, "aborted, in no number: "+clean(a.Trial)+" try "+count(a.Try)+": "+clean(a.Why))
	}
	return s
}

// choices says where an arm ran on another kernel than the first that it names.
func (r Run) choices() []string {
	var s []string
	for _, a := range r.Arms {
		if k := a.Facts.Kernel; k != "" && k != a.Arm.Kernel {
			s = append(s, clean("kernel of "+a.Arm.Name+": "+k+", for "+a.Arm.Kernel+" could not be had"))
		}
	}
	return s
}
