package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// An UnsupportedError says in one sentence what a machine or kernel can't do. It matches
// errors.ErrUnsupported without its text.
type UnsupportedError string

func (e UnsupportedError) Error() string { return string(e) }

// Is reports whether target is errors.ErrUnsupported.
func (e UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// An Incoming is what an agent's stream gave: a record, or the error that ended it.
type Incoming struct {
	experiment.Record
	Err error
}

// A Following is one trial that an agent runs on a live machine, as its backend sees it.
type Following struct {
	Arm experiment.Arm
	// First goes before the agent's records: how it was started.
	First []experiment.Record
	// Records are the agent's. Whoever fills it sends an Incoming with an Err when they stop, and is not
	// listened to after that, nor after an End.
	Records <-chan Incoming
	// Facts looks at the agent's facts before they are passed on, may add to them, and refuses a kernel that
	// is not what the arm asks for.
	Facts func(*experiment.Facts) error
	// Late says what it means that the load is on and no End has come long after the trial's time.
	Late func(quiet time.Duration) (experiment.End, error)
	// Setup and Grace are how long the agent may take for the load to be on, and past the trial's
	// duration. Default: 90 s each.
	Setup, Grace time.Duration
}

// defaultPatience is wide: a wrong "the machine broke" costs a trial, a late one only time.
const defaultPatience = 90 * time.Second

// glance is how often Follow looks at the time.
const glance = 100 * time.Millisecond

// Follow passes a trial's records to emit, numbered anew, up to its End, as Target.Run has to. What it
// returns for an agent that fails is a *MachineError, or matches errors.ErrUnsupported where the machine
// can't.
func Follow(ctx context.Context, f Following, emit func(experiment.Record) error) error {
	w := &follower{Following: f, emit: emit, heard: time.Now()}
	if w.Setup == 0 {
		w.Setup = defaultPatience
	}
	if w.Grace == 0 {
		w.Grace = defaultPatience
	}
	for _, r := range f.First {
		if err := w.put(r); err != nil {
			return err
		}
	}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	began := time.Now()
	for {
		if err := ctx.Err(); err != nil { // first: both may be ready
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case in := <-f.Records:
			if done, err := w.take(in); done || err != nil {
				return err
			}
		case <-tick.C:
			if done, err := w.look(began); done || err != nil {
				return err
			}
		}
	}
}

type follower struct {
	Following
	emit        func(experiment.Record) error
	n           int       // records emitted
	load, heard time.Time // when the load began, and the newest record came
}

// put emits r under the next number.
func (f *follower) put(r experiment.Record) error {
	r.N = f.n
	if r.End != nil {
		end := *r.End
		end.Records = f.n
		r.End = &end
	}
	f.n++
	return f.emit(r)
}

func (f *follower) take(in Incoming) (done bool, err error) {
	if in.Err != nil {
		return false, &MachineError{Op: "run the trial", Err: in.Err}
	}
	f.heard = time.Now()
	if p := in.Phase; p != nil && p.Name == experiment.Hold {
		f.load = f.heard
	}
	switch {
	case in.Facts != nil:
		facts := *in.Facts
		refused := f.Facts(&facts)
		in.Facts = &facts
		return false, errors.Join(f.put(in.Record), refused)
	case in.End != nil && in.End.Outcome == experiment.Failed:
		if why, ok := strings.CutPrefix(in.End.Why, experiment.UnsupportedWhy); ok {
			return false, UnsupportedError(why)
		}
		return false, &MachineError{Op: "run the trial", Err: errors.New("the agent gave up: " + in.End.Why)}
	}
	return in.End != nil, f.put(in.Record)
}

// look ends a trial whose agent takes too long.
func (f *follower) look(began time.Time) (done bool, err error) {
	now := time.Now()
	if f.load.IsZero() {
		if now.Sub(began) > f.Setup {
			return false, &MachineError{Op: "run the trial", Err: fmt.Errorf("the agent did not start the load within %v", f.Setup)}
		}
		return false, nil
	}
	if now.Sub(f.load) <= f.Arm.Duration+f.Grace {
		return false, nil
	}
	end, err := f.Late(now.Sub(f.heard))
	if err != nil {
		return false, &MachineError{Op: "run the trial", Err: err}
	}
	return true, f.put(experiment.Record{End: &end})
}
