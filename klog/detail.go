package klog

import "strings"

// detail takes in a line that says more about the newest report: who is in its lists, and whose backtraces
// come next. Text is l's without "rcu:" and space around it.
func (p *Parser) detail(l Line, text string) bool {
	r := p.anchor
	if r == nil {
		return p.piece(l, text)
	}
	r = r.root()
	switch {
	case strings.HasPrefix(text, "Sending NMI"), strings.HasPrefix(text, "Sending IPI"), strings.Contains(text, " NMI from CPU "):
		return r.nmi(l, text)
	case strings.HasPrefix(text, "All QSes seen"):
		r.AllQSes = true
		r.note(l)
	case strings.HasPrefix(text, "RCU grace-period kthread stack dump"):
		p.closeTrace()
		p.tr.role = GPKthread
	case strings.HasPrefix(text, "Stack dump where RCU GP kthread last ran"):
		p.closeTrace()
		p.tr.role = GPKthreadCPU
		p.nextRole(r)
	case strings.HasPrefix(text, "Possible timer handling issue on cpu="):
		if c, ok := numberAfter(text, "cpu="); ok && c >= 0 && c <= maxCPU && r.Kind == Timer {
			r.CPUs = insert(r.CPUs, int(c))
		}
	case strings.Contains(text, "number:"), strings.Contains(text, "cputime:"):
		return p.stalled().cputime(text)
	case strings.HasPrefix(text, "pwq ") && r.Kind == WorkqueueLockup:
		_, pool, _ := strings.Cut(text, ": ")
		p.ofPool = strings.HasPrefix(pool, p.pool+" ")
	case strings.HasPrefix(text, "in-flight: ") && r.Kind == WorkqueueLockup:
		if p.ofPool {
			r.works(text[len("in-flight: "):])
		}
	case strings.Contains(text, "Stall ended"):
		r.note(l)
	case r.Kind == TasksRCU:
		h, ok := holdout(text)
		if ok {
			r.Holdouts = appendUpTo(r.Holdouts, []Holdout{h}, maxHoldouts)
			r.note(l)
		}
		return ok
	default:
		return false
	}
	return true
}

// nextRole remembers what the next backtrace is for, though an NMI line and its answer come between.
func (p *Parser) nextRole(r *report) { r.lastRan = true }

// stalled is the newest report of a classic stall.
func (p *Parser) stalled() *report {
	if n := len(p.classic); n > 0 {
		return p.classic[n-1]
	}
	return p.newest()
}

// works reads "14164:refill_work, 29532(RESCUER):refill_work for 23s".
func (r *report) works(s string) {
	for item := range strings.SplitSeq(s, ",") {
		_, fn, found := strings.Cut(item, ":")
		if n := identifier(fn); found && n > 0 {
			r.Works = appendUpTo(r.Works, []string{name(fn[:n])}, maxWorks)
		}
	}
}

// piece takes in a part of a stall's report whose head the log has lost.
func (p *Parser) piece(l Line, text string) bool {
	if p.foreign || len(p.classic) > 0 {
		return false
	}
	if st, ok := cpuState(text); ok {
		r := p.fragment(l)
		r.CPUs = insert(r.CPUs, st.CPU)
		r.States = appendUpTo(r.States, []CPUState{st}, maxStates)
		return true
	}
	if strings.HasPrefix(text, "Tasks blocked on level-") {
		r := p.fragment(l)
		_, list, _ := strings.Cut(text, "):")
		r.tokens(list)
		r.Blocked = true
		return true
	}
	_, own, self := strings.Cut(text, "(t=")
	_, detected, other := strings.Cut(text, "(detected by ")
	if self && strings.Contains(own, " jiffies") {
		detected = "t=" + own
	}
	if t, ok := numberAfter(detected, "t="); ok && (self || other) && strings.Contains(detected, " jiffies") {
		r := p.fragment(l)
		r.Jiffies = max(r.Jiffies, t)
		if g, ok := numberAfter(detected, "g="); ok {
			r.GP = gp("g=", g)
		}
		r.Self, r.Other = r.Self || self, r.Other || other
		return true
	}
	if strings.HasPrefix(text, "blocking rcu_node structures") || strings.HasPrefix(text, "All QSes seen") {
		p.fragment(l)
		return true
	}
	return false
}

// unfinished keeps a head that ends in the middle, to be joined with the line after it, if what is at its end
// is the beginning of one of wholes.
func (p *Parser) unfinished(l Line, tail string, wholes ...string) bool {
	tail = strings.TrimRight(tail, " ")
	if len(l.Text) > maxLineLen || p.joins >= 3 {
		return false
	}
	for _, whole := range wholes {
		if strings.HasPrefix(whole, tail) {
			p.joins++
			p.pending = l
			p.pending.Text = strings.TrimRight(l.Text, " ")
			return true
		}
	}
	return false
}
