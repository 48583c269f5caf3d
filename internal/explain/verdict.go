package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
)

// A Word is a verdict in short.
type Word string

// The verdicts. What was not in the band is never NotReproduced: it was not put to the test.
const (
	Reproduced    Word = "reproduced"
	NotReproduced Word = "not reproduced"
	NotInBand     Word = "not in the band"
	Inconclusive  Word = "inconclusive"
)

// A Verdict is what an experiment showed.
type Verdict struct {
	Word        Word
	Sentences   []string // what it rests on, without the word
	NotMeasured []string // what a reader might take it for and it is not
}

// maxSlowControl is the share of the hold up to which a slow control ended clearly by itself.
const maxSlowControl = 1.0 / 3

// minHold is the shortest hold after which "nothing was held" says something: see MinStall.
const minHold = MinStall * 10 / 9

// Judge forms the verdict over arms, given in the experiment's order. An arm is put to the test when
// its NAPI is threaded, under load, and its kernel does not preempt by itself (NONE, VOLUNTARY).
//
//   - Reproduced: such an arm, in the band, shows a Stall: an RCU stall report, a soft lockup of the
//     NAPI thread, or an operation that was blocked for HoldShare of the hold (and MinStall). Or its
//     share of operations over SlowLimit is higher than that of a control, by Fisher's test at Alpha:
//     delays without a stall.
//   - NotReproduced: none does, and at least one of them was in the band in every trial, for a hold in which
//     a stall would have been told from a slow control, with MinDeletes operations or more.
//   - NotInBand: arms were put to the test, and none of them was in the band.
//   - Inconclusive: whatever remains; the sentences say what is missing.
func Judge(arms []ArmSummary) Verdict {
	j := judge{arms: arms}
	for _, a := range arms {
		j.sort(a)
	}
	v := Verdict{}
	switch {
	case len(j.stalled) > 0 || len(j.delayed) > 0:
		v.Word, v.Sentences = Reproduced, j.reproduced()
	case len(j.outside) > 0:
		v.Word, v.Sentences = Inconclusive, j.stalledOutside()
	case len(j.cleared) > 0:
		v.Word, v.Sentences = NotReproduced, j.notReproduced()
	case len(j.weak) > 0:
		v.Word, v.Sentences = Inconclusive, j.tooLittle()
	case len(j.offBand) > 0:
		v.Word, v.Sentences = NotInBand, j.notInBand()
	default:
		v.Word, v.Sentences = Inconclusive, []string{j.nothing()}
	}
	v.Sentences = append(v.Sentences, j.controls()...)
	if simulated(arms) {
		v.Sentences = append([]string{"This is the simulator's word, no kernel's."}, v.Sentences...)
	}
	v.NotMeasured = NotMeasured(arms)
	return v
}

// judge sorts arms by what they can say.
type judge struct {
	arms    []ArmSummary
	stalled []ArmSummary // suspects in the band, with a Stall
	delayed []ArmSummary // suspects in the band, slower than a control, without a Stall
	outside []ArmSummary // suspects with a Stall that the band does not explain
	cleared []ArmSummary // suspects in the band, long enough, without either
	weak    []ArmSummary // suspects in the band, or where that is unknown, with too little to say
	offBand []ArmSummary // suspects above or below it
}

func (j *judge) sort(a ArmSummary) {
	switch {
	case !a.suspect():
	case a.Stalled > 0 && a.inBandAtAll():
		j.stalled = append(j.stalled, a)
	case a.Stalled > 0:
		j.outside = append(j.outside, a)
	case a.Band == Above || a.Band == Below:
		j.offBand = append(j.offBand, a)
	case a.Band == In && j.slowerThan(a) != "":
		j.delayed = append(j.delayed, a)
	case a.Band == In && a.enough():
		j.cleared = append(j.cleared, a)
	default:
		j.weak = append(j.weak, a)
	}
}

// enough reports whether a's silence says something.
func (a ArmSummary) enough() bool { return a.tooLittle() == "" }

// tooLittle says why a's silence says nothing, or "".
func (a ArmSummary) tooLittle() string {
	switch {
	case a.Band == UnknownBand || a.Band == Mixed:
		return "whether it was in the band is not known of every trial (" + a.bandEvidence() + ")"
	case a.Facts.Preempt == "":
		return "its preemption model is unknown"
	case a.cutWords() != "":
		return a.cutWords()
	case a.Arm.Load.Hold < minHold:
		return fmt.Sprintf("a hold of %s is too short to tell a stall from a slow delete (from %s on)",
			FormatDuration(a.Arm.Load.Hold), FormatDuration(minHold))
	case a.Hold.Over.N < MinDeletes:
		return fmt.Sprintf("%s in the hold, %d are needed", plural(a.Hold.Over.N, a.noun()), MinDeletes)
	}
	return ""
}

// cutWords says which of a's trials did not reach their end, or "".
func (a ArmSummary) cutWords() string {
	switch {
	case a.Silent > 0:
		return fmt.Sprintf("%d of %s went silent", a.Silent, plural(len(a.Trials), "trial"))
	case a.Panicked > 0:
		return fmt.Sprintf("%d of %s ended in a panic", a.Panicked, plural(len(a.Trials), "trial"))
	}
	return ""
}

func (a ArmSummary) bandEvidence() string {
	for _, t := range a.Trials {
		if t.Band.Band != In {
			return t.Band.Evidence
		}
	}
	return ""
}

// slowerThan names a control over which a's share of slow operations is significantly higher.
func (j *judge) slowerThan(a ArmSummary) string {
	for _, c := range j.arms {
		if c.suspect() && c.Band == In || len(c.Trials) == 0 || c.Arm.Probe.Op != a.Arm.Probe.Op {
			continue
		}
		if t := fisher(a.Hold.Over, c.Hold.Over); t.Significant() && t.Sign > 0 {
			return c.Arm.Name
		}
	}
	return ""
}

func (j *judge) reproduced() []string {
	var s []string
	for _, g := range groups(j.stalled, ArmSummary.stallKind) {
		s = append(s, g.stallSentence())
	}
	for _, g := range groups(j.delayed, ArmSummary.stallKind) {
		s = append(s, g.delaySentence())
	}
	if slices.ContainsFunc(j.stalled, func(a ArmSummary) bool { return a.RCUStalls() == 0 && a.dynamicNone() }) {
		s = append(s, "That RCU reports nothing is the way of PREEMPT_DYNAMIC kernels that don't preempt: their RCU is the preemptible one,"+
			" so that a tick between two polls ends a grace period; whoever needs the CPU itself waits on.")
	}
	for _, a := range j.weak {
		s = append(s, fmt.Sprintf("%s says nothing: %s.", a.Arm.Name, a.tooLittle()))
	}
	return s
}

// stallKind is what arms have in common that one sentence can say of them.
func (a ArmSummary) stallKind() string {
	return fmt.Sprint(a.Arm.Load.Hold, a.noun(), len(a.Hold.Values) == 0, a.blockedTrials() > 0)
}

// stallSentence says what stalled, by what evidence, and in how many trials.
func (g group) stallSentence() string {
	a := g[0]
	hold := FormatDuration(a.Arm.Load.Hold)
	b := strings.Builder{}
	b.WriteString(g.named(ArmSummary.conditions) + ": ")
	switch worst, over := g.each(ArmSummary.worstWords), g.each(ArmSummary.overWords); {
	case len(a.Hold.Values) == 0:
		fmt.Fprintf(&b, "no %s ended in a hold of %s", a.noun(), hold)
	case a.blockedTrials() > 0:
		fmt.Fprintf(&b, "%s was blocked for %s, in a hold of %s (over 1 s: %s)", article(a.noun()), worst, hold, over)
	default:
		fmt.Fprintf(&b, "the worst %s took %s, in a hold of %s (over 1 s: %s)", a.noun(), worst, hold, over)
	}
	fmt.Fprintf(&b, ", with %s, in %s.", g.each(ArmSummary.reportWords), g.each(ArmSummary.stalledWords))
	return b.String()
}

func (g group) delaySentence() string {
	return fmt.Sprintf("%s: delays, not stalls: over 1 s %s, worst %s, in a hold of %s, with %s, in %s.", g.named(ArmSummary.conditions),
		g.each(ArmSummary.overWords), g.each(ArmSummary.worstWords), FormatDuration(g[0].Arm.Load.Hold), g.each(ArmSummary.reportWords),
		g.each(func(a ArmSummary) string { return plural(len(a.Trials), "trial") }))
}

// stalledWords is "1 of 1 trial".
func (a ArmSummary) stalledWords() string {
	return fmt.Sprintf("%d of %s", a.Stalled, plural(len(a.Trials), "trial"))
}

func (a ArmSummary) blockedTrials() int {
	n := 0
	for _, t := range a.Trials {
		if t.blocked() > 0 {
			n++
		}
	}
	return n
}

// first is the first arm that reproduced anything; without trials when none did.
func (j *judge) first() ArmSummary {
	for _, a := range slices.Concat(j.stalled, j.delayed) {
		return a
	}
	return ArmSummary{}
}

// test says what comes of holding the first arm against the control that says most: one that preempts, else
// one in the band, else one out of it, else one in softirq mode. It is empty where there is no such
// control, or only one trial of either: what the deletes of one trial give says nothing of another.
func (j *judge) test() string {
	a, control, top := j.first(), ArmSummary{}, 0
	for _, c := range j.arms {
		r := 1
		switch {
		case len(c.Trials) < 2 || c.Arm.Name == a.Arm.Name || c.Arm.Probe.Op != a.Arm.Probe.Op || c.Stalled > 0:
			r = 0
		case c.Arm.Threaded && c.Facts.Preempt.Preempts():
			r = 4
		case c.suspect() && c.Band == In:
			r = 3
		case c.suspect():
			r = 2
		}
		if r > top {
			top, control = r, c
		}
	}
	t := fisher(a.Hold.Over, control.Hold.Over)
	if len(a.Trials) < 2 || top == 0 || !t.HasP {
		return ""
	}
	s := fmt.Sprintf("Over 1 s, %s against %s by Fisher's exact test, which takes deletes for independent: %s", a.Arm.Name, control.Arm.Name, t)
	if !t.Significant() {
		s += ", no difference shown"
	}
	return s + "."
}

func (j *judge) notReproduced() []string {
	var s []string
	for _, a := range j.cleared {
		lo, hi := a.Hold.Over.Interval(Confidence)
		s = append(s, fmt.Sprintf("%s: in a hold of %s, %s over 1 s (95 %% interval %s to %s), worst %s; %s, in %s.", a.label(),
			FormatDuration(a.Arm.Load.Hold), a.overWords(), FormatShare(lo), FormatShare(hi), a.worstWords(), a.reportWords(),
			plural(len(a.Trials), "trial")))
	}
	for _, a := range j.weak {
		s = append(s, fmt.Sprintf("%s says nothing: %s.", a.Arm.Name, a.tooLittle()))
	}
	for _, a := range j.offBand {
		s = append(s, fmt.Sprintf("%s was not in the band.", a.Arm.Name))
	}
	return s
}

func (j *judge) stalledOutside() []string {
	var s []string
	for _, a := range j.outside {
		s = append(s, fmt.Sprintf("%s shows a stall (%s, %s), but its load was never seen in the band (%s), so that the exit of the"+
			" poll loop does not explain it.", a.label(), a.StallEvidence(), a.reportWords(), a.bandEvidence()))
	}
	return s
}

func (j *judge) tooLittle() []string {
	var s []string
	for _, a := range j.weak {
		s = append(s, fmt.Sprintf("%s: no stall, which says nothing yet: %s.", a.label(), a.tooLittle()))
	}
	for _, a := range j.offBand {
		s = append(s, fmt.Sprintf("%s was not in the band.", a.Arm.Name))
	}
	return s
}

func (j *judge) notInBand() []string {
	var s []string
	for _, a := range j.offBand {
		s = append(s, fmt.Sprintf("%s: %s. Nothing stalled, as outside the band nothing should; this is not a negative result.",
			a.label(), a.bandEvidence()))
	}
	return s
}

func (j *judge) nothing() string {
	for _, a := range j.arms {
		if len(a.Trials) > 0 {
			return "No arm was put to the test: that takes threaded NAPI under load on a kernel under NONE or VOLUNTARY."
		}
	}
	return "No trial was completed."
}

// controls says what the other arms did: those that were not put to the test, and where something was
// reproduced, those that were and did not show it.
func (j *judge) controls() []string {
	var s []string
	var quiet []ArmSummary
	for _, a := range j.arms {
		switch {
		case len(a.Trials) == 0 || a.suspect() && !j.apart(a):
		case a.Stalled > 0:
			s = append(s, fmt.Sprintf("%s shows a stall as well (%s; %s, worst %s), which the cause named here does not explain.",
				a.label(), a.StallEvidence(), a.reportWords(), a.worstWords()))
		case a.Hold.Over.K > 0:
			s = append(s, a.slowControl(j.first()))
		case a.cutWords() != "":
			s = append(s, fmt.Sprintf("%s says nothing: %s.", a.label(), a.cutWords()))
		default:
			quiet = append(quiet, a)
		}
	}
	if len(quiet) > 0 {
		s = append([]string{"No stall: " + j.quiet(quiet) + "."}, s...)
	}
	if t := j.test(); t != "" {
		s = append(s, t)
	}
	return s
}

// quiet says of arms without a slow operation how many they had, those that differ alike from the first
// arm together.
func (j *judge) quiet(arms []ArmSummary) string {
	contrast := func(a ArmSummary) string { return a.contrast(j.first()) }
	var parts []string
	for _, g := range groups(arms, func(a ArmSummary) string { return fmt.Sprint(contrast(a), len(a.Hold.Values) == 0, a.noun()) }) {
		if len(g[0].Hold.Values) == 0 {
			parts = append(parts, fmt.Sprintf("%s had no %s", g.named(contrast), g[0].noun()))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s with %s over 1 s, worst %s", g.named(contrast), g.each(ArmSummary.overWords), g.each(ArmSummary.worstWords)))
	}
	return strings.Join(parts, "; ")
}

// apart reports whether a is a suspect that stands against one that reproduced something.
func (j *judge) apart(a ArmSummary) bool {
	same := func(x ArmSummary) bool { return x.Arm.Name == a.Arm.Name }
	return len(j.first().Trials) > 0 && (slices.ContainsFunc(j.cleared, same) || slices.ContainsFunc(j.offBand, same))
}

// contrast names in what a differs from ref, or all of it where there is no ref.
func (a ArmSummary) contrast(ref ArmSummary) string {
	var parts []string
	add := func(x, y string) {
		if x != y && x != "" {
			parts = append(parts, x)
		}
	}
	add(a.KernelName(), ref.KernelName())
	add(Model(a.Facts), Model(ref.Facts))
	was := ""
	if len(ref.Trials) > 0 {
		was = ref.bandWords()
	}
	add(a.bandWords(), was)
	if len(parts) == 0 {
		return "same kernel, model and band"
	}
	return strings.Join(parts, ", ")
}

// slowControl says why a slow control is still another thing: no report, and an end of its own long
// before the load's.
func (a ArmSummary) slowControl(ref ArmSummary) string {
	worst, cut, _ := a.Hold.Worst()
	s := fmt.Sprintf("%s (%s) is slow, too, with %s over 1 s, worst %s", a.Arm.Name, a.contrast(ref), a.overWords(), a.worstWords())
	if !a.Arm.Threaded && a.Arm.Load.Kind != experiment.NoLoad {
		s += ", as softirqs saturate its CPU"
	}
	hold := a.Arm.Load.Hold
	if hold <= 0 || cut {
		return s + "."
	}
	share := worst.Seconds() / hold.Seconds()
	if share <= maxSlowControl && a.RCUStalls() == 0 {
		return s + fmt.Sprintf("; but no stall was reported, and the worst ended by itself after %s of the hold.", FormatShare(share))
	}
	return s + fmt.Sprintf("; the worst lasted %s of the hold, which is not clearly apart from a stall.", FormatShare(share))
}
