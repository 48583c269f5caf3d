package model

import (
	"testing"

	"github.com/napistall/napistall/internal/rcu"
)

// A rig drives a model by hand.
type rig struct {
	t *testing.T
	m *Model
	s State
}

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, m: m, s: m.Initial()}
}

// small is a checker's configuration: few packets, otherwise the same.
func small(g Generation, p rcu.Preemption, dynamic bool) Config {
	return Config{Generation: g, Preempt: p, Dynamic: dynamic, Weight: 2, Ring: 3, Latch: true, Backlog: true}
}

// step lets each event happen and returns the effects of all. Polls take what there is, arrivals are one packet.
func (r *rig) step(events ...Event) Effects {
	r.t.Helper()
	var f Effects
	for _, e := range events {
		o := r.m.Step(&r.s, e, map[bool]int{true: 1, false: -1}[e == Arrive])
		if o.Step == StepNone {
			r.t.Fatalf("%v is not enabled in %v", e, &r.s)
		}
		f |= o.Effects
	}
	return f
}

// until runs CPU 0 up to the point before step and returns the effects on the way.
func (r *rig) until(step StepID) Effects {
	r.t.Helper()
	var f Effects
	for range 100 {
		if next, _ := r.m.Next(&r.s, 0); next == step {
			return f
		}
		f |= r.step(Run0)
	}
	r.t.Fatalf("CPU 0 never comes to %v: %v", step, &r.s)
	return 0
}

// house runs CPU 1 until it idles.
func (r *rig) house() Effects {
	r.t.Helper()
	var f Effects
	for i := 0; r.m.Enabled(&r.s).Has(Run1); i++ {
		if i == 100 {
			r.t.Fatalf("CPU 1 never idles: %v", &r.s)
		}
		f |= r.step(Run1)
	}
	return f
}

// band brings the NAPI thread into its loop: packets have arrived, and it is about to poll, with BH off.
func (r *rig) band() *rig {
	r.t.Helper()
	switch {
	case r.m.busy:
	case r.m.nic:
		r.step(Arrive, NICInterrupt)
	default:
		r.step(Arrive)
	}
	if r.m.threaded {
		r.until(StepPoll)
	}
	return r
}

// entry goes from poll to poll by the short exit: a packet arrives while the thread completes, so that its interrupt lands
// in window W1.
func (r *rig) entry() Effects {
	r.t.Helper()
	f := r.step(Run0)
	if r.m.nic && !r.m.busy {
		f |= r.until(StepUnmask)
		f |= r.step(Arrive, Run0)
		f |= r.step(NICInterrupt)
	}
	return f | r.until(StepPoll)
}

// start begins probe 0's round and runs CPU 1.
func (r *rig) start() Effects {
	r.t.Helper()
	return r.step(Begin0) | r.house()
}

// want fails unless f has all of has and none of not.
func (r *rig) want(what string, f, has, not Effects) {
	r.t.Helper()
	if f&has != has {
		r.t.Errorf("%s: no %v; got %v", what, has&^f, f)
	}
	if f&not != 0 {
		r.t.Errorf("%s: unwanted %v", what, f&not)
	}
}

func prog(ops ...Op) [MaxProbes]Program { return [MaxProbes]Program{Of(ops...)} }
