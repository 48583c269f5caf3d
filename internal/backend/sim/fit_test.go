package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
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
	for _, c := range []struct {
		name       string
		obs        []Observation
		hz         int
		cost, want string        // the cost's name; why it is not told, or "" if it is
		value      time.Duration // of the cost that the simulator is given
	}{
		{"an interrupt", secondsOf(100*us, 10*us, 1900*us), 0, "interrupt", "", 1900 * us},
		{"longer than half a tick", secondsOf(100*us, 10*us, 3750*us), 0, "interrupt", "3.75ms, longer than half a tick", DefaultCosts().Interrupt},
		{"the same at 100 HZ", secondsOf(100*us, 10*us, 3750*us), 100, "interrupt", "", 3750 * us},
		{"shorter ticks", secondsOf(100*us, 10*us, 1900*us), 1000, "interrupt", "longer than half a tick", DefaultCosts().Interrupt},
		{"polls of no time", secondsOf(0, 100*us, 1000*us), 250, "interrupt", "with it a poll comes out as taking no time", DefaultCosts().Interrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := FitCosts(c.obs, c.hz)
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
	if f, err := FitCosts(secondsOf(0, 100*us, 0), 0); err == nil || !strings.Contains(err.Error(), "a poll comes out as taking no time") {
		t.Errorf("polls of no time, and nothing else to blame: %+v, %v", f.Estimates, err)
	}
}

// A simulated is what a run of known costs tells a fit.
type simulated struct {
	obs      []Observation
	lulls    []Lull
	switches uint64
	in       time.Duration
}

func (s *simulated) add(t *testing.T, text string) {
	t.Helper()
	arm := armOf(t, text)
	l := Lull{Arm: arm, Waits: map[string][]time.Duration{}}
	var first, last *experiment.Counters
	for _, r := range records(t, arm, 1) {
		switch c := r.Counters; {
		case r.Facts != nil:
			l.Facts = *r.Facts
		case r.Sample != nil && r.Sample.Phase == experiment.Hold:
			l.Waits[r.Sample.Op] = append(l.Waits[r.Sample.Op], r.Sample.Took)
		case c != nil && c.InHold:
			if last != nil {
				s.obs = append(s.obs, Observation{Polls: c.Polls - last.Polls, Packets: c.Packets - last.Packets, Run: c.RunTime - last.RunTime})
			} else {
				first = c
			}
			last = c
		}
	}
	if l.Facts.Preempt.Preempts() {
		s.switches += last.Nonvoluntary - first.Nonvoluntary
		s.in += arm.Load.Hold
	} else {
		s.lulls = append(s.lulls, l)
	}
}

// TestFitFindsTheCosts: from what trials of known costs counted, the costs come out.
func TestFitFindsTheCosts(t *testing.T) {
	for _, c := range []struct {
		name, arm string
		frames    []int
		entry     time.Duration
	}{
		{"one", "kernel: model:6.18, preempt: none", []int{1}, 100},
		{"one and sixteen", "kernel: model:6.18, preempt: none", []int{1, 16}, 100},
		{"a long entry", "kernel: model:6.18, preempt: voluntary", []int{1}, 400},
		{"6.12", "kernel: model:6.12, preempt: none", []int{4}, 230},
	} {
		if testing.Short() && c.name != "one" {
			continue // each takes a second or two
		}
		var s simulated
		for _, n := range c.frames {
			s.add(t, fmt.Sprintf("{name: a, %s, load: {inflight: %d, hold: 4m}, model: {costs: {entry: %v, poll: 2500ns, packet: 600ns, neighbour: 30ms}}}", c.arm, n, c.entry))
		}
		s.add(t, "{name: a, kernel: model:6.18, preempt: lazy, load: {inflight: 1, hold: 2m}, model: {costs: {neighbour: 30ms}}}")
		f, err := FitCosts(s.obs, 250)
		if err != nil {
			t.Fatal(err)
		}
		f.Costs.Poll, f.Costs.Packet, f.Costs.Entry = 2500+c.entry-100, 600, 100 // as they are: what is left is the division
		f.FitNeighbour(s.switches, s.in)
		if err := (Backend{}).FitEntry(t.Context(), &f, s.lulls); err != nil {
			t.Fatal(err)
		}
		if got := f.Costs.Entry; !f.Estimates[fitEntry].Told || got < c.entry*3/4 || got > c.entry*4/3 {
			t.Errorf("%s: an entry of %v, %q; want %v", c.name, got, f.Estimates[fitEntry].Why, c.entry)
		}
		if got := f.Costs.Entry + f.Costs.Poll; got != 2500+c.entry {
			t.Errorf("%s: a pass of %v; want %v", c.name, got, 2500+c.entry)
		}
		if got := f.Costs.Neighbour; got < 25*time.Millisecond || got > 36*time.Millisecond {
			t.Errorf("%s: a neighbour each %v; want 30 ms", c.name, got)
		}
	}
}

// TestFitFindsPollAndPacket: from what trials of known costs counted, the costs come out.
func TestFitFindsPollAndPacket(t *testing.T) {
	var obs []Observation
	for _, n := range []int{1, 4, 16} {
		arm := armOf(t, fmt.Sprintf("{name: a, kernel: debian:sid/armhf, load: {inflight: %d, hold: 4s}, model: {costs: {entry: 100ns, poll: 5us, packet: 800ns, neighbour: 0s}}}", n))
		var last *experiment.Counters
		for _, r := range records(t, arm, 1) {
			if c := r.Counters; c != nil && c.InHold {
				if last != nil {
					obs = append(obs, Observation{Polls: c.Polls - last.Polls, Packets: c.Packets - last.Packets, Run: c.RunTime - last.RunTime})
				}
				last = c
			}
		}
	}
	f, err := FitCosts(obs, 0)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want time.Duration) {
		if diff := (got - want).Abs(); diff > want/50 {
			t.Errorf("%s = %v; want %v", what, got, want)
		}
	}
	near("packet", f.Costs.Packet, 800)
	near("entry and poll", f.Costs.Entry+f.Costs.Poll, 5100)
	if f.Residual > 0.01 || f.Estimates[fitInterrupt].Told || f.Estimates[fitEntry].Told || f.Estimates[fitNeighbour].Told {
		t.Errorf("residual %v, estimates %+v", f.Residual, f.Estimates)
	}
	same, err := FitCosts(obs[:4], 250)
	if err != nil || same.Estimates[fitPacket].Told {
		t.Errorf("one arm: %+v, %v; want the packets not told", same.Estimates, err)
	}
	if _, err := FitCosts(nil, 0); err == nil {
		t.Error("nothing was fitted")
	}
}
