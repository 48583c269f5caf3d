package model

import "testing"

// builds are those that differ for RCU.
var builds = map[string]Config{
	"none":            small(V612, none, false),
	"none+count":      with(small(V612, none, false), func(c *Config) { c.PreemptCount = true }),
	"voluntary":       small(V612, voluntary, false),
	"full":            small(V612, full, false),
	"dynamic none":    small(V612, none, true),
	"dynamic none 18": small(V618, none, true),
	"static lazy":     small(V73, lazy, false),
	"dynamic lazy":    small(V73, lazy, true),
}

// at brings a rig to where an interrupt shall land.
func at(t *testing.T, c Config, where string) *rig {
	t.Helper()
	r := newRig(t, c)
	switch where {
	case "idle":
	case "reader":
		r.band()
	case "bh off":
		r.band().until(StepUnmask)
	case "free":
		r.band().step(Run0)
		r.until(StepUnmask)
		r.step(Arrive, Run0, NICInterrupt)
		r.until(StepWaitSet)
	default:
		t.Fatal(where)
	}
	return r
}

// TestExpIPI is rcu_exp_handler by build and place: at once, or by need_resched, or by a hint.
func TestExpIPI(t *testing.T) {
	const later, flag = EffExpWanted, EffExpWanted | EffFull
	for _, c := range []struct {
		build, where string
		want         Effects
		urgent, hint bool
	}{
		{"none", "idle", EffExpQS, false, false},
		{"none", "free", flag, true, false},
		{"none", "bh off", flag, true, false},
		{"none", "reader", flag, true, false},
		{"voluntary", "bh off", flag, true, false},
		{"none+count", "free", EffExpQS, false, false},
		{"none+count", "bh off", flag, true, false},
		{"static lazy", "idle", EffExpQS, false, false},
		{"static lazy", "free", EffExpQS, false, false},
		{"static lazy", "bh off", flag, true, false},
		{"static lazy", "reader", flag, true, false},
		{"full", "free", EffExpQS, false, false},
		{"full", "bh off", flag, false, false},
		{"full", "reader", later, false, true},
		{"dynamic none", "free", EffExpQS, false, false},
		{"dynamic none", "bh off", flag, false, false},
		{"dynamic none 18", "bh off", flag, false, false},
		{"dynamic lazy", "bh off", flag, true, false},
		{"dynamic lazy", "reader", later, false, true},
	} {
		cfg := builds[c.build]
		cfg.Programs = prog(SyncExp)
		r := at(t, cfg, c.where)
		if f := r.step(Begin0, Run1); f&ProbeWait(0) == 0 {
			t.Errorf("%s, %s: the probe does not wait: %v", c.build, c.where, f)
		}
		f := r.step(Run1)
		if c.where == "idle" {
			r.want(c.build+" idle", f, EffExpStart, EffExpIPI) // credited when selected
			continue
		}
		r.want(c.build+" select", f, EffExpStart|EffExpIPI, 0)
		f = r.step(ExpIPI)
		r.want(c.build+", "+c.where, f, c.want, (EffExpQS|EffExpWanted|EffFull)&^c.want)
		if urgent := r.s.rcu[0]&rUrgent != 0; urgent != c.urgent || (r.s.cpu&cHint != 0) != c.hint {
			t.Errorf("%s, %s: urgent %v, hint %v; want %v, %v", c.build, c.where, urgent, r.s.cpu&cHint != 0, c.urgent, c.hint)
		}
	}
}

// noticed is in the band, about to poll, within a grace period that CPU 0 has noticed.
func noticed(t *testing.T, c Config) *rig {
	t.Helper()
	c.Programs = prog(Call, Barrier)
	r := at(t, c, "reader")
	r.start()
	r.step(Tick1)
	r.want("request", r.house(), EffGPStart|EffFQSTimer, 0)
	r.step(Tick0)
	r.want("the loop's softirqs", r.entry(), EffNotice, 0)
	return r
}

// TestTickRule: when a tick in kernel mode is a quiescent state.
func TestTickRule(t *testing.T) {
	for _, c := range []struct {
		build, where string
		want         bool
	}{
		{"none", "free", false}, {"none", "bh off", false}, {"voluntary", "free", false},
		{"none+count", "free", true}, {"none+count", "bh off", false},
		{"static lazy", "free", true}, {"static lazy", "bh off", false}, {"static lazy", "reader", false},
		{"full", "free", true}, {"full", "bh off", false}, {"full", "reader", false},
		{"dynamic none", "free", true}, {"dynamic none", "bh off", false}, {"dynamic none", "reader", false},
	} {
		r := noticed(t, builds[c.build])
		r.until(map[string]StepID{"free": StepUnmask, "bh off": StepUnmask, "reader": StepPoll}[c.where])
		if c.where == "free" {
			r.step(Arrive, Run0, NICInterrupt)
			r.until(StepWaitSet)
		}
		if f := r.step(Tick0); f&EffQSNote != 0 != c.want {
			t.Errorf("%s, %s: a tick's effects are %v; quiescent state want %v", c.build, c.where, f, c.want)
		}
	}
}

// TestUrgent is the escalation: nothing before jtsq; then urgent, which rcu_all_qs sees until the
// next tick, and the tick turns into need_resched; then heavy; past T/2 resched_cpu, once in jtsq.
func TestUrgent(t *testing.T) {
	r := noticed(t, loop(builds["none"], CondReschedOnly))
	r.step(FQSTimer)
	r.want("first scan", r.step(Run1), EffFQSTimer, EffUrgent)
	r.step(FQSTimer)
	r.want("young", r.step(Run1), 0, EffUrgent|EffHeavy|EffResched)
	r.step(AgeGP, FQSTimer)
	r.want("past jtsq", r.step(Run1), EffUrgent, EffHeavy|EffResched)
	if f := r.entry(); f&EffQSNote == 0 || f&EffSchedule != 0 {
		t.Errorf("rcu_all_qs of an urgent CPU: %v; want a quiescent state without schedule", f)
	}

	r = noticed(t, builds["none"])
	r.step(FQSTimer)
	r.step(Run1)
	r.step(AgeGP, AgeGP, FQSTimer)
	r.want("past 2 jtsq", r.step(Run1), EffUrgent|EffHeavy, EffResched)
	r.want("tick", r.step(Tick0), EffFull, EffSchedule)
	if got := r.s.rcu[0] & (rUrgent | rHeavy); got != rHeavy {
		t.Errorf("after the tick urgent and heavy = %b; want heavy alone, %b", got, rHeavy)
	}
	r.step(AgeGP, FQSTimer)
	r.want("past T/2", r.step(Run1), EffUrgent|EffHeavy|EffResched, EffReschedIPI) // the flag was set already
	r.step(FQSTimer)
	r.want("soon after", r.step(Run1), EffUrgent, EffResched)
	r.step(AgeResched, FQSTimer)
	r.want("jtsq later", r.step(Run1), EffResched, 0)
	if f := r.entry(); f&EffSchedule != 0 {
		t.Errorf("the stock loop's short exit entered schedule under NONE: %v", f)
	}
}

// TestQuiescentWithoutSwitch: under lazy preemption the expedited IPI's flag takes the next
// local_bh_enable into __schedule, which reports and picks the same thread: no switch is counted.
func TestQuiescentWithoutSwitch(t *testing.T) {
	for _, build := range []string{"static lazy", "dynamic lazy", "full"} {
		cfg := builds[build]
		cfg.Programs = prog(SyncExp)
		r := at(t, cfg, "bh off")
		r.start()
		r.step(ExpIPI)
		f := r.until(StepWaitSet)
		r.want(build, f, EffSchedule|EffExpQS, EffSwitchInvol|EffSwitchVol)
		r.want(build, r.house(), EffExpEnd|ProbeDone(0), 0)
	}
}

// TestLazy: a wake-up over a task whose slice is over sets the lazy flag and sends nothing; only a tick makes
// it a full one; then the next preemption point switches. Before the slice is over nobody asks.
func TestLazy(t *testing.T) {
	cfg := builds["static lazy"]
	cfg.Arch = ARM64 // no hrtick
	cfg.Programs = prog(Flush)
	r := at(t, cfg, "bh off")
	r.want("protected", r.start(), ProbeWait(0), EffLazy|EffFull)
	r.want("a tick within the slice", r.step(Tick0), 0, EffLazy|EffFull)
	r.step(AgeSlice)
	r.want("the next tick", r.step(Tick0), EffLazy, EffFull|EffPromote)
	r.want("the one after", r.step(Tick0), EffPromote|EffFull, EffSchedule)
	f := r.until(StepKworker)
	r.want("local_bh_enable", f, EffSchedule|EffSwitchInvol, 0)
	r.want("kworker", r.step(Run0), EffWork, 0)
	r.want("probe", r.house(), ProbeDone(0), 0)
	r.want("the thread comes back", r.until(StepWaitSet), EffSwitchVol, EffEntry)

	r = at(t, cfg, "bh off")
	r.step(AgeSlice)
	r.want("wake-up", r.start(), EffLazy, EffFull|EffReschedIPI)
	if f := r.until(StepWaitSchedule); f&EffSchedule != 0 {
		t.Errorf("the lazy flag alone preempted the kernel: %v", f)
	}

	cfg = builds["full"]
	cfg.Programs = prog(Flush)
	r = at(t, cfg, "bh off")
	r.step(AgeSlice)
	r.want("full", r.start(), EffFull|EffReschedIPI, EffLazy)
	r.want("its IPI, BH off", r.step(ReschedIPI), 0, EffSchedule)
	r.want("full", r.until(StepKworker), EffSwitchInvol, 0)
}

// TestHrtick: [7.3] x86 asks with the full flag at the end of the slice.
func TestHrtick(t *testing.T) {
	for arch, want := range map[Arch]Effects{AMD64: EffFull, ARM64: 0} {
		cfg := builds["static lazy"]
		cfg.Arch, cfg.Programs = arch, prog(Flush)
		r := at(t, cfg, "bh off")
		r.start()
		r.want(arch.String(), r.step(AgeSlice), want, EffFull&^want)
	}
}

// TestDeferredInBHEnable: the reader's hint raises RCU_SOFTIRQ at its end, but local_bh_enable runs it with a preempt count
// of 1, so that it asks for need_resched instead of reporting: DYNAMIC none does not honour that, full does.
func TestDeferredInBHEnable(t *testing.T) {
	for build, reported := range map[string]bool{"dynamic none": false, "full": true} {
		cfg := builds[build]
		cfg.Programs = prog(SyncExp)
		r := at(t, cfg, "reader")
		r.start()
		r.step(ExpIPI)
		f := r.until(StepWaitSchedule)
		if f&EffSoftirq == 0 || f&EffFull == 0 || f&EffExpQS != 0 != reported {
			t.Errorf("%s: %v; want a softirq, need_resched and a report: %v", build, f, reported)
		}
	}
	// At interrupt exit the preempt count is 0.
	cfg := builds["dynamic none"]
	cfg.Programs = prog(SyncExp)
	r := at(t, cfg, "bh off")
	r.start()
	r.step(ExpIPI)
	r.until(StepWaitTest)
	if f := r.step(Tick0); f&EffExpQS == 0 {
		t.Errorf("a lucky tick: %v; want the report", f)
	}
}
