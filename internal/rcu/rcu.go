// Package rcu gives the kernel's words a type: instants on a target's clock, RCU flavors,
// preemption models, and the waits that a device deletion goes through.
package rcu

import (
	"fmt"
	"time"
)

// A Ktime is an instant on a target's CLOCK_MONOTONIC, in nanoseconds since its boot. It is never
// converted into a time.Time: two machines' clocks have nothing to do with each other.
type Ktime int64

// Sub returns the time from u to k.
func (k Ktime) Sub(u Ktime) time.Duration { return time.Duration(k - u) }

// Add returns the instant d after k.
func (k Ktime) Add(d time.Duration) Ktime { return k + Ktime(d) }

// A Flavor is the name under which a kernel's RCU reports: rcu_sched where readers can't be
// preempted, rcu_preempt where they can (kernel/rcu/tree.h).
type Flavor string

// The two flavors of tree RCU since 4.20.
const (
	Sched   Flavor = "rcu_sched"
	Preempt Flavor = "rcu_preempt"
)

// A Preemption is a kernel's preemption model in force at run time. The zero value stands for
// unknown, or in a wish for "whatever the kernel has".
type Preemption string

// The models that a kernel can be built with or, under PREEMPT_DYNAMIC, be told to follow.
const (
	None      Preemption = "none"
	Voluntary Preemption = "voluntary"
	Full      Preemption = "full"
	Lazy      Preemption = "lazy"
	RT        Preemption = "rt"
)

// Preempts reports whether kernel code is preempted at local_bh_enable and at interrupt exit under
// this model, which is what ends the stalls of threaded NAPI.
func (p Preemption) Preempts() bool { return p == Full || p == Lazy || p == RT }

// ParsePreemption returns the model named s, in the kernel's own spelling of preempt=, or an error
// that lists the names.
func ParsePreemption(s string) (Preemption, error) {
	switch p := Preemption(s); p {
	case None, Voluntary, Full, Lazy, RT:
		return p, nil
	}
	return "", fmt.Errorf("unknown preemption model %q: want none, voluntary, full, lazy or rt", s)
}

// A Wait is what a blocked device deletion waits for.
type Wait string

// The waits of ip link del (unregister_netdevice_many_notify, netdev_run_todo), told apart by the
// blocked task's stack.
const (
	SynchronizeNet Wait = "synchronize_net" // a grace period, expedited under RTNL
	FlushWork      Wait = "flush_work"      // flush_all_backlogs: a kworker bound to each CPU
	Barrier        Wait = "rcu_barrier"     // callbacks of a normal grace period
	RTNL           Wait = "rtnl"            // somebody else holds RTNL
	Refs           Wait = "refs"            // netdev_wait_allrefs_any
	OtherWait      Wait = "other"           // running, or blocked elsewhere
)

// Waits lists every Wait in the order in which a deletion meets them.
func Waits() []Wait {
	return []Wait{RTNL, SynchronizeNet, FlushWork, Barrier, Refs, OtherWait}
}
