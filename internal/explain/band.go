package explain

import (
	"fmt"

	"github.com/napistall/napistall/internal/experiment"
)

// A Band is where a load sits between the two ways in which the threaded NAPI loop lets others run.
type Band string

// The bands. In it, the loop neither sleeps nor uses its budget, for which reason nothing of NONE or
// VOLUNTARY makes it yield; Above it, polls use the whole budget and reach cond_resched(); Below it,
// the thread sleeps between batches (napi_threaded_poll_loop in net/core/dev.c).
const (
	In          Band = "in"
	Above       Band = "above"
	Below       Band = "below"
	NoBand      Band = "none"    // softirq mode or no load: there is no loop to be in a band of
	UnknownBand Band = "unknown" // not counted, or not countable there
	Mixed       Band = "mixed"   // an arm whose trials differ; never a trial's
)

const (
	// MinEntries is the rate of polls per second from which a load counts as one.
	MinEntries = experiment.MinEntries
	// InShare is the share of the counted seconds that must be in the band for the whole trial to be:
	// a wait of X needs X without one sleep and without one full-budget poll, and
	// with four seconds in five there is room for waits of several seconds.
	InShare = 0.8
	// bulk is the number of redirected frames that XDP flushes at once (DEV_MAP_BULK_SIZE): a bounce
	// with more in flight refills its own ring during the poll, which then uses its budget.
	bulk = 16
)

// A Judgement is a band with what it was judged from.
type Judgement struct {
	Band     Band
	Evidence string
	// Inferred: full-budget polls were not counted, and what is in flight stands in for them.
	Inferred bool
	// Seconds counted, by what each of them was.
	In, Above, Below int
}

// Seconds is how many seconds of the hold were judged.
func (j Judgement) Seconds() int { return j.In + j.Above + j.Below }

// JudgeBand says where arm's load sat, from what was counted in each second of the hold:
//   - a second with a full-budget poll is above the band (where it also slept: what happened more often);
//   - one with a sleep, or with fewer than MinEntries polls, is below it;
//   - every other is in it. Under a model that preempts, a full-budget poll for each nonvoluntary
//     switch is allowed: packets that came while the thread was preempted make one, and it is the
//     preemption that let others run.
//
// Only of a bounce is it known without a trace what each poll takes; the band of every other load is judged
// from traced polls, or is unknown. The trial is in the band when InShare of its seconds are; else it is where more of the others are.
func JudgeBand(arm experiment.Arm, facts experiment.Facts, windows []Window) Judgement {
	switch {
	case !arm.Threaded:
		return Judgement{Band: NoBand, Evidence: "softirq mode: no threaded loop"}
	case arm.Load.Kind == experiment.NoLoad:
		return Judgement{Band: NoBand, Evidence: "no load"}
	case facts.ThreadPID == 0:
		return Judgement{Band: UnknownBand, Evidence: "the NAPI thread was not found: its sleeps were not counted"}
	case len(windows) == 0:
		return Judgement{Band: UnknownBand, Evidence: "fewer than two readings of the counters in the hold"}
	}
	sum := sumRates(windows)
	if !sum.Traced && arm.Load.Kind != experiment.Bounce {
		return Judgement{Band: UnknownBand, Evidence: "polls can't be counted on this kernel: napi:napi_poll was not to be had"}
	}
	j := Judgement{Inferred: !sum.Traced}
	for _, w := range windows {
		switch secondBand(arm, facts, w) {
		case In:
			j.In++
		case Above:
			j.Above++
		default:
			j.Below++
		}
	}
	j.Band = j.majority()
	j.Evidence = j.words(arm, sum)
	return j
}

func (j Judgement) majority() Band {
	switch {
	case float64(j.In) >= InShare*float64(j.Seconds()):
		return In
	case j.Above > j.Below:
		return Above
	}
	return Below
}

func secondBand(arm experiment.Arm, facts experiment.Facts, w Window) Band {
	full := w.Full
	if !w.Traced {
		full = 0
		if arm.Load.Inflight > bulk {
			full = w.Polls
		}
	}
	if facts.Preempt.Preempts() && full <= w.Nonvol {
		full = 0
	}
	switch {
	case full > 0 && full >= w.Sleeps:
		return Above
	case w.Sleeps > 0, float64(w.Polls) < MinEntries*w.Took.Seconds():
		return Below
	}
	return In
}

func (j Judgement) words(arm experiment.Arm, sum Rates) string {
	polls, _ := sum.PerSecond(sum.Polls)
	sleeps, _ := sum.PerSecond(sum.Sleeps)
	full := fmt.Sprintf("%s of the polls used the whole budget", percent(sum.Full, sum.Polls))
	if j.Inferred {
		full = fmt.Sprintf("full-budget polls inferred from %d in flight (XDP flushes %d at once)", arm.Load.Inflight, bulk)
	}
	return fmt.Sprintf("of %d s counted, %d in the band, %d above, %d below: %.0f polls/s, %s, %.1f sleeps/s",
		j.Seconds(), j.In, j.Above, j.Below, polls, full, sleeps)
}

func percent(k, n uint64) string {
	switch {
	case n == 0 || k == 0:
		return "none"
	case k >= n:
		return "all"
	case float64(k) < 0.001*float64(n):
		return "under 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(k)/float64(n))
}
