package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/stats"
)

const (
	// driftAlpha is the level of the tests behind a warning of drift: there are many, and each false alarm costs trust.
	driftAlpha = 0.001
	// driftTrials and driftSamples are the fewest that are halved in search of a drift.
	driftTrials, driftSamples = 10, 24
	// farOut is how many median deviations from the median make an outlier: ten standard deviations of a normal
	// distribution, hyperfine's limit.
	farOut = 14.826
	// commonOut is the share from which values far out are no outliers but a second kind of value, which p95 shows.
	commonOut = 0.05
	// outlierSamples is the fewest of which one can be an outlier.
	outlierSamples = 6
	// shownOutliers is how many are named.
	shownOutliers = 3
	// shownEffect is the design effect from which a reader is told of it.
	shownEffect = 1.5
)

// warnings says what of one arm a reader of its figures has to know.
func warnings(s Side, f Figures) []string {
	var w []string
	for _, list := range [][]string{fewOf(s, f), outliers(s), drift(s), bandNotHeld(s), ownLosses(s), alike(s, f), cutOnes(f)} {
		w = append(w, list...)
	}
	return w
}

// fewOf says what an arm has too few of.
func fewOf(s Side, f Figures) []string {
	noun := s.Arm.noun()
	switch {
	case f.Trials == 0:
		return []string{s.Label + " has no trial."}
	case f.N == 0:
		return []string{fmt.Sprintf("%s has no %s in the hold.", s.Label, noun)}
	case !f.HasInterval:
		return []string{fmt.Sprintf("%s has too few for an interval of the median: %s, %d would do.", s.Label, plural(f.N, noun), MinDeletes)}
	}
	return nil
}

// outliers names the operations that are far from their arm's others, and what they waited for.
func outliers(s Side) []string {
	type far struct {
		trial string
		x     experiment.Sample
	}
	var all []time.Duration
	for _, v := range s.Arm.Hold.Values {
		all = append(all, v.D)
	}
	if len(all) < outlierSamples {
		return nil
	}
	median, deviation := deviations(all)
	var found []far
	for _, t := range s.Arm.Trials {
		for _, x := range t.Main().Hold {
			if float64(max(x.Took, median)-min(x.Took, median)) > farOut*float64(deviation) {
				found = append(found, far{t.ID, x})
			}
		}
	}
	if len(found) == 0 || float64(len(found)) > max(1, commonOut*float64(len(all))) {
		return nil
	}
	slices.SortStableFunc(found, func(a, b far) int { return cmp.Compare(b.x.Took, a.x.Took) })
	var named []string
	for _, o := range found[:min(len(found), shownOutliers)] {
		named = append(named, fmt.Sprintf("%s in %s%s", BoundWords(boundOf(o.x.Took, o.x.Censored)), o.trial, waitedWords(o.x)))
	}
	if n := len(found) - shownOutliers; n > 0 {
		named = append(named, fmt.Sprintf("%d more", n))
	}
	return []string{fmt.Sprintf("%s of %d of %s far from the others (median %s): %s.", plural(len(found), "outlier"), len(all), s.Label,
		FormatDuration(median), strings.Join(named, "; "))}
}

// deviations returns the median of all and the median distance from it, which is taken to be a hundredth of the median
// at least: of lengths that hardly vary, the least variation is no outlier.
func deviations(all []time.Duration) (median, deviation time.Duration) {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	median = sorted[len(sorted)/2]
	for i, d := range sorted {
		sorted[i] = max(d, median) - min(d, median)
	}
	slices.Sort(sorted)
	return median, max(sorted[len(sorted)/2], median/100, time.Microsecond)
}

// waitedWords says where most of an operation was spent, as far as it was looked at.
func waitedWords(x experiment.Sample) string {
	b := Waits(x)
	if b.Taken == 0 {
		return ""
	}
	most := slices.MaxFunc(b.Shares, func(x, y WaitShare) int { return cmp.Compare(x.Share, y.Share) })
	return fmt.Sprintf(" (%s in %s)", FormatShare(most.Share), most.Wait)
}

// drift says whether an arm's lengths changed over the run, from trial to trial, or within its trials.
func drift(s Side) []string {
	var w []string
	trials := slices.Clone(s.Arm.Trials)
	slices.SortStableFunc(trials, func(a, b TrialSummary) int {
		return cmp.Or(s.Starts[a.ID].Compare(s.Starts[b.ID]), cmp.Compare(a.Index, b.Index))
	})
	if n := len(trials); n >= driftTrials {
		medians := stats.MedianPerTrial(valuesInOrder(trials))
		half := len(medians) / 2
		if t := rank(medians[:half], medians[half:]); t.HasP && t.P < max(driftAlpha, 2*leastP(half)) && t.Sign != 0 {
			w = append(w, fmt.Sprintf("%s drifts over the run: the %ss of its later trials are %s than those of its earlier ones (p %s).", s.Label, s.Arm.noun(),
				longerOrShorter(-t.Sign), FormatP(t.P)))
		}
	}
	return append(w, driftWithin(s, trials)...)
}

// driftWithin says in which trials the lengths of the second half differ from those of the first, each direction by itself.
func driftWithin(s Side, trials []TrialSummary) (w []string) {
	by := map[int][]string{} // trials, by whether they get longer (1) or shorter (-1)
	for _, t := range trials {
		v := valuesOf(t.Main().Hold, 0)
		if len(v) < driftSamples {
			continue
		}
		half := len(v) / 2
		if r := rank(v[:half], v[half:]); r.HasP && r.P*float64(len(trials)) < driftAlpha {
			by[-r.Sign] = append(by[-r.Sign], t.ID)
		}
	}
	for _, sign := range []int{1, -1} {
		if ids := by[sign]; len(ids) > 0 {
			w = append(w, fmt.Sprintf("%s drifts within a trial: in %d of %d the %ss of the second half are %s (%s).",
				s.Label, len(ids), len(trials), s.Arm.noun(), longerOrShorter(sign), ids[0]))
		}
	}
	return w
}

// leastP is the smallest p value of a rank test of n against n.
func leastP(n int) float64 {
	if n >= 10 {
		return 0
	}
	p := 2.0
	for i := range n {
		p *= float64(i+1) / float64(n+i+1)
	}
	return p
}

func longerOrShorter(sign int) string {
	if sign < 0 {
		return "shorter"
	}
	return "longer"
}

// valuesInOrder are all lengths of the hold, the trials numbered in the order given.
func valuesInOrder(trials []TrialSummary) []stats.Value {
	var all []stats.Value
	for i, t := range trials {
		all = append(all, valuesOf(t.Main().Hold, i)...)
	}
	return all
}

func valuesOf(samples []experiment.Sample, trial int) []stats.Value {
	var l Lengths
	l.add(trial, samples)
	return l.Values
}

// bandNotHeld says where a load was not where it has to be for the stall to come.
func bandNotHeld(s Side) []string {
	a := s.Arm
	if !a.Arm.Threaded || a.Arm.Load.Kind == experiment.NoLoad || len(a.Trials) == 0 || a.Band == In || a.Band == NoBand {
		return nil
	}
	if a.Band == UnknownBand {
		return []string{fmt.Sprintf("%s: whether the load held the band is unknown (%s).", s.Label, a.bandEvidence())}
	}
	n := 0
	for _, t := range a.Trials {
		if t.Band.Band != In {
			n++
		}
	}
	return []string{fmt.Sprintf("%s was not in the band in %d of %s: %s.", s.Label, n, plural(len(a.Trials), "trial"), a.bandEvidence())}
}

// ownLosses sums up what the instruments missed, and what a busy host took.
func ownLosses(s Side) []string {
	var w []string
	if l := s.Arm.LossWords(); l != "" {
		w = append(w, fmt.Sprintf("%s: the instruments missed %s.", s.Label, l))
	}
	if s.Arm.Hold.Refused > 0 {
		w = append(w, fmt.Sprintf("%s: the kernel refused %s, which are in no number.", s.Label, plural(s.Arm.Hold.Refused, s.Arm.noun())))
	}
	if len(s.Arm.Trials) > 0 && len(busyHost([]ArmSummary{s.Arm})) > 0 {
		w = append(w, s.Label+": the host's CPUs were busy with others for much of the time, which the guest takes for its own.")
	}
	return w
}

// alike says that operations of one trial resemble each other so much that they tell less than their number.
func alike(s Side, f Figures) []string {
	if f.Effect < shownEffect {
		return nil
	}
	return []string{fmt.Sprintf("%s: %ss of one trial resemble each other (design effect %.1f), so that for the interval of the share over 1 s %d count as %d.",
		s.Label, s.Arm.noun(), f.Effect, f.Over.N, f.down.N)}
}

func cutOnes(f Figures) []string {
	if f.Cut == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d of %d were cut by the end of their trial: at least as long as shown, and counted so.", f.Label, f.Cut, f.N)}
}
