// Package klog reads a Linux kernel log, returns the trouble that the kernel reported in it (RCU stalls,
// lockups, hung tasks, panics and what else stops a network), and judges what is behind it.
//
// [Events] reads a log of any length and wrapping in little memory; [Judge] says who holds a CPU, who
// waits, how sure that is and what to do next. Below them, [Lines] takes console text apart, whatever
// is wrapped around the kernel's own words; [ParseKmsg] does so for one record of /dev/kmsg. [Merge]
// joins two views of one log, and [Parse] turns lines into events, as a [Parser] does line by line. One grace
// period is one event, however often and by however many CPUs it was reported. Any bytes can be given to any
// function: nothing panics, and what is not understood is passed over. All functions are pure and may be
// called concurrently; a Parser belongs to one goroutine.
//
// The formats are those of kernels 3.0 to 7.3 (kernel/rcu/tree_stall.h, tree_exp.h, tasks.h,
// kernel/watchdog.c, hung_task.c, workqueue.c, panic.c).
package klog

import (
	"math"
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
	// MutexOwner names the likely owner of a lock that a task waits for, where the log lost the report
	// of the waiting task before it. With it, the owner is part of the HungTask.
	MutexOwner Kind = "mutex-owner"
	// BlockedTask is a task in uninterruptible sleep that somebody asked for (sysrq-w).
	BlockedTask Kind = "blocked-task"
	// WorkqueueLockup is a worker pool that made no progress.
	WorkqueueLockup Kind = "workqueue-lockup"
	// TXTimeout is a transmit queue that the device did not empty: NETDEV WATCHDOG or the driver's own word.
	TXTimeout Kind = "tx-timeout"
	// UnregisterWait is a network device that cannot go because somebody holds a reference to it. That is
	// a leak, not a stall, in every public log found.
	UnregisterWait Kind = "unregister-wait"
	// RTThrottle is real-time tasks that used up their share of a CPU.
	RTThrottle Kind = "rt-throttle"
	// NOHZ is a CPU that went idle with softirqs pending.
	NOHZ Kind = "nohz-softirq"
	// Oops is a fault in the kernel: a bad access, a BUG, a sanitizer's find.
	Oops Kind = "oops"
	// Warning is a WARN, or the end of one whose beginning the log lost.
	Warning Kind = "warning"
	// CPUDump is a CPU's registers or stack that no report around it explains.
	CPUDump Kind = "cpu-dump"
	// Fragment is a piece of a report, without its head, in a log that has nothing else. There is at most one.
	Fragment Kind = "fragment"
	// Panic is the end of a kernel.
	Panic Kind = "panic"
)

// Kinds lists every Kind, RCU first.
func Kinds() []Kind {
	return []Kind{Classic, Expedited, TasksRCU, GPAge, Starved, Timer,
		SoftLockup, HardLockup, HungTask, MutexOwner, BlockedTask, WorkqueueLockup, TXTimeout, UnregisterWait,
		RTThrottle, NOHZ, Oops, Warning, CPUDump, Fragment, Panic}
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

	// Blocked says that preempted readers held the grace period up, even where Readers names none of them.
	Blocked bool
	// AllQSes says that no CPU or reader held the grace period up any more: its kthread did not come round.
	AllQSes bool
	// States are what the reports say about each CPU that they accuse, the newest last; at most 32.
	States []CPUState
	// Holdouts are the tasks that a Tasks grace period waits for; at most 16.
	Holdouts []Holdout
	// Asked are CPUs that got an NMI for a backtrace, Answered those of them that answered within 2 s.
	Asked, Answered []int

	// CPUs are those that the reports accuse, in increasing order; at most 1024 are kept. Of Starved it is the
	// CPU of the kthread, of Timer that of its timer.
	CPUs []int
	// Task and PID are the task that a lockup or hung-task report names.
	Task string
	PID  int
	// Owner and OwnerPID are the task that probably held the lock a hung task waited for (since 6.16).
	Owner    string
	OwnerPID int
	// Device is the network device of TXTimeout and UnregisterWait.
	Device string
	// Works are the functions that a locked-up worker pool was at; at most 16.
	Works []string
	// Seconds is the largest duration reported, for the kinds that are not RCU's.
	Seconds int64

	// First and Last are the stamps of the earliest and latest line of Lines and those left out of
	// it; both are 0 without HasTime.
	First, Last time.Duration
	HasTime     bool
	// Boot counts the reboots within the log before this event.
	Boot int
	// HZ is the kernel's ticks per second where the log tells it, else 0.
	HZ int
	// Traces are the backtraces below the reports; at most 6.
	Traces []Trace
	// Before is the last complaint of a driver about a timeout in the minute before, if there was one.
	Before string
	// Reports counts how often the kernel reported this event, at least 1. A CPU's report about itself
	// and another's about it at the same time are one.
	Reports int
	// Lines are the reports' own lines without the stacks below them, at most 16 and 400 bytes of each.
	Lines []string
}

// Age returns how old the grace period was, at most, where that can be told: where HZ is known.
func (e Event) Age() (time.Duration, bool) {
	if e.HZ <= 0 || e.Jiffies <= 0 {
		return 0, false
	}
	const limit = math.MaxInt64 / int64(time.Second)
	return time.Duration(min(e.Jiffies, limit)) * time.Second / time.Duration(e.HZ), true
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

	maxHoldouts = 16
	maxStates   = 32
	maxTraces   = 6
	maxWorks    = 16
	maxCPU      = 8191 // NR_CPUS of the largest kernel configs (x86 MAXSMP)
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
	e.Blocked, e.AllQSes = e.Blocked || from.Blocked, e.AllQSes || from.AllQSes
	e.CPUs, e.Readers = union(e.CPUs, from.CPUs), union(e.Readers, from.Readers)
	e.Asked, e.Answered = union(e.Asked, from.Asked), union(e.Answered, from.Answered)
	e.States = appendUpTo(e.States, from.States, maxStates)
	e.Holdouts = appendUpTo(e.Holdouts, from.Holdouts, maxHoldouts)
	e.Works = appendUpTo(e.Works, from.Works, maxWorks)
	e.Traces = appendUpTo(e.Traces, from.Traces, maxTraces)
	if e.Owner == "" {
		e.Owner, e.OwnerPID = from.Owner, from.OwnerPID
	}
	if e.Before == "" {
		e.Before = from.Before
	}
	if from.HasTime {
		if !e.HasTime {
			e.First, e.Last, e.HasTime = from.First, from.Last, true
		}
		e.First, e.Last = min(e.First, from.First), max(e.Last, from.Last)
	}
	e.Lines = appendUpTo(e.Lines, from.Lines, maxLines)
}

// appendUpTo appends as much of from as fits in limit.
func appendUpTo[T any](to, from []T, limit int) []T {
	return append(to, from[:max(0, min(len(from), limit-len(to)))]...)
}

func union(set, from []int) []int {
	for _, n := range from {
		set = insert(set, n)
	}
	return set
}

// insert adds n to a sorted set.
func insert(set []int, n int) []int {
	i, found := slices.BinarySearch(set, n)
	if found || len(set) >= maxCPUs {
		return set
	}
	return slices.Insert(set, i, n)
}
