package sim

import "github.com/napistall/napistall/internal/model"

// A cruise skips what repeats. Between two events of any other kind, the poll loop goes from one poll to the next on one
// of three ways: again at once, by way of a schedule() that finds it runnable, or by way of a sleep. Which one it is, and
// how many packets are left for the next poll, is arithmetic; how long it takes and which state of the model it ends in
// depends on nothing but the state that it began in. So each pass is stepped once and remembered, and computed from
// then on.
//
// It is exact: a pass is only computed from a state that is equal bit by bit to one from which the same way was stepped
// before with as many packets left, without anything else happening meanwhile. Tests hold trials with and without it
// against each other.
type cruise struct {
	off   bool
	stirs uint64        // events so far that are none of the poll loop's own
	loud  model.Effects // effects since the last anchor that somebody else notices
	seen  sightings
	from  anchor
	known []waypoint // empty slots at the end
	load  traffic    // as it was before the pass that is computed
}

// The ways from one poll to the next.
const (
	wayAgain = iota // the interrupt came before napi_thread_wait's test
	wayYield        // … between the test and schedule(): window W3
	waySleep        // … later, and woke the thread
	ways
	wayOther // any other: stepped
)

const (
	maxLeft  = 64  // the largest number of packets left for a poll that is remembered
	maxKnown = 128 // how many waypoints are remembered; beyond that, all are forgotten
)

// A waypoint is a state in which a poll begins, and what is known of the ways from there.
type waypoint struct {
	state  model.State
	route  [ways]route
	window window                   // when what comes decides on the way
	next   [ways][maxLeft + 1]int16 // 1 + the waypoint that the way leads to; 0 not known
}

// A window is the instants from a poll's end up to which an interrupt makes a thread go on, and keeps it from sleeping.
type window struct{ unmask, test, sched int64 }

// A route is a way's times. Those of a sleep count from the interrupt that ends it, others from the poll's end; 0 is not at
// all.
type route struct {
	known bool
	sched int64 // schedule() is entered, from the poll's end
	on    int64 // the thread is on the CPU again
	stamp int64 // last_qs
	cond  int64 // cond_resched, from the poll's end
	next  int64 // the next poll begins
}

// An anchor is the begin of a poll, of a thread that has just entered its loop.
type anchor struct {
	id     int // waypoint, or none
	at     int64
	stirs  uint64
	polled int64 // of a veth: packets of its poll
	veth   round
	state  model.State // of a veth
}

const none = -1

// A round is one pass of a bounce: how long it is, and how long before its end last_qs was stamped and cond_resched
// was passed; 0 for not known or not at all.
type round struct{ period, stamp, cond int64 }

// sightings are when things happened since the last anchor.
type sightings struct {
	poll, unmask, test, irq, sched, off, on, cond int64
	irqs, scheds, sleeps                          int
	full                                          bool // the poll used its weight
}

// routine are the effects of a pass that concern nobody but the poll loop.
const routine = quiet | model.EffSchedule | model.EffSwitchVol | model.EffSwitchInvol | model.EffSleep | model.EffWake | model.EffFull

// cruise computes as many passes as it can, at the begin of a poll that takes e.polling packets until the instant end. It
// returns when the poll that is pending then ends.
func (e *engine) cruise(end int64) int64 {
	c := &e.fast
	if c.off || e.watch != nil {
		return end
	}
	if e.dev.veth {
		return e.cruiseVeth(end)
	}
	e.learn()
	e.q.unset(slotRun0)
	horizon := e.horizon()
	if e.lasting {
		horizon = min(horizon, e.k.after(e.k.of(e.stamped), e.k.stamp))
	}
	at, moved := e.now, false
	for {
		next, nextEnd, ok := e.pass(end, horizon)
		if !ok {
			break
		}
		at, end, moved = next, nextEnd, true
	}
	if moved {
		e.now = at
		e.s = c.known[c.from.id].state
		c.from.at = at
	}
	return end
}

// learn remembers the pass that has just been stepped, and where it led.
func (e *engine) learn() {
	c := &e.fast
	was, s, loud := c.from, c.seen, c.loud
	c.seen, c.loud = sightings{}, 0
	way, left := wayOf(s), e.s.Packets()
	alone := was.id != none && was.stirs == c.stirs && loud == 0 && way < ways && left <= maxLeft
	id := c.find(was, way, left, alone, e)
	if len(c.known) == 1 { // all was forgotten
		alone = alone && was.id == id
	}
	c.from = anchor{id: id, at: e.now, stirs: c.stirs}
	if !alone {
		return
	}
	w := &c.known[was.id]
	r, win := routeOf(way, s, e)
	if w.route[way].known && w.route[way] != r || !w.window.fits(win) {
		*w = waypoint{state: w.state}
	}
	w.route[way] = r
	w.window.take(win)
	w.next[way][left] = int16(id + 1)
}

// find returns the waypoint of the present state, a new one if need be.
func (c *cruise) find(was anchor, way, left int, alone bool, e *engine) int {
	if alone {
		if id := int(c.known[was.id].next[way][left]) - 1; id >= 0 && c.known[id].state == e.s {
			return id
		}
	}
	for i := range c.known {
		if c.known[i].state == e.s {
			return i
		}
	}
	if len(c.known) == maxKnown {
		c.known = c.known[:0]
	}
	c.known = append(c.known, waypoint{state: e.s})
	return len(c.known) - 1
}

// wayOf is the way that s shows.
func wayOf(s sightings) int {
	switch {
	case s.full || s.irqs != 1 || s.test == 0 || s.irq < s.unmask:
	case s.scheds == 0 && s.sleeps == 0:
		return wayAgain
	case s.scheds == 1 && s.sleeps == 0 && s.irq > s.test && s.irq <= s.sched:
		return wayYield
	case s.scheds == 2 && s.sleeps == 1 && s.off < s.irq && s.irq < s.on:
		return waySleep
	}
	return wayOther
}

// routeOf is the route that s shows, to a poll that begins now, and what it shows of the window.
func routeOf(way int, s sightings, e *engine) (route, window) {
	origin := s.poll
	w := window{unmask: s.unmask - s.poll, test: s.test - s.poll, sched: s.sched - s.poll}
	switch way {
	case wayAgain: // the interrupt put the test off
		w.test -= e.p.interrupt
		w.sched = 0
	case wayYield:
		w.sched -= e.p.interrupt
	case waySleep:
		origin = s.irq
	}
	r := route{known: true, next: e.now - origin}
	if s.scheds > 0 {
		r.sched = s.sched - s.poll
	}
	if way == waySleep {
		r.on = s.on - s.irq
	}
	if e.stamped > origin && !e.lasting {
		r.stamp = e.stamped - origin
	}
	if s.cond > s.poll {
		r.cond = s.cond - s.poll
	}
	return r, w
}

// fits reports whether what is known of w is in o, too.
func (w window) fits(o window) bool {
	return w.unmask == 0 || w.unmask == o.unmask && w.test == o.test && (w.sched == 0 || o.sched == 0 || w.sched == o.sched)
}

func (w *window) take(o window) {
	if o.sched == 0 {
		o.sched = w.sched
	}
	*w = o
}

// horizon is the instant from which on passes can't be skipped: the next event, or the end of the run.
func (e *engine) horizon() int64 {
	_, at := e.q.next()
	return min(at, e.until+1)
}

// scheduled notes that CPU 0 entered __schedule, and whom it switched to.
func (c *cruise) scheduled(out model.Outcome, next model.Task, now int64) {
	if c.seen.scheds++; c.seen.scheds == 1 {
		c.seen.sched = now
	}
	switch {
	case out.Effects&(model.EffSwitchVol|model.EffSwitchInvol) == 0:
	case out.Task == model.NAPIThread && next == model.Idle:
		c.seen.off = now
		c.seen.sleeps++
	case out.Task == model.Idle && next == model.NAPIThread:
		c.seen.on = now
	default:
		c.seen.sleeps += 2 // no way
	}
}

// pass computes one pass, from a poll that takes e.polling packets until the instant end. It returns when the next one
// begins and ends, or false, with everything as it was.
func (e *engine) pass(end, horizon int64) (next, nextEnd int64, ok bool) {
	c := &e.fast
	w := &c.known[c.from.id]
	if e.polling >= e.dev.weight || w.window.unmask == 0 {
		return 0, 0, false
	}
	front, dropped, polled, arrived := e.load.front, e.rec.dropped, e.polling, e.arrived
	plain := e.load.plain()
	if !plain {
		c.load = *e.load
		e.load.polled(polled, end)
	}
	irq, way := e.wayFrom(w, end)
	left := int64(0)
	if way < ways && w.route[way].known {
		origin := end
		if way == waySleep {
			origin = irq
		}
		if next = origin + w.route[way].next; next < horizon {
			e.arrived, e.polling = 0, 0
			e.receive(irq, e.dev.ring)
			left, e.arrived = e.arrived, 0
			ok = left <= maxLeft && w.next[way][left] > 0
		}
	}
	if !ok {
		if !plain {
			*e.load = c.load
		}
		e.load.front, e.rec.dropped, e.polling, e.arrived = front, dropped, polled, arrived
		return 0, 0, false
	}
	e.passed(way, &w.route[way], end, irq, polled)
	c.from.id = int(w.next[way][left]) - 1
	return next, e.drainFrom(next+e.p.step[model.StepPoll], left), true
}

// wayFrom says when the device interrupts after a poll that ended at end, and which way the thread goes then.
func (e *engine) wayFrom(w *waypoint, end int64) (irq int64, way int) {
	unmask := end + w.window.unmask
	irq = e.load.next()
	if e.latch && e.arrived > 0 || irq <= unmask {
		irq = unmask
	}
	irq = max(irq, e.dev.last+e.dev.moderation)
	switch {
	case irq >= never:
		return irq, wayOther
	case irq > end+w.window.test && w.window.sched == 0:
		return irq, wayOther
	case irq > end+w.window.test && irq > end+w.window.sched:
		return irq, waySleep
	case !e.aged && irq >= e.sliceAt:
		return irq, wayOther
	case irq > end+w.window.test:
		return irq, wayYield
	}
	return irq, wayAgain
}

// passed counts a pass that was computed.
func (e *engine) passed(way int, p *route, end, irq, polled int64) {
	r := e.rec
	r.polls++
	r.packets += uint64(polled)
	r.interrupts++
	e.dev.last = irq
	if p.sched > 0 {
		r.touched = end + p.sched
	}
	if p.cond > 0 {
		r.touched = max(r.touched, end+p.cond)
	}
	if way != waySleep {
		if p.stamp > 0 {
			e.stamped = end + p.stamp
		}
		return
	}
	if p.stamp > 0 {
		e.stamped = irq + p.stamp
	}
	r.voluntary++
	r.ran += end + p.sched - r.since
	r.since = irq + p.on
	r.touched = r.since
	e.sliceAt, e.aged = r.since+e.k.slice, false
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
