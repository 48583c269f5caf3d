package model

import "testing"

// TestBreaks breaks one rule at a time where the model is known to end every wait, and wants the wait that depends on the
// rule not to end, or a wake-up to be lost.
func TestBreaks(t *testing.T) {
	yield := loop(small(V612, none, false), YieldOnExit)
	persistent := loop(small(V612, none, false), QSPersistentStamp)
	preempt, relaxed := small(V612, full, false), small(V73, lazy, true)
	busy := loop(small(V73, lazy, false), BusyPoll)
	for _, c := range []struct {
		b    Break
		cfg  Config
		ops  [MaxProbes]Program
		lost bool // a wake-up, not probe 0's wait
	}{
		{BreakScheduleNote, preempt, prog(SyncRCU), false},
		{BreakPromotion, relaxed, prog(Work), false},
		{BreakUnmask, yield, prog(SyncExp), true},
		{BreakFQSUrgent, yield, prog(SyncRCU), false},
		{BreakFQSUrgent, preempt, prog(SyncRCU), false},
		{BreakExpIPI, yield, prog(SyncExp), false},
		{BreakExpIPI, small(V73, lazy, false), prog(SyncExp), false},
		{BreakCoreReport, preempt, prog(SyncRCU), false},
		{BreakCondResched, yield, prog(Work), false},
		{BreakBHCheck, relaxed, prog(SyncExp), false},
		{BreakBHCheck, preempt, prog(Work), false},
		{BreakNotice, preempt, prog(SyncRCU), false},
		{BreakPickKworker, yield, prog(Work), false},
		{BreakFairFlag, yield, prog(Work), false},
		{BreakFairFlag, relaxed, prog(Work), false},
		{BreakPeriodic, persistent, prog(SyncRCU), false},
		{BreakStamp, persistent, prog(SyncExp), false},
		{BreakAdvance, yield, prog(Call, Barrier), false},
		{BreakExpReport, yield, prog(SyncExp), false},
		{BreakThreadWake, yield, prog(SyncExp), true},
		{BreakTasks, busy, prog(SyncTasks), false},
	} {
		ok, lost := breaks(t, c.cfg, c.ops, c.b)
		if c.lost && !lost || !c.lost && ok {
			t.Errorf("with rule %#x broken under %v: ends is %v, lost is %v", c.b, c.cfg.Preempt, ok, lost)
		}
		if ok, lost := breaks(t, c.cfg, c.ops, 0); !ok || lost {
			t.Errorf("unbroken (%#x) under %v: ends is %v, lost is %v", c.b, c.cfg.Preempt, ok, lost)
		}
	}
}

// breaks reports whether probe 0 goes on finishing rounds to the end of a squeeze, and whether a wake-up was lost.
func breaks(t *testing.T, c Config, ops [MaxProbes]Program, b Break) (ok, lost bool) {
	c.Programs, c.Break = ops, b
	q := &squeeze{rig: *newRig(t, c)}
	if b == BreakThreadWake {
		q.step(Arrive, NICInterrupt)
	} else {
		q.band()
	}
	q.run(2000)
	before := q.done[0]
	q.run(2000)
	return q.done[0] > before, q.lost
}
