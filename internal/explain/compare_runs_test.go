package explain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/stats"
)

// deletesOf makes trials of an arm, each with these lengths, every one a little longer than in the one before.
func deletesOf(name string, trials int, lengths ...time.Duration) []scene {
	var list []scene
	for i := range trials {
		s := lazy()
		s.arm.Name = name
		s.deletes = nil
		for k, d := range lengths {
			s.deletes = append(s.deletes, d+time.Duration((i*7+k*3)%11)*time.Millisecond)
		}
		list = append(list, s)
	}
	return list
}

// sideOf is an arm of a run whose trials started a minute after each other, from start on.
func sideOf(run int, start time.Time, scenes ...scene) Side {
	s := Side{Label: fmt.Sprintf("%s@%d", scenes[0].arm.Name, run), Run: run, Starts: map[string]time.Time{}}
	var trials []TrialSummary
	for i, x := range scenes {
		x.rep = i + 1
		t := x.summary()
		t.Index, t.ID = i, fmt.Sprintf("%03d-%s-%d", i, x.arm.Name, i+1)
		s.Starts[t.ID] = start.Add(time.Duration(i) * time.Minute)
		trials = append(trials, t)
	}
	s.Arm = Summarize(scenes[0].arm, trials)
	return s
}

func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// tenth is eight lengths of about 0.1 s.
func tenth() []time.Duration { return some(8, 100*time.Millisecond) }

func compared(sides ...Side) Pair { return compareAll(sides, [][2]int{{0, 1}}).Pairs[0] }

// compareAll is CompareRuns with nothing that ends it.
func compareAll(sides []Side, pairs [][2]int) Comparisons {
	c, err := CompareRuns(context.Background(), sides, pairs)
	if err != nil {
		panic(err)
	}
	return c
}

func TestCompareRunsEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := sideOf(1, noon(), deletesOf("a", 5, tenth()...)...)
	if c, err := CompareRuns(ctx, []Side{a, a}, [][2]int{{0, 1}}); !errors.Is(err, context.Canceled) || len(c.Pairs) > 0 {
		t.Errorf("CompareRuns = %d pairs, %v; want none, context.Canceled", len(c.Pairs), err)
	}
}

func TestCompareRunsDiffers(t *testing.T) {
	slow := sideOf(1, noon(), deletesOf("stock", 6, 30*time.Second)...)
	fast := sideOf(1, noon().Add(time.Second), deletesOf("patched", 6, tenth()...)...)
	p := compared(fast, slow)
	if p.Outcome != Differs || !p.HasP || p.P > 0.01 || !p.Trials || p.Shift.Lo.D > -29*time.Second || p.Share.Hi > -0.4 {
		t.Errorf("patched against stock = %+v; want that they differ", p)
	}
	for _, want := range []string{"patched@1 differs from stock@1", "p = 0.0", "-29.9 s (95 % interval -29.9 s to -29.9 s)", "over 1 s 0 of 48 against 6 of 6, -100 points", "Chan–Zhang exact"} {
		if !strings.Contains(p.Sentence, want) {
			t.Errorf("sentence does not say %q: %s", want, p.Sentence)
		}
	}
}

func TestCompareRunsNoDifference(t *testing.T) {
	a := sideOf(1, noon(), deletesOf("lazy", 6, tenth()...)...)
	b := sideOf(2, noon(), deletesOf("lazy", 6, tenth()...)...)
	b.Arm.Hold.Values[0].D++ // not the very same
	p := compared(a, b)
	if p.Outcome != NoDifference || len(p.Warnings) > 0 {
		t.Errorf("of one kind = %+v; want no difference and no warning", p)
	}
	contains(t, []string{p.Sentence}, "One within the intervals is not excluded")
}

// With many pairs, what one test alone would call a difference is none.
func TestCompareRunsCorrects(t *testing.T) {
	a := sideOf(1, noon(), deletesOf("a", 4, 100*time.Millisecond)...)
	b := sideOf(1, noon(), deletesOf("b", 4, 200*time.Millisecond)...)
	if p := compared(a, b); p.Outcome != NoDifference || p.Medians.P >= Alpha || p.P < Alpha {
		t.Errorf("4 against 4 = %v (%v corrected): want no difference by 2 tests at 2/70", p.Outcome, p.P)
	}
	sides := []Side{a, b, sideOf(1, noon(), deletesOf("c", 5, 100*time.Millisecond)...), sideOf(1, noon(), deletesOf("d", 5, 300*time.Millisecond)...)}
	if p := compareAll(sides, [][2]int{{2, 3}}).Pairs[0]; p.Outcome != Differs {
		t.Errorf("5 against 5 alone = %v, p %v; want that they differ", p.Outcome, p.P)
	}
	c := compareAll(sides, [][2]int{{2, 3}, {0, 1}, {0, 2}, {1, 2}})
	if c.Tests != 8 || c.Pairs[0].Outcome != NoDifference {
		t.Errorf("among 4 pairs = %v, p %v of %d tests; want none", c.Pairs[0].Outcome, c.Pairs[0].P, c.Tests)
	}
}

func TestCompareRunsTooFew(t *testing.T) {
	one := sideOf(1, noon(), deletesOf("stock", 1, 30*time.Second)...)
	other := sideOf(2, noon(), deletesOf("patched", 1, tenth()...)...)
	p := compared(one, other)
	if p.Outcome != NotDecided || p.HasP || p.Enough == "" {
		t.Errorf("1 trial each = %+v; want it undecided", p)
	}
	contains(t, []string{p.Sentence}, "1 and 1 trials are too few to tell whether stock@1 and patched@2 differ: the least with which a test could find anything is 5 of each")
	contains(t, compareAll([]Side{one, other}, nil).Warnings[0], "too few for an interval of the median: 1 delete, 6 would do")
	none := sideOf(1, noon(), deletesOf("none", 3)...)
	p = compared(none, other)
	contains(t, []string{p.Sentence}, "Nothing to compare: 0 deletes of none@1 and 8 deletes of patched@2")
	contains(t, compareAll([]Side{none}, nil).Warnings[0], "has no delete in the hold")
	empty := Side{Label: "gone", Run: 1, Arm: Summarize(arm("gone"), nil)}
	if p := compared(empty, other); p.Outcome != NotDecided {
		t.Errorf("without a trial: %+v", p)
	}
	contains(t, compareAll([]Side{empty}, nil).Warnings[0], "gone has no trial")
	barrier := sideOf(2, noon(), deletesOf("stock", 5, tenth()...)...)
	barrier.Arm.Arm.Probe.Op = experiment.RCUBarrier
	contains(t, []string{compared(one, barrier).Sentence}, "timed different operations")
}

func TestCompareRunsCut(t *testing.T) {
	var scenes []scene
	for range 6 {
		s := stock()
		s.deletes, s.cut, s.outcome = []time.Duration{32 * time.Second}, true, experiment.Silent
		scenes = append(scenes, s)
	}
	all := sideOf(1, noon(), scenes...)
	f := figures(all)
	if f.MedianBy != ByKaplanMeier || f.Median != boundOf(32*time.Second, true) || !f.HasInterval || f.MedianHi.Open == 0 || f.Worst.Open == 0 {
		t.Errorf("all cut: %+v; want a median of 32 s or more", f)
	}
	p := compared(all, sideOf(1, noon(), deletesOf("lazy", 6, tenth()...)...))
	if p.Outcome != Differs || p.Shift.Hi.Open != 1 || p.Shift.From.D < 31*time.Second {
		t.Errorf("all cut against short ones = %+v; want that they differ, by a bound", p)
	}
	contains(t, []string{p.Sentence}, "depending on what was cut")
	contains(t, warnings(all, f), "6 of 6 were cut by the end of their trial")
	if p := compared(all, sideOf(2, noon(), scenes...)); p.Outcome == Differs {
		t.Errorf("all cut on both sides: %+v; nothing can be told", p)
	}
	if f := figures(sideOf(1, noon(), deletesOf("lazy", 6, tenth()...)...)); f.MedianBy != ByOrder || f.Cut != 0 {
		t.Errorf("none cut: %+v", f)
	}
}

func TestCompareRunsExtremes(t *testing.T) {
	mix := sideOf(1, noon(), deletesOf("mix", 6, 0, 0)...)
	for i := range mix.Arm.Hold.Values {
		mix.Arm.Hold.Values[i].D = []time.Duration{0, math.MaxInt64}[i%2]
	}
	mix.Arm.Hold.sum()
	for _, pair := range [][2]Side{{mix, mix}, {mix, sideOf(1, noon(), deletesOf("lazy", 5, tenth()...)...)}} {
		p := compared(pair[0], pair[1])
		if strings.Contains(p.Sentence, "NaN") || strings.Contains(p.Sentence, "--") {
			t.Errorf("of extremes: %s", p.Sentence)
		}
	}
	if f := figures(mix); f.Median.D != math.MaxInt64/2 || f.Worst.D != math.MaxInt64 {
		t.Errorf("figures of extremes = %+v", f)
	}
}

// warned is what is said of one arm.
func warned(scenes ...scene) []string {
	s := sideOf(1, noon(), scenes...)
	return warnings(s, figures(s))
}

func silent(t *testing.T, list []string) {
	t.Helper()
	if len(list) > 0 {
		t.Errorf("said %q; want nothing", list)
	}
}

func TestOutliers(t *testing.T) {
	silent(t, warned(deletesOf("lazy", 4, tenth()...)...))
	far := deletesOf("lazy", 4, tenth()...)
	far[2].deletes[3] = 9 * time.Second
	far[2].waits = stock().waits
	contains(t, warned(far...), "1 outlier of 32 of lazy@1 far from the others (median 0.11 s): 9 s in 002-lazy-3 (98 % in synchronize_net)")
	// What every eighth is is another kind of value, no outlier.
	many := deletesOf("lazy", 4, append(tenth()[1:], 9*time.Second)...)
	silent(t, warned(many...))
}

func TestDrift(t *testing.T) {
	steady := deletesOf("lazy", 12, tenth()...)
	silent(t, warned(steady...))
	over := deletesOf("lazy", 12, tenth()...)
	for i := range over {
		for k := range over[i].deletes {
			over[i].deletes[k] += time.Duration(i) * 30 * time.Millisecond
		}
	}
	contains(t, warned(over...), "lazy@1 drifts over the run: the deletes of its later trials are longer")
	within := deletesOf("lazy", 2, append(some(20, 100*time.Millisecond), some(20, 200*time.Millisecond)...)...)
	contains(t, warned(within...), "lazy@1 drifts within a trial: in 2 of 2 the deletes of the second half are longer")
	slices.Reverse(within[1].deletes)
	both := warned(within...)
	contains(t, both, "lazy@1 drifts within a trial: in 1 of 2 the deletes of the second half are longer (000-lazy-1)")
	contains(t, both, "lazy@1 drifts within a trial: in 1 of 2 the deletes of the second half are shorter (001-lazy-2)")
	silent(t, warned(deletesOf("lazy", 2, append(tenth(), append(tenth(), tenth()...)...)...)...))
}

func TestBandNotHeld(t *testing.T) {
	silent(t, warned(deletesOf("lazy", 2, tenth()...)...))
	s := deletesOf("lazy", 2, tenth()...)
	s[1].second = belowBand()
	contains(t, warned(s...), "lazy@1 was not in the band in 1 of 2 trials")
	unknown := deletesOf("lazy", 1, tenth()...)
	unknown[0].second = experiment.Counters{}
	unknown[0].arm.Load = experiment.Load{Kind: experiment.Paced, Rate: 1000, Hold: 30 * time.Second}
	contains(t, warned(unknown...), "whether the load held the band is unknown")
	idle := deletesOf("idle", 1, tenth()...)
	idle[0].arm.Load.Kind = experiment.NoLoad
	silent(t, warned(idle...))
}

func TestOwnLosses(t *testing.T) {
	s := deletesOf("lazy", 2, tenth()...)
	silent(t, warned(s...))
	s[0].losses = []experiment.Loss{{What: "kmsg lines", Count: 7}}
	contains(t, warned(s...), "lazy@1: the instruments missed 7 kmsg lines")
	side := sideOf(1, noon(), deletesOf("lazy", 2, tenth()...)...)
	side.Arm.Trials[0].HostWait = 60 * time.Second
	contains(t, warnings(side, figures(side)), "the host's CPUs were busy with others")
	side.Arm.Trials[0].HostWait = 0
	side.Arm.Hold.Refused = 2
	contains(t, warnings(side, figures(side)), "the kernel refused 2 deletes")
}

func TestAlike(t *testing.T) {
	s := deletesOf("mixed", 4, some(8, 2*time.Second)...)
	s[0].deletes, s[2].deletes = tenth(), tenth()
	contains(t, warned(s...), "deletes of one trial resemble each other (design effect 10.7), so that for the interval of the share over 1 s 32 count as 3")
	f := figures(sideOf(1, noon(), s...))
	if f.Over != (stats.Proportion{K: 16, N: 32}) || f.OverLo > 0.05 || f.OverHi < 0.95 {
		t.Errorf("figures = %+v; want an interval of 1 to 2 of 3", f)
	}
}

func TestNotInterleaved(t *testing.T) {
	a := sideOf(1, noon(), deletesOf("a", 3, tenth()...)...)
	silent(t, notInterleaved(a, sideOf(1, noon().Add(30*time.Second), deletesOf("b", 3, tenth()...)...)))
	after := sideOf(1, noon().Add(time.Hour), deletesOf("b", 3, tenth()...)...)
	contains(t, notInterleaved(a, after), "the last trial of a@1 started 58 minutes before the first of b@1")
	contains(t, notInterleaved(after, a), "the last trial of a@1 started 58 minutes before the first of b@1")
	days := sideOf(2, noon().Add(72*time.Hour), deletesOf("a", 1, tenth()...)...)
	contains(t, notInterleaved(a, days), "3 days before")
	model := deletesOf("a", 3, tenth()...)
	for i := range model {
		model[i].accel = "model"
	}
	silent(t, notInterleaved(sideOf(1, noon(), model...), sideOf(2, noon().Add(time.Hour), model...)))
}

func TestSameLengths(t *testing.T) {
	a := sideOf(1, noon(), deletesOf("a", 3, tenth()...)...)
	contains(t, pairWarnings(a, sideOf(2, noon(), deletesOf("a", 3, tenth()...)...)), "exactly the same lengths")
}

func TestHidden(t *testing.T) {
	base := func() Side { return sideOf(1, noon(), deletesOf("a", 2, tenth()...)...) }
	if h := hidden(base(), base()); len(h) > 0 {
		t.Errorf("of the same targets: %q", h)
	}
	facts := func(change func(*experiment.Facts)) func(*Side) { return func(s *Side) { change(&s.Arm.Facts) } }
	tests := map[string]func(*Side){
		"CPUs 2 against 4":                         facts(func(f *experiment.Facts) { f.CPUs = 4 }),
		"clocksource unknown against hpet":         facts(func(f *experiment.Facts) { f.ClockSrc = "hpet" }),
		"HZ 250 against 100":                       facts(func(f *experiment.Facts) { f.HZ = 100 }),
		"stall timeout in seconds 21 against 60":   facts(func(f *experiment.Facts) { f.StallSec = 60 }),
		"kernel 7.3.4-cloud-amd64 against 7.4":     facts(func(f *experiment.Facts) { f.Release = "7.4" }),
		"preemption model lazy against full":       facts(func(f *experiment.Facts) { f.Preempt = "full" }),
		"agent unknown against v9":                 facts(func(f *experiment.Facts) { f.Agent = "v9" }),
		"accelerator tcg against kvm":              func(s *Side) { s.Arm.Trials[0].Command.Accel, s.Arm.Trials[1].Command.Accel = "kvm", "kvm" },
		"napistall unknown against v2":             func(s *Side) { s.Version = "v2" },
		"tools unknown against qemu 10":            func(s *Side) { s.Tools = "qemu 10" },
		"host unknown against big":                 func(s *Side) { s.Host = "big" },
		"quick false against true":                 func(s *Side) { s.Quick = true },
		"hold 30 s against bounce of 1, hold 10 s": func(s *Side) { s.Arm.Arm.Load.Hold = 10 * time.Second },
	}
	for want, change := range tests {
		b := base()
		b.Run = 2
		change(&b)
		h := hidden(base(), b)
		if len(h) != 1 || !strings.Contains(h[0], want) {
			t.Errorf("hidden = %q; want one that says %q", h, want)
		}
	}
	// What an arm asks for is not hidden.
	b := base()
	b.Arm.Arm.Kernel, b.Arm.Facts.Release, b.Arm.Facts.Preempt = "tree:linux", "7.4", "none"
	b.Arm.Arm.Preempt = "none"
	if h := hidden(base(), b); len(h) > 0 {
		t.Errorf("of another kernel by wish: %q", h)
	}
	// But its configuration's other lines are.
	a := base()
	a.Arm.Facts.Config = []string{"CONFIG_HZ=250", "CONFIG_PREEMPT_NONE=y"}
	b.Arm.Facts.Config = []string{"CONFIG_HZ=250", "CONFIG_PREEMPT_NONE=y", "CONFIG_PROVE_RCU=y"}
	if h := hidden(a, b); len(h) != 1 || h[0] != "only a@1 has CONFIG_PROVE_RCU=y" {
		t.Errorf("hidden = %q; want the configuration's line", h)
	}
	contains(t, pairWarnings(a, b), "differ in more than the experiment says: only a@1 has CONFIG_PROVE_RCU=y")
}

func TestEnough(t *testing.T) {
	a := sideOf(1, noon(), deletesOf("a", 5, 100*time.Millisecond)...)
	b := sideOf(1, noon(), deletesOf("b", 5, 104*time.Millisecond)...)
	p := compared(a, b)
	if p.Outcome != NoDifference {
		t.Fatalf("%+v; want no difference", p)
	}
	contains(t, []string{p.Enough}, "trials of each would show it in 4 of 5 such runs")
}
