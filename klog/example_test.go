package klog_test

import (
	"fmt"
	"strings"

	"github.com/napistall/napistall/klog"
)

// A console's text is taken apart and read. Both reports are about one grace period.
func Example() {
	text := `[   41.200011] rcu: INFO: rcu_sched self-detected stall on CPU
[   41.200490] rcu: 	1-....: (2099 ticks this GP) idle=7a1c/1/0x40000002 softirq=410/410 fqs=1048
[   41.201002] rcu: 	(t=2100 jiffies g=733 q=41 ncpus=2)
[  104.230011] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:
[  104.230490] rcu: 	1-....: (8402 ticks this GP) idle=7a1c/1/0x40000002 softirq=410/410 fqs=4190
[  104.231002] rcu: 	(detected by 0, t=8405 jiffies, g=733, q=77 ncpus=2)
`
	for _, e := range klog.Parse(klog.Lines(text)) {
		fmt.Printf("%s stall of %s %s on CPU %v, reported %d times from %v to %v\n",
			e.Kind, e.Flavor, e.GP, e.CPUs, e.Reports, e.First, e.Last)
	}
	// Output:
	// classic stall of rcu_sched g=733 on CPU [1], reported 2 times from 41.200011s to 1m44.231002s
}

// A guest's log came over two ways. Only the console has what the guest printed at its end.
func ExampleMerge() {
	var kmsg []klog.Line
	for _, record := range []string{
		"6,100,40000000,-;eth0: link up",
		"3,101,41000000,-,caller=C1;rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-...D } 2101 jiffies s: 565 root: 0x2/.",
	} {
		_, _, line, err := klog.ParseKmsg(record)
		if err != nil {
			fmt.Println(err)
			return
		}
		kmsg = append(kmsg, line)
	}
	console := klog.Lines("[   41.000000][   C1] rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-...D } 2101 jiffies s: 565 root: 0x2/.\r\n" +
		"[   60.000000][   C0] Kernel panic - not syncing: out of luck\r\n")
	events := klog.Parse(klog.Merge(kmsg, console))
	fmt.Println(klog.Count(events, klog.Expedited), klog.Count(events, klog.Panic))
	// Output:
	// 1 1
}

// A log is read as a stream, and judged.
func ExampleJudge() {
	log := `Nov 30 18:25:34 host1 kernel: [   41.200011] rcu: INFO: rcu_sched self-detected stall on CPU
Nov 30 18:25:34 host1 kernel: [   41.200490] rcu: 	1-....: (2099 ticks this GP) idle=7a1c/1/0x40000002 softirq=410/410 fqs=1048
Nov 30 18:25:34 host1 kernel: [   41.201002] rcu: 	(t=2100 jiffies g=733 q=41 ncpus=2)
Nov 30 18:25:34 host1 kernel: [   41.201500] CPU: 1 UID: 0 PID: 88 Comm: napi/lan0-67 Not tainted 7.2.13 #1
Nov 30 18:25:34 host1 kernel: [   41.202100]  napi_threaded_poll_loop+0x1c0/0x220
Nov 30 18:25:34 host1 kernel: [   41.202200]  napi_threaded_poll+0x60/0x80
Nov 30 18:27:40 host1 kernel: [  167.000000] INFO: task ip:817 blocked for more than 122 seconds.
`
	var events []klog.Event
	for e, err := range klog.Events(strings.NewReader(log)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		events = append(events, e)
	}
	v := klog.Judge(events)
	fmt.Printf("%s, %s\n%s\n%s\n", v.Class, v.Confidence, v.Summary, strings.Join(v.Signs, "; "))
	// Output:
	// threaded NAPI, high
	// The NAPI thread napi/lan0-67:88 on CPU 1 in napi_threaded_poll_loop keeps its CPU, and grace periods wait for it; 1 task waits.
	// RCU accuses CPU 1; a NAPI thread runs there; its stack is in napi_threaded_poll; the CPU takes interrupts: it is not dead
}
