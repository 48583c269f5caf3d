package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/backend/sim"
	"github.com/napistall/napistall/internal/experiment"
)

// A traceCommand holds sim trace's flags.
type traceCommand struct {
	arm, out   string
	sets       []string
	from, span time.Duration
	seed       uint64
	most       int
}

func newSimTrace() *cobra.Command {
	var c traceCommand
	cmd := &cobra.Command{
		Use:   "trace EXPERIMENT",
		Short: "Write what happens in a simulated trial, step by step",
		Long: `Run one trial of an experiment's arm in the simulator and write its events as JSON in Chrome's trace event
format, which ui.perfetto.dev and chrome://tracing open: what each CPU runs, under the names of the kernel's
functions, and what it brings about.

Times count from the start of the load. --from and --for choose the span; a poll loop makes some million events a
second.`,
		Example: `  napistall sim trace mainline --arm stock --for 5ms -o start.json
  napistall sim trace mine.yaml --set loop=yield-on-exit --from 100ms --for 20ms -o trace.json`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return builtinNames(), cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.arm, "arm", "", "trace the arm `NAME` (default: the experiment's first)")
	f.StringArrayVar(&c.sets, "set", nil, "set `KEY=VALUE` in the arm; may be repeated")
	f.StringVarP(&c.out, "output", "o", "trace.json", "write to `FILE`")
	f.DurationVar(&c.from, "from", 0, "begin so long after the start of the load")
	f.DurationVar(&c.span, "for", 100*time.Millisecond, "trace so long")
	f.IntVar(&c.most, "max", sim.DefaultTraceMax, "write at most `N` events")
	f.Uint64Var(&c.seed, "seed", 1, "draw what is random from `N`")
	return cmd
}

func (c traceCommand) run(cmd *cobra.Command, name string) error {
	switch {
	case c.from < 0:
		return usagef("--from %v: want a time after the start of the load, such as 100ms", c.from)
	case c.span <= 0:
		return usagef("--for %v: want how long to trace, such as 20ms", c.span)
	case c.most < 1:
		return usagef("--max %d: want 1 event or more", c.most)
	}
	list, _, err := sweepCommand{arm: c.arm, sets: c.sets}.base([]string{name})
	if err != nil {
		return err
	}
	arm, err := armOfSettings(list)
	if err != nil {
		return usagef("%s", mistakeWords(err))
	}
	if c.from >= arm.Duration {
		return usagef("--from %v: the trial ends after %v", c.from, arm.Duration)
	}
	arm.Duration = min(arm.Duration, c.from+c.span)
	if arm.Load.Hold > arm.Duration {
		arm.Load.Hold = arm.Duration
	}
	return c.write(cmd.Context(), arm)
}

// write writes the trace of arm, to a file that is only made, or overwritten, if the model can be had.
func (c traceCommand) write(ctx context.Context, arm experiment.Arm) (err error) {
	var t *sim.Trace
	b := newSimBackend()
	b.Trace = func(experiment.Trial) (*sim.Trace, error) { return t, nil }
	target, err := b.Acquire(ctx, arm)
	if err != nil {
		return err
	}
	f, err := os.Create(c.out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	t = sim.NewTrace(f)
	t.From, t.To, t.Max = int64(c.from), int64(c.from+c.span), c.most
	err = target.Run(ctx, experiment.Trial{Rep: 1, Seed: c.seed, Arm: arm}, func(experiment.Record) error { return nil })
	if err != nil {
		return err
	}
	if n := t.Skipped(); n > 0 {
		slog.Warn(fmt.Sprintf("%d events are left out beyond --max %d: choose a shorter span", n, c.most))
	}
	slog.Info(c.out + " can be opened in ui.perfetto.dev or chrome://tracing")
	return target.Close()
}
