package sim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// secondsOf are seconds in which a poll, a packet and an interrupt took what they are said to.
func secondsOf(poll, packet, interrupt time.Duration) []Observation {
	var obs []Observation
	for _, n := range [][3]uint64{{1000, 1000, 100}, {1500, 6000, 180}, {1200, 19200, 110}, {900, 900, 200}, {1100, 4400, 90}, {1300, 20800, 140}} {
		obs = append(obs, Observation{
			Polls: n[0], Packets: n[1], Interrupts: n[2],
			Run: time.Duration(n[0])*poll + time.Duration(n[1])*packet + time.Duration(n[2])*interrupt,
		})
	}
	return obs
}

// TestFitTellsNothingAbsurd: a cost that nothing can have is no estimate, and the simulator is not given it.
func TestFitTellsNothingAbsurd(t *testing.T) {
	const us = time.Microsecond
	short := slices.Repeat([]time.Duration{14400 * us}, fewWaits) // a tick in the least time: softirqs on for 0.9 of a pass at 250 HZ
	for _, c := range []struct {
		name       string
		obs        []Observation
		lull       Lull
		cost, want string        // the cost's name; why it is not told, or "" if it is
		value      time.Duration // of the cost that the simulator is given
	}{
		{"an interrupt", secondsOf(100*us, 10*us, 1900*us), Lull{}, "interrupt", "", 1900 * us},
		{"longer than half a tick", secondsOf(100*us, 10*us, 3750*us), Lull{}, "interrupt", "3.75ms, longer than half a tick", DefaultCosts().Interrupt},
		{"the same at 100 HZ", secondsOf(100*us, 10*us, 3750*us), Lull{HZ: 100}, "interrupt", "", 3750 * us},
		{"shorter ticks", secondsOf(100*us, 10*us, 1900*us), Lull{HZ: 1000}, "interrupt", "longer than half a tick", DefaultCosts().Interrupt},
		{"polls of no time", secondsOf(0, 100*us, 1000*us), Lull{HZ: 250}, "interrupt", "with it a poll comes out as taking no time", DefaultCosts().Interrupt},
		{"an entry", secondsOf(100*us, us, 0), Lull{Waits: []time.Duration{1e9, 1e9, 1e9, 1e9, 1e9}}, "entry", "", 433},
		{"an entry longer than its pass", secondsOf(us, us, 0), Lull{Waits: short}, "entry", "longer than the pass", 94},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := FitCosts(c.obs, c.lull)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(f.Estimates, func(e Estimate) bool { return e.Name == c.cost })
			e := f.Estimates[i]
			if e.Told != (c.want == "") || !strings.Contains(e.Why, c.want) {
				t.Errorf("%s: told %v as %v, %q; want %q", c.cost, e.Told, e.Value, e.Why, c.want)
			}
			got := map[string]time.Duration{"interrupt": f.Costs.Interrupt, "entry": f.Costs.Entry}[c.cost]
			if diff := (got - c.value).Abs(); diff > c.value/50 {
				t.Errorf("the simulator's %s is %v; want %v", c.cost, got, c.value)
			}
			if f.Costs.Poll < 2 {
				t.Errorf("a poll takes %v", f.Costs.Poll)
			}
		})
	}
	if f, err := FitCosts(secondsOf(0, 100*us, 0), Lull{}); err == nil || !strings.Contains(err.Error(), "a poll comes out as taking no time") {
		t.Errorf("polls of no time, and nothing else to blame: %+v, %v", f.Estimates, err)
	}
}
