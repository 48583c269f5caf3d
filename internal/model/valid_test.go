package model

import (
	"errors"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/rcu"
)

func TestNewErrors(t *testing.T) {
	for _, c := range []struct {
		cfg         Config
		unsupported bool
		want        string
	}{
		{Config{Preempt: lazy}, true, "linux 6.12 has no lazy preemption: want none, voluntary or full, or 6.18 or later"},
		{Config{Generation: V73}, true, "linux 7.3 on amd64 can be full or lazy only, not none"},
		{Config{Generation: V73, Arch: ARM64, Preempt: voluntary, Dynamic: true}, true, "can be full or lazy only, not voluntary"},
		{Config{Generation: V73, Arch: ARMHF}, true, "can't be built with none: want voluntary"},
		{Config{Generation: V73, Arch: MIPS, Preempt: lazy}, true, "mips has no lazy preemption: want voluntary or full"},
		{Config{Arch: ARMHF, Dynamic: true}, true, "armhf has no PREEMPT_DYNAMIC: want a static model"},
		{Config{Preempt: rcu.RT}, true, "no PREEMPT_RT"},
		{Config{Preempt: "half"}, false, `unknown preemption model "half"`},
		{Config{Loop: BusyPoll}, true, "linux 6.12 has no threaded busy poll"},
		{Config{Softirq: true, Loop: YieldOnExit}, false, "without a NAPI thread there is no variant"},
		{Config{Device: Veth, Latch: true}, false, "a veth has no interrupt"},
		{Config{Loop: BacklogThread, Device: Veth}, false, "packets come from other CPUs"},
		{Config{Weight: 64}, false, "a ring of 0 descriptors"},
		{Config{Weight: 65, Ring: 64}, false, "a weight of 65 above the ring's 64 descriptors"},
		{Config{Device: Veth, Weight: 8, Ring: 8, Bulk: 16}, false, "a bulk of 16 above the weight 8"},
		{Config{Restarts: 16}, false, "16 softirq restarts: want at most 15"},
		{Config{CPUs: 1}, false, "1 CPUs: want 2 to 4"},
		{Config{CPUs: 5}, false, "5 CPUs: want 2 to 4"},
		{Config{Generation: 9}, false, "generation 9"},
		{Config{Arch: 9}, false, "arch 9"},
		{Config{Loop: 99}, false, "loop 99"},
		{Config{Device: 9}, false, "device 9"},
		{Config{Break: breakEnd}, false, "break"},
		{Config{Programs: prog(Lock)}, false, "probe 0: keeps RTNL"},
		{Config{Programs: prog(Lock, Lock)}, false, "rtnl_lock twice"},
		{Config{Programs: prog(Unlock)}, false, "rtnl_unlock twice"},
		{Config{Programs: prog(Disable)}, false, "leaves the NAPI disabled"},
		{Config{Programs: prog(Enable)}, false, "napi_enable twice"},
		{Config{Programs: prog(End, Call)}, false, "call_rcu after the end"},
		{Config{Programs: prog(99)}, false, "no operation 99"},
		{Config{Programs: [MaxProbes]Program{Of(SyncTasks), Of(TasksScan)}}, false, "probes 0 and 1 both wait for Tasks RCU"},
		{Config{Programs: [MaxProbes]Program{Of(Disable, Enable), {}, Of(Disable, Enable)}}, false, "probes 0 and 2 both disable"},
		{Config{Loop: BacklogThread, Programs: prog(Disable, Enable)}, false, "a backlog NAPI is never disabled"},
		{Config{Programs: prog(SyncTasks, SyncTasks, SyncTasks, SyncTasks, SyncTasks)}, false, "15 operations"},
	} {
		_, err := New(c.cfg)
		switch {
		case err == nil:
			t.Errorf("New(%+v) has no error; want %q", c.cfg, c.want)
		case !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || errors.Is(err, errors.ErrUnsupported) != c.unsupported:
			t.Errorf("New(%+v): %v; want %q on one line, unsupported %v", c.cfg, err, c.want, c.unsupported)
		}
	}
}

func TestDefaults(t *testing.T) {
	m, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Preempt: none, Weight: 64, Ring: 1024, Bulk: 16, Budget: 300, Restarts: 10, CPUs: 2}
	if got := m.Config(); got != want {
		t.Errorf("the defaults are %+v; want %+v", got, want)
	}
}

// TestBuilds: what a build and its run-time model are made of.
func TestBuilds(t *testing.T) {
	type flags struct{ preemption, count, rcu, cond, allQS, points, lazy bool }
	for name, want := range map[string]flags{
		"none":            {cond: true, allQS: true},
		"none+count":      {count: true, cond: true, allQS: true},
		"voluntary":       {cond: true, allQS: true},
		"full":            {preemption: true, count: true, rcu: true, points: true},
		"dynamic none":    {preemption: true, count: true, rcu: true, cond: true},
		"dynamic none 18": {preemption: true, count: true, rcu: true, cond: true},
		"static lazy":     {preemption: true, count: true, points: true, lazy: true},
		"dynamic lazy":    {preemption: true, count: true, rcu: true, points: true, lazy: true},
	} {
		m, err := New(builds[name])
		if err != nil {
			t.Fatal(err)
		}
		if got := (flags{m.preemption, m.preemptCount, m.preemptRCU, m.cond, m.allQS, m.points, m.lazy}); got != want {
			t.Errorf("%s is %+v; want %+v", name, got, want)
		}
	}
}

// TestNames: every event, step, task, operation and effect has a name of its own.
func TestNames(t *testing.T) {
	for kind, names := range map[string][]string{
		"event": eventNames[:], "step": stepNames[:], "task": taskNames[:], "op": opNames[:], "effect": effectNames[:],
	} {
		seen := map[string]bool{}
		for i, name := range names {
			if name == "" || seen[name] {
				t.Errorf("%s %d is called %q, as another or not at all", kind, i, name)
			}
			seen[name] = true
		}
	}
	if got := 1 << len(effectNames); Effects(got) != effEnd {
		t.Errorf("%d effects have names; want as many as there are", len(effectNames))
	}
	if got, want := (EffEntry | EffTimer2).String(), "entry timer2"; got != want {
		t.Errorf("String() = %q; want %q", got, want)
	}
	for _, s := range []string{Event(99).String(), StepID(99).String(), Task(99).String(), Op(99).String()} {
		if !strings.HasSuffix(s, "?") {
			t.Errorf("an unknown one is called %q", s)
		}
	}
	if len(Breaks()) < 16 {
		t.Errorf("%d rules can be broken; want at least 16", len(Breaks()))
	}
}
