package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rundir"
)

// trial runs t until it gave data, its tries are used up, or its arm turned out not to run.
func (w *walk) trial(ctx context.Context, t experiment.Trial) error {
	for try := 1; ; try++ {
		err := w.attempt(ctx, t, try)
		if err == nil {
			return nil
		}
		if again, err := w.judgeTrial(ctx, t, try, err); !again {
			return err
		}
	}
}

// judgeTrial decides what follows from a try without data: another one, the next trial, or the end
// of the run.
func (w *walk) judgeTrial(ctx context.Context, t experiment.Trial, try int, err error) (again bool, _ error) {
	if _, ours := errors.AsType[*keepError](err); ours || ctx.Err() != nil {
		return false, err
	}
	kind := faultOf(err)
	if kind == otherFault {
		return false, fmt.Errorf("trial %s: %w", t.ID(), err)
	}
	if err := w.Dir.AddAborted(aborted(t, err)); err != nil {
		return false, err
	}
	if kind == armFault {
		return false, w.drop(t.Arm, err)
	}
	again = try <= w.Retries
	w.Log.Warn("trial aborted", "trial", t.ID(), "try", try, "again", again, "err", err)
	if !again {
		w.giveUp(t, err)
	}
	return again, nil
}

func (w *walk) giveUp(t experiment.Trial, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broke = err
	w.result.Aborted = append(w.result.Aborted, t.ID())
}

func aborted(t experiment.Trial, err error) rundir.Aborted {
	a := rundir.Aborted{Trial: t.ID(), Error: err.Error()}
	if m, ok := errors.AsType[*backend.MachineError](err); ok {
		a.Op, a.Last = m.Op, m.Last
	}
	return a
}

// attempt runs t once. Unless it returns nil, or a closing target alone failed, nothing of the try is
// in the run directory.
func (w *walk) attempt(ctx context.Context, t experiment.Trial, try int) (err error) {
	p := w.track(Progress{Trial: t.ID(), Arm: t.Arm.Name, Index: t.Index + 1, Total: w.total, Try: try, Phase: Prepare}, t.Arm)
	defer func() { p.stop(err) }()
	target, err := w.Backend.Acquire(ctx, t.Arm)
	if err != nil {
		return err
	}
	err = w.record(ctx, target, t, p)
	if closeErr := target.Close(); closeErr != nil {
		// What it left behind could disturb every trial that follows.
		return errors.Join(&keepError{fmt.Errorf("close target of trial %s: %w", t.ID(), closeErr)}, err)
	}
	return err
}

// record runs t on target and keeps its records.
func (w *walk) record(ctx context.Context, target backend.Target, t experiment.Trial, p *tracker) error {
	out, err := w.Dir.Begin(t)
	if err != nil {
		return &keepError{err}
	}
	var keep, failed error
	ended := false
	err = target.Run(ctx, t, func(r experiment.Record) error {
		if keep != nil {
			return keep
		}
		if r.End != nil && r.End.Outcome == experiment.Failed {
			failed = &backend.MachineError{Op: "measure", Err: errors.New(r.End.Why)}
			return failed
		}
		keep = out.Write(r)
		ended = ended || r.End != nil
		p.see(r)
		return keep
	})
	switch {
	case keep != nil:
		return abort(out, &keepError{keep})
	case err == nil && failed != nil:
		err = failed
	case err == nil && !ended:
		err = &backend.MachineError{Op: "collect records", Err: errors.New("they stop before their end")}
	}
	if err != nil {
		return abort(out, err)
	}
	if err := out.Commit(); err != nil {
		return &keepError{err}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Done++
	return nil
}

// abort removes what was kept of a try and returns why it was aborted. What can't be removed would be
// in the way of the next try.
func abort(out *rundir.TrialWriter, why error) error {
	if err := out.Abort(); err != nil {
		return &keepError{fmt.Errorf("%w, after: %w", err, why)}
	}
	return why
}

// A keepError is a failure to keep a trial or to free its target. No retry mends it and it says
// nothing about the arm, whatever its cause is: it ends the run.
type keepError struct{ err error }

func (e *keepError) Error() string { return e.err.Error() }

func (e *keepError) Unwrap() error { return e.err }
