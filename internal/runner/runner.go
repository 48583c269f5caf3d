// Package runner walks a plan of trials over a backend's slots: it looks at every arm before the
// first trial starts, retries what our own machinery broke, keeps what was finished in a run
// directory, and tells how far it is.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rundir"
)

// A Runner runs plans.
type Runner struct {
	Backend backend.Backend
	Dir     *rundir.Dir  // locked by the caller, who also ends and closes it
	Log     *slog.Logger // nil: nothing is logged
	// Progress gets a value at least once a second for each trial and arm that something is done for. Its
	// calls never overlap. Nil: nobody wants to know.
	Progress func(Progress)
	// Retries is how many more tries a trial gets after a *backend.MachineError; 0 is backend.Retries,
	// a negative number none.
	Retries int
}

// A Result says what became of the plan's trials. What the trials measured is in the run directory.
type Result struct {
	Skipped int             // done before this Run
	Done    int             // finished in this Run
	Aborted []string        // IDs of trials given up after their last try
	NotRun  []rundir.NotRun // arms that could not run, in the plan's order
}

// Run runs the trials of plan that the run directory does not hold yet, in order, as many at a time
// as the backend has slots. What was finished is kept whatever the error. The error matches
// errors.ErrUnsupported if no arm could run here, and context.Canceled if ctx was; a
// *backend.MachineError or *backend.WrongKernelError is in it only if no trial at all gave data. When
// Run returns, none of its goroutines and targets is left.
func (r *Runner) Run(ctx context.Context, plan []experiment.Trial) (Result, error) {
	w := r.newWalk(plan)
	err := w.checkArms(ctx)
	if err == nil {
		err = w.trials(ctx)
	}
	if err == nil {
		err = w.nothing()
	}
	return w.result, stopped(ctx, err)
}

// stopped returns err as it is to be told once ctx is over: what the targets said while they were
// stopped is noise, unless they left something behind.
func stopped(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if keep, ok := errors.AsType[*keepError](err); ok {
		return fmt.Errorf("stopped: %w: %w", ctx.Err(), keep)
	}
	return fmt.Errorf("stopped: %w", ctx.Err())
}

func (r *Runner) newWalk(plan []experiment.Trial) *walk {
	w := &walk{Runner: *r, total: len(plan), dropped: map[string]error{}, overhead: map[string]time.Duration{}, ends: map[*tracker]time.Time{}}
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	if w.Retries == 0 {
		w.Retries = backend.Retries
	}
	done := r.Dir.Done()
	for _, t := range plan {
		if slices.Contains(done, t.ID()) {
			w.result.Skipped++
			continue
		}
		w.todo = append(w.todo, t)
		if !slices.ContainsFunc(w.arms, func(a experiment.Arm) bool { return a.Name == t.Arm.Name }) {
			w.arms = append(w.arms, t.Arm)
		}
	}
	return w
}

// A walk is one Run under way.
type walk struct {
	Runner
	total int              // trials in the plan
	arms  []experiment.Arm // of todo, in order
	tell  sync.Mutex       // one Progress call at a time

	mu       sync.Mutex
	todo     []experiment.Trial
	dropped  map[string]error // arms that can't run, by name, and why
	broke    error            // the newest *backend.MachineError
	overhead map[string]time.Duration
	ends     map[*tracker]time.Time // when each running trial should be over
	result   Result
}

// checkArms acquires and closes a target of each arm, so that what can't run is known before the
// first trial starts.
func (w *walk) checkArms(ctx context.Context) error {
	if err := w.keepNotRun(); err != nil {
		return err
	}
	for i, arm := range w.arms {
		if err := w.checkArm(ctx, i, arm); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) checkArm(ctx context.Context, i int, arm experiment.Arm) error {
	for try := 1; ; try++ {
		t := w.track(Progress{Arm: arm.Name, Index: i + 1, Total: len(w.arms), Try: try, Phase: Prepare}, arm)
		target, err := w.Backend.Acquire(ctx, arm)
		if err == nil {
			err = target.Close()
		}
		t.stop(err)
		if again, err := w.judgeArm(ctx, arm, try, err); !again {
			return err
		}
	}
}

// judgeArm decides what follows from the outcome of a look at arm: another try, going on, or the
// end of the run.
func (w *walk) judgeArm(ctx context.Context, arm experiment.Arm, try int, err error) (again bool, _ error) {
	if err == nil {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, err
	}
	switch faultOf(err) {
	case armFault:
		return false, w.drop(arm, err)
	case machineFault:
		if try <= w.Retries {
			w.Log.Warn("arm could not be prepared, trying again", "arm", arm.Name, "try", try, "err", err)
			return true, nil
		}
	}
	return false, fmt.Errorf("prepare arm %s: %w", arm.Name, err)
}

// trials runs what is to do on as many goroutines as there are slots.
func (w *walk) trials(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range min(max(1, w.Backend.Slots()), len(w.todo)) {
		group.Go(func() error { return w.slot(ctx) })
	}
	return group.Wait()
}

// slot runs trials until none is left.
func (w *walk) slot(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, ok := w.next()
		if !ok {
			return nil
		}
		if err := w.trial(ctx, t); err != nil {
			return err
		}
	}
}

// next takes the next trial whose arm can run.
func (w *walk) next() (experiment.Trial, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.todo) > 0 {
		t := w.todo[0]
		w.todo = w.todo[1:]
		if _, out := w.dropped[t.Arm.Name]; !out {
			return t, true
		}
	}
	return experiment.Trial{}, false
}

// drop takes an arm that can't run out of the run.
func (w *walk) drop(arm experiment.Arm, why error) error {
	w.Log.Warn("arm is not run", "arm", arm.Name, "why", why)
	w.mu.Lock()
	if _, ok := w.dropped[arm.Name]; !ok {
		w.dropped[arm.Name] = why
	}
	w.mu.Unlock()
	return w.keepNotRun()
}

// keepNotRun puts the dropped arms into the result and the run directory.
func (w *walk) keepNotRun() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.NotRun = nil
	for _, arm := range w.arms {
		if why, ok := w.dropped[arm.Name]; ok {
			w.result.NotRun = append(w.result.NotRun, rundir.NotRun{Arm: arm.Name, Reason: why.Error()})
		}
	}
	return w.Dir.SetNotRun(w.result.NotRun)
}

// nothing returns an error if there was something to do and no trial of the plan gave data.
func (w *walk) nothing() error {
	if w.result.Done+w.result.Skipped > 0 || len(w.arms) == 0 {
		return nil
	}
	if len(w.dropped) < len(w.arms) && w.broke != nil {
		return fmt.Errorf("every trial was aborted: %w", w.broke)
	}
	e := &noArmError{}
	for _, arm := range w.arms {
		e.arms = append(e.arms, arm.Name)
		e.causes = append(e.causes, w.dropped[arm.Name])
	}
	return e
}

// A noArmError says that none of the arms can run here.
type noArmError struct {
	arms   []string
	causes []error
}

// Error names each reason once, with the arms that it is about.
func (e *noArmError) Error() string {
	var reasons []string
	arms := map[string][]string{}
	for i, c := range e.causes {
		text := c.Error()
		if arms[text] == nil {
			reasons = append(reasons, text)
		}
		arms[text] = append(arms[text], e.arms[i])
	}
	for i, text := range reasons {
		reasons[i] = strings.Join(arms[text], ", ") + ": " + text
	}
	return "no arm can run here: " + strings.Join(reasons, "; ")
}

func (e *noArmError) Unwrap() []error { return e.causes }

// A fault is who is to blame for a trial without data.
type fault int

const (
	otherFault   fault = iota // ours, and not to be mended by another try: the run ends
	machineFault              // the machinery broke: another try may work
	armFault                  // the arm can't run, here or with this kernel
)

func faultOf(err error) fault {
	// First the machine: the cause of its error may be an errno that matches errors.ErrUnsupported.
	if _, ok := errors.AsType[*backend.MachineError](err); ok {
		return machineFault
	}
	if _, ok := errors.AsType[*backend.WrongKernelError](err); ok || errors.Is(err, errors.ErrUnsupported) {
		return armFault
	}
	return otherFault
}
