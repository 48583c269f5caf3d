package klog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// stamped puts a stamp before each line.
func stamped(at string, lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("[" + at + "] " + l + "\n")
	}
	return b.String()
}

const (
	selfHead  = "rcu: INFO: rcu_sched self-detected stall on CPU"
	otherHead = "rcu: INFO: rcu_sched detected stalls on CPUs/tasks:"
	busyCPU   = "rcu: \t2-....: (6001 ticks this GP) idle=5d2c/1/0x4000000000000002 softirq=88/88 fqs=2990"
	deafCPU   = "rcu: \t2-...0: (3 ticks this GP) idle=5d2c/1/0x4000000000000000 softirq=88/88 fqs=2990"
	idleCPU   = "rcu: \t2-...!: (0 ticks this GP) idle=5d2c/0/0x0 softirq=88/88 fqs=0"
	selfEnd   = "rcu: \t(t=6002 jiffies g=411 q=90 ncpus=4)"
	otherEnd  = "rcu: \t(detected by 0, t=6002 jiffies, g=411, q=90 ncpus=4)"
	napiTask  = "CPU: 2 UID: 0 PID: 311 Comm: napi/lan2-14 Not tainted 6.12.30 #1"
)

var napiStack = []string{"Call Trace:", " <TASK>", " acme_rx_poll+0x48/0x210 [acme]", " __napi_poll+0x30/0x200", " napi_threaded_poll_loop+0x1c0/0x220",
	" napi_threaded_poll+0x60/0x80", " kthread+0xe0/0x110", " ret_from_fork+0x2c/0x50", " </TASK>"}

func TestJudge(t *testing.T) {
	softirqStack := []string{"Call Trace:", " <IRQ>", " acme_clean_rx+0x48/0x210 [acme]", " __napi_poll+0x30/0x200", " net_rx_action+0x2a0/0x300",
		" handle_softirqs+0xe0/0x2c0", " irq_exit_rcu+0xa0/0xc0", " common_interrupt+0x80/0xa0", " </IRQ>"}
	starved := "rcu: rcu_sched kthread starved for 6001 jiffies! g411 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x402 ->cpu=1"
	timer := "rcu: rcu_sched kthread timer wakeup didn't happen for 6001 jiffies! g411 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x402"
	kworker := []string{"CPU: 2 PID: 77 Comm: kworker/2:1 Not tainted 6.12.30 #1", "Workqueue: events acme_reset_work [acme]", "Call Trace:",
		" acme_wait_idle+0x48/0x210 [acme]", " acme_reset_work+0x30/0x200 [acme]", " process_one_work+0x170/0x330", " worker_thread+0x270/0x390"}
	tests := []struct {
		name  string
		lines []string
		class Class
		hog   string // "" for none
	}{
		{"poll loop", slices.Concat([]string{selfHead, busyCPU, selfEnd, napiTask}, napiStack), ThreadedNAPI, "napi/lan2-14:311 on CPU 2 in napi_threaded_poll_loop"},
		{"poll loop, arm64 Task dump", slices.Concat([]string{otherHead, busyCPU, otherEnd, "Task dump for CPU 2:",
			"task:napi/lan2-14    state:R  running task     stack:0     pid:311   tgid:311   ppid:2      flags:0x0000000a"}, napiStack), ThreadedNAPI, "napi/lan2-14:311 on CPU 2 in napi_threaded_poll_loop"},
		{"stack cut off", []string{selfHead, busyCPU, selfEnd, napiTask}, ThreadedNAPI, "napi/lan2-14:311 on CPU 2"},
		{"Tasks RCU", slices.Concat([]string{"INFO: rcu_tasks detected stalls on tasks:", "00000000415a52cd: .N nvcsw: 9/9 holdout: 1 idle_cpu: -1/2",
			"task:napi/lan2-14    state:R  running task     stack:0     pid:311   tgid:311   ppid:2      flags:0x0000000a"}, napiStack), ThreadedNAPI, "napi/lan2-14:311 in napi_threaded_poll_loop"},
		{"soft lockup in the poll", slices.Concat([]string{"watchdog: BUG: soft lockup - CPU#2 stuck for 23s! [napi/lan2-14:311]", napiTask}, napiStack), ThreadedNAPI, "napi/lan2-14:311 on CPU 2 in napi_threaded_poll_loop"},

		{"soft lockup, name alone", []string{"watchdog: BUG: soft lockup - CPU#2 stuck for 23s! [napi/lan2-14:311]"}, Unknown, "napi/lan2-14:311 on CPU 2"},
		{"oops in the poll", slices.Concat([]string{"BUG: kernel NULL pointer dereference, address: 0000000000000010", napiTask}, napiStack), Unknown, ""},
		{"fault in the poll, mips", []string{"Unhandled kernel unaligned access[#1]:", strings.Replace(napiTask, "Not tainted", "Tainted: G             L    ", 1),
			"epc   : 801a9db0 acme_rx_poll+0x1cc/0x3f8", "Call Trace:", "[<801a9db0>] __napi_poll+0x1cc/0x3f8"}, Unknown, ""},
		{"warning in the poll", slices.Concat([]string{"------------[ cut here ]------------", "WARNING: CPU: 2 PID: 311 at net/core/dev.c:6700 acme_rx_poll+0x48/0x210", napiTask}, napiStack), Unknown, ""},
		{"bystander", slices.Concat([]string{otherHead, "rcu: \t1-....: (6001 ticks this GP) idle=5d2c/1/0x4000000000000000 softirq=88/88 fqs=2990", otherEnd,
			"NMI backtrace for cpu 2", napiTask}, napiStack), Fragmentary, ""},
		{"GP kthread's CPU", slices.Concat([]string{otherHead, idleCPU, otherEnd, starved, "rcu: Stack dump where RCU GP kthread last ran:", "NMI backtrace for cpu 2", napiTask}, napiStack), StarvedGP, ""},
		{"who noticed", slices.Concat([]string{otherHead, otherEnd, "rcu: All QSes seen, last rcu_sched kthread activity 5990 (42-41), jiffies_till_next_fqs=1, root ->qsmask 0x0",
			"task:napi/lan2-14    state:R  running task     stack:0     pid:311   tgid:311   ppid:2      flags:0x0000000a"}, napiStack), StarvedGP, ""},
		{"spins for a lock", slices.Concat([]string{selfHead, busyCPU, selfEnd, napiTask, "RIP: 0010:native_queued_spin_lock_slowpath+0x60/0x2a0"}, napiStack), Unknown, "napi/lan2-14:311 on CPU 2 in napi_threaded_poll_loop"},
		{"at a register", slices.Concat([]string{selfHead, busyCPU, selfEnd, napiTask, "RIP: 0010:acme_mmio_read+0x10/0x20 [acme]"}, napiStack), DriverWorker, "napi/lan2-14:311 on CPU 2 in acme_rx_poll"},
		{"interrupts off", slices.Concat([]string{otherHead, deafCPU, otherEnd, "Sending NMI from CPU 0 to CPUs 2:", "NMI backtrace for cpu 2", napiTask}, napiStack), Unknown, "napi/lan2-14:311 on CPU 2 in napi_threaded_poll_loop"},
		{"interrupted", slices.Concat([]string{selfHead, busyCPU, selfEnd, napiTask}, softirqStack), Softirq, "napi/lan2-14:311 on CPU 2 in acme_clean_rx"},

		{"softirq above idle", slices.Concat([]string{selfHead, "rcu: \t2-....: (6001 ticks this GP) idle=5d2c/0/0x3 softirq=88/88 fqs=2990", selfEnd,
			"CPU: 2 PID: 0 Comm: swapper/2 Not tainted 6.12.30 #1"}, softirqStack), Softirq, "swapper/2 on CPU 2 in acme_clean_rx"},
		{"ksoftirqd", []string{"watchdog: BUG: soft lockup - CPU#2 stuck for 23s! [ksoftirqd/2:20]"}, Softirq, "ksoftirqd/2:20 on CPU 2"},
		{"worker", slices.Concat([]string{selfHead, busyCPU, selfEnd}, kworker), DriverWorker, "kworker/2:1:77 on CPU 2 in acme_reset_work"},
		{"kthread starved", []string{otherHead, idleCPU, otherEnd, "NMI backtrace for cpu 2 skipped: idling at default_idle+0xe/0x20", starved}, StarvedGP, ""},
		{"timer", []string{otherHead, idleCPU, otherEnd, timer, "rcu: \tPossible timer handling issue on cpu=2 timer-softirq=90", starved}, LostTimer, ""},
		{"reader", []string{"rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { P811 } 6300 jiffies s: 117 root: 0x0/T"}, BlockedReader, "PID 811"},
		{"dead", []string{otherHead, deafCPU, otherEnd, "Sending NMI from CPU 0 to CPUs 2:"}, DeadCPU, "something on CPU 2"},
		{"console", slices.Concat([]string{selfHead, busyCPU, selfEnd, "CPU: 2 PID: 90 Comm: sh Not tainted 6.12.30 #1", "Call Trace:",
			" wait_for_xmitr+0x48/0x210", " serial8250_console_write+0x30/0x200", " console_unlock+0x170/0x330", " vprintk+0x270/0x390"}), SlowConsole, "sh:90 on CPU 2 in vprintk"},
		{"emulator", []string{otherHead, "rcu: \t1-....: (3 ticks this GP) idle=5d2c/0/0x1 softirq=8/8 fqs=1", "rcu: \t2-....: (3 ticks this GP) idle=5d2c/0/0x1 softirq=8/8 fqs=1",
			"rcu: \t3-....: (3 ticks this GP) idle=5d2c/0/0x1 softirq=8/8 fqs=1", otherEnd}, SlowConsole, ""},
		{"dump of a stall's head", slices.Concat([]string{napiTask, "Call trace:", " dump_stack+0x18/0x24", " rcu_dump_cpu_stacks+0x98/0xd0", " rcu_sched_clock_irq+0x7bc/0xa08"}, napiStack[2:]), ThreadedNAPI, "napi/lan2-14:311 on CPU 2 in napi_threaded_poll_loop"},
		{"dump, nothing said", slices.Concat([]string{napiTask}, napiStack), Fragmentary, ""},
		{"piece", []string{selfEnd}, Fragmentary, ""},
		{"leak", []string{"unregister_netdevice: waiting for lan2 to become free. Usage count = 2"}, Unknown, ""},
		{"nothing", []string{"lan2: link is up"}, Unknown, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := Parse(Lines(stamped("  500.000000", tt.lines...)))
			v := Judge(events)
			checkVerdict(t, events, v)
			got := ""
			if v.Hog != nil {
				got = v.Hog.String()
			}
			if v.Class != tt.class || tt.hog != "" && got != tt.hog {
				t.Errorf("Judge = %q, hog %q; want %q, %q\nsigns %q, against %q, events %+v", v.Class, got, tt.class, tt.hog, v.Signs, v.Against, events)
			}
		})
	}
}

// A backtrace whose lines take seconds says more of the machine than of what it shows.
func TestJudgeCrawling(t *testing.T) {
	var b strings.Builder
	for i, l := range slices.Concat([]string{selfHead, busyCPU, selfEnd, napiTask}, napiStack) {
		b.WriteString(stamped(fmt.Sprintf("%5d.000000", 100+2*i), l))
	}
	if v := Judge(Parse(Lines(b.String()))); v.Class != SlowConsole {
		t.Errorf("Judge = %+v; want %q", v, SlowConsole)
	}
}

// The chain from a deleted interface through RTNL and its owner to the grace period is rebuilt.
func TestJudgeVictims(t *testing.T) {
	text := stamped("  500.000000", slices.Concat([]string{selfHead, busyCPU, selfEnd, napiTask}, napiStack)...) + stamped("  620.000000",
		"INFO: task ip:817 blocked for more than 122 seconds.",
		"task:ip              state:D stack:0     pid:817   tgid:817   ppid:800    flags:0x00000000", "Call Trace:", " __schedule+0x400/0x900", " schedule+0x30/0x90",
		" __mutex_lock.constprop.0+0x300/0x600", " rtnl_newlink+0x30/0x70", " rtnetlink_rcv_msg+0x2b0/0x3f0",
		"INFO: task ip:817 is blocked on a mutex likely owned by task kworker/u8:3:55.",
		"task:kworker/u8:3    state:D stack:0     pid:55    tgid:55    ppid:2      flags:0x00000000", "Workqueue: netns cleanup_net", "Call Trace:", " __schedule+0x400/0x900",
		" synchronize_rcu_expedited+0x1f0/0x210", " unregister_netdevice_many_notify+0x300/0x800", " cleanup_net+0x200/0x3c0")
	v := Judge(Parse(Lines(text)))
	if v.Class != ThreadedNAPI || v.Confidence != High || len(v.Victims) != 2 {
		t.Fatalf("Judge = %+v; want threaded NAPI, high, 2 victims", v)
	}
	ip, owner := v.Victims[0], v.Victims[1]
	if ip.Waits != WaitsRTNL || ip.OwnerPID != 55 || ip.Seconds != 122 {
		t.Errorf("victim %+v; want one that waits for RTNL of PID 55 for 122 s", ip)
	}
	if owner.Waits != WaitsRCU || owner.PID != 55 || owner.In != "cleanup_net" {
		t.Errorf("victim %+v; want PID 55 that waits for RCU in cleanup_net", owner)
	}
}

// A soft lockup and a stall of the same CPU are two signs, where one of them is none.
func TestJudgeTwoSigns(t *testing.T) {
	text := stamped("  500.000000", "watchdog: BUG: soft lockup - CPU#2 stuck for 23s! [napi/lan2-14:311]", otherHead, busyCPU, otherEnd)
	if v := Judge(Parse(Lines(text))); v.Class != ThreadedNAPI {
		t.Errorf("Judge = %+v; want threaded NAPI", v)
	}
}

func TestTogether(t *testing.T) {
	text := stamped("  500.000000", selfHead, busyCPU, selfEnd) + stamped(" 5000.000000", selfHead, busyCPU, strings.Replace(selfEnd, "g=411", "g=977", 1))
	events := Parse(Lines(text))
	if len(events) != 2 || Together(events[:1], events[1]) {
		t.Errorf("%d events, together; want 2 that are not", len(events))
	}
	if !Together(nil, events[0]) || !Together(events[:1], events[0]) {
		t.Error("the first event, or one at the same time, does not belong to the incident")
	}
}

func TestCPUState(t *testing.T) {
	tests := []struct {
		line   string
		flags  string
		idle   bool
		nested int
	}{
		{"1-....: (1 GPs behind) idle=60b/1/0x40000002 softirq=1/2 fqs=9", "....", false, 1},
		{"1-...!: (0 ticks this GP) idle=cf8/0/0x0 softirq=1/2 fqs=0", "...!", true, 0},
		{"0-....: (1 GPs behind) idle=3514/0/0x3 softirq=1/1 fqs=7", "....", true, 2},
		{"2-...: (24004 ticks this GP) idle=ede/2/0 softirq=1/1 fqs=1", "...", true, 2},
		{"3-....: (8402 ticks this GP) idle=7fe/140000000000001/0 softirq=1/1 fqs=3", "....", false, 1},
		{"text before\t9-...0: (2 ticks this GP) idle=a/1/0x4000000000000004 softirq=1/1 fqs=1", "...0", false, 2},
	}
	for _, tt := range tests {
		s, ok := cpuState(tt.line)
		idle, nested, known := s.Context()
		if !ok || !known || s.Flags != tt.flags || idle != tt.idle || nested != tt.nested {
			t.Errorf("cpuState(%q) = %+v, %v; idle %v, nested %d, %v; want flags %s, idle %v, nested %d", tt.line, s, ok, idle, nested, known, tt.flags, tt.idle, tt.nested)
		}
	}
	for _, line := range []string{"17:03: (no ticks at all)", "x1-....: (1 GPs behind) idle=1/1/0x1", "1-....: (1 cats)"} {
		if s, ok := cpuState(line); ok {
			t.Errorf("cpuState(%q) = %+v; want none", line, s)
		}
	}
}

// sysrq-w is what Next asks for: its answer makes victims too.
func TestJudgeBlockedTasks(t *testing.T) {
	text := stamped("  500.000000", "sysrq: Show Blocked State",
		"task:ip              state:D stack:0     pid:817   tgid:817   ppid:800    flags:0x00000000", "Call Trace:", " __schedule+0x400/0x900", " schedule+0x30/0x90",
		" __mutex_lock.constprop.0+0x300/0x600", " rtnl_dellink+0x30/0x70", " rtnetlink_rcv_msg+0x2b0/0x3f0",
		"task:kworker/u8:3    state:D stack:0     pid:55    tgid:55    ppid:2      flags:0x00000000", "Workqueue: netns cleanup_net", "Call Trace:", " __schedule+0x400/0x900",
		" rcu_barrier+0x1f0/0x210", " netdev_run_todo+0x300/0x800", " cleanup_net+0x200/0x3c0")
	events := Parse(Lines(text))
	v := Judge(events)
	if Count(events, BlockedTask) != 2 || len(v.Victims) != 2 || v.Victims[0].Waits != WaitsRTNL || v.Victims[1].Waits != WaitsRCU {
		t.Errorf("Judge = %+v; want ip that waits for RTNL and a kworker that waits for RCU", v)
	}
}
