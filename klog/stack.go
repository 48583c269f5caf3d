package klog

import (
	"slices"
	"strings"
	"time"
)

// What a stack tells. All methods of *Trace take nil for a trace that the log doesn't have.

func (t *Trace) named() bool { return t != nil && t.Task != "" }
func (t *Trace) swapper() bool {
	return t.named() && (strings.HasPrefix(t.Task, "swapper") || t.Task == "idle")
}

// has reports whether one of the named functions is on the stack. Sure ones only, unless nothing is sure.
func (t *Trace) has(match func(string) bool) bool {
	return t != nil && slices.ContainsFunc(t.sure(), func(f Frame) bool { return match(f.Func) })
}

// sure returns the frames that the kernel is sure of; those of a task that runs on another CPU are all doubtful.
func (t *Trace) sure() []Frame {
	var sure []Frame
	for _, f := range t.Frames {
		if f.Sure {
			sure = append(sure, f)
		}
	}
	if len(sure) == 0 {
		return t.Frames
	}
	return sure
}

// plain is a function's name without what the compiler added.
func plain(fn string) string {
	base, _, _ := strings.Cut(fn, ".")
	return base
}

func oneOf(names ...string) func(string) bool {
	return func(fn string) bool { return slices.Contains(names, plain(fn)) }
}

// threadedPoll reports whether the stack is in the loop of threaded NAPI.
func (t *Trace) threadedPoll() bool {
	return t.has(oneOf("napi_threaded_poll", "napi_threaded_poll_loop"))
}

// polls reports whether the stack, or where it was interrupted, is in NAPI's poll.
func (t *Trace) polls() bool {
	return t.threadedPoll() || t != nil && oneOf("__napi_poll", "napi_poll", "napi_threaded_poll", "napi_threaded_poll_loop")(t.PC) ||
		t.has(oneOf("__napi_poll", "napi_poll")) && !t.has(isSoftirq)
}

func isSoftirq(fn string) bool {
	switch plain(fn) {
	case "__do_softirq", "handle_softirqs", "net_rx_action", "net_tx_action", "tasklet_action", "tasklet_action_common",
		"tasklet_hi_action", "run_ksoftirqd", "do_softirq_own_stack", "____do_softirq", "__softirqentry_text_start":
		return true
	}
	return false
}

// softirq reports whether softirqs run on the stack, outside of a NAPI thread's own loop.
func (t *Trace) softirq() bool {
	if t == nil {
		return false
	}
	return strings.HasPrefix(t.Task, "ksoftirqd") || isSoftirq(t.PC) || t.has(isSoftirq)
}

// inIRQ reports whether the softirqs on the stack run at the end of an interrupt: that is not the thread's doing.
func (t *Trace) inIRQ() bool {
	frames := t.sure()
	soft := slices.IndexFunc(frames, func(f Frame) bool { return isSoftirq(f.Func) })
	if soft < 0 {
		return false
	}
	for _, f := range frames[soft:] {
		switch plain(f.Func) {
		case "irq_exit", "irq_exit_rcu", "__irq_exit_rcu", "invoke_softirq":
			return true
		case "do_softirq", "__local_bh_enable_ip", "napi_threaded_poll_loop", "napi_threaded_poll":
			return false
		}
	}
	return frames[soft].IRQ
}

// idle reports whether the CPU was in its idle loop.
func (t *Trace) idle() bool {
	return t != nil && (t.Idle || t.swapper() && !t.softirq() && !t.console())
}

// looping reports whether the trace shows somebody at work.
func (t *Trace) looping() bool {
	return t != nil && !t.Idle && (t.softirq() || t.threadedPoll() || t.console() || t.named() && !t.swapper() && t.loop() != "")
}

// console reports whether the CPU was writing to a console.
func (t *Trace) console() bool {
	return t.has(func(fn string) bool {
		return strings.HasSuffix(fn, "_console_write") || strings.HasSuffix(fn, "_console_putchar") || strings.HasSuffix(fn, "_write_atomic") ||
			oneOf("uart_console_write", "wait_for_xmitr", "console_unlock", "console_flush_all", "wait_for_lsr", "fbcon_redraw", "fbcon_scroll")(fn)
	})
}

// crawls reports whether a backtrace's own lines came seconds apart: then everything is that slow.
func (t *Trace) crawls() bool { return t != nil && t.Pace >= 500*time.Millisecond }

// accuses says what a backtrace without its report's head shows of it: the report is made by the CPU that it is about.
func (t *Trace) accuses() string {
	switch {
	case t.has(oneOf("watchdog_timer_fn")):
		return "the soft lockup's watchdog is on its stack"
	case t.has(oneOf("rcu_dump_cpu_stacks", "print_cpu_stall", "rcu_check_callbacks")):
		return "RCU's stall detector is on its stack"
	case strings.Contains(t.Taint, "L"):
		return "the kernel is tainted by a soft lockup"
	}
	return ""
}

// waitsForLock reports whether the CPU was spinning for a lock that another one has.
func (t *Trace) waitsForLock() bool {
	if t == nil {
		return false
	}
	spins := func(fn string) bool {
		return strings.Contains(fn, "spin_lock_slowpath") || strings.Contains(fn, "pv_wait_head") || strings.Contains(fn, "rwlock_slowpath") ||
			oneOf("_raw_spin_lock", "_raw_spin_lock_bh", "do_raw_spin_lock", "queued_write_lock_slowpath", "queued_read_lock_slowpath")(fn)
	}
	if t.PC != "" {
		return spins(t.PC)
	}
	for _, f := range t.sure() {
		if !f.IRQ && !isReporting(f.Func) {
			return spins(f.Func)
		}
	}
	return false
}

// atDevice reports whether the CPU was reading or writing a device's registers, or waiting for one: a loop of the
// driver's own, whatever thread it runs in.
func (t *Trace) atDevice() bool {
	if t == nil {
		return false
	}
	fn := t.top()
	for _, part := range [...]string{"mmio", "ioread", "iowrite", "readl", "readb", "readw", "writel", "writeb", "delay", "poll_timeout", "poll_msec", "pci_user_read", "pci_read", "pci_conf"} {
		if strings.Contains(fn, part) {
			return true
		}
	}
	return strings.HasSuffix(fn, "_rr") || strings.HasSuffix(fn, "_rmw")
}

// waitsForCPU reports whether the CPU was waiting for another one to answer: it is that one's victim.
func (t *Trace) waitsForCPU() bool {
	return t.has(func(fn string) bool {
		return strings.HasPrefix(fn, "smp_call_function") || oneOf("wait_rcu_exp_gp", "csd_lock_wait", "__csd_lock_wait", "on_each_cpu_cond_mask",
			"stop_machine_cpuslocked", "multi_cpu_stop", "native_flush_tlb_others", "kvm_flush_tlb_others", "flush_tlb_mm_range", "text_poke_sync", "generic_exec_single")(fn)
	})
}

// isReporting reports whether fn is part of how a stall is noticed and printed, from the tick up.
func isReporting(fn string) bool {
	fn = plain(fn)
	for _, part := range [...]string{"dump_stack", "show_stack", "backtrace", "unwind", "sched_show_task", "dump_cpu", "rcu_", "update_process_times",
		"tick_", "hrtimer", "timer_interrupt", "_interrupt", "handle_irq", "handle_percpu", "handle_domain", "generic_handle", "irq_event", "watchdog", "print_cpu_stall",
		"check_cpu_stall", "show_regs", "nmi", "timer_handler", "el1h", "el1_irq", "__irq_svc", "call_on_irq_stack", "gic_", "lapic", "sysvec",
		"account_", "do_IRQ", "irq_entries", "exc_"} {
		if strings.Contains(fn, part) {
			return true
		}
	}
	return false
}

// isFoundation reports whether fn is at the bottom of any thread of its kind.
func isFoundation(fn string) bool {
	fn = plain(fn)
	switch fn {
	case "__schedule", "schedule", "__switch_to", "context_switch", "__schedule_loop", "schedule_timeout", "schedule_preempt_disabled",
		"preempt_schedule", "preempt_schedule_common", "preempt_schedule_irq", "preempt_schedule_thunk", "__cond_resched", "_cond_resched",
		"kthread", "worker_thread", "process_one_work", "process_scheduled_works", "smpboot_thread_fn", "run_ksoftirqd", "do_syscall_64",
		"invoke_syscall", "start_secondary", "cpu_startup_entry", "do_idle", "secondary_startup_64", "start_kernel", "rest_init", "ret_fast_syscall",
		"task_work_run", "do_exit", "do_group_exit", "syscall_common", "do_el0_svc", "system_call_exception", "system_call_common", "handle_syscall",
		"cpuidle_idle_call", "default_idle_call", "arch_call_rest_init", "irq_exit", "irq_exit_rcu", "__irq_exit_rcu", "invoke_softirq", "do_softirq", "common_interrupt",
		"run_timer_softirq", "__run_timers", "call_timer_fn", "irqentry_exit", "__local_bh_enable_ip",
		"__fput", "____fput", "fput", "exit_to_user_mode_prepare", "exit_to_user_mode_loop", "resume_user_mode_work", "clear_bhb_loop", "get_signal",
		"netlink_sendmsg", "netlink_unicast", "netlink_rcv_skb", "sock_sendmsg", "__sock_sendmsg", "sock_sendmsg_nosec", "____sys_sendmsg", "___sys_sendmsg":
		return true
	}
	for _, p := range [...]string{"ret_from_", "entry_", "__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_", "__sys_", "sys_", "ksys_", "SyS_", "SYSC_", "el0", "asm_",
		"__arch_", "secondary_", "__primary_", "x86_64_start", "x64_sys", "syscall_", "do_syscall", "__syscall"} {
		if strings.HasPrefix(fn, p) {
			return true
		}
	}
	return isSoftirq(fn)
}

// loop returns the outermost function of what the thread is at.
func (t *Trace) loop() string {
	if t == nil {
		return ""
	}
	frames := t.sure()
	_, work, _ := strings.Cut(t.Workqueue, " ")
	work, _, _ = strings.Cut(work, " ")
	if work != "" && len(frames) > 0 && !frames[0].Sure {
		return work
	}
	for _, f := range frames {
		if fn := plain(f.Func); fn == "napi_threaded_poll_loop" || fn == "napi_threaded_poll" {
			return fn
		}
	}
	if soft := lastIndex(frames, isSoftirq); soft > 0 && t.softirq() {
		frames = slices.DeleteFunc(slices.Clone(frames[:soft]), func(f Frame) bool {
			return oneOf("__napi_poll", "napi_poll")(f.Func)
		})
	}
	for i := len(frames) - 1; i >= 0; i-- {
		if fn := frames[i].Func; !isFoundation(fn) && !isReporting(fn) {
			return fn
		}
	}
	if t.PC != "" {
		return t.PC
	}
	return work
}

func lastIndex(frames []Frame, match func(string) bool) int {
	for i := len(frames) - 1; i >= 0; i-- {
		if match(frames[i].Func) {
			return i
		}
	}
	return -1
}

// top returns the innermost function that is not part of the report itself.
func (t *Trace) top() string {
	if t == nil {
		return ""
	}
	if t.PC != "" {
		return t.PC
	}
	for _, f := range t.sure() {
		if !isReporting(f.Func) {
			return f.Func
		}
	}
	return ""
}

// Loop returns the outermost function that is not common to all threads of the trace's kind: what they are
// at. It is "" where the trace doesn't say.
func (t Trace) Loop() string { return t.loop() }

// Top returns the innermost function below those that made the trace.
func (t Trace) Top() string { return t.top() }

func (t *Trace) hog() *Hog {
	return &Hog{Task: t.Task, PID: t.PID, CPU: t.CPU, HasCPU: t.HasCPU, Frame: t.loop(), Top: t.top()}
}

// byTrace says what a CPU that the kernel accuses is at.
func byTrace(t *Trace, accused string) finding {
	f := finding{hog: t.hog(), signs: []string{accused}}
	switch {
	case t.crawls():
		return finding{class: SlowConsole, signs: []string{"the backtrace's own lines come seconds apart"}}
	case t.console():
		f.class = SlowConsole
		return f.plus(true, "the CPU is writing to a console")
	case t.waitsForCPU() && !t.threadedPoll():
		return finding{class: Unknown, hog: f.hog, against: []string{"it waits for another CPU to answer: that one's victim"}}
	case t.NAPIThread() || t.threadedPoll():
		return napiThread(t, f)
	case t.softirq():
		f.class = Softirq
		return f.plus(strings.HasPrefix(t.Task, "ksoftirqd"), "ksoftirqd runs").plus(t.has(isSoftirq) || isSoftirq(t.PC), "softirq functions are on its stack")
	case t.User:
		f.class = Unknown
	case t.named() && !t.swapper() || t.loop() != "":
		f.class = DriverWorker
		return f.plus(t.Workqueue != "" || strings.HasPrefix(t.Task, "kworker/"), "a worker runs").plus(t.loop() != "", "its stack is in "+t.loop()).
			minus(t.waitsForLock(), "it spins for a lock that another CPU holds")
	default:
		f.class = Fragmentary
	}
	return f
}

// elsewhere reports whether the task's own part of the stack is known, and not in a poll.
func (t *Trace) elsewhere() bool {
	return slices.ContainsFunc(t.sure(), func(f Frame) bool { return !f.IRQ && !isReporting(f.Func) && !isFoundation(f.Func) })
}

// beneathPoll is the outermost function below NAPI's own.
func (t *Trace) beneathPoll() string {
	frames := t.sure()
	for i := len(frames) - 1; i >= 0; i-- {
		if fn := frames[i].Func; !isFoundation(fn) && !isReporting(fn) && !oneOf("__napi_poll", "napi_poll", "napi_threaded_poll", "napi_threaded_poll_loop")(fn) {
			return fn
		}
	}
	return t.top()
}

// napiThread looks at an accused NAPI thread for other explanations.
func napiThread(t *Trace, f finding) finding {
	f.class = ThreadedNAPI
	f = f.plus(t.NAPIThread(), "a NAPI thread runs there").plus(t.threadedPoll(), "its stack is in napi_threaded_poll").
		plus(!t.threadedPoll() && t.polls(), "it is in NAPI's poll")
	switch {
	case t.waitsForLock():
		return finding{class: Unknown, hog: f.hog, against: []string{"the NAPI thread spins for a lock that another CPU holds"}}
	case t.atDevice():
		return finding{class: DriverWorker, hog: &Hog{Task: t.Task, PID: t.PID, CPU: t.CPU, HasCPU: t.HasCPU, Frame: t.beneathPoll(), Top: t.top()},
			signs: append(f.signs[:1:1], "it is at the device's registers: the driver's loop, not NAPI's")}
	case t.inIRQ():
		return finding{class: Softirq, hog: f.hog, signs: append(f.signs[:1:1], "softirq functions are on its stack"),
			against: []string{"the NAPI thread under the interrupt is not what runs"}}
	case !t.threadedPoll() && !t.polls() && t.elsewhere():
		return finding{class: Unknown, hog: f.hog, against: []string{"the NAPI thread is not in its poll"}}
	case t.User || t.State != "" && t.State != "R":
		return finding{class: Unknown, hog: f.hog, against: []string{"the NAPI thread does not run"}}
	}
	return f
}
