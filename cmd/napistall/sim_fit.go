package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/backend/sim"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rundir"
)

func newSimFit() *cobra.Command {
	var arms []string
	cmd := &cobra.Command{
		Use:   "fit RUN",
		Short: "Estimate the simulator's costs from a real run",
		Long: `Estimate what a poll, a packet, an interrupt and a switch take from what a run on a real kernel counted each
second, say how well that fits and what can't be told from it, and print the costs as an experiment file takes them.

A run says what a packet takes if its arms have different numbers of packets in a poll, and what the loop takes
with softirqs on if one of them is a PREEMPT_DYNAMIC kernel under preempt=none or voluntary. Only arms of one kernel on
one machine are fitted together: those of the first arm that was in the band, or those that --arm names.

napistall run --backend sim --fit RUN uses the costs at once.`,
		Example: `  napistall sim fit runs/band-20261130-170000
  napistall sim fit runs/models-20261130-170000 --arm lazy`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, used, err := fitRun(cmd.Context(), args[0], arms)
			if err != nil {
				return err
			}
			return printFit(cmd.OutOrStdout(), args[0], f, used)
		},
	}
	cmd.Flags().StringSliceVar(&arms, "arm", nil, "use only the arm `NAME`; may be repeated")
	return cmd
}

// fitRun fits the costs to the run in path, and returns the trials that it used.
func fitRun(ctx context.Context, path string, arms []string) (sim.Fit, []explain.TrialSummary, error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return sim.Fit{}, nil, err
	}
	warnOf(dir) // of trials that can't be used
	plan := dir.Plan()
	for _, name := range arms {
		if !slices.ContainsFunc(plan.Experiment.Arms, func(a experiment.Arm) bool { return a.Name == name }) {
			return sim.Fit{}, nil, usagef("%s: no arm is called %s", path, name)
		}
	}
	var all []explain.TrialSummary
	for _, t := range plan.Trials {
		if _, whole := dir.Info(t.ID()); !whole || len(arms) > 0 && !slices.Contains(arms, t.Arm.Name) {
			continue
		}
		s, err := loadTrial(dir, t)
		if err != nil {
			return sim.Fit{}, nil, err
		}
		all = append(all, s)
	}
	used, err := fittable(path, all)
	if err != nil {
		return sim.Fit{}, nil, err
	}
	var obs []sim.Observation
	for _, t := range used {
		seconds, err := observations(dir, t)
		if err != nil {
			return sim.Fit{}, nil, err
		}
		obs = append(obs, seconds...)
	}
	f, err := sim.FitCosts(obs, used[0].Facts.HZ) // one kernel, one HZ
	if err != nil {
		return f, nil, usagef("%s: nothing to fit: %w", path, err)
	}
	f.FitNeighbour(switchedAway(used))
	if err := newSimBackend().FitEntry(ctx, &f, lullsOf(used)); err != nil {
		return f, nil, fmt.Errorf("fit the entry of %s: %w", path, err)
	}
	return f, used, nil
}

// fittable chooses the trials that say something of the costs: of threaded arms under load, on the kernel of the first
// that was in the band.
func fittable(path string, all []explain.TrialSummary) ([]explain.TrialSummary, error) {
	first := slices.IndexFunc(all, func(t explain.TrialSummary) bool { return t.Band.Band == explain.In })
	if first < 0 {
		var bands []string
		for _, t := range all {
			bands = append(bands, t.Arm.Name+" "+string(t.Band.Band))
		}
		if len(bands) == 0 {
			bands = []string{"no whole trial"}
		}
		return nil, usagef("%s: no arm was in the band, so that there is nothing to fit (%s)", path, strings.Join(bands, ", "))
	}
	ref := all[first]
	if ref.Command.Accel == sim.Accel {
		return nil, usagef("%s was simulated, so that its costs are those that the simulator was given: want a run on a real kernel", path)
	}
	same := func(t explain.TrialSummary) bool {
		return t.Facts.Release == ref.Facts.Release && t.Facts.Arch == ref.Facts.Arch && t.Command.Accel == ref.Command.Accel &&
			(t.Band.Band == explain.In || t.Band.Band == explain.Above || t.Band.Band == explain.Below)
	}
	return slices.DeleteFunc(slices.Clone(all), func(t explain.TrialSummary) bool { return !same(t) }), nil
}

// observations are the seconds of a trial's hold.
func observations(dir *rundir.Dir, t explain.TrialSummary) ([]sim.Observation, error) {
	var out []sim.Observation
	var last *experiment.Counters
	var lastAt int64
	for r, err := range dir.Load(t.ID) {
		if err != nil {
			return nil, err
		}
		c := r.Counters
		if c == nil {
			continue
		}
		if last != nil && last.InHold && c.InHold && int64(r.At)-lastAt >= int64(time.Second)/2 {
			out = append(out, sim.Observation{
				Polls: c.Polls - last.Polls, Packets: c.Packets - last.Packets, Interrupts: c.Interrupts - last.Interrupts,
				Switches: c.Voluntary + c.Nonvoluntary - last.Voluntary - last.Nonvoluntary, Run: c.RunTime - last.RunTime,
			})
		}
		last, lastAt = c, int64(r.At)
	}
	return out, nil
}

// lullsOf are the trials whose kernel ends grace periods at ticks that find softirqs on.
func lullsOf(trials []explain.TrialSummary) []sim.Lull {
	var out []sim.Lull
	for _, t := range trials {
		if !t.Facts.Dynamic || t.Facts.Preempt.Preempts() || t.Band.Band != explain.In {
			continue
		}
		l := sim.Lull{Arm: t.Arm, Facts: t.Facts, Waits: map[string][]time.Duration{}}
		for _, o := range t.Ops {
			if o.Op != experiment.LinkDel && o.Op != experiment.Membarrier {
				continue
			}
			for _, s := range o.Hold {
				l.Waits[o.Op] = append(l.Waits[o.Op], s.Took)
			}
		}
		out = append(out, l)
	}
	return out
}

// switchedAway is how often the thread was switched away from, and in how much time, in the trials in the band where it
// would be if somebody else wanted the CPU.
func switchedAway(trials []explain.TrialSummary) (switches uint64, in time.Duration) {
	for _, t := range trials {
		yields := t.Arm.Loop == experiment.YieldOnExit || t.Arm.Loop == experiment.CondReschedOnly || len(t.Arm.Patch) > 0
		if t.Band.Band == explain.In && (t.Facts.Preempt.Preempts() || yields) {
			switches += t.Rates.Nonvol
			in += t.Rates.Took
		}
	}
	return switches, in
}

func printFit(w io.Writer, path string, f sim.Fit, used []explain.TrialSummary) error {
	var b strings.Builder
	var arms []string
	for _, t := range used {
		arms = append(arms, t.Arm.Name)
	}
	slices.Sort(arms)
	facts := used[0].Facts
	fmt.Fprintf(&b, "fit of %s: %s %s, %s; arms %s; %d seconds\n", path, facts.Release, facts.Arch, used[0].Command.Accel,
		strings.Join(slices.Compact(arms), ", "), f.N)
	for _, e := range f.Estimates {
		switch {
		case !e.Told:
			fmt.Fprintf(&b, "  %-9s  can't be told: %s\n", e.Name, e.Why)
		case e.Error > 0:
			fmt.Fprintf(&b, "  %-9s  %v, standard error %v\n", e.Name, e.Value, e.Error)
		default:
			fmt.Fprintf(&b, "  %-9s  %v\n", e.Name, e.Value)
		}
	}
	if p := f.Estimates[1]; !p.Told {
		b.WriteString("  poll and packet together are told; they are divided as they are by default\n")
	}
	fmt.Fprintf(&b, "left over: %.1f %% of the thread's run time (root mean square); unmask and wake can't be told from any run\n", 100*f.Residual)
	var costs []string
	for _, c := range costKeys(&f.Costs) {
		costs = append(costs, c.key+": "+c.String())
	}
	fmt.Fprintf(&b, "model: {costs: {%s}}\n", strings.Join(costs, ", "))
	_, err := io.WriteString(w, b.String())
	return err
}

// applyFit gives arms the costs that fit the run in path, where they state none of their own.
func applyFit(ctx context.Context, path string, arms []experiment.Arm) error {
	f, _, err := fitRun(ctx, path, nil)
	if err != nil {
		return err
	}
	for i := range arms {
		own := costKeys(&arms[i].Model.Costs)
		for j, c := range costKeys(&f.Costs) {
			if *own[j].cost == 0 {
				*own[j].cost = *c.cost
			}
		}
	}
	return nil
}
