package explain

import (
	"cmp"
	"slices"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// A WaitShare is how many of a blocked operation's stack samples were found in one wait.
type WaitShare struct {
	Wait    rcu.Wait
	Samples int
	Share   float64 // of the stack samples that were taken, 0…1
}

// A Breakdown says where an operation waited.
type Breakdown struct {
	Shares []WaitShare // in the order in which a deletion meets the waits; only those that were seen
	Taken  int         // stack samples
	// Coverage is Taken over the number that one each experiment.StackEvery would have given, at most
	// 1. What is not covered was not looked at: the sampler did not run, or the stack was not readable.
	Coverage float64
}

// Waits returns where s waited, as far as its stack was looked at.
func Waits(s experiment.Sample) Breakdown {
	b := Breakdown{}
	for _, n := range s.Waits {
		b.Taken += max(0, n)
	}
	if b.Taken == 0 {
		return b
	}
	for _, w := range orderedWaits(s.Waits) {
		if n := s.Waits[w]; n > 0 {
			b.Shares = append(b.Shares, WaitShare{Wait: w, Samples: n, Share: float64(n) / float64(b.Taken)})
		}
	}
	b.Coverage = 1
	if want := int64(s.Took / experiment.StackEvery); want > int64(b.Taken) {
		b.Coverage = float64(b.Taken) / float64(want)
	}
	return b
}

// orderedWaits lists the known waits in their order, then m's others by name.
func orderedWaits(m map[rcu.Wait]int) []rcu.Wait {
	known := rcu.Waits()
	var others []rcu.Wait
	for w := range m {
		if !slices.Contains(known, w) {
			others = append(others, w)
		}
	}
	slices.Sort(others)
	return append(known, others...)
}

// A Slow is one operation over SlowLimit with where it waited.
type Slow struct {
	Trial  string
	Sample experiment.Sample
	Waits  Breakdown
}

// SlowOnes returns s's operations over SlowLimit that began in the hold, longest first.
func (s TrialSummary) SlowOnes() []Slow {
	var slow []Slow
	for _, x := range s.Main().Hold {
		if x.Took > SlowLimit {
			slow = append(slow, Slow{Trial: s.ID, Sample: x, Waits: Waits(x)})
		}
	}
	slices.SortStableFunc(slow, func(a, b Slow) int { return cmp.Compare(b.Sample.Took, a.Sample.Took) })
	return slow
}
