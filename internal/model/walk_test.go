package model

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/napistall/napistall/internal/rcu"
)

// programs make every kind of wait meet every other one.
var programs = [MaxProbes]Program{
	Of(Lock, SyncNet, Sleep, Flush, SyncNet, Call, SyncNet, Unlock, Barrier),
	Of(SyncRCU, Call, Barrier, Sleep, CallHot, SyncExp, Lock, Work, Unlock, SyncTasks),
	Of(Disable, SyncNet, Enable, Barrier, Call, Lock, SyncNet, Unlock, SyncExp),
}

// variants returns a small Config of every variant that New accepts.
func variants(t *testing.T) map[string]Config {
	t.Helper()
	out := map[string]Config{}
	for g := V612; g <= V73; g++ {
		for a := AMD64; a <= MIPS; a++ {
			for _, p := range []rcu.Preemption{none, voluntary, full, lazy} {
				for _, dynamic := range []bool{false, true} {
					for l := Stock; l <= BacklogThread; l++ {
						addVariants(t, out, Config{Generation: g, Arch: a, Preempt: p, Dynamic: dynamic, Loop: l, Weight: 2, Ring: 3, Bulk: 1,
							Budget: 4, Restarts: 2, Backlog: true, Programs: programs})
					}
				}
			}
		}
	}
	if len(out) < 500 {
		t.Fatalf("%d variants; this test lost most of them", len(out))
	}
	return out
}

func addVariants(t *testing.T, out map[string]Config, c Config) {
	t.Helper()
	for i := range 6 {
		v := c
		name := "nic"
		switch i {
		case 1:
			name, v.Latch = "latch", true
		case 2:
			name, v.Latch, v.AllQueues, v.CPUs, v.Others = "shared mask", true, true, 4, true
		case 3:
			name, v.Device, v.User = "veth", Veth, true
		case 4:
			name, v.Softirq, v.User, v.Latch = "softirq", true, c.Arch == ARM64, true
		case 5:
			name, v.PreemptCount, v.User, v.CPUs, v.Others = "debug", true, true, 3, true
		}
		if v.Loop == BacklogThread {
			v.Programs[2] = Of(SyncNet, Barrier)
		}
		_, err := New(v)
		if err != nil {
			if !errors.Is(err, errors.ErrUnsupported) && v.Loop == Stock {
				t.Fatalf("New(%+v): %v", v, err)
			}
			continue
		}
		out[fmt.Sprintf("%v/%v/%v/dynamic=%v/loop%d/%s", v.Generation, v.Arch, v.Preempt, v.Dynamic, v.Loop, name)] = v
	}
}

// seed gives every variant a walk of its own, the same in every run.
func seed(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// A walk takes random enabled events and watches.
type walk struct {
	*rig
	seen Effects

	flagged   int  // polls since need_resched was set under a preempting model
	gpReader  bool // the reader that was running when the grace period started still runs
	expReader bool
}

func TestWalks(t *testing.T) {
	const steps = 500
	var seen Effects
	for name, c := range variants(t) {
		w := walk{rig: newRig(t, c)}
		r := rand.New(rand.NewPCG(seed(name), 3))
		for i := range steps {
			e := w.pick(r)
			w.walk(e, r.IntN(4)-1)
			if t.Failed() {
				t.Fatalf("%s, step %d: %v: %v", name, i, e, &w.s)
			}
		}
		seen |= w.seen
	}
	if missing := (effEnd - 1) &^ seen; missing != 0 {
		t.Errorf("no walk ever saw %v", missing)
	}
}

// pick chooses an enabled event, CPU 0's steps more often than the rest.
func (w *walk) pick(r *rand.Rand) Event {
	set := w.m.Enabled(&w.s)
	if set.Has(Run0) && r.IntN(2) == 0 {
		return Run0
	}
	var e Event
	for range r.IntN(set.Len()) + 1 {
		e, set = set.Next()
	}
	if (e == AgeGP || e == StallDue || e == Deadline) && r.IntN(8) != 0 {
		return w.pick(r)
	}
	return e
}

func (w *walk) walk(e Event, n int) {
	m, before := w.m, w.s
	next, task := m.Next(&before, 0)
	house, houseTask := m.Next(&before, 1)
	o := m.Step(&w.s, e, n)
	w.seen |= o.Effects
	switch {
	case o.Step == StepNone:
		w.t.Errorf("%v was enabled", e)
	case e == Run0 && (o.Step != next || o.Task != task), e == Run1 && (o.Step != house || o.Task != houseTask):
		w.t.Errorf("Next = %v %v, %v %v; Step(%v) = %v %v", next, task, house, houseTask, e, o.Step, o.Task)
	}
	w.checkPack()
	w.checkSchedule(&before, o)
	w.checkRCU(&before, e, o)
	w.checkState(&before, o)
}

func (w *walk) checkPack() {
	var s State
	w.m.Unpack(w.m.Pack(&w.s), &s)
	if s != w.s {
		w.t.Errorf("Unpack(Pack(%v)) = %v", &w.s, &s)
	}
}

// checkSchedule: every switch happens in __schedule; without preemption only where the thread waits or calls cond_resched;
// with it no need_resched outlives a poll.
func (w *walk) checkSchedule(before *State, o Outcome) {
	f := o.Effects
	if f&(EffSwitchVol|EffSwitchInvol) != 0 && f&EffSchedule == 0 || f&EffSwitchVol != 0 && f&EffSwitchInvol != 0 {
		w.t.Errorf("a switch without schedule, or twice: %v", f)
	}
	thread := f&EffSchedule != 0 && o.Task == NAPIThread && before.frame == 0
	if thread && !w.m.points && o.Step != StepWaitSchedule && o.Step != StepCondResched {
		w.t.Errorf("without preemption points %v entered schedule", o.Step)
	}
	if moved := before.curr != w.s.curr; moved != (f&(EffSwitchVol|EffSwitchInvol) != 0) {
		w.t.Errorf("from %v to %v with %v", before.curr, w.s.curr, f)
	}
	if full, _ := w.s.NeedResched(); !full || w.s.curr != NAPIThread || !w.m.points {
		w.flagged = 0
	} else if f&EffPoll != 0 {
		if w.flagged++; w.flagged > 1 {
			w.t.Errorf("need_resched outlived a poll under %v", w.m.cfg.Preempt)
		}
	}
}

// checkRCU: no grace period ends within a reader that was there when it started, one expedited grace period at a time,
// every report is owed.
func (w *walk) checkRCU(before *State, e Event, o Outcome) {
	f := o.Effects
	if f&EffPoll != 0 || !w.s.reader() {
		w.gpReader, w.expReader = false, false
	}
	if w.gpReader && f&EffQS0 != 0 || w.expReader && f&EffExpQS != 0 {
		w.t.Errorf("%v while a reader from before runs", f)
	}
	if f&EffGPStart != 0 {
		w.gpReader = w.s.reader()
	}
	if f&EffExpStart != 0 {
		w.expReader = w.s.reader()
	}
	gp, _ := before.GP()
	exp, _ := before.Exp()
	normal, expedited := before.Owes()
	switch {
	case f&EffGPStart != 0 && gp, f&EffGPEnd != 0 && (!gp || before.qsmask != 0):
		w.t.Errorf("%v while active is %v, mask %b", f, gp, before.qsmask)
	case f&EffExpStart != 0 && exp, f&EffExpEnd != 0 && (!exp || expedited):
		w.t.Errorf("%v while active is %v, owed %v", f, exp, expedited)
	case f&EffQS0 != 0 && !normal, f&EffExpQS != 0 && !expedited:
		w.t.Errorf("%v was not owed", f)
	case f&EffExpQS != 0 && e != ExpIPI && before.cpu&cExpIPI != 0:
		w.t.Errorf("an expedited report before its IPI")
	case before.rcu[0]&rExp != 0 && !expedited:
		w.t.Errorf("a report is wanted and not owed")
	}
}

// checkState: what has to be true of every state.
func (w *walk) checkState(before *State, o Outcome) {
	s := &w.s
	switch {
	case w.m.Lost(s):
		w.t.Errorf("a wake-up was lost")
	case s.curr != Idle && s.run&bit(s.curr) == 0:
		w.t.Errorf("%v runs and is not runnable", s.curr)
	case s.curr == Idle && s.run != 0 && s.cpu&cFull == 0:
		w.t.Errorf("idle with a runnable task and no need_resched")
	case s.ring > w.m.cfg.Ring:
		w.t.Errorf("%d packets in the ring", s.ring)
	case s.cpu&cLazy != 0 && w.m.cfg.Preempt != lazy:
		w.t.Errorf("a lazy flag under %v", w.m.cfg.Preempt)
	case s.qsmask != 0 && s.gp&gActive == 0:
		w.t.Errorf("a mask without a grace period")
	case s.work != 0 && s.run&bit(Kworker) == 0:
		w.t.Errorf("work and no kworker")
	case s.napi&(nThr|nHeld|nSched) == nThr:
		w.t.Errorf("SCHED_THREADED without SCHED")
	}
	for p := range s.probes {
		idle := before.cbs[0]|before.cbs[1] == 0
		if o.Task == Probe0+Task(p) && idle && before.probes[p].wait == wRun && w.m.ProbeOp(before, p) == Barrier &&
			before.bar == 0 && (o.Step != StepProbe || s.probes[p].wait != wRun) {
			w.t.Errorf("rcu_barrier without callbacks waits")
		}
	}
}

// TestDisabledEvents: an event that is not enabled changes nothing.
func TestDisabledEvents(t *testing.T) {
	for name, c := range variants(t) {
		w := walk{rig: newRig(t, c)}
		r := rand.New(rand.NewPCG(seed(name), 4))
		for range 30 {
			set := w.m.Enabled(&w.s)
			for e := range Event(numEvents) {
				s := w.s
				if o := w.m.Step(&s, e, 1); !set.Has(e) && (s != w.s || o.Effects&^EffDrop != 0) {
					t.Fatalf("%s: %v is not enabled in %v and did %+v: %v", name, e, &w.s, o, &s)
				}
			}
			w.m.Step(&w.s, w.pick(r), 1)
		}
	}
}

// TestForget walks twins, one of which forgets after every step: nothing tells them apart.
func TestForget(t *testing.T) {
	for name, c := range variants(t) {
		w := walk{rig: newRig(t, c)}
		twin := w.s
		r := rand.New(rand.NewPCG(seed(name), 5))
		for range 150 {
			e, n := w.pick(r), r.IntN(4)-1
			if a, b := w.m.Step(&w.s, e, n), w.m.Step(&twin, e, n); a != b {
				t.Fatalf("%s: %v: %+v; forgetful: %+v", name, e, a, b)
			}
			w.m.Forget(&twin)
			if a, b := w.m.Enabled(&w.s), w.m.Enabled(&twin); a != b {
				t.Fatalf("%s: after %v enabled are %b; forgetful: %b", name, e, a, b)
			}
		}
	}
}
