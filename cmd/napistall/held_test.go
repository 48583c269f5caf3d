package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// A conduct is what of an arm's trial the simulator is held against a real kernel by.
type conduct struct {
	band    explain.Band
	stalls  bool // RCU reported one
	lockups bool // the soft lockup detector did
	blocked bool // a deletion was held up for as long as the load lasted, or nearly
	median  time.Duration
	n       int     // deletions that began in the hold: what median is of
	busy    float64 // share of its time that the guest's CPUs waited for the host's

	hz, stallSec       int
	classic, expedited []int64 // ages in jiffies at each report of the first of its kind
}

func conductOf(t explain.TrialSummary) conduct {
	arm := explain.Summarize(t.Arm, []explain.TrialSummary{t})
	worst, _, _ := arm.Hold.Worst()
	cpus := max(1, t.Facts.CPUs)
	return conduct{
		band: t.Band.Band, stalls: arm.RCUStalls() > 0, lockups: arm.SoftLockups > 0,
		blocked: t.Arm.Load.Hold > 0 && float64(worst) >= 0.9*float64(t.Arm.Load.Hold),
		median:  arm.Hold.Summary.Median, n: len(arm.Hold.Values),
		busy: min(1, float64(t.HostWait)/float64(time.Duration(cpus)*t.Arm.Duration)),
		hz:   t.Facts.HZ, stallSec: t.Facts.StallSec,
		classic: agesOf(t.Events, klog.Classic), expedited: agesOf(t.Events, klog.Expedited),
	}
}

// agesOf returns how old the grace period was, in jiffies, at each report of the first stall of kind k.
func agesOf(events []klog.Event, k klog.Kind) []int64 {
	i := slices.IndexFunc(events, func(e klog.Event) bool { return e.Kind == k })
	if i < 0 {
		return nil
	}
	var ages []int64
	for _, m := range regexp.MustCompile(`(?:\bt=|\} )(\d+) jiffies`).FindAllStringSubmatch(strings.Join(events[i].Lines, "\n"), -1) {
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err == nil && !slices.Contains(ages, n) { // the console and /dev/kmsg may both have the line
			ages = append(ages, n)
		}
	}
	slices.Sort(ages)
	return ages
}

// busyShare is the share of waiting from which on a trial's times may be its host's (internal/explain, hostShare).
const busyShare = 0.2

// fewDeletions is the least number of deletions of which a median is compared.
const fewDeletions = 10

// differs says in what the simulator's trial sim is not what real was. Medians may differ by factor, or by anything
// if it is 0. A busy host makes a guest's times longer, and its ticks fewer, by up to the share that its CPUs waited; so
// that this always can fail, it allows for at most as much again.
func differs(real, sim conduct, factor float64) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if real.band != sim.band {
		say("the band: %s, simulated %s", real.band, sim.band)
	}
	for _, c := range []struct {
		what      string
		real, sim bool
	}{
		{"RCU stalls", real.stalls, sim.stalls}, {"soft lockups", real.lockups, sim.lockups},
		{"a deletion as long as the load", real.blocked, sim.blocked},
	} {
		if c.real != c.sim {
			say("%s: %v, simulated %v", c.what, c.real, c.sim)
		}
	}
	if factor == 0 {
		return out
	}
	if real.n < fewDeletions || sim.n < fewDeletions {
		say("%d deletions, simulated %d: too few for a median", real.n, sim.n)
		return out
	}
	if real.busy > busyShare {
		factor *= min(2, 1/(1-min(real.busy, 0.99)))
	}
	if ratio := float64(sim.median) / float64(real.median); math.Abs(math.Log(ratio)) > math.Log(factor) {
		say("the median deletion: %v, simulated %v, which is a factor of %.2f; at most %.1f either way", real.median, sim.median, ratio, factor)
	}
	return out
}

// lateReports says in what the reports of h were not at their times (kernel/rcu/tree_stall.h, tree_exp.h): the
// first at T, or 2 jiffies later by another CPU, and the second 3·T + 3 jiffies after the first was printed; expedited
// ones the same, but by a timer of the wheel's granularity. slack is how many jiffies each may be later: what printing
// takes, and a tick that is late. 0 is for what prints in no time.
func lateReports(h conduct, slack int64) []string {
	var out []string
	hz, t := int64(h.hz), int64(h.hz)*int64(h.stallSec)
	if len(h.classic) == 0 && len(h.expedited) == 0 {
		return []string{"no report"}
	}
	check := func(kind string, ages []int64, late func(n int64) int64) {
		for i, age := range ages {
			from, n := int64(0), t
			if i > 0 {
				from, n = ages[i-1], 3*t+3
			}
			if got := age - from; got < n || got > n+late(n)+slack {
				out = append(out, fmt.Sprintf("%s report %d came %d jiffies after what it counts from; want %d to %d at %d HZ",
					kind, i+1, got, n, n+late(n)+slack, hz))
			}
		}
	}
	check("classic", h.classic, func(int64) int64 { return 2 })
	check("expedited", h.expedited, wheelStep)
	return out
}

// wheelStep is how much later than asked for a timer of n jiffies can be: the granularity of the wheel's level
// (kernel/time/timer.c).
func wheelStep(n int64) int64 {
	step := int64(1)
	for level := int64(63); n >= level; level <<= 3 {
		step <<= 3
	}
	return step
}

func TestDiffers(t *testing.T) {
	stall := conduct{band: explain.In, stalls: true, lockups: true, blocked: true, n: 1, median: 15 * time.Second}
	free := conduct{band: explain.In, n: 90, median: 120 * time.Millisecond}
	with := func(h conduct, f func(*conduct)) conduct { f(&h); return h }
	for _, c := range []struct {
		name      string
		real, sim conduct
		factor    float64
		want      []string
	}{
		{"the same", stall, stall, 0, nil},
		{"medians close", free, with(free, func(h *conduct) { h.median = 239 * time.Millisecond }), 2, nil},
		{"too long", free, with(free, func(h *conduct) { h.median = 241 * time.Millisecond }), 2,
			[]string{"the median deletion: 120ms, simulated 241ms, which is a factor of 2.01; at most 2.0 either way"}},
		{"too short", free, with(free, func(h *conduct) { h.median = 59 * time.Millisecond }), 2,
			[]string{"the median deletion: 120ms, simulated 59ms, which is a factor of 0.49; at most 2.0 either way"}},
		{"not asked", free, with(free, func(h *conduct) { h.median = time.Hour }), 0, nil},
		{"busy", with(free, func(h *conduct) { h.busy = 0.3 }), with(free, func(h *conduct) { h.median = 43 * time.Millisecond }), 2, nil},
		{"busy is no excuse for all", with(free, func(h *conduct) { h.busy = 1 }), with(free, func(h *conduct) { h.median = 29 * time.Millisecond }), 2,
			[]string{"the median deletion: 120ms, simulated 29ms, which is a factor of 0.24; at most 4.0 either way"}},
		{"few", with(free, func(h *conduct) { h.n = 9 }), free, 2, []string{"9 deletions, simulated 90: too few for a median"}},
		{"all else", stall, conduct{band: explain.Below, n: 1}, 0, []string{
			"the band: in, simulated below", "RCU stalls: true, simulated false", "soft lockups: true, simulated false",
			"a deletion as long as the load: true, simulated false"}},
		{"a stall too many", free, stall, 0, []string{
			"RCU stalls: false, simulated true", "soft lockups: false, simulated true", "a deletion as long as the load: false, simulated true"}},
	} {
		if diff := cmp.Diff(c.want, differs(c.real, c.sim, c.factor)); diff != "" {
			t.Errorf("%s: differs, -want +got:\n%s", c.name, diff)
		}
	}
}

func TestLateReports(t *testing.T) {
	// 15 s of an armhf kernel at 250 HZ with a timeout of 3 s, as it was logged; and what would be wrong.
	for _, c := range []struct {
		classic, expedited []int64
		slack              int64
		late               int
	}{
		{[]int64{751, 3015}, []int64{763, 3069}, 250, 0},
		{[]int64{750, 3003}, []int64{768, 3072}, 0, 0},
		{[]int64{752, 3005}, nil, 0, 0},
		{[]int64{749, 3003}, nil, 0, 1},
		{[]int64{750, 3002}, nil, 250, 1},
		{[]int64{750, 3006}, nil, 0, 1},
		{[]int64{753}, nil, 0, 1},
		{[]int64{750}, []int64{815}, 0, 1},
		{[]int64{1500}, nil, 250, 1},
		{nil, nil, 250, 1},
	} {
		h := conduct{hz: 250, stallSec: 3, classic: c.classic, expedited: c.expedited}
		if got := lateReports(h, c.slack); len(got) != c.late {
			t.Errorf("lateReports(%v, %v, slack %d) = %q; want %d", c.classic, c.expedited, c.slack, got, c.late)
		}
	}
}

func TestAgesOf(t *testing.T) {
	log := `[   24.832306] rcu: INFO: rcu_sched self-detected stall on CPU
[   24.832600] rcu: 	1-....: (745 ticks this GP) idle=f4f4/1/0x40000002 softirq=1/1 fqs=370
[   24.833705] rcu: 	(t=751 jiffies g=-727 q=23 ncpus=2)
[   24.877582] rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-.... } 763 jiffies s: 33 root: 0x2/.
[   33.885809] rcu: INFO: rcu_sched self-detected stall on CPU
[   33.887356] rcu: 	(t=3015 jiffies g=-727 q=53 ncpus=2)
[   34.104015] rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-.... } 3069 jiffies s: 33 root: 0x2/.
`
	events := klog.Parse(klog.Lines(log))
	for k, want := range map[klog.Kind][]int64{klog.Classic: {751, 3015}, klog.Expedited: {763, 3069}, klog.SoftLockup: nil} {
		if got := agesOf(events, k); !slices.Equal(got, want) {
			t.Errorf("agesOf(%v) = %v; want %v", k, got, want)
		}
	}
}

func TestConductOf(t *testing.T) {
	took := func(d time.Duration) experiment.Sample { return experiment.Sample{Op: experiment.LinkDel, Took: d} }
	arm := experiment.Arm{Duration: 20 * time.Second, Load: experiment.Load{Hold: 10 * time.Second}, Probe: experiment.Probe{Op: experiment.LinkDel}}
	sum := explain.TrialSummary{
		Arm: arm, HostWait: 10 * time.Second, Facts: experiment.Facts{CPUs: 2, HZ: 250, StallSec: 3, Flavor: rcu.Sched},
		Ops:    []explain.OpSamples{{Op: experiment.LinkDel, Hold: []experiment.Sample{took(time.Second), took(9 * time.Second)}}},
		Events: []klog.Event{{Kind: klog.Classic, Lines: []string{"rcu: \t(t=750 jiffies g=1)"}}},
		Band:   explain.Judgement{Band: explain.In},
	}
	want := conduct{band: explain.In, stalls: true, blocked: true, median: 5 * time.Second, n: 2, busy: 0.25, hz: 250, stallSec: 3, classic: []int64{750}}
	if diff := cmp.Diff(want, conductOf(sum), cmp.AllowUnexported(conduct{})); diff != "" {
		t.Errorf("conductOf, -want +got:\n%s", diff)
	}
}
