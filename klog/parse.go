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
	events := []Event{}
	p := NewParser(func(e Event) { events = append(events, e) })
	for _, l := range lines {
		p.Line(l)
	}
	p.Close()
	return events
}

// NewParser returns a Parser that calls emit with each event once nothing more can be said about it: when
// a later boot begins, when 512 younger ones are open, or at Close.
func NewParser(emit func(Event)) *Parser {
	return &Parser{emit: emit, known: map[key]*report{}, tr: tracer{cpu: -1}}
}

// Line takes in the next line of the log. A text with line ends inside is several lines.
func (p *Parser) Line(l Line) {
	if !strings.Contains(l.Text, "\n") {
		p.line(l)
		return
	}
	for part := range strings.SplitSeq(l.Text, "\n") {
		p.line(Line{l.Stamp, l.HasStamp, part})
	}
}

// Open returns what is known so far of the events that have not been emitted yet, in order of their first line. A later line may
// still change them.
func (p *Parser) Open() []Event {
	events := make([]Event, 0, len(p.reports))
	for _, r := range p.reports {
		if r.into == nil {
			events = append(events, p.told(r))
		}
	}
	return events
}

// Close ends the log and emits what is left. Line must not be called any more.
func (p *Parser) Close() {
	p.closeTrace()
	p.settle(func(*report) bool { return true })
	p.flush()
	if r := p.frag; r != nil && p.emitted == 0 {
		if p.registers && len(r.Traces) > 0 && len(r.States) == 0 && r.Jiffies == 0 && !r.Blocked {
			r.Kind = CPUDump
		}
		p.emit(p.told(r))
	}
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
	at       int           // number of its first line
	opened   int           // number of its newest line while it waits for its end
	key      key           // under which it is known
	lastRan  bool          // the next backtrace is of the CPU where the kthread ran last
	asked    Line          // the newest NMI for a backtrace
	first    int64         // jiffies of its first report
	reported time.Duration // stamp of its newest report
	newest   int64         // jiffies or seconds of its newest report
	bySelf   bool          // the newest report was a CPU's about itself
	peer     *report       // another CPU's report, under way at the same time
	into     *report       // the event that it has become part of
}

// root returns the event that r has become part of.
func (r *report) root() *report {
	for r.into != nil {
		r = r.into
	}
	return r
}

// A Parser reads a log line by line in bounded memory. It is for logs that do not end, and for callers that have
// lines of their own; Events and Parse are shorter. It belongs to one goroutine.
type Parser struct {
	emit    func(Event)
	emitted int
	boots   int

	n       int             // lines so far
	stamp   time.Duration   // the newest, of this boot
	back    int             // lines in a row with stamps far before it
	reports []*report       // not emitted yet
	known   map[key]*report // of this boot
	classic []*report       // heads that still wait for their "(t=… g=…)"
	exp     *report         // head that still waits for "} … jiffies s: …"
	pending Line            // a head that a mail or log daemon wrapped

	joins int // lines that are joined in pending

	hz        int     // of this boot
	complaint Line    // the newest driver's timeout
	anchor    *report // what a backtrace would be about
	asked     bool    // a backtrace is of a task that sysrq-w shows
	foreign   bool    // a backtrace would be about something that is no event
	busy      int     // number of the last line that was part of a report
	tr        tracer
	prefix    string // before the newest head, and not the kernel's
	pool      string // that locked up
	ofPool    bool   // the newest "pwq" line is of it
	traceLine Line
	current   Line    // the one that may be of a backtrace
	frag      *report // pieces whose heads the log has lost
	registers bool    // among them
}

// patience is how many lines after its newest line a report can go on: other CPUs' backtraces, up to some
// 200 lines, can come between.
const patience = 256

// maxOpen is how many events are kept in case that more is said about them.
const maxOpen = 512

// restart is how far stamps go back at a reboot; printk on several CPUs can be out of order by far less.
const restart = 5 * time.Second

// early is how many lines a kernel can print before its banner.
const early = 8

// reach is how much of a line is looked at: more than the kernel's longest record of 1024
// bytes (PRINTKRB_RECORD_MAX) and a wrapping, so that a line without end costs no more than its reading.
const reach = 4096

func (p *Parser) line(l Line) {
	p.n++
	l.Text = l.Text[:min(len(l.Text), reach)]
	p.boot(l)
	if p.pending.Text != "" {
		l = Line{p.pending.Stamp, p.pending.HasStamp, p.pending.Text + " " + strings.TrimSpace(l.Text)}
		p.pending = Line{}
	} else {
		p.joins = 0
	}
	if !p.idle() && p.n-p.busy > patience {
		p.rest()
	}
	tells := telling(l.Text)
	if p.idle() && !tells {
		return
	}
	if tells && p.header(l) {
		p.busy = p.n
		return
	}
	text := strings.TrimSpace(p.unprefixed(l.Text))
	if rest, found := strings.CutPrefix(text, "rcu:"); found {
		text = strings.TrimSpace(rest)
	}
	if p.exp != nil {
		p.expMore(l)
	}
	if len(p.classic) > 0 && p.body(l, text) || p.detail(l, text) {
		p.busy = p.n
		return
	}
	if p.tr.open == nil {
		p.traceLine = l
	}
	p.current = l
	if p.trace(l, text) {
		p.busy = p.n
	}
}

// unprefixed takes off what a daemon of its own kind put before the newest head, if it is before s as well: as
// long, and with the same end, since the rest of it can be a time.
func (p *Parser) unprefixed(s string) string {
	n := len(p.prefix)
	tail := min(n, 4)
	if n > 0 && len(s) > n && s[n-tail:n] == p.prefix[n-tail:] {
		return s[n:]
	}
	return s
}

// idle reports whether only a telling line can matter.
func (p *Parser) idle() bool { return p.busy == 0 }

// rest closes what nothing was added to for long.
func (p *Parser) rest() {
	p.closeTrace()
	p.settle(func(*report) bool { return true })
	p.exp, p.anchor, p.foreign, p.asked, p.busy = nil, nil, false, false, 0
}

// header reports whether l begins or makes up a report, and takes it in. Most lines of a log end
// here after a few searches for fixed strings.
func (p *Parser) header(l Line) bool {
	for text := l.Text; ; {
		_, rest, found := strings.Cut(text, "INFO: ")
		if !found {
			break
		}
		if p.info(l, rest) {
			p.prefix = strings.TrimSuffix(l.Text[:len(l.Text)-len(rest)-len("INFO: ")], "rcu: ")
			p.prefix = strings.Clone(p.prefix[:min(len(p.prefix), headReach)])
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
	case strings.Contains(l.Text, "detected hard LOCKUP"), strings.Contains(l.Text, "Hard LOCKUP"):
		p.hardLockup(l)
		return true
	case strings.Contains(l.Text, " jiffies old"):
		return p.age(l)
	}
	return p.trouble(l)
}

// info takes in what follows "INFO: ".
func (p *Parser) info(l Line, rest string) bool {
	if task, found := strings.CutPrefix(rest, "task "); found {
		return p.hung(l, task)
	}
	return p.stall(l, rest)
}

// boot forgets the grace periods of the boot before.
func (p *Parser) boot(l Line) {
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

func (p *Parser) restart() {
	p.rest()
	p.back, p.hz, p.complaint = 0, 0, Line{}
	clear(p.known)
	p.flush()
	if p.n > early {
		p.boots++
	}
}

// begin starts a report with its first line.
func (p *Parser) begin(l Line, e Event) *report {
	p.closeTrace()
	if len(p.reports) >= maxOpen {
		p.evict()
	}
	r := &report{Event: e, at: p.n, opened: p.n}
	r.Reports, r.Boot = 1, p.boots
	r.note(l)
	if c := p.complaint; c.HasStamp && l.HasStamp && (l.Stamp-c.Stamp).Abs() <= time.Minute {
		r.Before = c.Text
	}
	p.reports = append(p.reports, r)
	p.anchor, p.foreign, p.asked = r, false, false
	p.tr.role, p.tr.cpu = Subject, -1
	return r
}

// evict emits the oldest event, as if nothing more would be said about it.
func (p *Parser) evict() {
	r := p.reports[0]
	p.reports = append(p.reports[:0], p.reports[1:]...)
	if r.into != nil {
		return
	}
	if p.known[r.key] == r {
		delete(p.known, r.key)
	}
	p.out(r)
}

// flush emits all events.
func (p *Parser) flush() {
	slices.SortStableFunc(p.reports, func(a, b *report) int { return cmp.Compare(a.at, b.at) })
	for _, r := range p.reports {
		if r.into == nil {
			p.out(r)
		}
	}
	p.reports = p.reports[:0]
}

func (p *Parser) out(r *report) {
	p.emitted++
	p.emit(p.told(r))
}

// told is r with what the log as a whole tells.
func (p *Parser) told(r *report) Event {
	e := r.Event
	if e.HZ == 0 && e.Boot == p.boots {
		e.HZ = p.hz
	}
	return e
}

// fragment is the event of pieces whose heads the log has lost.
func (p *Parser) fragment(l Line) *report {
	if p.frag == nil {
		p.frag = &report{Event: Event{Kind: Fragment, Reports: 1, Boot: p.boots}}
	}
	p.frag.opened = p.n
	p.frag.note(l)
	return p.frag
}

// merge joins r with what is known under k, or makes it known. Again says whether r, beside a known
// event, is a further report of it.
func (p *Parser) merge(r *report, k key, again func(known *report) bool) {
	known := p.known[k]
	if known == nil || known == r {
		r.first, r.newest, r.bySelf, r.reported = r.Jiffies, r.Jiffies, r.Self, r.Last
		p.known[k], r.key = r, k
		return
	}
	p.guessHZ(known, r)
	if again(known) {
		known.Reports++
	}
	known.newest, known.bySelf, known.reported = max(known.newest, r.Jiffies), r.Self, r.Last
	p.fold(known, r)
}

// fold makes from part of into.
func (p *Parser) fold(into, from *report) {
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

// guessHZ learns the kernel's HZ from two reports of one grace period.
func (p *Parser) guessHZ(known, r *report) {
	jiffies, dt := r.Jiffies-known.newest, r.Last-known.reported
	if known.newest == 0 || !known.HasTime || !r.HasTime || jiffies < 100 || dt < time.Second {
		return
	}
	for _, hz := range [...]int{100, 250, 300, 1000} {
		if ratio := float64(jiffies) / (dt.Seconds() * float64(hz)); ratio > 0.97 && ratio < 1.03 {
			p.hz = hz
		}
	}
}
