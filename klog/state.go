package klog

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A CPUState is what a classic stall report says about one CPU (print_cpu_stall_info, kernel/rcu/tree_stall.h).
type CPUState struct {
	CPU int
	// Flags are 3 or 4 characters: O offline, o not waited for when the grace period began, N not waited
	// for in the next, and, since 4.19, whether it ran an interrupt for RCU in this grace period: "." yes, "!" it
	// was not asked to, a digit: asked that many grace periods ago and did not. Expedited reports have D
	// instead: asked, and still owes it.
	Flags string
	// Ticks is how many ticks of this grace period the CPU took, -1 where the report says Behind instead: by how
	// many grace periods its view of them is old.
	Ticks, Behind int64
	// Idle is the idle= field: counter/nesting/interrupt nesting.
	Idle string
	// FQS is how often the kthread forced quiescent states, -1 where it isn't said.
	FQS int64
	// FalsePositive says that the kernel itself doubts the report.
	FalsePositive bool
	// Time is what the CPU did in the second half of the wait (rcupdate.rcu_cpu_stall_cputime=1).
	Time *CPUTime
}

// A CPUTime counts what a CPU did in Window: the best evidence there is. No context switch while softirqs or
// the system took all of the time is a thread that kept its CPU; all zero is a CPU that did nothing.
type CPUTime struct {
	HardIRQs, SoftIRQs, Switches int64
	HardIRQ, SoftIRQ, System     time.Duration
	Window                       time.Duration
}

// A Holdout is a task that a Tasks grace period waits for.
type Holdout struct {
	PID int // of rcu_tasks_trace; the other flavors print a pointer instead
	// Slept is how often the task had gone to sleep by itself, SleptBefore how often when the grace period began. Equal, it
	// never slept since. Both are -1 for rcu_tasks_trace.
	Slept, SleptBefore int64
}

// Deaf reports whether the CPU was asked for an interrupt and did not take it: its interrupts are off, or
// it does not run at all.
func (s CPUState) Deaf() bool { return len(s.Flags) == 4 && isDigit(s.Flags[3]) }

// Unprobed reports whether RCU never asked the CPU for anything: the kthread that should have did not run.
func (s CPUState) Unprobed() bool { return len(s.Flags) == 4 && s.Flags[3] == '!' }

// Context reads Idle: whether the CPU was idle below its interrupts, and how many of them were nested. A CPU
// that reports about itself does so from its tick, which is one. Formats: before 4.15
// dynticks_nesting counts interrupts in idle, with DYNTICK_TASK_NEST added elsewhere; since then
// dynticks_nmi_nesting steps by 2, from 1 in idle and from a large base elsewhere.
func (s CPUState) Context() (idle bool, nested int, ok bool) {
	f := strings.Split(s.Idle, "/")
	if len(f) != 3 {
		return false, 0, false
	}
	nesting, err := strconv.ParseUint(f[1], 16, 64)
	if err != nil {
		return false, 0, false
	}
	if hex, found := strings.CutPrefix(f[2], "0x"); found {
		nmi, err := strconv.ParseUint(hex, 16, 64)
		if err != nil {
			return false, 0, false
		}
		return nesting == 0, int((nmi&0xffff + 1) / 2), true
	}
	return len(f[1]) < 8, int(nesting & 0xffff), true
}

// cpuState reads "1-....: (1 GPs behind) idle=60b/1/0x40000002 softirq=4573/4574 fqs=2997" wherever it is in s: 3 or 4
// flags, none before 3.15.
func cpuState(s string) (st CPUState, ok bool) {
	for from := 0; ; {
		i := strings.Index(s[from:], ": (")
		if i < 0 {
			return st, false
		}
		i += from
		rest := s[i+len(": "):]
		if st, ok := cpuAndFlags(s[:i]); ok {
			paren, _, _ := strings.Cut(rest, ")")
			if strings.HasSuffix(paren, " this GP") || strings.HasSuffix(paren, " behind") {
				st.fill(rest)
				return st, true
			}
		}
		from = i + 1
	}
}

// cpuAndFlags reads the "1-...." that s ends with.
func cpuAndFlags(s string) (CPUState, bool) {
	head := s[max(0, len(s)-12):]
	i := len(head)
	if d := strings.LastIndexByte(head, '-'); d >= 0 && areFlags(head[d+1:]) {
		i = d
	}
	start := i
	for start > 0 && isDigit(head[start-1]) {
		start--
	}
	if start == i || start > 0 && head[start-1] != ' ' && head[start-1] != '\t' && head[start-1] != ':' {
		return CPUState{}, false
	}
	c, _, ok := small(head[start:i], maxCPU)
	return CPUState{CPU: c, Flags: clip(strings.TrimPrefix(head[i:], "-")), Ticks: -1, FQS: -1}, ok
}

// fill reads what follows CPU and flags.
func (s *CPUState) fill(rest string) {
	n, what, _ := number(rest[1:])
	if strings.HasPrefix(what, " ticks") {
		s.Ticks = n
	} else {
		s.Behind = n
	}
	if _, idle, found := strings.Cut(rest, "idle="); found {
		idle, _, _ = strings.Cut(idle, " ")
		s.Idle = strings.Clone(idle[:min(len(idle), 60)])
	}
	if n, ok := numberAfter(rest, "fqs="); ok {
		s.FQS = n
	}
	s.FalsePositive = strings.Contains(rest, "(false positive?)")
}

// cputime takes in the two lines of numbers below a CPU's state:
//
//	number:        0          0            0
//	cputime:       0          0            0   ==> 2502(ms)
func (e *Event) cputime(text string) bool {
	if len(e.States) == 0 {
		return false
	}
	st := &e.States[len(e.States)-1]
	if _, s, found := strings.Cut(text, "number:"); found {
		v, _, ok := three(s)
		if ok {
			st.Time = &CPUTime{HardIRQs: v[0], SoftIRQs: v[1], Switches: v[2]}
		}
		return ok
	}
	_, s, found := strings.Cut(text, "cputime:")
	v, rest, ok := three(s)
	window, ok2 := numberAfter(rest, "==>")
	if !found || !ok || !ok2 || st.Time == nil {
		return false
	}
	st.Time.HardIRQ, st.Time.SoftIRQ, st.Time.System = millis(v[0]), millis(v[1]), millis(v[2])
	st.Time.Window = millis(window)
	return true
}

func millis(n int64) time.Duration {
	const most = int64(1 << 40)
	return time.Duration(max(-most, min(n, most))) * time.Millisecond
}

func three(s string) (v [3]int64, rest string, ok bool) {
	for i := range v {
		if v[i], s, ok = number(s); !ok {
			return v, s, false
		}
	}
	return v, s, true
}

// holdout reads "00000000769f52cd: .N nvcsw: 2/2 holdout: 1 idle_cpu: -1/64" or "P85: .... nesting: 1 cpu: 0".
func holdout(text string) (h Holdout, ok bool) {
	if rest, found := strings.CutPrefix(text, "P"); found {
		pid, rest, ok := small(rest, maxPID)
		return Holdout{PID: pid, Slept: -1, SleptBefore: -1}, ok && strings.HasPrefix(rest, ": ") && strings.Trim(rest[2:min(len(rest), 4)], ".IiNn ") == ""
	}
	_, rest, found := strings.Cut(text, " nvcsw: ")
	if !found || !strings.Contains(rest, " holdout: ") {
		return h, false
	}
	before, rest, ok := number(rest)
	if !ok || !strings.HasPrefix(rest, "/") {
		return h, false
	}
	now, _, ok := number(rest[1:])
	return Holdout{SleptBefore: before, Slept: now}, ok
}

// nmi takes in "Sending NMI from CPU 0 to CPUs 1:" at the newest report.
func (r *report) nmi(l Line, text string) bool {
	_, rest, found := strings.Cut(text, " NMI from CPU ")
	_, list, found2 := strings.Cut(rest, " to CPUs ")
	if !found || !found2 {
		return false
	}
	r.asked = l
	r.Asked = union(r.Asked, cpuList(nil, list))
	return true
}

// answer is how soon a CPU that takes NMIs shows its backtrace, the console's slowness included.
const answer = 2 * time.Second

// answered notes that the backtrace of cpu came.
func (r *report) answered(l Line, cpu int) {
	if slices.Contains(r.Asked, cpu) && (!l.HasStamp || !r.asked.HasStamp || l.Stamp-r.asked.Stamp <= answer) {
		r.Answered = insert(r.Answered, cpu)
	}
}
