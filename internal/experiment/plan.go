package experiment

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"
)

// planStream is the second half of the generator's seed. It keeps the plan's numbers apart from any others
// that are drawn from the same experiment seed; changing it changes every plan.
const planStream = 0x6e61706973746c6c // "napistll"

// Plan lists e's trials in the order in which they are to be run: one block per repetition, each with
// every arm that still has trials to come once, in an order drawn from e.Seed. So whatever drifts over a run
// meets all arms alike.
//
// The generator is PCG-DXSM (math/rand/v2, whose sequence is fixed) seeded with (e.Seed, planStream).
// For each block it is drawn once per place from the last to the second for a Fisher-Yates shuffle,
// taking the high word of draw × places, then once per trial for the trial's own seed. The same
// experiment has the same plan everywhere, and more repetitions go on where fewer end.
func Plan(e *Experiment) []Trial {
	g := rand.NewPCG(e.Seed, planStream)
	plan := make([]Trial, 0, max(e.Reps, 0)*len(e.Arms))
	for rep := 1; ; rep++ {
		block := slices.DeleteFunc(slices.Clone(e.Arms), func(a Arm) bool { return e.Trials(a) < rep })
		if len(block) == 0 {
			return plan
		}
		for _, i := range shuffled(g, len(block)) {
			plan = append(plan, Trial{Index: len(plan), Rep: rep, Seed: g.Uint64(), Arm: block[i]})
		}
	}
}

// Trials is how many trials of arm e plans.
func (e *Experiment) Trials(arm Arm) int {
	if arm.Reps > 0 {
		return arm.Reps
	}
	return e.Reps
}

// shuffled returns 0…n-1 in an order drawn from g. rand.Shuffle would draw differently on 32-bit machines.
func shuffled(g *rand.PCG, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		hi, _ := bits.Mul64(g.Uint64(), uint64(i+1))
		order[i], order[hi] = order[hi], order[i]
	}
	return order
}

// What Shorten makes of an experiment that doesn't say. With a stall timeout of 3 s, a hold of 15 s gave
// two expedited stalls and a classic one on an emulated arm.
const (
	quickHold  = 15 * time.Second
	quickStall = 3 * time.Second
)

// Shorten makes e quick: no hold is longer than QuickHold, or 15 s when the file doesn't say; RCU's stall
// timeout is 3 s in every arm without one; probes begin at least four times in a shortened hold; a trial goes on after its hold as long as it would have; and
// expectations in terms of the hold follow it. It sets Quick, which whoever shows results has to say.
func (e *Experiment) Shorten() {
	limit := e.QuickHold
	if limit == 0 {
		limit = quickHold
	}
	holds := map[string]time.Duration{}
	for i := range e.Arms {
		a := &e.Arms[i]
		if a.Load.Hold > limit {
			a.Duration -= a.Load.Hold - limit
			a.Load.Hold = limit
			a.Probe.Every = min(a.Probe.Every, limit/4)
		}
		if a.StallTimeout == 0 {
			a.StallTimeout = quickStall
		}
		holds[a.Name] = a.Load.Hold
	}
	for i := range e.Expect {
		if x := &e.Expect[i]; x.HoldFactor != 0 {
			x.Duration = x.ofHold(holds[x.Arm])
		}
	}
	e.Quick = true
}
