package klog

import (
	"strings"
	"time"
)

// stall takes in an RCU head: what follows "INFO: ".
func (p *parser) stall(l Line, rest string) bool {
	flavor, tail, found := strings.Cut(rest, " ")
	if !strings.HasPrefix(flavor, "rcu_") && flavor != "RCU" || !found {
		return false
	}
	e := Event{Flavor: clip(flavor)}
	if strings.HasPrefix(flavor, "rcu_tasks") {
		if !strings.HasPrefix(tail, "detected stalls on tasks") {
			return p.wrapped(l, tail)
		}
		e.Kind = TasksRCU
		p.begin(l, e)
		return true
	}
	if list, found := strings.CutPrefix(tail, "detected expedited stalls"); found {
		e.Kind = Expedited
		p.expHead(l, e, list)
		return true
	}
	e.Kind = Classic
	switch {
	case strings.HasPrefix(tail, "detected stall, but suppressed"):
		p.begin(l, e)
	case strings.HasPrefix(tail, "self-detected stall on CPU"),
		strings.HasPrefix(tail, "detected stall on CPU"): // 3.0
		e.Self = true
		p.classicHead(l, e, tail)
	case strings.HasPrefix(tail, "detected stalls on CPUs/tasks"):
		e.Other = true
		p.classicHead(l, e, tail)
	case strings.HasPrefix(tail, "detected CPU "): // before 3.0: "RCU detected CPU 0 stall (t=1000 jiffies)"
		if !strings.Contains(tail, " stall") {
			return false
		}
		e.Self = true
		p.classicHead(l, e, "stall on"+strings.TrimPrefix(tail, "detected"))
	default:
		return p.wrapped(l, tail)
	}
	return true
}

// wrapped keeps a head that ends in the middle, to be joined with the line after it.
func (p *parser) wrapped(l Line, tail string) bool {
	tail = strings.TrimRight(tail, " ")
	if tail == "" {
		return false
	}
	for _, head := range [...]string{"self-detected stall on CPU", "detected stalls on CPUs/tasks:",
		"detected expedited stalls on CPUs/tasks:", "detected stalls on tasks:"} {
		if strings.HasPrefix(head, tail) && len(l.Text) <= maxLineLen {
			p.pending = l
			p.pending.Text = strings.TrimRight(l.Text, " ")
			return true
		}
	}
	return false
}

// peerGap is how far apart in time two heads of one stall can be: 2 jiffies, and a slow console.
const peerGap = 5 * time.Second

// classicHead opens a classic report. Old kernels have the CPUs and the end on the same line.
func (p *parser) classicHead(l Line, e Event, tail string) {
	p.settle(func(open *report) bool { // the same CPU's report begins anew: the one before lost its end
		return open.Flavor == e.Flavor && open.Self == e.Self && open.Other == e.Other ||
			p.n-open.opened > patience
	})
	r := p.begin(l, e)
	for _, open := range p.classic {
		if open.Flavor == r.Flavor && open.peer == nil && near(open, l) {
			open.peer, r.peer = r, open
		}
	}
	p.classic = append(p.classic, r)
	if _, list, found := strings.Cut(tail, "{"); found {
		list, _, _ = strings.Cut(list, "}")
		r.tokens(list)
	} else if _, cpu, found := strings.Cut(tail, "stall on CPU "); found {
		if c, _, ok := small(cpu, maxCPU); ok {
			r.CPUs = insert(r.CPUs, c)
		}
	}
	p.trailer(l)
}

func near(r *report, l Line) bool {
	return !r.HasTime || !l.HasStamp || (l.Stamp-r.Last).Abs() <= peerGap
}

// body takes in a line that can belong to the open classic reports.
func (p *parser) body(l Line) {
	r := p.classic[len(p.classic)-1]
	if p.n-r.opened > patience {
		p.settle(func(*report) bool { return true })
		return
	}
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(l.Text), "rcu:"))
	if c, ok := cpuLine(text); ok {
		r.CPUs = insert(r.CPUs, c)
		r.opened = p.n
		r.note(l)
		return
	}
	if strings.HasPrefix(text, "Tasks blocked on level-") {
		_, list, _ := strings.Cut(text, "):")
		r.tokens(list)
		r.opened = p.n
		r.note(l)
	}
	p.trailer(l)
}

// cpuLine reads the CPU of a line like "1-....: (1 GPs behind) idle=…": 3 or 4 flags, none before 3.15.
func cpuLine(s string) (cpu int, ok bool) {
	cpu, rest, ok := small(s, maxCPU)
	if !ok || !isDigit(s[0]) {
		return 0, false
	}
	flags, rest, found := strings.Cut(rest, ":")
	if !found || len(flags) > 5 || flags != "" && (flags[0] != '-' || !areFlags(flags[1:])) {
		return 0, false
	}
	return cpu, strings.HasPrefix(rest, " (") && (strings.Contains(rest, " this GP)") || strings.Contains(rest, " behind)"))
}

// areFlags reports whether s are the flags of a CPU in a stall report: 3 in older kernels, 4 now.
func areFlags(s string) bool {
	return len(s) >= 3 && len(s) <= 4 && strings.Trim(s, ".OoNDd!?0123456789") == ""
}

// tokens takes in the items of a braced or blocked-task list: "0-....", "3", "P392", "P23026/1:b..l". It
// returns whether all of s was such items.
func (r *report) tokens(s string) bool {
	all := true
	for token := range strings.FieldsSeq(s) {
		pid, isTask := strings.CutPrefix(token, "P")
		limit := int64(maxCPU)
		if isTask {
			limit = maxPID
		}
		n, rest, ok := small(pid, limit)
		switch {
		case !ok:
			all = false
		case isTask && (rest == "" || rest[0] == '/'):
			r.Readers = insert(r.Readers, n)
		case !isTask && (rest == "" || rest[0] == '-' && areFlags(rest[1:])):
			r.CPUs = insert(r.CPUs, n)
		default:
			all = false
		}
	}
	return all
}

// trailer looks for the end of a classic report, "(t=6001 jiffies g=5809 q=17874)" of one about itself, or
// "(detected by 3, t=24011 jiffies, g=85459, c=85458, q=9102)", and closes the report that it ends.
func (p *parser) trailer(l Line) {
	_, own, self := strings.Cut(l.Text, "(t=")
	_, detected, other := strings.Cut(l.Text, "(detected by ")
	if !self && !other {
		return
	}
	for i := len(p.classic) - 1; i >= 0; i-- {
		r := p.classic[i]
		if r.Self && self || r.Other && other {
			if r.at != p.n { // else the line is there already
				r.note(l)
			}
			if r.Self {
				detected = "t=" + own
			}
			p.end(i, detected)
			return
		}
	}
}

// end closes open classic report i with the fields of its end.
func (p *parser) end(i int, fields string) {
	r := p.classic[i]
	p.classic = append(p.classic[:i], p.classic[i+1:]...)
	r.Jiffies, _ = numberAfter(fields, "t=")
	g, ok := numberAfter(fields, "g=")
	if !ok {
		p.alone(r)
		return
	}
	r.GP = gp("g=", g)
	peer := r.peer
	p.merge(r, key{Classic, r.Flavor, r.GP}, func(known *report) bool {
		if peer != nil && peer.root() == known || r.Jiffies == known.newest {
			return false
		}
		return r.Self == known.bySelf || r.Jiffies-known.newest > known.first/8
	})
}

// settle closes the open classic reports that done says will not get their end any more.
func (p *parser) settle(done func(*report) bool) {
	kept := p.classic[:0]
	var lost []*report
	for _, r := range p.classic {
		if done(r) {
			lost = append(lost, r)
		} else {
			kept = append(kept, r)
		}
	}
	p.classic = kept
	for _, r := range lost {
		p.alone(r)
	}
}

// alone settles a report without a number: it is its peer's, or an event of its own.
func (p *parser) alone(r *report) {
	if r.peer == nil {
		return
	}
	if known := r.peer.root(); known != r {
		r.peer.peer = nil
		p.fold(known, r)
	}
}

// expHead opens an expedited report; list is what follows "stalls".
func (p *parser) expHead(l Line, e Event, list string) {
	p.exp = nil
	r := p.begin(l, e)
	if _, items, found := strings.Cut(list, "{"); found {
		p.exp = r
		p.expList(items)
	}
}

// expMore takes in a line while the list of an expedited report is open: other CPUs' lines can come
// between its pieces.
func (p *parser) expMore(l Line) {
	r := p.exp
	if p.n-r.opened > patience {
		p.exp = nil
		return
	}
	text := strings.TrimSpace(l.Text)
	list, _, closed := strings.Cut(text, "}")
	if probe := (report{}); !probe.tokens(list) || text == "" ||
		closed && !strings.Contains(text, " jiffies s:") {
		return
	}
	r.opened = p.n
	r.note(l)
	p.expList(text)
}

// expList takes in items up to "} 6431 jiffies s: 565 root: 0x1/.", if it is there.
func (p *parser) expList(s string) {
	list, end, closed := strings.Cut(s, "}")
	r := p.exp
	r.tokens(list)
	if !closed {
		return
	}
	p.exp = nil
	r.Jiffies, _, _ = number(end)
	if seq, ok := numberAfter(end, "s: "); ok {
		r.GP = gp("s=", seq)
		p.merge(r, key{Expedited, r.Flavor, r.GP}, func(*report) bool { return true })
	}
}
