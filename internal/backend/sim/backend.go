package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
)

// A Backend runs trials on the model. It may be used concurrently.
type Backend struct {
	// Agent is the version that facts name.
	Agent string
	// Arrivals reads what a recorded load repeats: instants in nanoseconds from the load's start, ascending. Without
	// it such a load can't be run.
	Arrivals func(from string) ([]int64, error)
	// Trace, if set, gets each trial's events as they happen, up to TraceMax of them; its error ends the trial.
	Trace func(experiment.Trial) (*Trace, error)

	stepwise bool // nothing is skipped: what tests hold the skipping against
}

// Slots is the number of this machine's CPUs.
func (b Backend) Slots() int { return max(1, runtime.GOMAXPROCS(0)) }

// Acquire finds out what arm's kernel is and builds its model. An arm that the model can't have is an error that matches
// errors.ErrUnsupported.
func (b Backend) Acquire(ctx context.Context, arm experiment.Arm) (backend.Target, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := &target{backend: b}
	return t, t.prepare(arm)
}

// A target is a model ready to run trials of one arm.
type target struct {
	backend  Backend
	build    build
	tune     tunables
	loop     experiment.Loop
	model    *model.Model
	recorded []int64
}

func (t *target) prepare(arm experiment.Arm) error {
	var err error
	if t.tune, err = tunablesOf(arm); err != nil {
		return err
	}
	if t.build, err = buildOf(arm); err != nil {
		return err
	}
	if t.loop, err = loopOf(arm); err != nil {
		return err
	}
	if t.loop == experiment.BacklogThread && arm.Load.Kind == experiment.Bounce {
		return unsupported("a backlog thread gets its packets from other CPUs and can't bounce: use paced, windowed or tcp")
	}
	if t.loop == experiment.BacklogThread && arm.NIC.MaskScope == experiment.AllQueues {
		return unsupported("a backlog thread has no interrupt, and so no mask-scope")
	}
	if t.model, err = model.New(configOf(arm, t.build, t.loop)); err != nil {
		return err
	}
	if arm.Load.Kind == experiment.Recorded {
		if t.backend.Arrivals == nil {
			return errors.New("nothing here reads recorded arrivals")
		}
		if t.recorded, err = t.backend.Arrivals(arm.Load.From); err != nil {
			return fmt.Errorf("recorded load: %w", err)
		}
	}
	_, err = newTraffic(arm, 0, t.recorded, 1)
	return err
}

// configOf is the model's configuration for arm on the kernel b.
func configOf(arm experiment.Arm, b build, loop experiment.Loop) model.Config {
	_, programs := probesOf(arm, b.gen)
	c := model.Config{
		Generation: b.gen, Arch: b.arch, Preempt: b.preempt, Dynamic: b.dynamic,
		Loop: modelLoop(loop), Softirq: !arm.Threaded, Device: model.NIC, Latch: arm.Load.Kind == experiment.Flood && loop != experiment.BacklogThread,
		Backlog: arm.Model.Backlog, User: arm.Model.User,
		Others: arm.Model.Costs.Neighbour != experiment.Never, CPUs: uint8(min(arm.VCPUs, model.MaxCPUs)), Programs: programs,
		// The driver keeps the ring, since a poll makes room while it goes on; the model only has to hold what one can take.
		Ring: 0,
	}
	switch {
	case arm.Load.Kind == experiment.Bounce || arm.Load.Kind == experiment.NoLoad:
		c.Device = model.Veth
	case arm.Load.Kind.OnNIC():
		c.Latch, c.AllQueues = arm.NIC.Latch && loop != experiment.BacklogThread, arm.NIC.MaskScope == experiment.AllQueues
	}
	c.Ring = uint16(min(65535, ringOf(arm)+napiWeight))
	return c
}

// napiWeight is NAPI_POLL_WEIGHT.
const napiWeight = 64

func ringOf(arm experiment.Arm) int64 {
	if arm.NIC.Ring > 0 {
		return int64(arm.NIC.Ring)
	}
	return vethRing
}

func modelLoop(l experiment.Loop) model.Loop {
	return map[experiment.Loop]model.Loop{
		experiment.Stock: model.Stock, experiment.YieldOnExit: model.YieldOnExit, experiment.CondReschedOnly: model.CondReschedOnly,
		experiment.QSOnlyLocalStamp: model.QSLocalStamp, experiment.QSOnlyPersistentStamp: model.QSPersistentStamp,
		experiment.BusyPoll: model.BusyPoll, experiment.BusyPollResetStamp: model.BusyPollResetStamp,
		experiment.BacklogThread: model.BacklogThread,
	}[l]
}

// Close frees nothing: a target is memory.
func (t *target) Close() error { return nil }

// Run runs one trial.
func (t *target) Run(ctx context.Context, trial experiment.Trial, emit func(experiment.Record) error) error {
	guarded := func(r experiment.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return emit(r)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s := t.session(trial, guarded)
	if t.backend.Trace == nil {
		return s.run()
	}
	tr, err := t.backend.Trace(trial)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	// A simulated second takes many seconds to write: what ends the trial is looked for at each step.
	s.watch = func(out model.Outcome) {
		tr.step(s.engine, out)
		if s.err == nil {
			s.err = cmp.Or(tr.w.Err(), ctx.Err())
		}
	}
	if err := s.run(); err != nil && ctx.Err() == nil && tr.w.Err() == nil {
		return err
	}
	return cmp.Or(ctx.Err(), tr.finish()) // interrupted, it is still whole
}

// argv says which model it was, in words that hold everything which decides the result.
func (t *target) argv(trial experiment.Trial) []string {
	c := t.model.Config()
	argv := []string{"napistall-model", "generation=" + generationName(c.Generation), "arch=" + t.build.facts().Arch, "preempt=" + string(c.Preempt)}
	for name, on := range map[string]bool{"dynamic": c.Dynamic, "softirq": c.Softirq, "latch": c.Latch && c.Device == model.NIC,
		"all-queues": c.AllQueues, "backlog": c.Backlog, "user": c.User, "veth": c.Device == model.Veth} {
		if on {
			argv = append(argv, name)
		}
	}
	slices.Sort(argv[4:])
	loop := string(t.loop)
	if loop == "" {
		loop = "stock"
	}
	return append(argv, "loop="+loop, fmt.Sprintf("hz=%d", t.build.hz), fmt.Sprintf("seed=%d", trial.Seed))
}
