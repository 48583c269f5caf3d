package klog

import "strings"

// cpuHead reads "CPU: 1 UID: 0 PID: 715 Comm: napi/phy0-9 Tainted: G             L     6.1.150 #1" (dump_stack_print_info).
func cpuHead(text string) (t Trace, ok bool) {
	c, rest, ok := small(text[len("CPU: "):], maxCPU)
	if !ok {
		return t, false
	}
	_, pid, found := strings.Cut(rest, "PID: ")
	if !found {
		return t, false
	}
	t = Trace{CPU: c, HasCPU: true}
	if t.PID, rest, ok = small(pid, maxPID); !ok {
		return t, false
	}
	_, comm, found := strings.Cut(rest, "Comm: ")
	if !found {
		return t, false
	}
	for _, end := range [...]string{" Not tainted", " Tainted: ", " Kdump: "} {
		if i := strings.Index(comm, end); i >= 0 {
			if end == " Tainted: " {
				t.Taint = letters(comm[i+len(end):])
			}
			comm = comm[:i]
		}
	}
	t.Task = name(strings.TrimSpace(comm))
	return t, t.Task != ""
}

// letters returns the capital letters and spaces that s begins with, without the spaces.
func letters(s string) string {
	var b strings.Builder
	for i := 0; i < len(s) && (s[i] == ' ' || s[i] >= 'A' && s[i] <= 'Z'); i++ {
		if s[i] != ' ' {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func name(s string) string { return strings.Clone(s[:min(len(s), maxName)]) }

const states = "RSDTtXxZPIKW"

// taskHead reads a task's line (sched_show_task): "task:ip              state:R  running task     stack:    0 pid: 2372 …"
// since 5.10, "pppd            D    0  6009      1 0x80004006" before.
func taskHead(text string) (t Trace, ok bool) {
	if rest, found := strings.CutPrefix(text, "task:"); found {
		comm, rest, found := strings.Cut(rest, " state:")
		if !found || rest == "" {
			return t, false
		}
		t.Task, t.State = name(strings.TrimSpace(comm)), strings.Clone(rest[:1])
		if pid, ok := numberAfter(rest, " pid:"); ok && pid >= 0 && pid <= maxPID {
			t.PID = int(pid)
		}
		return t, t.Task != ""
	}
	i := strings.IndexByte(text, ' ')
	if i <= 0 || i > 24 {
		return t, false
	}
	rest := strings.TrimLeft(text[i:], " ")
	if len(rest) < 2 || strings.IndexByte(states, rest[0]) < 0 || rest[1] != ' ' && !isDigit(rest[1]) {
		return t, false
	}
	f := strings.Fields(rest[1:])
	flags := -1
	for k := range f {
		if strings.HasPrefix(f[k], "0x") && flags < 0 {
			flags = k
		}
	}
	if flags < 3 { // stack, PID, parent, flags
		return t, false
	}
	pid, _, ok := small(f[flags-2], maxPID)
	t.Task, t.State, t.PID = name(text[:i]), strings.Clone(rest[:1]), pid
	return t, ok
}

// programCounter reads the register line that says where a CPU was: x86's RIP, arm's and riscv's pc and epc, powerpc's
// NIP, s390's PSW. The function is empty in user space and where there is no symbol.
func programCounter(text string) (fn string, user, ok bool) {
	for _, mark := range [...]string{"RIP: ", "PC is at ", "pc : ", "epc : ", "epc   : ", "NIP ", "Krnl PSW : ", "EIP: ", "IP: "} {
		rest, found := strings.CutPrefix(text, mark)
		if !found {
			continue
		}
		switch {
		case mark == "RIP: " && strings.HasPrefix(rest, "0033:"):
			return "", true, true
		case mark == "RIP: " || mark == "EIP: ":
			_, rest, found = strings.Cut(rest, ":")
		case mark == "Krnl PSW : ":
			_, rest, found = strings.Cut(rest, "(")
		case mark == "NIP ":
			_, rest, found = strings.Cut(rest, "] ")
		case mark == "epc   : ": // mips prints the address first
			_, rest, found = strings.Cut(rest, " ")
		}
		f, ok := frame(rest)
		if !ok {
			return "", false, found
		}
		return f.Func, false, true
	}
	return "", false, false
}

// frame reads one function of a backtrace in any architecture's format:
//
//	[<80382034>] dump_stack_lvl+0x60/0x80
//	? napi_threaded_poll_loop+0x27c/0x2c0 [mod]
//	__schedule+0x93a/0x26f0 kernel/sched/core.c:5938
//	rcu_gp_fqs_loop kernel/rcu/tree.c:1996 [inline]
//	schedule from schedule_preempt_disabled+0x14/0x18
//	[<c0d7bff4>] (schedule) from [<c000088>] (worker_thread+0x88/0x90)
func frame(text string) (Frame, bool) {
	s := strings.TrimLeft(text, " \t")
	f := Frame{Sure: true}
	for {
		switch {
		case strings.HasPrefix(s, "[<"):
			_, rest, found := strings.Cut(s, ">]")
			if !found {
				return f, false
			}
			s = strings.TrimLeft(rest, " ")
		case strings.HasPrefix(s, "? "):
			f.Sure = false
			s = strings.TrimLeft(s[2:], " ")
		case strings.HasPrefix(s, "("):
			s = s[1:]
		default:
			n := identifier(s)
			if n == 0 || n > 128 {
				return f, false
			}
			rest := s[n:]
			f.Func = name(s[:n])
			_, mod, found := strings.Cut(rest, " [")
			if mod, _, closed := strings.Cut(mod, "]"); found && closed && mod != "inline" && identifier(mod) == len(mod) {
				f.Module = name(mod)
			}
			return f, strings.HasPrefix(rest, "+0x") || strings.HasPrefix(rest, " from ") ||
				strings.HasPrefix(rest, ") from ") || strings.HasSuffix(rest, " [inline]") && strings.Contains(rest, ".")
		}
	}
}

// callerOf returns the function behind " from " in a line of arm's: the next line begins with it, if there is one.
func callerOf(text string) string {
	_, rest, found := strings.Cut(text, " from ")
	if !found {
		return ""
	}
	f, ok := frame(rest)
	if !ok {
		return ""
	}
	return f.Func
}

// identifier returns the length of the function or module name that s begins with.
func identifier(s string) int {
	n := 0
	for n < len(s) && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= '0' && s[n] <= '9' || s[n] == '_' || s[n] == '.' || s[n] == '$') {
		n++
	}
	if n > 0 && isDigit(s[0]) {
		return 0
	}
	return n
}
