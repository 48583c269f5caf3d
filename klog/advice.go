package klog

import (
	"fmt"
	"slices"
	"strings"
)

// summary says in one sentence what happened.
func (v *Verdict) summary(events []Event) string {
	s := ""
	switch v.Class {
	case ThreadedNAPI:
		s = "The NAPI thread " + v.Hog.String() + " keeps its CPU"
		if Count(events, Classic)+Count(events, Expedited)+Count(events, TasksRCU) > 0 {
			s += ", and grace periods wait for it"
		}
	case Softirq:
		s = "Softirqs keep a CPU" + v.by()
	case DriverWorker:
		s = "A task does not come back from the kernel" + v.by()
	case StarvedGP:
		s = "RCU's own kthread did not get to run: a virtual CPU without time, or something that runs before it"
	case LostTimer:
		s = "A timer or tick was lost, not a CPU"
	case BlockedReader:
		s = "A reader that sleeps or was preempted holds the grace period up" + v.by()
	case DeadCPU:
		s = "A CPU takes no interrupts" + v.by()
	case SlowConsole:
		s = "Everything ran too slowly: an emulator, or a host with too much to do"
		if v.Hog != nil {
			s = "Printing held the CPU, not work" + v.by()
		}
	case Fragmentary:
		s = "The log has only a piece of a report: not enough to tell"
	default:
		s = noStall(events, v)
	}
	if n := len(v.Victims); n > 0 && v.Class != Unknown {
		s += fmt.Sprintf("; %s", tasksWait(n))
	}
	return s + "."
}

func tasksWait(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}

// blocked says as much as victims alone tell: the longest chain of owners.
func blocked(victims []Victim) string {
	s := tasksWait(len(victims)) + ", and the log does not show what it comes down to: " + victims[0].String()
	at := victims[0]
	for range victims {
		i := slices.IndexFunc(victims, func(v Victim) bool { return at.Owner != "" && v.PID == at.OwnerPID })
		if i < 0 || victims[i] == at {
			break
		}
		at = victims[i]
		s += "; " + at.String()
	}
	return s
}

func (v *Verdict) by() string {
	if v.Hog == nil {
		return ""
	}
	return ": " + v.Hog.String()
}

// noStall says what events are when no class fits.
func noStall(events []Event, v *Verdict) string {
	switch {
	case len(events) == 0:
		return "Nothing found"
	case len(v.Against) > 0:
		return "Not enough to tell: " + strings.Join(v.Against, ", ")
	case v.Hog != nil:
		return "Something keeps a CPU, and what it is at is not in the log: " + v.Hog.String()
	case len(v.Victims) > 0:
		return blocked(v.Victims)
	}
	for _, k := range [...]struct {
		kind Kind
		text string
	}{
		{Oops, "A fault in the kernel, not a stall"},
		{UnregisterWait, "Somebody holds a reference to a network device: a leak, not a stall"},
		{TXTimeout, "A device did not send, not a stall"},
		{Warning, "A warning, not a stall"},
		{NOHZ, "Softirqs were pending when a CPU went idle, not a stall"},
		{RTThrottle, "Real-time tasks used up their share of a CPU, not a stall"},
		{GPAge, "A Tasks grace period is slow, and what it waits for is not in the log"},
		{Panic, "The kernel panicked, and no stall is in the log before it"},
	} {
		if Count(events, k.kind) > 0 {
			return k.text
		}
	}
	return "Not enough to tell"
}

// next says what to do.
func (v *Verdict) next(events []Event) []string {
	var do []string
	for _, e := range events {
		if e.Before != "" && (v.Class == ThreadedNAPI || v.Class == Softirq || v.Class == DriverWorker) {
			do = append(do, "look at the driver first, which complained just before: "+e.Before)
			break
		}
	}
	switch v.Class {
	case ThreadedNAPI:
		do = append(do, "echo 0 > /sys/class/net/DEVICE/threaded (costs throughput where threads spread the load), or boot with preempt=lazy or full",
			"measure it: count the thread's nonvoluntary switches in /proc/PID/status over some seconds while it happens")
	case Softirq:
		do = append(do, "see which softirq: watch /proc/softirqs and /proc/interrupts on that CPU", "coalesce the device's interrupts (ethtool -C), or try threaded NAPI")
	case DriverWorker:
		do = append(do, "report the function to its driver's maintainers with the whole backtrace", "echo l > /proc/sysrq-trigger while it lasts, a few times: what stays on the stack is the loop")
	case StarvedGP:
		do = append(do, "on a virtual machine look at steal time and at the host's load", "look for real-time tasks on the kthread's CPU; rcutree.kthread_prio=1 makes RCU's kthreads real-time")
	case LostTimer:
		do = append(do, "try another clockevent or clocksource, or nohz=off; on a virtual machine look at the hypervisor's timers")
	case BlockedReader:
		do = append(do, "find what the named task waits for: cat /proc/PID/stack", "CONFIG_RCU_BOOST lets preempted readers finish")
	case DeadCPU:
		do = append(do, "turn on the hard-lockup detector (nmi_watchdog=1) or look at the hypervisor: who ran there with interrupts off is not in this log")
	case SlowConsole:
		do = append(do, "lower the console's log level (dmesg -n 4), raise its speed, or raise rcupdate.rcu_cpu_stall_timeout on an emulator")
	case Fragmentary:
		do = append(do, "get the whole log: dmesg, journalctl -k -b, or the console from before the first line here")
	default:
		if len(v.Victims) > 0 {
			do = append(do, "echo w > /proc/sysrq-trigger while it lasts: it shows every blocked task, the owner among them")
		}
	}
	return do
}
