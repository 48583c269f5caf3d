// Package backend is what the runner needs of a place where trials run. The places themselves are
// its subpackages; backendtest is the contract that each of them passes.
package backend

import (
	"context"
	"fmt"

	"github.com/napistall/napistall/internal/experiment"
)

// A Backend is a kind of place where trials run. Its methods may be called concurrently.
type Backend interface {
	// Slots is how many targets can run side by side without disturbing each other, at least 1.
	Slots() int
	// Acquire gets a target ready for arm: the kernel is fetched and looked at here, so that an arm
	// that can't run fails before any trial starts. An error that matches errors.ErrUnsupported says
	// that this machine or kernel can't; a *MachineError, that another try may work.
	Acquire(ctx context.Context, arm experiment.Arm) (Target, error)
}

// A Target is one machine that runs trials of one arm, one at a time.
type Target interface {
	// Run passes t's records to emit, in order, the last an End. What the kernel under test does is in
	// the records; an error means that the trial is no data. When ctx ends, Run cleans up and returns
	// ctx's error. An error of emit ends the trial and is returned.
	Run(ctx context.Context, t experiment.Trial, emit func(experiment.Record) error) error
	// Close frees the target. Nothing of it stays behind: no process, no file, no lock. Closing it again
	// does nothing.
	Close() error
}

// Retries is how often a trial is tried again after a *MachineError before it is given up. Three
// tries in all: what breaks an emulator by chance does so in less than one boot of a hundred, and
// what breaks it three times running is no chance.
const Retries = 2

// A MachineError says that our own machinery broke, not the kernel under test: the trial is retried
// and never counted.
type MachineError struct {
	Op   string   // what was being done
	Err  error    // the cause
	Last []string // the console's last lines, for a person; may be empty
}

func (e *MachineError) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *MachineError) Unwrap() error { return e.Err }

// A WrongKernelError says that a kernel runs under another preemption model than the arm wished for.
// It is an error of the trial: a retry gives the same, and no number is made of it.
type WrongKernelError struct {
	Wish, Got string // what the arm asked for and what the target says, "preempt=none"
	Hint      string // which kernels can
}

func (e *WrongKernelError) Error() string {
	s := fmt.Sprintf("the kernel runs with %s, the arm asks for %s", e.Got, e.Wish)
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}
