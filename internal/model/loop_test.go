package model

import "testing"

// TestWindows: what an interrupt in each window of the NAPI thread brings about.
func TestWindows(t *testing.T) {
	cfg := small(V612, none, false)
	again := EffReentry | EffEntry
	for _, c := range []struct {
		window    string
		want, not Effects
	}{
		{"W1", again, EffSchedule},
		{"W2", again, EffSchedule},
		{"W3", EffSchedule | EffEntry, EffReentry | EffSwitchVol | EffSwitchInvol},
		{"W4", EffSchedule | EffEntry | EffSwitchVol | EffSleep | EffWake, EffReentry},
	} {
		r := newRig(t, cfg).band()
		r.step(Run0)
		f := r.until(map[string]StepID{"W1": StepWaitSet, "W2": StepWaitTest, "W3": StepWaitSchedule, "W4": StepWaitSchedule}[c.window])
		if c.window == "W4" {
			f |= r.step(Run0)
		}
		f |= r.step(Arrive, NICInterrupt) | r.until(StepPoll)
		r.want(c.window, f, c.want, c.not)
	}
}

// TestWindowSchedulePicks: in W3 the thread stays runnable, so that a switch to somebody else counts as nonvoluntary.
func TestWindowSchedulePicks(t *testing.T) {
	cfg := small(V612, none, false)
	cfg.Programs = prog(Flush)
	r := newRig(t, cfg).band()
	r.start()
	r.step(Run0)
	r.until(StepWaitSchedule)
	r.step(Arrive, NICInterrupt)
	o := r.m.Step(&r.s, Run0, -1)
	r.want("W3 with a kworker", o.Effects, EffSchedule|EffSwitchInvol, EffSwitchVol|EffSleep)
	if o.Task != NAPIThread || r.s.Current() != Kworker {
		t.Errorf("from %v to %v; want from the thread to the kworker", o.Task, r.s.Current())
	}
}

// TestWindowMissed is W0: an interrupt before completion, which takes a mask that others share.
func TestWindowMissed(t *testing.T) {
	for _, broken := range []bool{false, true} {
		cfg := small(V612, none, false)
		cfg.AllQueues = true
		if broken {
			cfg.Break = BreakMissed
		}
		r := newRig(t, cfg).band()
		r.step(Run0)
		r.step(OtherUnmask, Arrive, NICInterrupt)
		f := r.step(Run0)
		if broken {
			r.want("broken", f, 0, EffMissed)
			r.step(Run0)
			r.until(StepWaitSchedule)
			r.step(Run0)
			if !r.m.Lost(&r.s) {
				t.Errorf("MISSED was dropped and nothing is lost: %v", &r.s)
			}
			continue
		}
		r.want("W0", f, EffMissed, 0)
		r.want("W0", r.until(StepPoll), EffEntry|EffReentry, EffSchedule|EffLine)
	}
}

func TestWakeLost(t *testing.T) {
	cfg := small(V612, none, false)
	cfg.Break = BreakWakeLost
	r := newRig(t, cfg).band()
	r.step(Run0)
	r.until(StepWaitSchedule)
	r.step(Arrive, NICInterrupt)
	r.want("sleep", r.step(Run0), EffSleep, 0)
	if !r.m.Lost(&r.s) {
		t.Errorf("the wake-up is not lost in %v", &r.s)
	}
}

// TestExits: which exit of the loop calls what.
func TestExits(t *testing.T) {
	armhf := func(c Config) Config { c.Arch = ARMHF; return c }
	for _, c := range []struct {
		cfg         Config
		short, full []StepID // calls on the way to the next wait or poll
	}{
		{small(V612, none, false), nil, []StepID{StepPeriodicQS, StepCondResched, StepBHDisable}},
		{armhf(small(V73, voluntary, false)), nil, []StepID{StepPeriodicQS, StepCondResched, StepBHDisable}},
		{small(V612, none, true), nil, []StepID{StepPeriodicQS, StepCondResched, StepBHDisable}},
		{small(V612, full, false), nil, []StepID{StepPeriodicQS, StepBHDisable}},
		{small(V73, lazy, true), nil, []StepID{StepPeriodicQS, StepBHDisable}},
		{loop(small(V612, none, false), YieldOnExit), []StepID{StepPeriodicQS, StepCondResched}, []StepID{StepPeriodicQS, StepCondResched, StepBHDisable}},
		{loop(small(V612, none, false), CondReschedOnly), []StepID{StepCondResched}, []StepID{StepPeriodicQS, StepCondResched, StepBHDisable}},
		{loop(small(V612, none, false), QSLocalStamp), []StepID{StepPeriodicQS}, []StepID{StepPeriodicQS, StepCondResched, StepBHDisable}},
		{loop(small(V73, lazy, false), YieldOnExit), []StepID{StepPeriodicQS}, []StepID{StepPeriodicQS, StepBHDisable}},
	} {
		for packets, want := range map[int][]StepID{1: c.short, 2: c.full} {
			r := newRig(t, c.cfg).band()
			for r.s.Packets() < packets {
				r.step(Arrive)
			}
			r.step(Run0)
			r.until(StepBHEnable)
			r.step(Run0)
			var got []StepID
			for next, _ := r.m.Next(&r.s, 0); next != StepWaitSet && next != StepPoll; next, _ = r.m.Next(&r.s, 0) {
				got = append(got, next)
				r.step(Run0)
			}
			if !equal(got, want) {
				t.Errorf("%v %v, loop %d, %d packets: calls %v; want %v", c.cfg.Generation, c.cfg.Preempt, c.cfg.Loop, packets, got, want)
			}
		}
	}
}

func equal(a, b []StepID) bool {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestStamps is the condition of rcu_softirq_qs_periodic: a stamp of the entry's own is fresh at every entry, one that
// outlives entries grows old over them.
func TestStamps(t *testing.T) {
	for l, reports := range map[Loop]bool{QSLocalStamp: false, QSPersistentStamp: true, YieldOnExit: false} {
		r := newRig(t, loop(small(V612, none, false), l)).band()
		r.entry()
		if r.m.Enabled(&r.s).Has(AgeStamp) {
			r.step(AgeStamp)
		}
		f := r.entry() // a local one grows old within this entry at most
		if f&EffStamp == 0 {
			t.Errorf("loop %d: an old stamp is not renewed: %v", l, f)
		}
		r.until(StepWaitSet)
		local := !r.m.Enabled(&r.s).Has(AgeStamp)
		if local == reports {
			t.Errorf("loop %d: between entries the stamp can grow old: %v; want %v", l, !local, reports)
		}
	}
}

// TestLatch: a cause that came while masked fires at unmask even if its packets are gone; a level only for packets.
func TestLatch(t *testing.T) {
	for _, latch := range []bool{true, false} {
		cfg := small(V612, none, false)
		cfg.Latch = latch
		r := newRig(t, cfg)
		r.step(Arrive, NICInterrupt, Arrive) // the second one while masked, polled with the first
		r.until(StepPoll)
		r.m.cfg.Weight = 3 // so that both leave in a short poll
		r.step(Run0)
		r.until(StepUnmask)
		if f := r.step(Run0); f&EffLine != 0 != latch {
			t.Errorf("latch %v: unmasking after the packets are gone: %v", latch, f)
		}
	}
	cfg := small(V612, none, false)
	cfg.Latch = false
	r := newRig(t, cfg).band()
	r.step(Run0, Arrive)
	r.until(StepUnmask)
	r.want("level", r.step(Run0), EffLine, 0)
}

// TestBounce is the veth reproduction: up to the bulk's size each poll is short and the NAPI reschedules itself from
// inside it; above it every poll is full. After the deadline it ends.
func TestBounce(t *testing.T) {
	cfg := Config{Device: Veth}
	for inflight, full := range map[int]bool{1: false, 16: false, 17: true, 40: true} {
		r := newRig(t, cfg)
		r.m.Step(&r.s, Arrive, inflight)
		r.until(StepPoll)
		for range 20 {
			o := r.m.Step(&r.s, Run0, -1)
			if o.Effects&EffFullPoll != 0 != full || !full && int(o.N) != inflight {
				t.Fatalf("%d in flight: a poll of %d packets, %v", inflight, o.N, o.Effects)
			}
			f := r.until(StepPoll)
			if full {
				r.want("above the band", f, 0, EffEntry|EffSchedule)
			} else {
				r.want("in the band", f, EffEntry|EffReentry, EffSchedule)
			}
		}
		r.step(Deadline, Run0)
		if f := r.until(StepWaitSchedule) | r.step(Run0); f&EffSleep == 0 || r.s.Packets() != 0 {
			t.Errorf("%d in flight, after the deadline: %v, %d packets", inflight, f, r.s.Packets())
		}
	}
}

// TestBusyPoll: completion is refused, the interrupt stays masked, the thread never sleeps; DISABLE ends it.
func TestBusyPoll(t *testing.T) {
	cfg := loop(small(V73, lazy, false), BusyPoll)
	cfg.Programs = prog(Disable, Enable)
	r := newRig(t, cfg)
	for range 50 {
		r.want("spinning", r.step(Run0), 0, EffSchedule|EffLine)
		if !r.s.Scheduled() || r.s.napi&nMask == 0 {
			t.Fatalf("gave up its NAPI: %v", &r.s)
		}
	}
	r.want("napi_disable", r.start(), ProbeTimer(0), 0)
	r.want("the thread", r.until(StepWaitSchedule)|r.step(Run0), EffSleep, 0)
	r.step(ProbeWake0)
	r.want("napi_enable", r.house(), ProbeDone(0), 0)
}

// TestBacklogThread: packets of other CPUs wake it; process_backlog completes by itself.
func TestBacklogThread(t *testing.T) {
	cfg := loop(small(V612, none, false), BacklogThread)
	cfg.Latch = false
	r := newRig(t, cfg)
	r.want("enqueue_to_backlog", r.step(Arrive), EffWake|EffFull, EffLine)
	r.until(StepPoll)
	r.step(Run0)
	if next, _ := r.m.Next(&r.s, 0); next != StepBHEnable || r.s.Scheduled() {
		t.Errorf("after process_backlog drained the queue: %v, scheduled %v", next, r.s.Scheduled())
	}
	r.step(Arrive)
	r.want("in the band", r.until(StepPoll), EffEntry|EffReentry, EffSchedule)
}

// TestUser: a CPU hog shares the CPU by slices; interrupts honour either flag on the way to user mode.
func TestUser(t *testing.T) {
	cfg := small(V73, lazy, false)
	cfg.User, cfg.Arch = true, ARM64
	r := newRig(t, cfg)
	if r.m.Enabled(&r.s).Has(Run0) {
		t.Errorf("user mode has a step")
	}
	r.step(AgeSlice, Arrive)
	r.want("a wake-up over a spent slice, from user mode", r.step(NICInterrupt), EffWake|EffLazy|EffSchedule|EffSwitchInvol, 0)
	r.until(StepWaitTest)
	r.step(AgeSlice)
	r.want("tick", r.step(Tick0), EffLazy, EffSchedule)
	f := r.step(Tick0)
	r.want("next tick", f, EffPromote|EffSchedule|EffSwitchInvol, 0)
	if r.s.Current() != User {
		t.Errorf("%v runs; want the user task", r.s.Current())
	}
}
