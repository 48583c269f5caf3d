package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/klog"
)

// sweepBase is the arm that is swept where no experiment is given: the loop of a stock kernel without preemption, under
// a steady load, for a minute, with costs of about the report's board (examples/board.yaml).
const sweepBase = `
name: sweep
kernel: model:6.18/arm64
load: {kind: paced, rate: 80k/s, size: 1514, hold: 60s}
model: {costs: {entry: 500ns, poll: 17500ns, packet: 9us, interrupt: 3us, unmask: 500ns, switch: 3us, wake: 10us}}
arms:
  - {name: none, config: {preempt: none, hz: 100}}
`

// maxPoints bounds a sweep: a day of 2 cores.
const maxPoints = 1_000_000

// A sweepCommand holds sim sweep's flags.
type sweepCommand struct {
	arm      string
	sets     []string
	varies   []string
	seed     uint64
	svg, csv string
}

func newSimSweep() *cobra.Command {
	var c sweepCommand
	cmd := &cobra.Command{
		Use:   "sweep [EXPERIMENT]",
		Short: "Vary one or two parameters over a range and print where it stalls",
		Long: `Run the simulator at each value of one parameter, or each pair of values of two, and print where deletions are
held up and how long.

EXPERIMENT is a file or a built-in experiment, of which --arm chooses the arm. Without it, the arm is a stock 6.18
kernel under PREEMPT_NONE, as slow as the report's board, with 80,000 packets a second for a minute. --set changes a
key of the arm first.

A KEY is a key of an arm in an experiment file, with dots for what is nested: load.rate, nic.moderation, preempt,
stall-timeout, model.costs.packet. Its values are a list (0s,20us,100us), a range with a number of steps
(10k..120k:24), a range of equal ratios (1us..1ms:10log), or several of them.`,
		Example: `  napistall sim sweep --vary load.rate=10k..120k:24 --vary nic.moderation=0s,20us,100us
  napistall sim sweep band --arm inflight-1 --vary load.inflight=1..40:40
  napistall sim sweep --set load.kind=windowed --vary load.window=1..256:16log --vary config.preempt=none,lazy --svg map.svg`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return builtinNames(), cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.arm, "arm", "", "sweep the arm `NAME` (default: the experiment's first)")
	f.StringArrayVar(&c.sets, "set", nil, "set `KEY=VALUE` in the arm; may be repeated")
	f.StringArrayVar(&c.varies, "vary", nil, "vary `KEY=VALUES`; once or twice")
	f.Uint64Var(&c.seed, "seed", 1, "draw what is random from `N`; every point draws the same")
	f.StringVar(&c.svg, "svg", "", "write the map to `FILE` as SVG")
	f.StringVar(&c.csv, "csv", "", "write all results to `FILE` as CSV")
	return cmd
}

func (c sweepCommand) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if c.svg != "" && c.svg == c.csv {
		return usagef("--svg and --csv both name %s: want two files", c.svg)
	}
	s, err := c.plan(ctx, args)
	if err != nil {
		return err
	}
	for _, path := range []string{c.csv, c.svg} {
		if err := writable(path); err != nil {
			return fmt.Errorf("write the sweep: %w", err)
		}
	}
	began := time.Now()
	if err := s.run(ctx, c.seed); err != nil {
		return err
	}
	n := s.simulated()
	if n == 0 && ctx.Err() == nil {
		return noPointError(s.reasons())
	}
	slog.Info(fmt.Sprintf("%s simulated in %.1f s", countOf(n, len(s.points)), time.Since(began).Seconds()))
	if n == 0 {
		return ctx.Err()
	}
	return errors.Join(c.write(cmd.OutOrStdout(), s), ctx.Err())
}

// countOf says how many of all points there are: "8 points", "3 of 8 points".
func countOf(n, all int) string {
	switch {
	case n < all:
		return fmt.Sprintf("%d of %d points", n, all)
	case all == 1:
		return "1 point"
	}
	return fmt.Sprintf("%d points", all)
}

// writable finds out whether a file can be written, before hours are spent on what it is to hold.
func writable(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// write writes the sweep to where it was asked for. What can't be written keeps nothing else back.
func (c sweepCommand) write(stdout io.Writer, s *sweep) error {
	var errs []error
	for _, out := range []struct {
		path string
		text func() []byte
	}{{c.csv, s.csv}, {c.svg, s.svg}} {
		if out.path == "" {
			continue
		}
		if err := os.WriteFile(out.path, out.text(), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("write the sweep: %w", err))
		}
	}
	_, err := stdout.Write(s.text())
	return errors.Join(append(errs, err)...)
}

// A sweep is its axes and a point for each combination of their values, the first axis running fastest.
type sweep struct {
	title  string
	axes   []axis
	points []point
}

// A point is one combination, and what came of it.
type point struct {
	values []string
	arm    experiment.Arm
	why    string // why it could not be run; it has no result then
	result figures
}

// figures are what is kept of a point's trial: of a sweep there are thousands.
type figures struct {
	band                         explain.Band
	deletes, slow                int // in the hold; over explain.SlowLimit
	worst                        time.Duration
	cut                          bool // the longest was
	classic, expedited, lockups  int
	stalled                      bool
	polls, full, sleeps, packets float64 // a second; full is a share of the polls
}

// plan makes the points, each of which is checked as if a file had said it.
func (c sweepCommand) plan(ctx context.Context, args []string) (*sweep, error) {
	base, title, err := c.base(args)
	if err != nil {
		return nil, err
	}
	if len(c.varies) < 1 || len(c.varies) > 2 {
		return nil, usagef("want one --vary or two, such as --vary load.rate=10k..120k:24")
	}
	s := &sweep{title: title}
	total := 1
	for _, v := range c.varies {
		a, err := parseAxis(v)
		if err != nil {
			return nil, err
		}
		if err := (setting{key: a.key}).fits(base); err != nil {
			return nil, err
		}
		s.axes = append(s.axes, a)
		total *= len(a.values)
	}
	if len(s.axes) == 2 && s.axes[0].key == s.axes[1].key {
		return nil, usagef("--vary %s twice", s.axes[0].key)
	}
	if total > maxPoints {
		return nil, usagef("%d points; at most %d", total, maxPoints)
	}
	s.points = make([]point, total)
	each(ctx, total, "planned", sayProgress, func(i int) { s.points[i] = s.point(base, i) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s, s.checkValues()
}

func sayProgress(text string) { slog.Info(text) }

// checkValues refuses a value that no point can have. One that goes with some values of the other axis and not with
// others has points that are not run.
func (s *sweep) checkValues() error {
	for i, a := range s.axes {
		for _, v := range a.values {
			why := ""
			for _, p := range s.points {
				if p.values[i] != v {
					continue
				}
				if why = p.why; why == "" {
					break
				}
			}
			if why != "" {
				return usagef("%s %s: %s", a.key, v, why)
			}
		}
	}
	return nil
}

// base returns the settings of the arm that is swept.
func (c sweepCommand) base(args []string) ([]setting, string, error) {
	text, name := []byte(sweepBase), "sweep"
	var arms []string
	if c.arm != "" {
		arms = []string{c.arm}
	}
	e, err := experiment.Parse(name, text)
	if len(args) > 0 {
		name = args[0]
		_, e, err = runCommand{arms: arms}.experiment(name)
	} else if c.arm != "" {
		return nil, "", usagef("--arm needs an experiment")
	}
	if err != nil {
		return nil, "", err
	}
	arm := e.Arms[0]
	title := e.Name + ", arm " + arm.Name
	if len(args) == 0 {
		title = "stock loop"
	}
	list := settings(arm)
	for _, text := range c.sets {
		set, err := parseSetting(text)
		if err != nil {
			return nil, "", err
		}
		if err := set.fits(list); err != nil {
			return nil, "", err
		}
		list = change(list, set)
		title += ", " + set.key + " " + set.value
	}
	return list, title, nil
}

// point returns the i-th combination, checked as if a file had said it.
func (s *sweep) point(base []setting, i int) point {
	var p point
	list := base
	for _, a := range s.axes {
		v := a.values[i%len(a.values)]
		i /= len(a.values)
		p.values = append(p.values, v)
		list = change(list, setting{a.key, v})
	}
	arm, err := armOfSettings(list)
	if err != nil {
		p.why = mistakeWords(err)
	}
	p.arm = arm
	return p
}

// mistakeWords says in one line what is wrong with settings: they have no file to point into.
func mistakeWords(err error) string {
	m, ok := errors.AsType[*experiment.ParseError](err)
	if !ok {
		return err.Error()
	}
	words := strings.TrimPrefix(m.Msg, "arm point: ")
	if m.Want != "" {
		words += ": " + m.Want
	}
	return words
}

// name says which point it is: "load.rate 10k/s, nic.moderation 0s".
func (p point) name(axes []axis) string {
	var words []string
	for i, v := range p.values {
		words = append(words, axes[i].key+" "+v)
	}
	return strings.Join(words, ", ")
}

// cutOff is why a point was not run whose turn an interruption forestalled.
const cutOff = "interrupted before its turn"

// run simulates every point, on all cores, until ctx ends. What a point gives doesn't depend on the others.
func (s *sweep) run(ctx context.Context, seed uint64) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	each(context.WithoutCancel(ctx), len(s.points), "simulated", sayProgress, func(i int) {
		p := &s.points[i]
		switch err := p.run(inner, seed); {
		case err == nil:
		case inner.Err() != nil:
			p.why = cutOff
		default:
			cancel(fmt.Errorf("%s: %w", p.name(s.axes), err))
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(inner)
}

// simulated is the number of points that have a result.
func (s *sweep) simulated() int {
	n := 0
	for _, p := range s.points {
		if p.why == "" {
			n++
		}
	}
	return n
}

// run simulates p. That the model can't be had so is its result.
func (p *point) run(ctx context.Context, seed uint64) error {
	if p.why != "" {
		return nil
	}
	target, err := newSimBackend().Acquire(ctx, p.arm)
	if errors.Is(err, errors.ErrUnsupported) {
		p.why = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	trial := experiment.Trial{Rep: 1, Seed: seed, Arm: p.arm}
	sum := explain.NewTrial(trial)
	err = target.Run(ctx, trial, func(r experiment.Record) error {
		sum.Add(r)
		return nil
	})
	p.result = figuresOf(sum.Summary())
	return errors.Join(err, target.Close())
}

func figuresOf(t explain.TrialSummary) figures {
	f := figures{
		band: t.Band.Band, deletes: len(t.Main().Hold), slow: len(t.SlowOnes()), stalled: t.Stall() != explain.NoStall,
		classic: t.Stalls(klog.Classic), expedited: t.Stalls(klog.Expedited), lockups: t.Stalls(klog.SoftLockup),
	}
	for _, s := range t.Main().Hold {
		if s.Took > f.worst || s.Took == f.worst && s.Censored {
			f.worst, f.cut = s.Took, s.Censored
		}
	}
	f.polls, _ = t.Rates.PerSecond(t.Rates.Polls)
	f.sleeps, _ = t.Rates.PerSecond(t.Rates.Sleeps)
	f.packets, _ = t.Rates.PerSecond(t.Rates.Packets)
	if t.Rates.Polls > 0 {
		f.full = float64(t.Rates.Full) / float64(t.Rates.Polls)
	}
	return f
}
