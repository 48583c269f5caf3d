package klog

import (
	"slices"
	"strings"
	"time"
)

// A Trace is one backtrace or register dump below a report.
type Trace struct {
	// CPU is where it was taken, if HasCPU.
	CPU    int
	HasCPU bool
	// Task, PID and State ("R", "D" …) are whose it is; empty where the log doesn't say.
	Task  string
	PID   int
	State string
	// Role says why the kernel printed it.
	Role Role
	// Workqueue is the queue and function of a kworker's work, "events usbnet_change_mtu".
	Workqueue string
	// Taint are the letters of the kernel's taint: "L" is set by a soft lockup.
	Taint string
	// PC is the function that was interrupted, from RIP, pc, NIP or their like. User says that it was in user space.
	PC   string
	User bool
	// Idle says that the CPU was idle, so that no more was printed.
	Idle bool
	// Pace is the time from one line to the next, on average, where both ends have stamps: it is the console's.
	Pace time.Duration
	// Frames are the functions, innermost first; at most 64.
	Frames []Frame
}

// A Role is the reason for a Trace.
type Role string

const (
	// Subject is what its report is about: an accused CPU, a locked-up or blocked task.
	Subject Role = ""
	// GPKthread is the grace-period kthread's own.
	GPKthread Role = "gp-kthread"
	// GPKthreadCPU is the CPU on which that kthread ran last.
	GPKthreadCPU Role = "gp-kthread-cpu"
	// Detector is the CPU that noticed a stall in which no CPU is accused.
	Detector Role = "detector"
)

// A Frame is one function of a Trace.
type Frame struct {
	Func   string
	Module string
	Sure   bool // false: the kernel marked it "?", it may be left over on the stack
	IRQ    bool // within <IRQ>, <NMI> or their like
}

const (
	maxFrames = 64
	maxName   = 64
)

// NAPIThread reports whether the trace is a threaded-NAPI kthread's by its name, "napi/eth0-8". A name
// alone says nothing about what went wrong.
func (t Trace) NAPIThread() bool { return strings.HasPrefix(t.Task, "napi/") }

// tracer collects the traces of a report.
type tracer struct {
	open   *Trace
	irq    bool
	role   Role
	cpu    int    // of "Task dump for CPU 3:", else -1
	caller string // arm: the newest frame's caller
	first  Line   // of the open trace
	lines  int    // of it, after the first
	last   time.Duration
}

// trace takes in a line of a backtrace and reports whether it was one.
func (p *Parser) trace(l Line, text string) bool {
	if p.traceHead(l, text) {
		return true
	}
	t := p.tr.open
	if t == nil {
		return p.orphan(text)
	}
	if mark, ok := section(text); ok {
		p.tr.irq = mark
		text = text[strings.IndexByte(text, '>')+1:]
	}
	if wq, found := strings.CutPrefix(text, "Workqueue: "); found {
		t.Workqueue = clip(strings.TrimSpace(wq))
		return true
	}
	if pc, user, ok := programCounter(text); ok {
		if pc != "" && !p.tr.irq || t.PC == "" {
			t.PC, t.User = pc, user
		}
		p.frame(t, Frame{Func: pc, Sure: true, IRQ: p.tr.irq}, pc != "")
		return true
	}
	f, ok := frame(text)
	f.IRQ = p.tr.irq
	if ok {
		p.tr.caller = callerOf(text)
	}
	return p.frame(t, f, ok)
}

func (p *Parser) frame(t *Trace, f Frame, ok bool) bool {
	if ok && len(t.Frames) < maxFrames {
		t.Frames = append(t.Frames, f)
		p.tr.lines++
		p.tr.last = p.current.Stamp
	}
	return ok
}

// traceHead takes in the lines that a trace begins with.
func (p *Parser) traceHead(l Line, text string) bool {
	switch {
	case strings.HasPrefix(text, "NMI backtrace for cpu "):
		c, rest, ok := small(text[len("NMI backtrace for cpu "):], maxCPU)
		if !ok {
			return false
		}
		p.openTrace(Trace{CPU: c, HasCPU: true, Idle: strings.Contains(rest, "idling")}, Subject)
		p.newest().answered(l, c)
		return true
	case strings.HasPrefix(text, "Task dump for CPU "), strings.HasPrefix(text, "Dumping task on CPU "):
		if c, _, ok := small(text[strings.Index(text, "CPU ")+4:], maxCPU); ok {
			p.closeTrace()
			p.tr.cpu = c
		}
		return true
	case strings.HasPrefix(text, "Call Trace:"), strings.HasPrefix(text, "Call trace:"), strings.HasPrefix(text, "Backtrace:"):
		if p.tr.open == nil {
			p.openTrace(Trace{}, p.tr.role)
		}
		p.tr.irq = false
		return true
	case strings.HasPrefix(text, "CPU: "):
		t, ok := cpuHead(text)
		if ok {
			p.join(l, t)
		}
		return ok
	}
	if t, ok := taskHead(text); ok {
		if p.tr.cpu >= 0 {
			t.CPU, t.HasCPU = p.tr.cpu, true
		}
		p.openTrace(t, p.tr.role)
		return true
	}
	return false
}

// join adds what "CPU: 1 PID: …" says to the trace that "NMI backtrace for cpu 1" or registers began, or
// begins one.
func (p *Parser) join(l Line, t Trace) {
	open := p.tr.open
	if open == nil || open.Task != "" || open.HasCPU && open.CPU != t.CPU || len(open.Frames) > 0 {
		p.openTrace(t, p.tr.role)
		p.newest().answered(l, t.CPU)
		return
	}
	open.CPU, open.HasCPU = t.CPU, true
	open.Task, open.PID, open.Taint = t.Task, t.PID, t.Taint
}

func (p *Parser) openTrace(t Trace, role Role) {
	p.closeTrace()
	if strings.HasPrefix(t.Task, "rcu_") && role == Subject && p.tr.role == GPKthread {
		role = GPKthread
	}
	t.Role = role
	p.tr.open = &t
	p.tr.first, p.tr.lines, p.tr.last = p.current, 0, 0
	p.tr.role, p.tr.cpu, p.tr.irq = Subject, -1, false
	r := p.newest()
	if r.lastRan && role == Subject {
		t.Role, r.lastRan = GPKthreadCPU, false
	}
	if t.Role == Subject && r.Kind == Classic && r.AllQSes && len(r.CPUs) == 0 && !r.Blocked {
		t.Role = Detector
	}
}

// newest is the report that a trace would belong to, or an empty one.
func (p *Parser) newest() *report {
	if p.anchor == nil {
		return &report{}
	}
	return p.anchor.root()
}

// closeTrace gives the open trace to its report. One that no report explains is an event if it names a
// CPU and what ran there, else a fragment.
func (p *Parser) closeTrace() {
	t := p.tr.open
	if t == nil {
		return
	}
	p.tr.open = nil
	if n := p.tr.lines; n >= 4 && p.tr.first.HasStamp && p.tr.last >= p.tr.first.Stamp {
		t.Pace = (p.tr.last - p.tr.first.Stamp) / time.Duration(n)
	}
	p.frame(t, Frame{Func: p.tr.caller, Sure: true}, p.tr.caller != "")
	p.tr.caller = ""
	switch {
	case p.anchor != nil:
		if r := p.anchor.root(); len(r.Traces) < maxTraces {
			r.Traces = append(r.Traces, *t)
		}
	case p.foreign:
	case p.asked:
		if t.Task != "" {
			p.begin(p.traceLine, Event{Kind: BlockedTask, Task: t.Task, PID: t.PID, Traces: []Trace{*t}})
			p.anchor, p.asked = nil, true
		}
	case p.frag != nil && p.n-p.frag.opened <= patience && p.frag.about(t) && len(p.frag.Traces) < maxTraces:
		p.frag.Traces = append(p.frag.Traces, *t)
	case t.HasCPU && t.Task != "":
		r := p.begin(p.traceLine, Event{Kind: CPUDump, CPUs: []int{t.CPU}, Task: t.Task, PID: t.PID, Traces: []Trace{*t}})
		p.anchor = nil
		r.opened = p.n
	default:
		p.fragment(p.traceLine).Traces = append(p.frag.Traces[:min(len(p.frag.Traces), maxTraces-1)], *t)
	}
}

// about reports whether t can be the backtrace of one that a piece of a stall's report accuses.
func (r *report) about(t *Trace) bool {
	return t.HasCPU && slices.Contains(r.CPUs, t.CPU) || r.Blocked && (len(r.Readers) == 0 || slices.Contains(r.Readers, t.PID))
}

// orphan begins a trace at registers or frames whose head the log has lost.
func (p *Parser) orphan(text string) bool {
	pc, user, isPC := programCounter(text)
	f, isFrame := frame(text)
	isCode := strings.HasPrefix(text, "Code: ") || strings.HasPrefix(text, "RSP: ")
	if p.anchor != nil && !isPC || !isPC && !isFrame && !isCode {
		return false
	}
	p.openTrace(Trace{PC: pc, User: user}, Subject)
	p.registers = p.registers || isCode || isPC
	if isPC {
		f = Frame{Func: pc, Sure: true}
	}
	p.frame(p.tr.open, f, isFrame || isPC && pc != "")
	return true
}

// section reads the marks that x86 puts around parts of a trace.
func section(text string) (irq, ok bool) {
	name, found := strings.CutPrefix(text, "<")
	if !found {
		return false, false
	}
	name, end := strings.CutPrefix(name, "/")
	for _, s := range [...]string{"IRQ>", "NMI>", "SOFTIRQ>", "EOI>", "TASK>", "#DF>", "ENTRY_TRAMPOLINE>", "<EOE>"} {
		if strings.HasPrefix(name, s) {
			return !end && (s == "IRQ>" || s == "NMI>" || s == "SOFTIRQ>"), true
		}
	}
	return false, false
}
