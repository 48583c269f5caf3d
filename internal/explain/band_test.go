package explain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

func TestJudgeBand(t *testing.T) {
	second := func(polls, full, sleeps, nonvol uint64) Window {
		return Window{Took: time.Second, Traced: true, Polls: polls, Full: full, Sleeps: sleeps, Nonvol: nonvol}
	}
	times := func(n int, w Window) []Window {
		ws := make([]Window, n)
		for i := range ws {
			ws[i] = w
		}
		return ws
	}
	mix := func(ws ...[]Window) []Window {
		var all []Window
		for _, w := range ws {
			all = append(all, w...)
		}
		return all
	}
	untraced := func(n int, w Window) []Window { w.Traced = false; w.Full = 0; return times(n, w) }
	in, over, sleepy := second(340_000, 0, 0, 0), second(6_000, 6_000, 0, 24), second(4_000, 0, 3_800, 2)

	board := func(f experiment.Facts, m rcu.Preemption) experiment.Facts { f.Preempt = m; return f }
	noThread := stockFacts()
	noThread.ThreadPID = 0
	softirqArm, idle, flood, many := arm("s"), arm("i"), arm("f"), arm("m")
	softirqArm.Threaded = false
	idle.Load.Kind = experiment.NoLoad
	flood.Load.Kind = experiment.Flood
	many.Load.Inflight = 17

	for _, c := range []struct {
		name    string
		arm     experiment.Arm
		facts   experiment.Facts
		windows []Window
		want    Band
	}{
		{"one in flight", arm("a"), stockFacts(), times(30, in), In},
		{"a start that slept", arm("a"), stockFacts(), mix(times(1, sleepy), times(9, in)), In},
		{"four seconds in five", arm("a"), stockFacts(), mix(times(2, sleepy), times(8, in)), In},
		{"less than that", arm("a"), stockFacts(), mix(times(3, sleepy), times(7, in)), Below},
		{"less than that, above", arm("a"), stockFacts(), mix(times(2, over), times(1, sleepy), times(7, in)), Above},
		{"full budget", arm("a"), stockFacts(), times(30, over), Above},
		{"one full-budget poll a second ends every wait", arm("a"), stockFacts(), times(30, second(340_000, 1, 0, 0)), Above},
		{"sleeps", arm("a"), stockFacts(), times(30, sleepy), Below},
		{"one sleep a second ends every wait", arm("a"), stockFacts(), times(30, second(340_000, 0, 1, 0)), Below},
		{"sleeps more than it is full", arm("a"), stockFacts(), times(30, second(9_000, 10, 3_000, 0)), Below},
		{"few polls, each full", flood, stockFacts(), times(30, second(31, 31, 0, 0)), Above},
		{"nearly no polls", arm("a"), stockFacts(), times(30, second(999, 0, 0, 0)), Below},
		{"the load died", arm("a"), stockFacts(), times(30, second(0, 0, 0, 0)), Below},
		{"the board under NONE", arm("a"), board(stockFacts(), rcu.None), times(30, second(12_069, 0, 0, 0)), In},
		{"the board under LAZY", arm("a"), board(stockFacts(), rcu.Lazy), times(30, second(2_624, 4, 0, 5)), In},
		{"the same under NONE", arm("a"), board(stockFacts(), rcu.None), times(30, second(2_624, 4, 0, 5)), Above},
		{"lazy and full budget", arm("a"), board(stockFacts(), rcu.Lazy), times(30, over), Above},
		{"untraced, one in flight", arm("a"), stockFacts(), untraced(30, in), In},
		{"untraced, 17 in flight", many, stockFacts(), untraced(30, in), Above},
		{"untraced flood", flood, stockFacts(), untraced(30, in), UnknownBand},
		{"softirq", softirqArm, stockFacts(), times(30, in), NoBand},
		{"idle", idle, stockFacts(), times(30, in), NoBand},
		{"no thread found", arm("a"), noThread, times(30, in), UnknownBand},
		{"nothing counted", arm("a"), stockFacts(), nil, UnknownBand},
	} {
		if j := JudgeBand(c.arm, c.facts, c.windows); j.Band != c.want || j.Evidence == "" {
			t.Errorf("%s: JudgeBand = %s (%s); want %s", c.name, j.Band, j.Evidence, c.want)
		}
	}
}

func TestJudgeBandEvidence(t *testing.T) {
	for _, c := range []struct {
		s    scene
		want string
	}{
		{stock(), "of 30 s counted, 30 in the band, 0 above, 0 below: 340000 polls/s, none of the polls used the whole budget, 0.0 sleeps/s"},
		{above(), "of 30 s counted, 0 in the band, 30 above, 0 below: 6000 polls/s, all of the polls used the whole budget, 0.0 sleeps/s"},
	} {
		if got := c.s.summary().Band.Evidence; got != c.want {
			t.Errorf("evidence of %s:\n got %s\nwant %s", c.s.arm.Name, got, c.want)
		}
	}
}

func TestWaits(t *testing.T) {
	s := experiment.Sample{Took: 30 * time.Second, Waits: map[rcu.Wait]int{rcu.Barrier: 100, rcu.SynchronizeNet: 199, "new_wait": 1}}
	want := Breakdown{Taken: 300, Coverage: 0.5, Shares: []WaitShare{
		{rcu.SynchronizeNet, 199, 199.0 / 300}, {rcu.Barrier, 100, 1.0 / 3}, {"new_wait", 1, 1.0 / 300}}}
	if d := cmp.Diff(want, Waits(s)); d != "" {
		t.Errorf("Waits (-want +got):\n%s", d)
	}
	if d := cmp.Diff(Breakdown{}, Waits(experiment.Sample{Took: time.Second})); d != "" {
		t.Errorf("Waits without samples (-want +got):\n%s", d)
	}
}

func TestSlowOnesLongestFirst(t *testing.T) {
	a := armOf(softirq(), softirq())
	var got []time.Duration
	for _, s := range a.SlowOnes() {
		got = append(got, s.Sample.Took)
	}
	want := []time.Duration{2300 * time.Millisecond, 2300 * time.Millisecond, 2 * time.Second, 2 * time.Second}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("SlowOnes (-want +got):\n%s", d)
	}
	if a.SlowTime != 8600*time.Millisecond {
		t.Errorf("SlowTime = %v; want 8.6 s", a.SlowTime)
	}
}
