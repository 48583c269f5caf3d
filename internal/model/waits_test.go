package model

import (
	"testing"

	"github.com/napistall/napistall/internal/rcu"
)

// TestIdleGracePeriod: on an idle machine [7.3, 6.18] the first scan ends a grace period, because the kthread's own CPU
// has reported at init; 6.12 needs that CPU's tick or a second scan.
func TestIdleGracePeriod(t *testing.T) {
	for g, own := range map[Generation]Effects{V612: 0, V618: EffQS1, V73: EffQS1} {
		cfg := Config{Generation: g, Preempt: full, CPUs: 4, Programs: prog(SyncRCU)}
		r := newRig(t, cfg)
		f := r.start()
		if g == V612 {
			f |= r.step(Tick1) | r.house() // the callback asks for it
		}
		r.want(g.String()+" init", f, EffGPStart|EffFQSTimer|own, EffQS1&^own)
		r.step(FQSTimer)
		r.want(g.String()+" first scan", r.step(Run1), EffQS0, 0)
		f = r.house()
		if g != V612 {
			r.want(g.String(), f, EffGPEnd|ProbeDone(0), 0)
			continue
		}
		r.want("6.12", r.step(Tick1)|r.house(), EffQS1|EffGPEnd, ProbeDone(0))
		r.want("6.12's callback", r.step(Tick1)|r.house(), EffCallbacks|ProbeDone(0), 0)
	}
}

// TestBarrier: nothing queued, nothing waited for; else until the newest callback ran.
func TestBarrier(t *testing.T) {
	cfg := Config{Preempt: full, Programs: [MaxProbes]Program{RCUBarrier(), Of(Call, Barrier), RCUBarrier()}}
	r := newRig(t, cfg)
	r.want("no callbacks", r.start(), ProbeDone(0), ProbeWait(0)|EffGPStart)
	r.step(Begin1)
	r.want("a callback", r.house(), ProbeWait(1), EffGPStart) // it starts none itself
	r.step(Begin2)
	r.want("barrier_mutex", r.house(), ProbeWait(2), ProbeDone(2))
	r.want("tick", r.step(Tick1)|r.house(), EffGPStart, 0)
	f := Effects(0)
	for i := 0; f&ProbeDone(1) == 0 && i < 10; i++ {
		for _, e := range []Event{FQSTimer, Tick1, Run1} {
			if r.m.Enabled(&r.s).Has(e) {
				f |= r.step(e)
			}
		}
		f |= r.house()
	}
	r.want("the end", f, EffGPEnd|EffCallbacks|ProbeDone(1)|ProbeDone(2), 0)
}

// TestExpeditedFreesCallbacks: [7.3] a completed expedited grace period releases callbacks that were assigned before it
// started; 6.12 waits for a normal one.
func TestExpeditedFreesCallbacks(t *testing.T) {
	for g, frees := range map[Generation]bool{V612: false, V618: false, V73: true} {
		cfg := Config{Generation: g, Preempt: full, Programs: [MaxProbes]Program{Of(Call, Barrier), Of(SyncExp)}}
		r := newRig(t, cfg)
		r.start()
		r.step(Tick1) // assigns
		r.step(Run1)  // rcu_gp_init
		r.step(Begin1)
		r.want(g.String(), r.house(), EffExpStart|EffExpEnd|ProbeDone(1), ProbeDone(0))
		f := Effects(0)
		for r.m.Enabled(&r.s).Has(Tick1) && f&EffCallbacks == 0 {
			before := r.s
			if f |= r.step(Tick1) | r.house(); before == r.s {
				break
			}
		}
		if got := f&ProbeDone(0) != 0; got != frees {
			t.Errorf("%v: released by the expedited grace period: %v; want %v (%v)", g, got, frees, f)
		}
	}
}

// TestSerialised: expedited grace periods follow each other; a ticket that one in progress doesn't cover waits for the next.
func TestSerialised(t *testing.T) {
	cfg := Config{Programs: [MaxProbes]Program{Of(SyncExp), Of(SyncExp), Of(SyncExp)}}
	r := newRig(t, cfg)
	r.step(Arrive, NICInterrupt)
	r.until(StepPoll)
	r.start()
	r.step(Begin1, Begin2)
	r.want("two more", r.house(), ProbeWait(1)|ProbeWait(2), EffExpIPI)
	r.step(ExpIPI)
	r.until(StepWaitSchedule)
	r.want("report", r.step(Run0), EffExpQS, 0)
	r.want("the end of the first", r.step(Run1), EffExpEnd, EffExpStart)
	r.want("its probe", r.step(Run1), ProbeDone(0), 0)
	r.want("the second", r.house(), EffExpStart|EffExpEnd|ProbeDone(1)|ProbeDone(2), EffExpIPI) // CPU 0 idles
}

// TestSyncNet: expedited while anybody holds RTNL, normal otherwise.
func TestSyncNet(t *testing.T) {
	for name, c := range map[string]struct {
		ops  [MaxProbes]Program
		want Effects
	}{
		"own":     {[MaxProbes]Program{Of(Lock, SyncNet, Unlock)}, EffExpStart},
		"another": {[MaxProbes]Program{Of(SyncNet), Of(Lock, Sleep, Unlock)}, EffExpStart},
		"nobody":  {[MaxProbes]Program{Of(SyncNet)}, EffGPStart},
	} {
		cfg := Config{Generation: V73, Preempt: full, Programs: c.ops}
		r := newRig(t, cfg)
		if name == "another" {
			r.step(Begin1)
			r.house()
		}
		r.want(name, r.start(), c.want, (EffExpStart|EffGPStart)&^c.want)
	}
}

// TestLinkDel counts the waits of each kind of device.
func TestLinkDel(t *testing.T) {
	for _, c := range []struct {
		g    Generation
		k    Link
		want int
	}{
		{V612, Dummy, 3}, {V612, Queueing, 3}, {V612, VethPlain, 3}, {V612, VethNAPI, 4},
		{V73, Dummy, 2}, {V73, Queueing, 3}, {V73, VethPlain, 2}, {V73, VethNAPI, 3},
	} {
		n, flush, barrier := 0, 0, 0
		for _, op := range LinkDel(c.g, c.k) {
			switch op {
			case SyncNet:
				n++
			case Flush:
				flush++
			case Barrier:
				barrier++
			}
		}
		if n != c.want || flush != 1 || barrier != 1 {
			t.Errorf("LinkDel(%v, %d) has %d synchronize_net, %d flushes, %d barriers; want %d, 1, 1", c.g, c.k, n, flush, barrier, c.want)
		}
	}
}

// TestStalls: the CPU that owes reports itself; two jiffies later any other does, and forces a scan.
func TestStalls(t *testing.T) {
	r := noticed(t, builds["none"])
	r.want("not due", r.step(Tick0), 0, EffStallSelf|EffStallOther)
	r.want("CPU 1 owes nothing", r.step(Tick1), EffQS1, 0)
	r.step(StallDue)
	r.want("due for CPU 0 only: another's tick", r.m.Step(&r.s, Tick1, 0).Effects, 0, EffStallOther|EffStallSelf)
	r.want("own tick", r.step(Tick0), EffStallSelf|EffFull, 0)
	r.want("once", r.step(Tick0), 0, EffStallSelf)
	r.step(StallDue, StallDue)
	r.want("another's tick", r.step(Tick1), EffStallOther, 0)
	if next, task := r.m.Next(&r.s, 1); next != StepFQS || task != GPKthread {
		t.Errorf("after another CPU's report: %v %v; want a forced scan", next, task)
	}
	cfg := builds["none"]
	cfg.Programs = prog(SyncExp)
	r = at(t, cfg, "reader")
	r.start()
	r.want("expedited", r.step(ExpStallDue), EffStallExp, 0)
	r.step(ExpIPI)
	r.want("once more", r.step(ExpStallDue), EffStallExp, 0)
}

// TestSoftirq: NET_RX polls at interrupt exit; past its limits ksoftirqd is woken, whose every
// round is a quiescent state.
func TestSoftirq(t *testing.T) {
	cfg := with(small(V612, none, false), func(c *Config) { c.Softirq, c.Restarts, c.Budget, c.User = true, 2, 4, true })
	r := newRig(t, cfg)
	r.step(Arrive)
	r.want("irq exit", r.step(NICInterrupt), EffSoftirq|EffNetRX, 0)
	f := Effects(0)
	for i := 0; f&EffKsoftirqd == 0 && i < 50; i++ {
		for r.s.Packets() < 2 {
			r.step(Arrive)
		}
		f |= r.step(Run0)
	}
	r.want("always full polls", f, EffFullPoll|EffSqueeze|EffKsoftirqd, EffEntry)
	r.step(AgeSlice)
	r.want("tick", r.step(Tick0), 0, EffSwitchInvol) // pending softirqs again, on top of the user task
	for i := 0; r.s.InSoftirq() && i < 50; i++ {
		f |= r.step(Run0)
	}
	if r.s.Current() != Ksoftirqd {
		t.Errorf("%v runs; want ksoftirqd: %v", r.s.Current(), &r.s)
	}
	r.m.progs = prog(SyncExp)
	r.start()
	f = r.step(ExpIPI)
	for i := 0; f&EffExpQS == 0 && i < 20; i++ {
		f |= r.step(Run0)
	}
	r.want("ksoftirqd", f, EffExpQS, 0)
}

// TestSoftirqLimits: each limit of handle_softirqs and net_rx_action by itself.
func TestSoftirqLimits(t *testing.T) {
	cfg := with(small(V612, none, false), func(c *Config) { c.Softirq = true })
	for name, event := range map[string]Event{"time": AgeSoftirq, "rx time": AgeNetRX} {
		r := newRig(t, cfg)
		r.step(Arrive, Arrive, NICInterrupt, Arrive, event)
		if name == "rx time" {
			r.want(name, r.step(Run0), EffFullPoll|EffSqueeze, 0)
			continue
		}
		r.want(name, r.step(Run0), EffFullPoll, EffSqueeze)
		r.step(Run0, Run0, Run0) // short, completed, unmasked with a cause
		r.step(NICInterrupt)
		r.want(name, r.step(Run0), EffKsoftirqd, EffNetRX)
	}
}

// TestTasks is a scan's holdout: it goes by a voluntary schedule, by the periodic report, by sleeping; not by preemption.
func TestTasks(t *testing.T) {
	cfg := small(V73, lazy, false)
	cfg.Programs = [MaxProbes]Program{Of(TasksScan), Of(SyncExp)}
	r := at(t, cfg, "bh off")
	r.want("scan", r.start(), ProbeTimer(0), 0)
	if !r.s.Holdout() {
		t.Errorf("the scan let the running thread go: %v", &r.s)
	}
	r.step(Begin1)
	r.house()
	r.step(ExpIPI)
	r.want("preemption", r.until(StepWaitSchedule), EffSchedule, EffTasksQS)
	r.step(ProbeWake0)
	r.want("still", r.house(), ProbeTimer(0), 0)
	r.want("voluntary", r.step(Run0), EffTasksQS|EffSleep, 0)
	r.step(ProbeWake0)
	r.want("gone", r.house(), ProbeDone(0), 0)
}

// TestDisable: requests are refused while the owner finishes.
func TestDisable(t *testing.T) {
	cfg := small(V612, none, false)
	cfg.Programs = prog(Disable, Enable)
	r := newRig(t, cfg).band()
	r.want("owned", r.start(), ProbeTimer(0), 0)
	r.step(Arrive, Arrive, Run0) // the whole weight, and yet it completes
	r.want("the end", r.until(StepWaitSchedule)|r.step(Run0), EffSleep, EffMissed)
	r.step(ProbeWake0)
	r.want("napi_enable", r.house(), ProbeDone(0)|EffLine, 0)
}

// TestFlush: work is queued only for a backlog; two items are run one by one.
func TestFlush(t *testing.T) {
	for backlog, waits := range map[bool]bool{true: true, false: false} {
		cfg := small(V612, none, false)
		cfg.Backlog, cfg.Programs = backlog, [MaxProbes]Program{Of(Flush), Of(Work), Of(Work)}
		r := newRig(t, cfg).band()
		if f := r.start(); f&ProbeWait(0) != 0 != waits || r.s.WorkPending() != waits || r.s.Running(0) != waits || (r.s.probes[0].wait > wLook) != waits {
			t.Errorf("backlog %v: flush_all_backlogs: %v, work %v; want a wait: %v", backlog, f, r.s.WorkPending(), waits)
		}
		r.step(Begin1, Begin2)
		r.house()
		r.step(Run(0))
		r.until(StepWaitSchedule)
		r.step(Run0)
		for r.s.WorkPending() {
			r.want("one at a time", r.step(Run0), EffWork, 0)
		}
		r.want("worker_thread", r.step(Run0), EffSchedule|EffSwitchVol, EffWork)
		r.want("probes", r.house(), ProbeDone(1)|ProbeDone(2), 0)
	}
}

// TestHotCallback: a callback of the CPU under test runs there, at a tick of its own after its grace period.
func TestHotCallback(t *testing.T) {
	cfg := loop(small(V612, none, false), YieldOnExit)
	cfg.Programs = prog(CallHot)
	r := newRig(t, cfg).band()
	r.start()
	if !r.s.Callbacks(0) || r.s.Callbacks(1) {
		t.Errorf("queued on the wrong CPU: %v", &r.s)
	}
	f := Effects(0)
	for range 12 {
		r.step(Tick(0))
		f |= r.entry() | r.house()
		for _, e := range []Event{FQSTimer, Tick(1), AgeGP} {
			if r.m.Enabled(&r.s).Has(e) {
				f |= r.step(e) | r.house()
			}
		}
	}
	r.want("call_rcu", f, EffGPStart|EffGPEnd|EffCallbacks|ProbeDone(0), 0)
}

// TestDisableVeth: packets that came while it was disabled are polled after napi_enable.
func TestDisableVeth(t *testing.T) {
	for _, softirq := range []bool{false, true} {
		cfg := veth(small(V612, none, false))
		cfg.Softirq, cfg.Programs = softirq, prog(Disable, Sleep, Enable)
		r := newRig(t, cfg)
		r.want("free", r.start(), ProbeTimer(0), 0)
		r.want("a sender", r.step(Arrive), 0, EffWake|EffSoftirq)
		if r.m.Lost(&r.s) {
			t.Errorf("packets of a disabled NAPI count as lost: %v", &r.s)
		}
		r.step(ProbeWake0)
		f := r.house()
		if softirq {
			r.want("napi_enable", f, EffSoftirq|EffNetRX, 0)
		} else {
			r.want("napi_enable", f, EffWake, 0)
		}
		if r.s.Asleep() != softirq || !r.s.Scheduled() {
			t.Errorf("after napi_enable: asleep %v, scheduled %v", r.s.Asleep(), r.s.Scheduled())
		}
	}
}

// TestOtherWork: others' item runs before the NAPI thread goes on where there is a point to switch at, after those of the
// probes, and is queued once.
func TestOtherWork(t *testing.T) {
	for _, c := range []struct {
		preempt rcu.Preemption
		runs    bool // after the next tick
	}{{lazy, true}, {full, true}, {none, false}} {
		cfg := small(V618, c.preempt, c.preempt == full)
		cfg.Others = true
		r := newRig(t, cfg).band()
		r.want("queue_work", r.step(AgeSlice, OtherWork), 0, EffSchedule)
		if r.m.Enabled(&r.s).Has(OtherWork) || !r.s.OtherPending() {
			t.Errorf("%s: an item that is queued can be queued again", c.preempt)
		}
		r.step(Tick0)
		if !c.runs {
			for range 5 {
				r.until(StepUnmask)
				r.step(Arrive, Run0, NICInterrupt)
				r.until(StepPoll)
			}
			if !r.s.WorkPending() {
				t.Errorf("%s: the item ran without a point to switch at", c.preempt)
			}
			continue
		}
		r.until(StepOther)
		r.want("process_one_work", r.step(Run0), EffWork, 0)
		r.want("worker_thread", r.step(Run0), EffSwitchVol, 0)
		if r.s.WorkPending() || r.s.Current() != NAPIThread {
			t.Errorf("%s: then %v runs", c.preempt, r.s.Current())
		}
		if r.step(OtherCall); !r.s.Callbacks(1) {
			t.Errorf("%s: call_rcu queued nothing", c.preempt)
		}
	}
}
