package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// A Lull is an arm in the band whose kernel, under preempt=none or voluntary with PREEMPT_DYNAMIC, ends grace periods at a
// tick that finds the thread with softirqs on. How long its waits are tells how much of a pass that is.
type Lull struct {
	Arm   experiment.Arm
	Facts experiment.Facts
	Waits map[string][]time.Duration // of experiment.LinkDel and experiment.Membarrier, in the hold
}

const (
	whyEntry     = "it takes an arm in the band under preempt=none or voluntary of a PREEMPT_DYNAMIC kernel, whose grace periods end by it"
	whyNeighbour = "it takes an arm in the band whose thread can be switched away from: full, lazy, or the patch"
)

const (
	fewWaits   = 5               // the least number of waits that say something of their mean
	replay     = 3 * time.Minute // how long a lull is simulated with each entry that is tried
	halvings   = 11              // of the range that the entry is in: to half a percent
	replaySeed = 1               // the seed
)

// FitEntry finds the entry with which simulated waits are as long as those of lulls, by bisection, with the other costs as they
// are in f. The whole of a pass stays as it was fitted.
func (b Backend) FitEntry(ctx context.Context, f *Fit, lulls []Lull) error {
	e := &f.Estimates[fitEntry]
	waits := 0
	for _, l := range lulls {
		for _, w := range l.Waits {
			waits += len(w)
		}
	}
	whole := f.Costs.Entry + f.Costs.Poll
	switch {
	case len(lulls) == 0:
		return nil
	case waits < fewWaits:
		e.Why = fmt.Sprintf("%d waits are too few: %d are needed", waits, fewWaits)
		return nil
	}
	excess := func(entry time.Duration) (float64, error) {
		c := f.Costs
		c.Entry, c.Poll = entry, whole-entry
		return b.excess(ctx, c, lulls)
	}
	low, high := time.Duration(1), whole-1
	for _, end := range []struct {
		entry time.Duration
		wrong func(float64) bool
		why   string
	}{
		{high, func(x float64) bool { return x > 0 }, "its waits are shorter than any entry gives: it is not a load in the band, or other things ended them"},
		{low, func(x float64) bool { return x < 0 }, "its waits are longer than any entry gives"},
	} {
		x, err := excess(end.entry)
		if errors.Is(err, errors.ErrUnsupported) {
			e.Why = "its arm can't be simulated: " + err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		if end.wrong(x) {
			e.Why = end.why
			return nil
		}
	}
	for range halvings {
		middle := time.Duration(math.Round(math.Sqrt(float64(low) * float64(high))))
		x, err := excess(middle)
		if err != nil {
			return err
		}
		if x > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	e.Value, e.Told, e.Why = high, true, ""
	e.Error = time.Duration(math.Round(float64(high) / math.Sqrt(float64(waits))))
	f.Costs.Entry, f.Costs.Poll = high, max(1, whole-high)
	return nil
}

// excess says by how much longer than real ones simulated waits are with costs c: the logarithm of the ratio of the means,
// weighted by how many real ones there are.
func (b Backend) excess(ctx context.Context, c experiment.Costs, lulls []Lull) (float64, error) {
	sum, n := 0.0, 0.0
	for _, l := range lulls {
		simulated, err := b.replay(ctx, c, l)
		if err != nil {
			return 0, err
		}
		for _, op := range []string{experiment.LinkDel, experiment.Membarrier} {
			if real, sim := l.Waits[op], simulated[op]; len(real) > 0 && len(sim) > 0 {
				sum += float64(len(real)) * math.Log(mean(sim)/mean(real))
				n += float64(len(real))
			}
		}
	}
	if n == 0 {
		return 0, errors.New("no operation of the lulls was simulated")
	}
	return sum / n, nil
}

func mean(waits []time.Duration) float64 {
	sum := 0.0
	for _, w := range waits {
		sum += float64(w)
	}
	return max(sum/float64(len(waits)), 1)
}

// replay simulates l with costs c and returns its waits. What the kernel is comes from the facts: the simulator has it
// wherever the real one came from.
func (b Backend) replay(ctx context.Context, c experiment.Costs, l Lull) (map[string][]time.Duration, error) {
	arm := l.Arm
	arm.Kernel = "model:" + generationName(generationOf(l.Facts.Release)) + "/" + archName(archOfMachine(l.Facts.Arch))
	arm.KernelElse, arm.Patch, arm.Boot = nil, nil, nil
	arm.Config = experiment.Config{HZ: cmp.Or(l.Facts.HZ, 250)}
	arm.Preempt, arm.VCPUs = l.Facts.Preempt, max(l.Facts.CPUs, 2)
	if loop, err := loopOf(l.Arm); err == nil {
		arm.Loop = loop
	}
	arm.Model.Costs = c
	arm.Duration += replay - arm.Load.Hold
	arm.Load.Hold = replay
	t, err := b.Acquire(ctx, arm)
	if err != nil {
		return nil, err
	}
	waits := map[string][]time.Duration{}
	err = t.Run(ctx, experiment.Trial{Rep: 1, Seed: replaySeed, Arm: arm}, func(r experiment.Record) error {
		if s := r.Sample; s != nil && s.Phase == experiment.Hold {
			waits[s.Op] = append(waits[s.Op], s.Took)
		}
		return nil
	})
	return waits, errors.Join(err, t.Close())
}

// FitNeighbour tells how seldom somebody else wants the CPU, from how often the thread was switched away from in the band on a
// kernel that would do that, in so much time.
func (f *Fit) FitNeighbour(switches uint64, in time.Duration) {
	e := &f.Estimates[fitNeighbour]
	switch {
	case in <= 0:
		return
	case switches == 0:
		e.Told, e.Why, f.Costs.Neighbour = true, "", experiment.Never
		return
	}
	e.Value = max(in/time.Duration(switches), time.Microsecond).Round(time.Microsecond)
	e.Error = time.Duration(float64(e.Value) / math.Sqrt(float64(switches))).Round(time.Microsecond)
	e.Told, e.Why, f.Costs.Neighbour = true, "", e.Value
}
