package backend

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// idle is an arm that every live machine may run.
func idle() experiment.Arm {
	return experiment.Arm{Name: "a", Kernel: "host", VCPUs: 2, Load: experiment.Load{Kind: experiment.NoLoad}}
}

func bouncing(hold time.Duration) experiment.Arm {
	a := idle()
	a.Load = experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: hold}
	return a
}

func TestRefuse(t *testing.T) {
	with := func(f func(*experiment.Arm)) experiment.Arm {
		a := idle()
		f(&a)
		return a
	}
	for _, tc := range []struct {
		name string
		live Live
		arm  experiment.Arm
		want string // in the error; empty for none
	}{
		{"idle", Live{}, idle(), ""},
		{"another kernel", Live{}, with(func(a *experiment.Arm) { a.Kernel = "debian:sid/armhf" }), "kernel: host"},
		{"host as an alternative", Live{}, with(func(a *experiment.Arm) { a.Kernel, a.KernelElse = "debian:sid", []string{"host"} }), ""},
		{"boot", Live{}, with(func(a *experiment.Arm) { a.Boot = []string{"nohz_full=1"} }), "nohz_full=1"},
		{"memory", Live{}, with(func(a *experiment.Arm) { a.Memory = 512 }), "memory:"},
		{"variant", Live{}, with(func(a *experiment.Arm) { a.Loop = experiment.YieldOnExit }), "simulator only"},
		{"bounce", Live{}, bouncing(time.Second), "--allow-bounce"},
		{"bounce, allowed", Live{Bounce: true}, bouncing(2 * time.Second), ""},
		{"bounce, too long", Live{Bounce: true}, bouncing(2*time.Second + 1), "--i-own-this-machine"},
		{"bounce, owned", Live{Owned: true}, bouncing(10 * time.Second), ""},
		{"bounce, too long for an owner", Live{Owned: true, Bounce: true}, bouncing(11 * time.Second), "10s at most"},
		{"band", Live{}, with(func(a *experiment.Arm) {
			a.Load = experiment.Load{Kind: experiment.Paced, Rate: 1000, Band: experiment.HoldBand, Hold: time.Second}
		}), "--allow-bounce"},
		{"windowed", Live{}, with(func(a *experiment.Arm) {
			a.Load = experiment.Load{Kind: experiment.Windowed, Window: 8, Hold: time.Second}
		}), "--allow-bounce"},
		{"paced", Live{}, with(func(a *experiment.Arm) {
			a.Load = experiment.Load{Kind: experiment.Paced, Rate: 1000, Hold: time.Minute}
		}), ""},
		{"external without a device", Live{}, with(func(a *experiment.Arm) { a.Load.Kind = experiment.External }), "--device"},
		{"external", Live{Device: "eth0"}, with(func(a *experiment.Arm) { a.Load.Kind = experiment.External }), ""},
		{"bounce on a device", Live{Device: "eth0", Owned: true}, bouncing(time.Second), "external"},
	} {
		err := tc.live.Refuse(tc.arm)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: Refuse = %v; want nil", tc.name, err)
		case tc.want != "" && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: Refuse = %v; want ErrUnsupported with %q", tc.name, err, tc.want)
		}
	}
}

func TestCheckLive(t *testing.T) {
	arm := idle()
	arm.Preempt = rcu.None
	for _, tc := range []struct {
		facts experiment.Facts
		want  string
	}{
		{experiment.Facts{Preempt: rcu.None, CPUs: 2}, ""},
		{experiment.Facts{Preempt: rcu.Lazy, Dynamic: true, CPUs: 2}, "sched/preempt"},
		{experiment.Facts{Preempt: rcu.Lazy, CPUs: 2}, "built so"},
		{experiment.Facts{CPUs: 2}, "unknown"},
		{experiment.Facts{Preempt: rcu.None, CPUs: 1}, "1 CPUs"},
	} {
		err := CheckLive(tc.facts, arm)
		_, wrong := errors.AsType[*WrongKernelError](err)
		if wrong != (tc.want != "") || wrong && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("CheckLive(%+v) = %v; want %q", tc.facts, err, tc.want)
		}
	}
}
