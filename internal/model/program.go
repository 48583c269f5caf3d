package model

import (
	"fmt"
	"slices"
)

// An Op is one thing that a probe does, and waits for.
type Op uint8

// The operations. ProbeTimer is their effect where a sleep is named, ProbeWake what ends it.
const (
	End       Op = iota // the round is over
	Lock                // rtnl_lock
	Unlock              // rtnl_unlock
	SyncNet             // synchronize_net: expedited if anybody holds RTNL, else normal
	SyncRCU             // synchronize_rcu, as membarrier's global command calls it
	SyncExp             // synchronize_rcu_expedited
	Flush               // flush_all_backlogs: CPU 0's kworker, if Config.Backlog
	Work                // a work item for CPU 0's kworker of system_highpri_wq, and flush_work: no condition
	Call                // call_rcu on CPU 1, as a device's teardown does; no wait
	CallHot             // call_rcu on CPU 0, waits until it has run: whether callbacks run there
	Barrier             // rcu_barrier
	SyncTasks           // synchronize_rcu_tasks; without PREEMPTION it is synchronize_rcu
	TasksScan           // rcu_tasks_wait_gp alone: scans for the NAPI thread; sleeps HZ/10 between scans. Nothing without PREEMPTION
	Disable             // napi_disable of the polled NAPI; sleeps 20 to 200 µs between looks
	Enable              // napi_enable of it
	Sleep               // schedule_timeout(1)

	numOps = iota
)

var opNames = [numOps]string{
	"end", "rtnl_lock", "rtnl_unlock", "synchronize_net", "synchronize_rcu", "synchronize_rcu_expedited", "flush_all_backlogs", "flush_work",
	"call_rcu", "call_rcu on CPU 0", "rcu_barrier", "synchronize_rcu_tasks", "rcu_tasks_wait_gp", "napi_disable", "napi_enable",
	"schedule_timeout",
}

// String returns the kernel function that o is.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "op ?"
}

// MaxOps is how many operations a Program holds. SyncTasks counts as three.
const MaxOps = 14

// A Program is what a probe does in one round, up to the first End. The zero Program is a probe that isn't there.
type Program [MaxOps]Op

// A Link is what kind of device a deletion removes.
type Link uint8

// The kinds, by how often unregister_netdevice_many_notify waits.
const (
	Dummy     Link = iota // dummy, ifb, vlan: no qdisc
	Queueing              // up, with a real qdisc
	VethPlain             // a veth pair without NAPI
	VethNAPI              // a veth pair with NAPI on one end
)

// Of returns the program of ops. It panics if they are more than MaxOps: programs are written in source, not by users.
func Of(ops ...Op) Program {
	var p Program
	if copy(p[:], ops) < len(ops) {
		panic("model: program too long")
	}
	return p
}

// LinkDel is `ip link del` of a device of kind k under g: rtnl_dellink, unregister_netdevice_many_notify,
// netdev_run_todo (net/core/dev.c). Reference counts are taken to be down to one after rcu_barrier. The wait of the
// close batch (dev_deactivate_many) is unconditional in 6.12; 7.3 skips it where no queue has a real qdisc.
func LinkDel(g Generation, k Link) Program {
	ops := []Op{Lock}
	if g < V73 || k == Queueing {
		ops = append(ops, SyncNet) // dev_deactivate_many
	}
	if k == VethNAPI {
		ops = append(ops, SyncNet) // veth_napi_del_range
	}
	return Of(append(ops, Flush, SyncNet, Call, SyncNet, Unlock, Barrier)...)
}

// Membarrier is membarrier(MEMBARRIER_CMD_GLOBAL): one synchronize_rcu.
func Membarrier() Program { return Of(SyncRCU) }

// RCUBarrier is a write to do_rcu_barrier: one rcu_barrier, which waits only for what somebody has queued.
func RCUBarrier() Program { return Of(Barrier) }

// compile spells out synchronize_rcu_tasks (kernel/rcu/tasks.h: rcu_tasks_pregp_step, rcu_tasks_wait_gp,
// rcu_tasks_postgp) and leaves out what doesn't exist in this build. check has made sure that it fits.
func (m *Model) compile() [MaxProbes]Program {
	var out [MaxProbes]Program
	for p, program := range m.cfg.Programs {
		var ops []Op
		for _, op := range program {
			switch {
			case op == End:
			case op == SyncTasks && m.preemption:
				ops = append(ops, SyncRCU, TasksScan, SyncRCU)
			case op == SyncTasks:
				ops = append(ops, SyncRCU)
			case op == TasksScan && !m.preemption:
			default:
				ops = append(ops, op)
			}
		}
		out[p] = Of(ops...)
	}
	return out
}

// uses reports whether some probe's program has op.
func (m *Model) uses(op Op) bool {
	for p := range m.progs {
		if slices.Contains(m.progs[p][:], op) {
			return true
		}
	}
	return false
}

// checkPrograms refuses programs that deadlock by themselves or that two probes can't run at once.
func (c Config) checkPrograms() error {
	tasks, disables := -1, -1
	for p, program := range c.Programs {
		held, disabled, length, ended := false, false, 0, false
		for _, op := range program {
			length++
			switch {
			case op >= numOps:
				return fmt.Errorf("probe %d: there is no operation %d", p, op)
			case op == End:
				ended = true
				length--
				continue
			case ended:
				return fmt.Errorf("probe %d: %v after the end", p, op)
			case op == Lock && held || op == Unlock && !held:
				return fmt.Errorf("probe %d: %v twice", p, op)
			case op == Disable && disabled || op == Enable && !disabled:
				return fmt.Errorf("probe %d: %v twice", p, op)
			case op == Disable && c.Loop == BacklogThread:
				return fmt.Errorf("probe %d: a backlog NAPI is never disabled", p)
			case op == Disable && disables >= 0 && disables != p:
				return fmt.Errorf("probes %d and %d both disable the NAPI: want one of them only", disables, p)
			case (op == SyncTasks || op == TasksScan) && tasks >= 0 && tasks != p:
				return fmt.Errorf("probes %d and %d both wait for Tasks RCU: want one of them only", tasks, p)
			}
			switch op {
			case Lock, Unlock:
				held = op == Lock
			case Disable, Enable:
				disabled, disables = op == Disable, p
			case TasksScan:
				tasks = p
			case SyncTasks:
				tasks = p
				length += 2
			}
		}
		switch {
		case held:
			return fmt.Errorf("probe %d: keeps RTNL", p)
		case disabled:
			return fmt.Errorf("probe %d: leaves the NAPI disabled", p)
		case length > MaxOps:
			return fmt.Errorf("probe %d: %d operations, SyncTasks counting as three: want at most %d", p, length, MaxOps)
		}
	}
	return nil
}
