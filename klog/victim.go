package klog

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Victim is a task that waits for what the hog holds up, or for another victim.
type Victim struct {
	Task    string
	PID     int
	Seconds int64 // how long, as far as it was reported
	// Waits says for what: RTNL, a grace period, a lock, a worker, NAPI, or "" where the log doesn't tell.
	Waits Wait
	// In is the function of the kernel that it called.
	In string
	// Owner and OwnerPID are who probably holds the lock.
	Owner    string
	OwnerPID int
}

// A Wait is what a task waits for.
type Wait string

// The waits. RTNL is the lock of all network configuration, which whoever deletes a device holds while it waits
// for grace periods.
const (
	WaitsRTNL   Wait = "RTNL"
	WaitsRCU    Wait = "an RCU grace period"
	WaitsWorker Wait = "a worker"
	WaitsNAPI   Wait = "a NAPI instance to end"
	WaitsLock   Wait = "a lock"
	WaitsCPU    Wait = "another CPU's answer"
)

const maxVictims = 16

// victims lists who waits, and the owners of what they wait for where a backtrace shows that these wait too.
func victims(events []Event) []Victim {
	var all []Victim
	put := func(v Victim) {
		for i := range all {
			if all[i].Task == v.Task && all[i].PID == v.PID {
				return
			}
		}
		if len(all) < maxVictims {
			all = append(all, v)
		}
	}
	for i := range events {
		e := &events[i]
		if t := e.traceOf(e.CPUs); e.Kind == SoftLockup && t.waitsForCPU() {
			put(Victim{Task: e.Task, PID: e.PID, Seconds: e.Seconds, Waits: WaitsCPU, In: t.loop()})
		}
		if e.Kind != HungTask && e.Kind != MutexOwner && e.Kind != BlockedTask {
			continue
		}
		v := Victim{Task: e.Task, PID: e.PID, Seconds: e.Seconds, Owner: e.Owner, OwnerPID: e.OwnerPID}
		if e.Owner != "" {
			v.Waits = WaitsLock
		}
		for j := range e.Traces {
			if t := &e.Traces[j]; t.PID == e.PID || t.PID == 0 && e.Kind == HungTask {
				v.Waits, v.In = t.waits(), t.loop()
				break
			}
		}
		put(v)
		for j := range e.Traces {
			if t := &e.Traces[j]; t.PID != 0 && t.PID == e.OwnerPID && t.State != "R" {
				put(Victim{Task: t.Task, PID: t.PID, Waits: t.waits(), In: t.loop()})
			}
		}
	}
	return all
}

// waits reads from a sleeping task's stack what it waits for: RTNL goes before a mere lock, and what is innermost
// before what called it.
func (t *Trace) waits() Wait {
	lock := false
	for _, f := range t.sure() {
		fn := plain(f.Func)
		switch {
		case strings.HasPrefix(fn, "synchronize_rcu"), fn == "synchronize_net", fn == "synchronize_sched", strings.HasSuffix(fn, "wait_rcu_gp"), fn == "wait_rcu_exp_gp",
			fn == "exp_funnel_lock", strings.HasPrefix(fn, "rcu_barrier"), fn == "_rcu_barrier", strings.HasPrefix(fn, "synchronize_srcu"):
			return WaitsRCU
		case fn == "flush_work", fn == "__flush_work", fn == "flush_workqueue", fn == "__flush_workqueue", fn == "flush_all_backlogs",
			fn == "cancel_work_sync", fn == "__cancel_work_timer", fn == "__cancel_work_sync":
			return WaitsWorker
		case fn == "napi_disable", fn == "napi_disable_locked":
			return WaitsNAPI
		case strings.Contains(fn, "mutex_lock"), strings.HasPrefix(fn, "rwsem_down"), strings.HasPrefix(fn, "down_"):
			lock = true
		case lock && takesRTNL(fn):
			return WaitsRTNL
		}
	}
	if lock {
		return WaitsLock
	}
	return ""
}

// takesRTNL reports whether fn, found above a lock, is one that waits for RTNL.
func takesRTNL(fn string) bool {
	if strings.HasPrefix(fn, "rtnl_") || strings.HasPrefix(fn, "rtnetlink_") {
		return true
	}
	switch fn {
	case "netlink_dump", "__netlink_dump_start", "dev_ioctl", "devinet_ioctl", "linkwatch_event", "addrconf_dad_work", "addrconf_verify_work",
		"unregister_netdev", "register_netdev", "ppp_release", "netdev_run_todo", "cleanup_net", "switchdev_deferred_process_work", "tun_chr_close", "bond_mii_monitor",
		"inet6_ioctl", "inet_ioctl", "wiphy_work", "cfg80211_event_work", "reg_todo", "dst_gc_task", "ip_mroute_setsockopt", "wext_handle_ioctl":
		return true
	}
	return false
}

// String says who waits for what.
func (v Victim) String() string {
	s := v.Task + " waits"
	if v.PID > 0 {
		s = fmt.Sprintf("%s:%d waits", v.Task, v.PID)
	}
	if v.Waits != "" {
		s += " for " + string(v.Waits)
	}
	if v.In != "" {
		s += " in " + v.In
	}
	if v.Owner != "" {
		s += fmt.Sprintf(", held by %s:%d", v.Owner, v.OwnerPID)
	}
	if v.Seconds > 0 {
		s += fmt.Sprintf(", for %d s and more", v.Seconds)
	}
	return s
}

// quiet is how long a log says nothing between two incidents. The hung-task detector, the slowest, reports after 2
// minutes and each 2 minutes.
const quiet = 10 * time.Minute

// Together reports whether next can belong to the incident of events, which are in order of first line: the
// same boot, and not much later.
func Together(events []Event, next Event) bool {
	const most = 256 // so that no log makes an incident large
	if len(events) == 0 {
		return true
	}
	if len(events) >= most || events[len(events)-1].Boot != next.Boot {
		return false
	}
	if !next.HasTime {
		return true
	}
	return slices.ContainsFunc(events, func(e Event) bool {
		return !e.HasTime || next.First-e.Last <= quiet
	})
}
