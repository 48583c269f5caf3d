package model

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
	TasksScan           // rcu_tasks_wait_gp alone: scans for the NAPI thread; sleeps HZ/10 between scans
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

// The kinds of section 5.3 of the kernel facts: how often unregister_netdevice_many_notify waits differs.
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
// netdev_run_todo. Reference counts are taken to be down to one after rcu_barrier.
func LinkDel(g Generation, k Link) Program { return Program{} }

// Membarrier is membarrier(MEMBARRIER_CMD_GLOBAL): one synchronize_rcu.
func Membarrier() Program { return Of(SyncRCU) }

// RCUBarrier is a write to do_rcu_barrier: one rcu_barrier, with callbacks queued on CPU 1 first if busy is set, as some are
// on any machine that is in use.
func RCUBarrier(busy bool) Program {
	if busy {
		return Of(Call, Barrier)
	}
	return Of(Barrier)
}
