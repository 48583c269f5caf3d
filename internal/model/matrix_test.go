package model

import (
	"fmt"
	"testing"
)

// A squeeze drives a model the way that starves most: the NAPI thread always finds its next packet before it could sleep,
// interrupts land with BH off wherever they may, time passes.
type squeeze struct {
	rig
	full    bool // every poll uses the whole weight
	outside bool // ticks land outside the BH-off part, too
	age     int  // entries since the stamp
	done    [MaxProbes]int

	slept, lost bool
}

const (
	entriesPerTick = 10
	entriesPerAge  = 50 // jtsq, HZ/10
)

func (q *squeeze) happen(e Event, n int) {
	o := q.m.Step(&q.s, e, n)
	if o.Effects&EffStamp != 0 {
		q.age = 0
	}
	for p := range q.done {
		if o.Effects&ProbeDone(p) != 0 {
			q.done[p]++
		}
	}
	q.slept = q.slept || o.Effects&EffSleep != 0
	q.lost = q.lost || q.m.Lost(&q.s)
}

func (q *squeeze) offer(events ...Event) {
	for _, e := range events {
		if q.m.Enabled(&q.s).Has(e) {
			q.happen(e, 1)
		}
	}
}

// pass is what the rest of the world does between two micro-steps at step of CPU 0.
func (q *squeeze) pass(step StepID) {
	switch step {
	case StepPoll, StepNetRXPoll:
		q.offer(ExpIPI, ReschedIPI)
		for q.s.ring == 0 || q.full && q.s.ring < q.m.cfg.Weight {
			q.happen(Arrive, 1)
		}
	case StepUnmask, StepNetRXUnmask:
		if q.m.nic {
			q.offer(Arrive)
		}
	case StepBHEnable:
		if q.m.backlog {
			q.offer(Arrive)
		}
	}
	q.offer(NICInterrupt, Run1)
}

func (q *squeeze) tick(i int) {
	q.offer(AgeSlice, Tick1, FQSTimer, Run1, Begin0, Begin1, Begin2, ProbeWake0, ProbeWake1, ProbeWake2)
	q.happen(Tick0, 0)
	if i%entriesPerAge == 0 {
		q.offer(AgeGP)
	}
}

func (q *squeeze) run(entries int) {
	for i := 1; i <= entries*12; i++ {
		step, _ := q.m.Next(&q.s, 0)
		if step == StepPoll || step == StepNetRXPoll {
			q.age++
			if q.age > entriesPerAge {
				q.offer(AgeStamp)
			}
		}
		q.pass(step)
		if i%(entriesPerTick*7+1) == 0 /* another place each time */ {
			for q.m.threaded && !q.outside && !q.s.bhOff() && q.s.curr == NAPIThread {
				q.happen(Run0, -1)
			}
			q.tick(i)
		}
		if q.m.Enabled(&q.s).Has(Run0) {
			q.happen(Run0, -1)
		} else {
			q.offer(NICInterrupt, Arrive)
		}
	}
}

func TestMatrix(t *testing.T) {
	yes, no := true, false
	type verdict struct{ normal, exp, work bool }
	for _, c := range []struct {
		name    string
		cfg     Config
		full    bool
		outside bool
		want    verdict
	}{
		{"stock none", small(V612, none, false), false, yes, verdict{no, no, no}},
		{"stock voluntary", small(V612, voluntary, false), false, yes, verdict{no, no, no}},
		{"stock voluntary 7.3 armhf", with(small(V73, voluntary, false), func(c *Config) { c.Arch = ARMHF }), false, yes, verdict{no, no, no}},
		{"stock none, full budget", small(V612, none, false), true, no, verdict{yes, yes, yes}},
		{"yield none", loop(small(V612, none, false), YieldOnExit), false, no, verdict{yes, yes, yes}},
		{"yield voluntary", loop(small(V612, voluntary, false), YieldOnExit), false, no, verdict{yes, yes, yes}},
		{"cond none", loop(small(V612, none, false), CondReschedOnly), false, no, verdict{yes, yes, yes}},
		{"local none", loop(small(V612, none, false), QSLocalStamp), false, no, verdict{no, no, no}},
		{"persistent none", loop(small(V612, none, false), QSPersistentStamp), false, no, verdict{yes, yes, no}},
		{"dynamic none, lucky ticks", small(V612, none, true), false, yes, verdict{yes, yes, no}},
		{"dynamic none, no lucky tick", small(V612, none, true), false, no, verdict{no, no, no}},
		{"lazy static", small(V73, lazy, false), false, no, verdict{yes, yes, yes}},
		{"lazy dynamic", small(V73, lazy, true), false, no, verdict{yes, yes, yes}},
		{"lazy static 6.18", small(V618, lazy, false), false, no, verdict{yes, yes, yes}},
		{"full 6.12", small(V612, full, false), false, no, verdict{yes, yes, yes}},
		{"full dynamic 7.3", small(V73, full, true), false, no, verdict{yes, yes, yes}},
		{"busy none", loop(small(V618, none, false), BusyPoll), false, no, verdict{yes, yes, yes}},
		{"backlog none", with(loop(small(V612, none, false), BacklogThread), func(c *Config) { c.Latch = false }), false, yes, verdict{no, no, no}},
		{"veth none", veth(small(V612, none, false)), false, yes, verdict{no, no, no}},
		{"softirq none", with(small(V612, none, false), func(c *Config) { c.Softirq = true }), false, no, verdict{yes, yes, yes}},
		{"level none", with(small(V612, none, false), func(c *Config) { c.Latch = false }), false, yes, verdict{no, no, no}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Programs = [MaxProbes]Program{Of(SyncRCU), Of(SyncExp), Of(Work)}
			q := &squeeze{rig: *newRig(t, c.cfg), full: c.full, outside: c.outside}
			q.band()
			q.run(5000)
			got := verdict{q.done[0] > 0, q.done[1] > 0, q.done[2] > 0}
			if q.slept || q.lost {
				t.Errorf("slept is %v, a wake-up was lost is %v: not in the band", q.slept, q.lost)
			}
			if got != c.want {
				t.Errorf("normal, expedited and kworker end = %v; want %v (rounds %v) in %v", got, c.want, q.done, &q.s)
			}
		})
	}
}

func TestMatrixTasks(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want bool
	}{
		{loop(small(V73, lazy, false), BusyPoll), true},
		{loop(small(V73, lazy, true), BusyPoll), true},
		{loop(small(V73, lazy, false), BusyPollResetStamp), false},
		{loop(small(V73, lazy, true), BusyPollResetStamp), false},
		{loop(small(V618, none, false), BusyPollResetStamp), true}, // synchronize_rcu_tasks is synchronize_rcu
	} {
		t.Run(fmt.Sprint(c.cfg.Generation, c.cfg.Preempt, c.cfg.Dynamic, c.cfg.Loop), func(t *testing.T) {
			c.cfg.Programs = [MaxProbes]Program{Of(SyncTasks), Of(SyncRCU), Of(Work)}
			q := &squeeze{rig: *newRig(t, c.cfg)}
			q.run(5000)
			if got := q.done[0] > 0; got != c.want || q.done[1] == 0 || q.done[2] == 0 {
				t.Errorf("Tasks RCU, normal and kworker rounds = %v; want Tasks RCU to end: %v, the others always", q.done, c.want)
			}
		})
	}
}

func with(c Config, f func(*Config)) Config { f(&c); return c }

func loop(c Config, l Loop) Config { c.Loop = l; return c }

func veth(c Config) Config { c.Device, c.Latch, c.Bulk = Veth, false, 1; return c }
