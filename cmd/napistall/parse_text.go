package main

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/napistall/napistall/klog"
)

// A textPrinter shows logs to a person. Write errors stay in out and come at its Flush.
type textPrinter struct {
	out  *bufio.Writer
	some bool // something was printed
}

func (p *textPrinter) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }

func (p *textPrinter) begin() {}
func (p *textPrinter) end()   {}

func (p *textPrinter) log(name string) {
	if name != "" {
		p.gap()
		p.printf("== %s\n", name)
		p.some = false
	}
}

func (p *textPrinter) gap() {
	if p.some {
		p.printf("\n")
	}
	p.some = true
}

func (p *textPrinter) nothing() {
	p.gap()
	p.printf("nothing found\n")
}

// shownEvents is how many events of an incident are shown: the verdict is about all of them.
const shownEvents = 24

func (p *textPrinter) incident(events []klog.Event, v klog.Verdict) {
	p.gap()
	for i, e := range events {
		if i == shownEvents {
			p.printf("… and %d more events\n", len(events)-i)
			break
		}
		p.event(e)
	}
	p.verdict(v)
}

func (p *textPrinter) event(e klog.Event) {
	p.printf("%s\n", strings.Join(eventParts(e), ", "))
	for _, s := range lastStates(e.States) {
		p.printf("    CPU %d %s\n", s.CPU, stateWords(s))
	}
	for _, t := range e.Traces {
		if words := traceWords(t); words != "" {
			p.printf("    %s\n", words)
		}
	}
	if e.Owner != "" {
		p.printf("    the lock is probably held by %s:%d\n", e.Owner, e.OwnerPID)
	}
	if len(e.Works) > 0 {
		p.printf("    at work: %s\n", strings.Join(e.Works, ", "))
	}
}

// eventParts says what, who, how old, when and how often.
func eventParts(e klog.Event) []string {
	parts := []string{strings.TrimSpace(eventName(e) + " " + e.GP)}
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(e.Task != "", "%s:%d", e.Task, e.PID)
	add(e.Device != "", "%s", e.Device)
	add(len(e.CPUs) > 0, "CPU %s", ints(e.CPUs))
	add(len(e.Readers) > 0, "reader PID %s", ints(e.Readers))
	add(e.Blocked && len(e.Readers) == 0, "blocked readers")
	add(e.AllQSes, "all quiescent states seen")
	age, known := e.Age()
	switch {
	case known:
		add(true, "%.1f s old (HZ %d)", age.Seconds(), e.HZ)
	case e.Jiffies > 0:
		add(true, "%d jiffies old", e.Jiffies)
	}
	add(e.Seconds > 0, "%d s", e.Seconds)
	add(e.HasTime && e.Last-e.First < time.Second, "at %.3f s", e.First.Seconds())
	add(e.HasTime && e.Last-e.First >= time.Second, "from %.3f to %.3f s", e.First.Seconds(), e.Last.Seconds())
	add(e.Reports > 1, "reported %d times", e.Reports)
	return parts
}

func eventName(e klog.Event) string {
	switch e.Kind {
	case klog.Classic:
		by := ""
		if e.Self && !e.Other {
			by = "self-detected "
		}
		return by + "RCU stall of " + e.Flavor
	case klog.Expedited:
		return "expedited RCU stall of " + e.Flavor
	case klog.TasksRCU:
		return "Tasks RCU stall of " + e.Flavor
	case klog.GPAge:
		return "old grace period of " + e.Flavor
	case klog.Starved:
		return e.Flavor + " kthread starved"
	case klog.Timer:
		return e.Flavor + " kthread's timer did not fire"
	}
	return strings.ReplaceAll(string(e.Kind), "-", " ")
}

func ints(set []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(set), "[]"), " ", ",")
}

// lastStates leaves the newest state of each CPU.
func lastStates(all []klog.CPUState) []klog.CPUState {
	var last []klog.CPUState
	for i, s := range all {
		newer := false
		for _, later := range all[i+1:] {
			newer = newer || later.CPU == s.CPU
		}
		if !newer {
			last = append(last, s)
		}
	}
	return last
}

// stateWords explains the flags and numbers of a CPU in a stall's report.
func stateWords(s klog.CPUState) string {
	var parts []string
	if s.Ticks >= 0 {
		parts = append(parts, fmt.Sprintf("took %d ticks in this grace period", s.Ticks))
	} else {
		parts = append(parts, fmt.Sprintf("is %d grace periods behind", s.Behind))
	}
	if idle, nested, ok := s.Context(); ok && idle && nested == 0 {
		parts = append(parts, "is idle")
	} else if ok && nested > 1 {
		parts = append(parts, "is in nested interrupts")
	}
	switch {
	case s.Deaf():
		parts = append(parts, "takes no interrupts ("+s.Flags+")")
	case s.Unprobed():
		parts = append(parts, "was asked for nothing ("+s.Flags+")")
	case strings.HasPrefix(s.Flags, "O"):
		parts = append(parts, "is offline ("+s.Flags+")")
	}
	if c := s.Time; c != nil {
		parts = append(parts, fmt.Sprintf("in %v: %d context switches, hard interrupts %v, softirqs %v, system %v", c.Window, c.Switches, c.HardIRQ, c.SoftIRQ, c.System))
	}
	if s.FalsePositive {
		parts = append(parts, "perhaps by mistake")
	}
	return strings.Join(parts, ", ")
}

func traceWords(t klog.Trace) string {
	if t.Task == "" && len(t.Frames) == 0 && !t.Idle {
		return ""
	}
	who := map[klog.Role]string{klog.GPKthread: "grace-period kthread: ", klog.GPKthreadCPU: "where that ran last: ", klog.Detector: "who noticed: "}[t.Role]
	if t.Task != "" {
		who += fmt.Sprintf("%s:%d", t.Task, t.PID)
	}
	if t.HasCPU {
		who += fmt.Sprintf(" on CPU %d", t.CPU)
	}
	if t.Idle {
		who += " idle"
	}
	if outer, inner := t.Loop(), t.Top(); outer != "" && outer != inner {
		who += fmt.Sprintf(" in %s (at %s)", outer, inner)
	} else if outer != "" {
		who += " in " + outer
	}
	if t.Workqueue != "" {
		who += ", work " + t.Workqueue
	}
	return strings.TrimSpace(who)
}

func (p *textPrinter) verdict(v klog.Verdict) {
	confidence := ""
	if v.Confidence != klog.None {
		confidence = ", confidence " + string(v.Confidence)
	}
	p.printf("verdict: %s%s\n    %s\n", v.Class, confidence, v.Summary)
	p.list("for", v.Signs)
	p.list("against", v.Against)
	for _, w := range v.Victims {
		p.printf("    %-9s%s\n", "victim:", w)
	}
	for _, n := range v.Next {
		p.printf("    %-9s%s\n", "next:", n)
	}
}

func (p *textPrinter) list(name string, items []string) {
	if len(items) > 0 {
		p.printf("    %-9s%s\n", name+":", strings.Join(items, "; "))
	}
}
