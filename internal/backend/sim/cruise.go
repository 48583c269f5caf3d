package sim

import "github.com/napistall/napistall/internal/model"

// A cruise skips what repeats. Between two events of any other kind, the poll loop goes from one poll to the next on one of
// two paths: again at once, because the interrupt came while the driver unmasked it, or by way of a sleep and a
// wake-up. What lies on a path always takes the same time and leaves the model in the same state; only how many packets
// come meanwhile differs. So the first passes are stepped and remembered, and later ones are computed: the poll and
// its packets by arithmetic, the state from memory.
//
// It is exact. A pass is only computed if its path was stepped before, from a state that is equal bit by bit, with as
// many packets left for the next poll. Whatever is not so, and each pass that another event falls into, is stepped. Tests
// hold trials with and without it against each other.
type cruise struct {
	off   bool
	stirs uint64 // events so far that are none of the poll loop's own
	sure  bool   // what is remembered is of a state that differs from the present one in nothing else
	seen  sightings
	from  anchor
	memos [memos]memo
	memo  *memo   // the one in use
	spare int     // the next to be given up
	load  traffic // as it was before the pass that is computed
}

// memos is how many states of everything else are remembered at a time. A grace period that waits for this CPU makes it
// change to and fro: a scan asks for help, the next tick takes the request off again.
const memos = 4

// A memo holds the paths as they are in one state of everything else, and the model's states at their ends: by the path
// before, the path, and the number of packets left.
type memo struct {
	paths [pathKinds]route
	table [pathKinds][pathKinds][maxKnown + 1]known
}

// The ways from one poll to the next.
const (
	pathAgain = iota // the interrupt came at the unmasking: no schedule()
	pathSleep        // to sleep, and woken by an interrupt
	pathKinds
	pathOther // any other: stepped
)

// maxKnown is the largest number of packets left for a poll that is remembered.
const maxKnown = 64

// An anchor is the begin of a poll, of a thread that has just entered its loop.
type anchor struct {
	kind, before int // the path that led to it, and the one before that
	at           int64
	stirs        uint64
	polled       int64 // of a veth: packets of its poll
	veth         round
	state        model.State
}

// A round is one pass of a bounce: how long it is, and how long before its end last_qs was stamped and cond_resched
// was passed; 0 for not known or not at all.
type round struct{ period, stamp, cond int64 }

// sightings are when things happened last, as far as a path is told by them.
type sightings struct {
	poll, unmask, irq, off, on, cond int64
	irqs, sleeps                     int
	full                             bool // the poll used its weight
}

// A route is a path's times. They count from the end of its poll; those after an interrupt that woke the thread, from that.
type route struct {
	known  bool
	unmask int64 // the driver's unmasking
	sleep  int64 // the thread is off the CPU
	on     int64 // … and on it again, from the interrupt
	stamp  int64 // last_qs, which sleep's path counts from the interrupt; 0 for none
	cond   int64 // cond_resched; 0 for none
	next   int64 // the next poll begins; sleep's path counts from the interrupt
}

type known struct {
	ok    bool
	state model.State
}

// cruise computes as many passes as it can, at the begin of a poll at instant now that ends at e.polling packets and
// instant end. It returns when the pending poll ends.
func (e *engine) cruise(end int64) int64 {
	c := &e.fast
	if c.off || e.rec.trace != nil {
		return end
	}
	if e.dev.veth {
		return e.cruiseVeth(end)
	}
	e.learn()
	if !c.sure || c.from.kind >= pathKinds || c.from.before >= pathKinds {
		return end
	}
	e.q.unset(slotRun0)
	horizon := e.horizon()
	if e.lasting {
		horizon = min(horizon, e.k.after(e.k.of(e.stamped), e.k.stamp))
	}
	at, moved := e.now, false
	on := int64(e.s.Packets())
	for {
		next, nextEnd, left, ok := e.pass(at, end, on, horizon)
		if !ok {
			break
		}
		at, end, on, moved = next, nextEnd, left, true
	}
	if moved {
		e.now = at
		e.s = c.memo.table[c.from.before][c.from.kind][on].state
	}
	c.from.at, c.from.stirs = at, c.stirs
	c.seen.irqs, c.seen.sleeps, c.seen.full = 0, 0, false
	return end
}

// learn remembers the pass that has just been stepped, and where it led.
func (e *engine) learn() {
	c := &e.fast
	s, was := c.seen, c.from
	kind := pathOther
	switch {
	case s.full || s.irqs != 1 || e.turn.frame:
	case s.sleeps == 0 && s.irq == s.unmask:
		kind = pathAgain
	case s.sleeps == 1 && s.off < s.irq && s.irq < s.on:
		kind = pathSleep
	}
	on := e.s.Packets()
	c.from = anchor{kind: kind, before: was.kind, at: e.now, stirs: c.stirs}
	if kind == pathOther || was.kind == pathOther || on > maxKnown {
		c.from.kind = kind
		if on > maxKnown {
			c.from.kind = pathOther
		}
		c.seen = sightings{}
		c.sure = c.sure && was.stirs == c.stirs
		return
	}
	c.remember(was, kind, on, e)
	c.seen = sightings{}
}

// remember looks the pass that has just been stepped up, and keeps it if it is new and nothing else fell into it.
func (c *cruise) remember(was anchor, kind, on int, e *engine) {
	r := routeOf(kind, c.seen, e.stamped, e.now)
	if e.lasting {
		r.stamp = 0
	}
	alone := was.stirs == c.stirs
	for i := range c.memos {
		m := &c.memos[i]
		if k := &m.table[was.kind][kind][on]; k.ok && k.state == e.s && (!alone || m.paths[kind] == r) {
			c.memo, c.sure = m, true
			return
		}
	}
	if !alone {
		c.sure, c.from.kind = false, pathOther // something has changed, or this was never seen
		return
	}
	if m := c.memo; !c.sure || m.table[was.kind][kind][on].ok || m.paths[kind].known && m.paths[kind] != r {
		c.memo = &c.memos[c.spare]
		c.spare = (c.spare + 1) % memos
		c.memo.forget()
	}
	c.memo.paths[kind], c.memo.table[was.kind][kind][on], c.sure = r, known{true, e.s}, true
}

func (m *memo) forget() {
	m.paths = [pathKinds]route{}
	for i := range m.table {
		for j := range m.table[i] {
			for n := range m.table[i][j] {
				m.table[i][j][n].ok = false
			}
		}
	}
}

// horizon is the instant from which on passes can't be skipped: the next event, or the end of the run.
func (e *engine) horizon() int64 {
	_, at := e.q.next()
	return min(at, e.until+1)
}

// switched notes that the thread goes off the CPU, or comes on.
func (c *cruise) switched(out model.Outcome, next model.Task, now int64) {
	switch {
	case out.Task == model.NAPIThread && next == model.Idle:
		c.seen.off = now
		c.seen.sleeps++
	case out.Task == model.Idle && next == model.NAPIThread:
		c.seen.on = now
	default:
		c.seen.sleeps += 2 // no path
	}
}

// routeOf is the route that s shows, to a poll that begins now.
func routeOf(kind int, s sightings, stamped, now int64) route {
	origin := s.poll
	if kind == pathSleep {
		origin = s.irq
	}
	p := route{known: true, unmask: s.unmask - s.poll, next: now - origin}
	if kind == pathSleep {
		p.sleep, p.on = s.off-s.poll, s.on-s.irq
	}
	if stamped > origin {
		p.stamp = stamped - origin
	}
	if s.cond > s.poll {
		p.cond = s.cond - s.poll
	}
	return p
}

// pass computes one pass: from the poll that began at instant at with on packets that the model knew, ends at end and
// takes e.polling packets, to the begin of the next. It returns when that begins and ends and how many packets it starts
// from, or false, with everything as it was.
func (e *engine) pass(at, end, on, horizon int64) (next, nextEnd, left int64, ok bool) {
	c := &e.fast
	if e.polling >= e.dev.weight {
		return at, end, on, false
	}
	coming := e.load.next()
	if e.load.closed() {
		coming = min(coming, end+e.load.rtt)
	}
	again, asleep := &c.memo.paths[pathAgain], &c.memo.paths[pathSleep]
	unmask := end + again.unmask + asleep.unmask // of both; one that isn't known is 0
	if again.known && asleep.known {
		unmask = end + again.unmask
	}
	kind, p := pathSleep, asleep
	if coming <= unmask || e.arrived > 0 && e.latch {
		kind, p = pathAgain, again
	}
	if !p.known || kind == pathAgain && (e.dev.last+e.dev.moderation > unmask || !e.aged && unmask >= e.sliceAt) {
		return at, end, on, false
	}
	front, dropped, polled, arrived := e.load.front, e.rec.dropped, e.polling, e.arrived
	plain := e.load.plain()
	if !plain {
		c.load = *e.load
		e.load.polled(polled, end)
	}
	irq, origin := unmask, end
	if kind == pathSleep {
		if coming <= end+p.sleep {
			if !plain {
				*e.load = c.load
			}
			return at, end, on, false
		}
		irq = max(e.load.next(), e.dev.last+e.dev.moderation)
		origin = irq
	}
	next = origin + p.next
	e.arrived, e.polling = 0, 0
	if next < horizon && irq < never {
		e.receive(irq, e.dev.ring)
		left, e.arrived = e.arrived, 0
		ok = left <= maxKnown && c.memo.table[c.from.kind][kind][left].ok
	}
	if !ok {
		if !plain {
			*e.load = c.load
		}
		e.load.front, e.rec.dropped, e.polling, e.arrived = front, dropped, polled, arrived
		return at, end, on, false
	}
	e.passed(kind, p, end, irq, origin, polled)
	nextEnd = e.drainFrom(next+e.p.step[model.StepPoll], left)
	return next, nextEnd, left, true
}

// passed counts a pass that was computed.
func (e *engine) passed(kind int, p *route, end, irq, origin, polled int64) {
	c, r := &e.fast, e.rec
	r.polls++
	r.packets += uint64(polled)
	r.interrupts++
	e.dev.last = irq
	if p.stamp > 0 {
		e.stamped = origin + p.stamp
	}
	if p.cond > 0 {
		r.touched = end + p.cond
	}
	if kind == pathSleep {
		r.voluntary++
		r.ran += end + p.sleep - r.since
		r.since = irq + p.on
		r.touched = r.since
		e.sliceAt, e.aged = r.since+e.k.slice, false
	}
	c.from.before, c.from.kind = c.from.kind, kind
}

// cruiseVeth is cruise for a bounce, whose passes are all alike: it skips as many as end before anything else happens.
func (e *engine) cruiseVeth(end int64) int64 {
	c := &e.fast
	was := c.from
	c.from = anchor{at: e.now, stirs: c.stirs, polled: e.polling, state: e.s}
	if was.state != e.s || was.polled != e.polling || e.polling >= e.dev.weight {
		return end
	}
	c.from.veth = was.veth
	if was.stirs == c.stirs {
		c.from.veth = round{period: e.now - was.at}
		if e.stamped > was.at && !e.lasting {
			c.from.veth.stamp = e.now - e.stamped
		}
		if c.seen.cond > was.at {
			c.from.veth.cond = e.now - c.seen.cond
		}
	}
	r := c.from.veth
	if r.period <= 0 {
		return end
	}
	e.q.unset(slotRun0)
	horizon := e.horizon()
	if e.lasting {
		horizon = min(horizon, e.k.after(e.k.of(e.stamped), e.k.stamp))
	}
	n := (horizon - 1 - e.now) / r.period
	if n <= 0 {
		return end
	}
	e.now += n * r.period
	e.rec.polls += uint64(n)
	e.rec.packets += uint64(n * e.polling)
	if r.stamp > 0 {
		e.stamped = e.now - r.stamp
	}
	if r.cond > 0 {
		c.seen.cond = e.now - r.cond
		e.rec.touched = c.seen.cond
	}
	c.from.at = e.now
	return end + n*r.period
}
