package qemu

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// The lines by which a console tells how far its guest has come. Panicking kernels have printed the
// first since 2.0 and the second since 2.6 (kernel/panic.c).
const (
	initSays  = "napistall: "       // a guest's init, see package agent
	agentUp   = "napistall: agent " // its first line
	panicSays = "Kernel panic - not syncing"
	panicDone = "---[ end Kernel panic"
	// An x86 kernel dies of a breakpoint that nobody has set (arch/x86/kernel/traps.c, exc_int3; with
	// "Oops: " in front since 6.10). It puts breakpoints into its own code while it changes it, for a
	// jump label, a static call or a tracer, and takes them out before it goes on. With a thread for each
	// CPU, TCG may translate such code while another CPU writes to it, and keeps what it read: pages are
	// locked while they are translated since QEMU 8.1 only (commits cb62bd15e14e and deba78709ae8), and
	// what is left is https://gitlab.com/qemu-project/qemu/-/work_items/4669, open in 11.1. Measured on
	// 7.2.22 with a guest that switches kernel.sched_schedstats: dead within 400 switches, ten times of
	// ten, whatever -cpu and mitigations= are; none in 2600 switches with thread=single. To be removed once
	// no QEMU in use has it.
	staleSays = "int3: 0000 [#"
)

// limits say how long each step of a trial may take. They are wide: a wrong "the machine broke"
// costs a trial, a late one only time. Measured under TCG on 2 cores: the first line after 1 to 3 s,
// the agent after 3 to 12 s, the load 1 to 3 s later.
type limits struct {
	quiet time.Duration // without a line on the console, until the first record
	boot  time.Duration // until the first record
	setup time.Duration // from the first record to the load
	grace time.Duration // past the trial's duration, until the guest counts as silent
	panic time.Duration // from a panic's first line, for the rest of its report
}

func wideLimits() limits {
	return limits{
		quiet: 60 * time.Second,
		boot:  120 * time.Second,
		setup: 60 * time.Second,
		grace: 20 * time.Second,
		panic: 3 * time.Second,
	}
}

// A watch tells "the guest stalls", which is data, from "the machine broke", which is not. It has
// no clock of its own.
//
// Until the load is on, every delay is the machine's fault: the kernel under test has not been asked
// anything yet. From then on it is the kernel's: however long the records are silent, the watch
// waits for the trial's whole time and grace, and then ends it as silent.
type watch struct {
	limits
	duration time.Duration // of the trial
	emulated bool          // by TCG

	start, line, first, load, last time.Time // start of QEMU, newest line, first record, load, newest record
	panicAt                        time.Time
	panicText                      string
	panicDone                      bool
	stale                          string // how the kernel died of code that the emulator kept
	staleAt                        time.Time
	gaveUp                         string // what the guest's init said before it powered off
}

// sawLine notes a line of the console.
func (w *watch) sawLine(text string, now time.Time) {
	w.line = now
	if i := strings.Index(text, panicSays); i >= 0 && !w.panicked() {
		w.panicAt, w.panicText = now, strings.TrimSpace(text[i:])
	}
	if w.emulated && w.stale == "" && strings.Contains(text, staleSays) {
		w.stale, w.staleAt = strings.TrimSpace(text), now
	}
	if said, ok := strings.CutPrefix(text, initSays); ok && !strings.HasPrefix(text, agentUp) {
		w.gaveUp = strings.TrimSpace(said)
	}
	if strings.Contains(text, panicDone) && w.panicked() {
		w.panicDone = true
	}
}

// sawRecord notes a record of the agent.
func (w *watch) sawRecord(r experiment.Record, now time.Time) {
	w.last = now
	if w.first.IsZero() {
		w.first = now
	}
	measuring := r.Phase != nil && (r.Phase.Name == experiment.Hold || r.Phase.Name == experiment.Tail)
	if measuring && w.load.IsZero() {
		w.load = now
	}
}

// booted reports whether the agent has said anything.
func (w *watch) booted() bool { return !w.first.IsZero() }

// panicked reports whether the console has shown a panic.
func (w *watch) panicked() bool { return !w.panicAt.IsZero() }

// check returns how the trial ended, as data or as an error, or neither while it goes on.
func (w *watch) check(now time.Time) (*experiment.End, error) {
	switch {
	case w.stale != "" && now.Sub(w.staleAt) >= w.limits.panic:
		return nil, w.staleError()
	case w.panicked():
		if !w.panicDone && now.Sub(w.panicAt) < w.limits.panic {
			return nil, nil
		}
		return w.panicEnd()
	case !w.booted():
		return nil, w.checkBoot(now)
	case w.load.IsZero():
		if now.Sub(w.first) > w.setup {
			return nil, fmt.Errorf("the agent did not start the load within %v", w.setup)
		}
		return nil, nil
	}
	if now.Sub(w.load) > w.duration+w.grace {
		return w.silentEnd(now), nil
	}
	return nil, nil
}

func (w *watch) checkBoot(now time.Time) error {
	heard, what := w.line, "the console fell silent for"
	if heard.IsZero() {
		heard, what = w.start, "no line on the console for"
	}
	if now.Sub(heard) > w.quiet {
		return fmt.Errorf("%s %v while booting", what, w.quiet)
	}
	if now.Sub(w.start) > w.boot {
		return fmt.Errorf("no record from the agent %v after the start", w.boot)
	}
	return nil
}

// panicEnd is a result once the agent is there; before, the kernel never got to the trial.
func (w *watch) panicEnd() (*experiment.End, error) {
	if w.stale != "" {
		return nil, w.staleError()
	}
	if !w.booted() {
		return nil, errors.New("the kernel panicked before the trial began: " + w.panicText)
	}
	return &experiment.End{Outcome: experiment.Panicked, Why: w.panicText}, nil
}

// staleError says that the guest died of its emulator, whether the kernel went on after that or not.
func (w *watch) staleError() error {
	return errors.New("the emulator ran code that the kernel had changed by then (a bug of QEMU, work item 4669): " + w.stale)
}

func (w *watch) silentEnd(now time.Time) *experiment.End {
	why := fmt.Sprintf("no end %v past the trial's %v; last record %.1f s ago, last console line %.1f s ago",
		w.grace, w.duration, now.Sub(w.last).Seconds(), now.Sub(w.line).Seconds())
	return &experiment.End{Outcome: experiment.Silent, Why: why}
}

// died returns what it means that QEMU ended by itself with err, which may be nil.
func (w *watch) died(err error) (*experiment.End, error) {
	if w.stale != "" {
		return nil, w.staleError()
	}
	if w.panicked() {
		return w.panicEnd()
	}
	if err == nil && w.gaveUp != "" {
		err = errors.New("the guest gave up: " + w.gaveUp)
	}
	if err == nil {
		err = errors.New("QEMU ended by itself: the guest powered off or reset")
	}
	return nil, err
}
