package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// dynamic is the third system: PREEMPT_DYNAMIC under preempt=none, slow without a stall report.
func dynamic(model rcu.Preemption) scene {
	s := lazy()
	s.arm.Name = string(model)
	s.facts.Preempt = model
	s.second.Nonvoluntary = 0
	s.deletes = append(some(6, 400*time.Millisecond), some(8, 2500*time.Millisecond)...)
	s.kmsg = softLockup()
	return s
}

// healthy is an arm put to the test, in the band, that nothing is held in.
func healthy() scene {
	s := stock()
	s.arm.Name, s.kmsg, s.deletes = "patched", nil, some(60, 120*time.Millisecond)
	s.arm.Patch = []string{"yield.patch"}
	return s
}

type judgeCase struct {
	name   string
	scenes []scene
	want   Word
	says   []string
}

func judgeCases() []judgeCase {
	few, short, noStall, unknownModel, outside, delayed, silent := healthy(), healthy(), healthy(), healthy(), above(), dynamic(rcu.None), healthy()
	few.deletes = few.deletes[:5]
	short.arm.Load.Hold = 3 * time.Second
	short.deletes = short.deletes[:20]
	noStall.arm.Patch = nil
	unknownModel.facts.Preempt = ""
	outside.kmsg = classicStall(5)
	delayed.kmsg = nil
	silent.outcome = experiment.Silent
	panicked := healthy()
	panicked.outcome = experiment.Panicked
	below := healthy()
	below.second = belowBand()
	blocked := stock()
	blocked.kmsg = nil
	censored := blocked
	censored.cut = true
	uncounted := stock()
	uncounted.seconds = 0
	uncounted.facts.ThreadPID = 0
	second, more := stock(), above()
	second.arm.Name, second.deletes = "second", []time.Duration{29500 * time.Millisecond}
	more.arm.Name, more.deletes = "more", some(5, 100*time.Millisecond)
	hasty := healthy()
	hasty.facts.ExpMillis = 20
	hasty.kmsg = expeditedStall(9)

	return []judgeCase{
		{"stock stalls, controls don't", []scene{stock(), above(), softirq(), lazy()}, Reproduced, []string{
			"stock (7.2.13 armhf, VOLUNTARY, in the band): a delete was blocked for 30.1 s, in a hold of 30 s (over 1 s: 1 of 1 delete)" +
				", with 1 classic and 1 expedited RCU stall, in 1 of 1 trial.",
			"No stall: above-band (above the band) with 0 of 59 deletes over 1 s, worst 0.16 s; lazy (7.3.4 amd64, LAZY) with 0 of 70" +
				" deletes over 1 s, worst 0.21 s.",
			"softirq (softirq mode) is slow, too, with 2 of 42 deletes over 1 s, worst 2.30 s, as softirqs saturate its CPU; but no stall" +
				" was reported, and the worst ended by itself after 7.7 % of the hold.",
		}},
		{"blocked without a report", []scene{blocked}, Reproduced, []string{"with no RCU stall, in 1 of 1 trial"}},
		{"blocked until it was cut", []scene{censored}, Reproduced, []string{"was blocked for over 30.1 s, in a hold of 30 s"}},
		{"stock against patched", []scene{stock(), healthy()}, Reproduced, []string{
			"No stall: patched (7.2.13 armhf +patch) with 0 of 60"}},
		{"slow deletes and a soft lockup", []scene{dynamic(rcu.None), dynamic(rcu.Voluntary), lazy()}, Reproduced, []string{
			"none (7.3.4 amd64, NONE dyn, in the band) and voluntary (7.3.4 amd64, VOLUNTARY dyn, in the band): the worst delete took 2.51 s" +
				" each, in a hold of 30 s (over 1 s: 8 of 14 deletes each), with no RCU stall but 1 soft lockup each, in 1 of 1 trial each.",
			"PREEMPT_DYNAMIC"}},
		{"several alike", []scene{stock(), second, above(), more}, Reproduced, []string{
			"stock and second (7.2.13 armhf, VOLUNTARY, in the band): a delete was blocked for 30.1 s and 29.5 s, in a hold of 30 s" +
				" (over 1 s: 1 of 1 delete each), with 1 classic and 1 expedited RCU stall each, in 1 of 1 trial each.",
			"No stall: above-band and more (above the band) with 0 of 59 deletes and 0 of 5 deletes over 1 s, worst 0.16 s and 0.10 s."}},
		{"slow deletes alone", []scene{delayed, lazy()}, Reproduced, []string{"none (7.3.4 amd64, NONE dyn, in the band): delays, not stalls: over 1 s 8 of 14"}},
		{"fixed", []scene{healthy(), lazy()}, NotReproduced, []string{
			"0 of 60 deletes over 1 s (95 % interval 0 % to 6.0 %)"}},
		{"20 ms expedited timeout", []scene{hasty}, NotReproduced, []string{"0 classic and 1 expedited RCU stall"}},
		{"above the band", []scene{above()}, NotInBand, []string{"this is not a negative result", "30 above"}},
		{"below the band", []scene{below}, NotInBand, []string{"30 below"}},
		{"too few deletes", []scene{few}, Inconclusive, []string{"5 deletes in the hold, 6 are needed"}},
		{"a hold too short", []scene{short}, Inconclusive, []string{"a hold of 3 s is too short"}},
		{"went silent", []scene{silent}, Inconclusive, []string{"1 of 1 trial went silent"}},
		{"panicked without a stall", []scene{panicked}, Inconclusive, []string{"1 of 1 trial ended in a panic"}},
		{"model unknown", []scene{unknownModel}, Inconclusive, []string{"its preemption model is unknown"}},
		{"stalled above the band", []scene{outside}, Inconclusive, []string{"never seen in the band"}},
		{"stalled, band not counted", []scene{uncounted}, Inconclusive, []string{"the NAPI thread was not found"}},
		{"only preempting arms", []scene{lazy()}, Inconclusive, []string{"No arm was put to the test"}},
		{"nothing ran", nil, Inconclusive, []string{"No trial was completed."}},
	}
}

func TestJudge(t *testing.T) {
	for _, c := range judgeCases() {
		t.Run(c.name, func(t *testing.T) {
			var arms []ArmSummary
			for _, s := range c.scenes {
				arms = append(arms, armOf(s))
			}
			v := Judge(arms)
			if v.Word != c.want {
				t.Errorf("Judge = %s; want %s\n%s", v.Word, c.want, strings.Join(v.Sentences, "\n"))
			}
			for _, want := range c.says {
				contains(t, []string{strings.Join(v.Sentences, " ")}, want)
			}
			if c.want != NotReproduced && strings.Contains(strings.Join(v.Sentences, " "), string(NotReproduced)) {
				t.Errorf("%q says %q", v.Sentences, NotReproduced)
			}
		})
	}
}

func TestJudgeLazyThatStallsIsNamed(t *testing.T) {
	s := lazy()
	s.kmsg = expeditedStall(5)
	v := Judge([]ArmSummary{armOf(stock()), armOf(s)})
	contains(t, v.Sentences, "lazy (7.3.4 amd64, LAZY, in the band) shows a stall as well")
}

func TestJudgeSlowSoftirqThatLastsIsNotApart(t *testing.T) {
	s := softirq()
	s.deletes = append(s.deletes, 11*time.Second)
	contains(t, Judge([]ArmSummary{armOf(s)}).Sentences, "the worst lasted 37 % of the hold, which is not clearly apart")
}

func TestJudgeSeveralTrials(t *testing.T) {
	quiet := stock()
	quiet.kmsg, quiet.deletes = nil, some(50, 100*time.Millisecond)
	a := armOf(stock(), stock(), quiet)
	if a.Stalled != 2 || a.Classic != 2 || len(a.Hold.Values) != 52 || a.Band != In {
		t.Errorf("stalled %d, classic %d, deletes %d, band %s; want 2, 2, 52, in", a.Stalled, a.Classic, len(a.Hold.Values), a.Band)
	}
	v := Judge([]ArmSummary{a})
	if v.Word != Reproduced {
		t.Errorf("Judge = %s; want %s", v.Word, Reproduced)
	}
	contains(t, v.Sentences, ", in 2 of 3 trials.")
	low := quiet
	low.second = belowBand()
	if m := armOf(quiet, low); m.Band != Mixed {
		t.Errorf("band of trials in and below = %s; want %s", m.Band, Mixed)
	}
}

func TestJudgeTestsOnlySeveralTrials(t *testing.T) {
	three := func(s scene) ArmSummary { return armOf(s, s, s) }
	const test = "Over 1 s, stock against lazy by Fisher's exact test, which takes deletes for independent: p < 0.0001."
	contains(t, Judge([]ArmSummary{three(stock()), three(softirq()), three(lazy())}).Sentences, test)
	for _, arms := range [][]ArmSummary{
		{armOf(stock()), three(lazy())}, {three(stock()), armOf(lazy())}, {three(lazy())}, {three(stock())},
	} {
		if v := Judge(arms); strings.Contains(strings.Join(v.Sentences, " "), "Fisher") {
			t.Errorf("%q has a test; want none", v.Sentences)
		}
	}
}

// What a model did is never to be taken for what a kernel did.
func TestSimulatedIsSaid(t *testing.T) {
	s := stock()
	s.accel = "model"
	v := Judge([]ArmSummary{armOf(s)})
	if v.Word != Reproduced || v.Sentences[0] != "This is the simulator's word, no kernel's." {
		t.Errorf("Judge = %s. %q; want it to begin with whose word it is", v.Word, v.Sentences)
	}
	contains(t, v.NotMeasured, "No kernel ran.")
	for _, caveat := range v.NotMeasured {
		if strings.Contains(caveat, "kernel build") {
			t.Errorf("a simulated run speaks of builds: %q", caveat)
		}
	}
}

func TestNotMeasured(t *testing.T) {
	s := NotMeasured([]ArmSummary{armOf(stock()), armOf(softirq()), armOf(lazy())})
	for _, want := range []string{
		"All arms ran under TCG", "No network device", "With one trial of an arm", "2 kernel builds only",
		"stock and lazy differ in preemption model, architecture, version",
	} {
		contains(t, s, want)
	}
	short := stock()
	short.arm.Load.Hold, short.arm.StallTimeout = 15*time.Second, 3*time.Second
	short.facts.Stacks, short.waits = false, map[rcu.Wait]int{rcu.OtherWait: 600}
	short.losses = []experiment.Loss{{What: "records", Count: 2}, {What: "kmsg lines", Count: 1}, {What: "records", Count: 3}}
	short.second.Traced = false
	short.accel = "none"
	short.outcome = experiment.Panicked
	s = NotMeasured([]ArmSummary{armOf(short)})
	for _, want := range []string{
		"stock had a hold shorter than the kernel's stall timeout", "stock ran with a stall timeout set by the experiment",
		"stock had no tracepoint", "stock had no readable kernel stacks: where deletes waited was not seen", "stock: missed 1 kmsg lines, 5 records",
		"1 of 1 trial ended in a panic",
	} {
		contains(t, s, want)
	}
	slept := stock()
	slept.facts.Stacks, slept.waits = false, map[rcu.Wait]int{rcu.SynchronizeNet: 590, rcu.OtherWait: 2}
	contains(t, NotMeasured([]ArmSummary{armOf(slept)}), "known by the function that they slept in alone")
	busy := stockArm(20 * time.Second)
	contains(t, NotMeasured([]ArmSummary{busy}), "CPUs waited for the host's: stock 30 %.")
	for _, caveat := range NotMeasured([]ArmSummary{stockArm(6 * time.Second)}) {
		if strings.Contains(caveat, "busy") {
			t.Errorf("6 s of 66 s make the host busy: %s", caveat)
		}
	}
	if n := NotMeasured(nil); n != nil {
		t.Errorf("NotMeasured(nil) = %q", n)
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 4 * time.Millisecond: "4.0 ms", 34_400 * time.Microsecond: "34 ms", 140 * time.Microsecond: "0.14 ms", 3_400: "0.003 ms", 230 * time.Millisecond: "0.23 s", 3 * time.Second: "3 s",
		30100 * time.Millisecond: "30.1 s", 2300 * time.Millisecond: "2.30 s", time.Minute: "60 s", 999_999_999: "1.00 s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %q; want %q", d, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0 %", 1: "100 %", 0.023: "2.3 %", 0.0001: "under 0.1 %", 0.5: "50 %"} {
		if got := FormatShare(x); got != want {
			t.Errorf("FormatShare(%v) = %q; want %q", x, got, want)
		}
	}
	for p, want := range map[float64]string{0: "< 0.0001", 0.0005: "= 0.0005", 0.0141: "= 0.014", 0.5: "= 0.50"} {
		if got := FormatP(p); got != want {
			t.Errorf("FormatP(%v) = %q; want %q", p, got, want)
		}
	}
}

// stockArm is one trial of stock, of 33 s on 2 CPUs, whose guest waited for the host's CPUs.
func stockArm(waited time.Duration) ArmSummary {
	a := armOf(stock())
	a.Arm.Duration, a.Trials[0].Facts.CPUs, a.Trials[0].HostWait = 33*time.Second, 2, waited
	return a
}
