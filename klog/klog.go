// Package klog reads a Linux kernel log and returns the trouble that the kernel reported in it: RCU
// stalls, lockups, hung tasks and panics.
//
// [Lines] takes console text apart, whatever is wrapped around the kernel's own words; [ParseKmsg]
// does so for one record of /dev/kmsg. [Merge] joins two views of one log, and [Parse] turns lines
// into events. One grace period is one event, however often and by however many CPUs it was
// reported. Any bytes can be given to any function: nothing panics, and what is not understood is
// passed over. All functions are pure and may be called concurrently.
//
// The formats are those of kernels 3.0 to 7.3 (kernel/rcu/tree_stall.h, tree_exp.h, tasks.h,
// kernel/watchdog.c, hung_task.c, workqueue.c, panic.c).
package klog

import (
	"slices"
	"time"
)

// A Kind says what an Event is.
type Kind string

// The kinds of events.
const (
	// Classic is a stall of a normal grace period, reported by a CPU about itself or about others.
	Classic Kind = "classic"
	// Expedited is a stall of an expedited grace period.
	Expedited Kind = "expedited"
	// TasksRCU is a stall of one of the Tasks flavors (rcu_tasks, rcu_tasks_trace, rcu_tasks_rude).
	// These wait for something else than the other two and are never counted with them.
	TasksRCU Kind = "tasks-rcu"
	// GPAge is a Tasks grace period whose age was mentioned, short of a stall.
	GPAge Kind = "gp-age"
	// Starved is a grace-period kthread that did not run. It weakens what the stall beside it says
	// about a CPU: the detector itself was held up.
	Starved Kind = "gp-kthread-starved"
	// Timer is a grace-period kthread whose timer did not wake it.
	Timer Kind = "gp-kthread-timer"
	// SoftLockup is a CPU on which the watchdog's own work did not get to run.
	SoftLockup Kind = "soft-lockup"
	// HardLockup is a CPU that took no interrupts.
	HardLockup Kind = "hard-lockup"
	// HungTask is a task in uninterruptible sleep for too long, often a victim of what else is here.
	HungTask Kind = "hung-task"
	// WorkqueueLockup is a worker pool that made no progress.
	WorkqueueLockup Kind = "workqueue-lockup"
	// Panic is the end of a kernel.
	Panic Kind = "panic"
)

// Kinds lists every Kind, RCU first.
func Kinds() []Kind {
	return []Kind{Classic, Expedited, TasksRCU, GPAge, Starved, Timer,
		SoftLockup, HardLockup, HungTask, WorkqueueLockup, Panic}
}

// A Line is one line that the kernel printed, without what was wrapped around it.
type Line struct {
	Stamp    time.Duration // since boot, as printed: mostly in steps of 1 µs
	HasStamp bool          // whether the line came with a Stamp
	Text     string        // without line end, level, stamp or caller
}

// An Event is one thing that went wrong, with everything that was reported about it. Fields that do
// not apply to the Kind, or that the log does not tell, are at their zero values.
type Event struct {
	Kind Kind

	// Flavor is the name under which RCU reported: rcu_sched, rcu_preempt, rcu_bh, rcu_tasks …
	Flavor string
	// GP names the grace period: "g=…" for a normal one, "s=…" for an expedited one's sequence number,
	// "n=…" for a Tasks one's number. It is empty where the report has none or was cut.
	GP string
	// Self and Other say who reported a Classic event: a CPU that held the grace period up, another, or both.
	Self, Other bool
	// Jiffies is the largest age reported, in ticks of the kernel's HZ.
	Jiffies int64
	// Readers are the PIDs of preempted readers that held the grace period up, in increasing order.
	Readers []int

	// CPUs are those that the reports accuse, in increasing order; at most 1024 are kept.
	CPUs []int
	// Task and PID are the task that a lockup or hung-task report names.
	Task string
	PID  int
	// Owner and OwnerPID are the task that probably held the lock a hung task waited for (since 6.16).
	Owner    string
	OwnerPID int
	// Seconds is the largest duration reported, for the kinds that are not RCU's.
	Seconds int64

	// First and Last are the stamps of the earliest and latest line of Lines and those left out of
	// it; both are 0 without HasTime.
	First, Last time.Duration
	HasTime     bool
	// Reports counts how often the kernel reported this event, at least 1. A CPU's report about itself
	// and another's about it at the same time are one.
	Reports int
	// Lines are the reports' own lines without the stacks below them, at most 16 and 400 bytes of each.
	Lines []string
}

// Count returns how many of events are of kind k.
func Count(events []Event, k Kind) int {
	n := 0
	for _, e := range events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// Limits on what one event keeps, so that no log makes it large.
const (
	maxLines   = 16
	maxLineLen = 400
	maxCPUs    = 1024
	maxCPU     = 8191 // NR_CPUS of the largest kernel configs (x86 MAXSMP)
)

// note adds a line to the event, and its stamp.
func (e *Event) note(l Line) {
	if l.HasStamp {
		if !e.HasTime {
			e.First, e.Last, e.HasTime = l.Stamp, l.Stamp, true
		}
		e.First, e.Last = min(e.First, l.Stamp), max(e.Last, l.Stamp)
	}
	if len(e.Lines) < maxLines {
		e.Lines = append(e.Lines, clip(l.Text))
	}
}

// absorb adds what from reports to e, Reports excepted.
func (e *Event) absorb(from *Event) {
	e.Self, e.Other = e.Self || from.Self, e.Other || from.Other
	e.Jiffies, e.Seconds = max(e.Jiffies, from.Jiffies), max(e.Seconds, from.Seconds)
	for _, c := range from.CPUs {
		e.CPUs = insert(e.CPUs, c)
	}
	for _, p := range from.Readers {
		e.Readers = insert(e.Readers, p)
	}
	if e.Owner == "" {
		e.Owner, e.OwnerPID = from.Owner, from.OwnerPID
	}
	if from.HasTime {
		if !e.HasTime {
			e.First, e.Last, e.HasTime = from.First, from.Last, true
		}
		e.First, e.Last = min(e.First, from.First), max(e.Last, from.Last)
	}
	e.Lines = append(e.Lines, from.Lines[:min(len(from.Lines), maxLines-len(e.Lines))]...)
}

// insert adds n to a sorted set.
func insert(set []int, n int) []int {
	i, found := slices.BinarySearch(set, n)
	if found || len(set) >= maxCPUs {
		return set
	}
	return slices.Insert(set, i, n)
}
