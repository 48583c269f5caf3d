package klog

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Parse returns the events that lines report, in order of their first line. Reports of one grace
// period are one event: the classic ones by flavor and g=, the expedited ones by flavor and s=; a
// report without a number (its end is missing, or the kernel suppressed it) is an event of its own,
// unless it is interleaved with another CPU's report of the same stall. A reboot within lines, seen by
// the kernel's banner or by stamps that start over, begins new grace periods. Time is linear in lines,
// and memory in events.
func Parse(lines []Line) []Event {
	p := parser{known: map[key]*report{}}
	for _, l := range lines {
		if !strings.Contains(l.Text, "\n") {
			p.line(l)
			continue
		}
		for part := range strings.SplitSeq(l.Text, "\n") {
			p.line(Line{l.Stamp, l.HasStamp, part})
		}
	}
	return p.finish()
}

// A key is what makes two reports the same event.
type key struct {
	kind     Kind
	flavor   string // or task, or pool
	identity string // GP, or PID or CPU
}

// A report is an Event as it grows.
type report struct {
	Event
	at     int     // number of its first line
	opened int     // number of its newest line while it waits for its end
	first  int64   // jiffies of its first report
	newest int64   // jiffies or seconds of its newest report
	bySelf bool    // the newest report was a CPU's about itself
	peer   *report // another CPU's report, under way at the same time
	into   *report // the event that it has become part of
}

// root returns the event that r has become part of.
func (r *report) root() *report {
	for r.into != nil {
		r = r.into
	}
	return r
}

// A parser takes lines one by one.
type parser struct {
	n       int           // lines so far
	stamp   time.Duration // the newest, of this boot
	back    int           // lines in a row with stamps far before it
	reports []*report
	known   map[key]*report // of this boot
	classic []*report       // heads that still wait for their "(t=… g=…)"
	exp     *report         // head that still waits for "} … jiffies s: …"
	pending Line            // a head that a mail or log daemon wrapped
}

// patience is how many lines after its newest line a report can go on: other CPUs' backtraces, up to some
// 200 lines, can come between.
const patience = 256

// restart is how far stamps go back at a reboot; printk on several CPUs can be out of order by far less.
const restart = 5 * time.Second

// reach is how much of a line is looked at: more than the kernel's longest record of 1024
// bytes (PRINTKRB_RECORD_MAX) and a wrapping, so that a line without end costs no more than its reading.
const reach = 4096

func (p *parser) line(l Line) {
	p.n++
	l.Text = l.Text[:min(len(l.Text), reach)]
	p.boot(l)
	if p.pending.Text != "" {
		l = Line{p.pending.Stamp, p.pending.HasStamp, p.pending.Text + " " + strings.TrimSpace(l.Text)}
		p.pending = Line{}
	}
	if p.header(l) {
		return
	}
	if p.exp != nil {
		p.expMore(l)
	}
	if len(p.classic) > 0 {
		p.body(l)
	}
}

// header reports whether l begins or makes up a report, and takes it in. Most lines of a log end
// here after a few searches for fixed strings.
func (p *parser) header(l Line) bool {
	for text := l.Text; ; {
		_, rest, found := strings.Cut(text, "INFO: ")
		if !found {
			break
		}
		if p.info(l, rest) {
			return true
		}
		text = rest
	}
	if i := strings.Index(l.Text, "BUG: "); i >= 0 && p.bug(l, l.Text[i+len("BUG: "):]) {
		return true
	}
	if i := strings.Index(l.Text, " kthread "); i >= 0 && p.gpKthread(l, i) {
		return true
	}
	switch {
	case strings.Contains(l.Text, "Kernel panic - not syncing"):
		return p.panicked(l)
	case strings.Contains(l.Text, "detected hard LOCKUP"):
		p.hardLockup(l)
		return true
	case strings.Contains(l.Text, " jiffies old"):
		return p.age(l)
	}
	return false
}

// info takes in what follows "INFO: ".
func (p *parser) info(l Line, rest string) bool {
	if task, found := strings.CutPrefix(rest, "task "); found {
		return p.hung(l, task)
	}
	return p.stall(l, rest)
}

// boot forgets the grace periods of the boot before.
func (p *parser) boot(l Line) {
	if strings.HasPrefix(l.Text, "Linux version ") {
		p.restart()
		p.stamp = l.Stamp
		return
	}
	switch {
	case !l.HasStamp:
	case l.Stamp+restart >= p.stamp:
		p.stamp, p.back = max(p.stamp, l.Stamp), 0
	case p.back == 0: // one alone is a damaged stamp
		p.back++
	default:
		p.restart()
		p.stamp = l.Stamp
	}
}

func (p *parser) restart() {
	p.settle(func(*report) bool { return true })
	p.exp = nil
	p.back = 0
	clear(p.known)
}

// begin starts a report with its first line.
func (p *parser) begin(l Line, e Event) *report {
	r := &report{Event: e, at: p.n, opened: p.n}
	r.Reports = 1
	r.note(l)
	p.reports = append(p.reports, r)
	return r
}

// merge joins r with what is known under k, or makes it known. Again says whether r, beside a known
// event, is a further report of it.
func (p *parser) merge(r *report, k key, again func(known *report) bool) {
	known := p.known[k]
	if known == nil || known == r {
		r.first, r.newest, r.bySelf = r.Jiffies, r.Jiffies, r.Self
		p.known[k] = r
		return
	}
	if again(known) {
		known.Reports++
	}
	known.newest, known.bySelf = max(known.newest, r.Jiffies), r.Self
	p.fold(known, r)
}

// fold makes from part of into.
func (p *parser) fold(into, from *report) {
	into.absorb(&from.Event)
	into.at = min(into.at, from.at)
	from.into = into
	from.peer = nil
	for i := len(p.reports) - 1; i >= 0 && i >= len(p.reports)-patience; i-- {
		if p.reports[i] == from {
			p.reports = slices.Delete(p.reports, i, i+1)
			return
		}
	}
}

// finish closes what is open and returns the events.
func (p *parser) finish() []Event {
	p.settle(func(*report) bool { return true })
	slices.SortStableFunc(p.reports, func(a, b *report) int { return cmp.Compare(a.at, b.at) })
	events := make([]Event, 0, len(p.reports))
	for _, r := range p.reports {
		if r.into == nil {
			events = append(events, r.Event)
		}
	}
	return events
}
