package klog

import (
	"math"
	"strings"
	"time"
)

// stall takes in an RCU head: what follows "INFO: ".
func (p *Parser) stall(l Line, rest string) bool {
	flavor, tail, found := strings.Cut(rest, " ")
	if !strings.HasPrefix(flavor, "rcu_") && flavor != "RCU" {
		return false
	}
	if !found {
		return p.wrapped(l, "")
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

// wrapped keeps a head that a mail or log daemon wrapped.
func (p *Parser) wrapped(l Line, tail string) bool {
	return p.unfinished(l, tail, "self-detected stall on CPU", "detected stalls on CPUs/tasks:",
		"detected expedited stalls on CPUs/tasks:", "detected stalls on tasks:")
}

// peerGap is how far apart in time two heads of one stall can be: 2 jiffies, and a slow console.
const peerGap = 5 * time.Second

// classicHead opens a classic report. Old kernels have the CPUs and the end on the same line.
func (p *Parser) classicHead(l Line, e Event, tail string) {
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

// body takes in a line that can belong to the open classic reports; text is l's without "rcu:" and space
// around it.
func (p *Parser) body(l Line, text string) bool {
	r := p.classic[len(p.classic)-1]
	if p.n-r.opened > patience {
		p.settle(func(*report) bool { return true })
		return false
	}
	if st, ok := cpuState(text); ok {
		r.CPUs = insert(r.CPUs, st.CPU)
		r.States = appendUpTo(r.States, []CPUState{st}, maxStates)
		r.opened = p.n
		r.note(l)
		return true
	}
	blocked := strings.HasPrefix(text, "Tasks blocked on level-")
	if blocked {
		_, list, _ := strings.Cut(text, "):")
		r.tokens(list)
		r.Blocked = true
		r.opened = p.n
		r.note(l)
	}
	return p.trailer(l) || blocked
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
			r.Blocked = true
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
func (p *Parser) trailer(l Line) bool {
	_, own, self := strings.Cut(l.Text, "(t=")
	_, detected, other := strings.Cut(l.Text, "(detected by ")
	if !self && !other {
		return false
	}
	if end := detected + own; !strings.Contains(end, ")") {
		rest := l // the head before it, if there is one, is taken in already
		rest.Text = l.Text[max(strings.Index(l.Text, "(t="), strings.Index(l.Text, "(detected by ")):]
		return !strings.Contains(rest.Text, "INFO: ") && p.unfinished(rest, "", "")
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
			return true
		}
	}
	return false
}

// end closes open classic report i with the fields of its end.
func (p *Parser) end(i int, fields string) {
	r := p.classic[i]
	p.classic = append(p.classic[:i], p.classic[i+1:]...)
	r.Jiffies, _ = numberAfter(fields, "t=")
	g, ok := numberAfter(fields, "g=")
	if !ok {
		p.numberless(r)
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

// numberless settles a report of a kernel that printed no g= yet (before 3.4 or so): an earlier one of the
// flavor is about the same grace period if that began at the same time.
func (p *Parser) numberless(r *report) {
	k := key{Classic, r.Flavor, ""}
	known := p.known[k]
	if r.peer != nil || r.Jiffies == 0 {
		p.alone(r)
		return
	}
	if known != nil && !sameStart(known, r) {
		delete(p.known, k)
	}
	p.merge(r, k, func(known *report) bool { return r.Jiffies-known.newest > known.first/8 })
}

// sameStart reports whether two reports' ages differ by as much as the time between them, at any HZ.
func sameStart(known, r *report) bool {
	if !known.HasTime || !r.HasTime {
		return false
	}
	jiffies, dt := float64(r.Jiffies-known.newest), (r.Last - known.reported).Seconds()
	if math.Abs(jiffies) <= 10 && math.Abs(dt) <= 2 {
		return true
	}
	for _, hz := range [...]float64{100, 250, 300, 1000} {
		if ratio := jiffies / (dt * hz); ratio > 0.97 && ratio < 1.03 {
			return true
		}
	}
	return false
}

// settle closes the open classic reports that done says will not get their end any more.
func (p *Parser) settle(done func(*report) bool) {
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
func (p *Parser) alone(r *report) {
	if r.peer == nil {
		return
	}
	if known := r.peer.root(); known != r {
		r.peer.peer = nil
		p.fold(known, r)
	}
}

// expHead opens an expedited report; list is what follows "stalls".
func (p *Parser) expHead(l Line, e Event, list string) {
	p.exp = nil
	r := p.begin(l, e)
	if _, items, found := strings.Cut(list, "{"); found {
		p.exp = r
		p.expList(items)
	}
}

// expMore takes in a line while the list of an expedited report is open: other CPUs' lines can come
// between its pieces.
func (p *Parser) expMore(l Line) {
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
func (p *Parser) expList(s string) {
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
