package sim

import (
	"fmt"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
)

// site is where the nth wait in op of a probe's program was entered: the calling function and, where it waits so more than
// once, which call of how many.
func site(probe string, op model.Op, nth, of int) string {
	caller := "unregister_netdevice_many_notify"
	switch {
	case op == model.Lock:
		return "rtnetlink_rcv_msg"
	case op == model.Flush:
		return caller
	case op == model.Barrier && probe == experiment.LinkDel:
		return "netdev_run_todo"
	case op == model.Barrier:
		return "param_set_do_rcu_barrier"
	case op == model.SyncRCU:
		return "__do_sys_membarrier"
	case op != model.SyncNet:
		return ""
	case of > 2 && nth == 1: // before 7.3 the close batch waits too (model.LinkDel)
		caller = "dev_deactivate_many"
	}
	return fmt.Sprintf("%s#%d/%d", caller, nth, of)
}

// calls counts what in program are waits in op.
func calls(program model.Program, op model.Op) int {
	n := 0
	for _, o := range program {
		if o == op {
			n++
		}
	}
	return n
}

// seen makes a run of the stack samples number from..to-1, counted from the load's start, of the probing x.
func (r *recorder) seen(x *probing, from, to int64) experiment.WaitRun {
	every := int64(experiment.StackEvery)
	at := func(n int64) rcu.Ktime { return rcu.Ktime(r.begin + n*every) }
	start := rcu.Ktime(x.start)
	return experiment.WaitRun{
		Wait: rcu.Waits()[x.wait], Site: x.site, N: int(to - from), First: at(from).Sub(start), Last: at(to - 1).Sub(start),
	}
}
