package sim

import (
	"github.com/napistall/napistall/internal/model"
)

// The queue's slots, in the order in which events of the same instant happen: first what time alone changes, then
// timers, then interrupts, then what runs.
const (
	slotAgeGP      = 0
	slotAgeResched = 1
	slotStall      = 2
	slotExpStall   = 3
	slotAgeSoftirq = 4
	slotAgeNetRX   = 5
	slotDeadline   = 6
	slotArrive     = 7
	slotFQS        = 8
	slotProbeTimer = 9 // one for each probe
	slotBegin      = slotProbeTimer + model.MaxProbes
	slotExpIPI     = slotBegin + model.MaxProbes
	slotReschedIPI = slotExpIPI + 1
	slotNIC        = slotExpIPI + 2
	slotOther      = slotExpIPI + 3
	slotTick0      = slotExpIPI + 4
	slotTick1      = slotExpIPI + 5
	slotRun0       = slotExpIPI + 6
	slotRun1       = slotExpIPI + 7
	slotMark       = slotExpIPI + 8  // counters are read, or a phase begins
	slotWatchdog   = slotExpIPI + 9  // of soft lockups
	slotSteer      = slotExpIPI + 10 // of a load that holds the band
	slotNeighbour  = slotExpIPI + 11
)

// A device is what is polled, as far as the model leaves it to the driver.
type device struct {
	veth       bool
	ring       int64 // descriptors
	weight     int64
	bulk       int64 // of a veth: with more packets in flight than this a poll refills itself
	moderation int64
	last       int64 // when it interrupted last
	shared     bool  // its mask is another queue's, too
	masked     bool  // … which is masked now
}

// A turn is the step that CPU 0 takes next, not yet due.
type turn struct {
	step  model.StepID
	task  model.Task
	frame bool
}

// An engine drives one model through one trial. It is not for concurrent use.
type engine struct {
	m     *model.Model
	s     model.State
	q     *queue
	now   int64
	until int64 // the run's end
	rnd   random
	k     timing
	p     prices
	dev   device
	load  *traffic
	rec   *recorder
	err   error // of the recorder; ends the run
	// watch, if set, sees every step; then none is skipped.
	watch func(model.Outcome)

	turn    turn
	busy    int64 // CPU 0 handles interrupts until then
	owed    int64 // CPU time, interrupts off, that a report takes from CPU 0
	held    turn  // what a softirq frame interrupted
	rest    int64 // … and what it had still to go; held.step is none where nothing is held
	arrived int64 // packets on the ring that the model hasn't been told of
	polling int64 // packets that the poll in progress takes

	fast  cruise
	latch bool // a cause of interrupts that comes while masked fires at unmasking

	stage   int      // of AgeGP
	ages    [3]int64 // when
	second  bool     // of StallDue: the other CPUs' is next
	fresh   bool     // no scan of this grace period yet
	silent  bool     // stall reports are suppressed
	sliceAt int64    // when the current slice is over
	aged    bool     // … and the model knows
	stamped int64    // when last_qs was stamped
	lasting bool     // last_qs outlives the entry
	jiffy0  int64    // of the next tick on CPU 0
	late    int64    // bounds how late that is
}

// ipiDelay is from the sending of an interprocessor interrupt to its delivery: of the order of a microsecond on
// machines of today.
const ipiDelay = microsecond

// run goes on until the instant end, or until the recorder fails.
func (e *engine) run(end int64) {
	e.until = end
	for e.err == nil {
		slot, at := e.q.next()
		if at > end {
			e.now = end
			return
		}
		e.now = at
		e.fire(slot)
	}
}

func (e *engine) fire(slot int) {
	if slot != slotRun0 && slot != slotNIC && slot != slotArrive && slot != slotNeighbour {
		e.fast.stirs++
	}
	switch slot {
	case slotRun0:
		e.runCPU0()
	case slotRun1:
		e.q.unset(slotRun1)
		e.ageSlice()
		e.elsewhere(model.Run(1))
	case slotTick0:
		e.tick0()
	case slotTick1:
		e.q.unset(slotTick1)
		e.elsewhere(model.Tick(1))
	case slotNIC:
		e.nicInterrupt()
	case slotExpIPI:
		e.ipi(slotExpIPI, model.ExpIPI)
	case slotReschedIPI:
		e.ipi(slotReschedIPI, model.ReschedIPI)
	case slotArrive:
		e.sync()
		e.awaitArrival()
		e.kick()
	case slotOther:
		e.otherQueue()
	case slotNeighbour:
		e.neighbour()
	case slotMark, slotWatchdog, slotSteer:
		e.observe(slot)
	case slotDeadline:
		e.q.unset(slotDeadline)
		e.elsewhere(model.Deadline)
	default:
		e.timer(slot)
	}
}

// timer lets a timer or an age be due.
func (e *engine) timer(slot int) {
	e.q.unset(slot)
	switch {
	case slot == slotAgeGP:
		e.elsewhere(model.AgeGP)
		e.nextAge()
	case slot == slotAgeResched:
		e.elsewhere(model.AgeResched)
	case slot == slotStall:
		e.elsewhere(model.StallDue)
		if e.second = !e.second; e.second {
			e.q.set(slotStall, e.k.at(e.k.of(e.now)+stallOthers))
		}
	case slot == slotExpStall:
		e.elsewhere(model.ExpStallDue)
	case slot == slotAgeSoftirq:
		e.elsewhere(model.AgeSoftirq)
	case slot == slotAgeNetRX:
		e.elsewhere(model.AgeNetRX)
	case slot == slotFQS:
		e.elsewhere(model.FQSTimer)
	case slot < slotBegin:
		e.elsewhere(model.ProbeWake(slot - slotProbeTimer))
	default:
		e.rec.began(slot-slotBegin, e.now)
		e.elsewhere(model.Begin(slot - slotBegin))
	}
}

// elsewhere lets ev happen, which takes no time of CPU 0.
func (e *engine) elsewhere(ev model.Event) {
	was, at := e.turn, e.q.at(slotRun0)
	e.apply(e.m.Step(&e.s, ev, 1))
	if e.owed > 0 {
		e.busy = max(e.busy, e.now) + e.owed
		e.owed = 0
		e.resume(was, at, e.busy-e.now)
	} else {
		e.resume(was, at, 0)
	}
	e.kick()
}

// interrupt lets ev happen on CPU 0, as a hard interrupt.
func (e *engine) interrupt(ev model.Event) {
	was, at := e.turn, e.q.at(slotRun0)
	e.rec.interrupts++
	e.busy = e.now + e.p.interrupt
	e.apply(e.m.Step(&e.s, ev, 1))
	e.busy += e.owed
	e.owed = 0
	e.resume(was, at, e.busy-e.now)
	e.kick()
}

// resume sets CPU 0's next step anew after something came in between that took stolen: what it was about to do, at
// was, goes on if it still is what comes next.
func (e *engine) resume(was turn, at, stolen int64) {
	step, task := e.m.Next(&e.s, 0)
	next := turn{step, task, e.s.InSoftirq()}
	switch {
	case step == model.StepNone:
		e.turn = turn{}
		e.q.unset(slotRun0)
	case next == was && at != never:
		if stolen > 0 {
			e.delay(at + stolen)
		}
	case next.frame && !was.frame && at != never:
		e.held, e.rest = was, at-e.now
		e.begin(next, e.now+stolen)
	default:
		e.begin(next, e.now+stolen)
	}
}

// delay puts the pending step off. A poll goes on meanwhile to find packets.
func (e *engine) delay(at int64) {
	if polls(e.turn.step) {
		at = e.drain(at)
	}
	e.q.set(slotRun0, at)
}

// begin starts the step that CPU 0 takes next, at instant at.
func (e *engine) begin(next turn, at int64) {
	e.turn = next
	at += e.p.step[next.step]
	if polls(next.step) {
		e.polling = 0
		at = e.drain(at)
	}
	e.q.set(slotRun0, at)
}

// sync tells the model of what has arrived by now.
func (e *engine) sync() {
	if !e.dev.veth {
		e.receive(e.now, e.dev.ring-int64(e.s.Packets()))
	}
	if e.arrived > 0 {
		n := e.arrived
		e.arrived = 0
		e.apply(e.m.Step(&e.s, model.Arrive, int(n)))
	}
}

// awaitArrival makes the next packet an event if somebody would notice it: else it is counted when somebody looks.
func (e *engine) awaitArrival() {
	if e.dev.veth || e.s.Scheduled() || e.s.Line() {
		e.q.unset(slotArrive)
		return
	}
	e.q.set(slotArrive, max(e.load.next(), e.now))
}

// runCPU0 lets CPU 0's pending step happen.
func (e *engine) runCPU0() {
	was := e.turn
	n := -1
	switch was.step {
	case model.StepPoll, model.StepNetRXPoll:
		e.tell()
		n = int(e.polling)
		e.fast.seen.poll, e.fast.seen.full = e.now, e.polling >= e.dev.weight
		e.polling = 0
	case model.StepUnmask, model.StepNetRXUnmask:
		e.fast.seen.unmask = e.now
		e.sync()
	case model.StepWaitTest:
		if e.fast.seen.test == 0 {
			e.fast.seen.test = e.now
		}
	case model.StepRCUCore:
		e.rec.log.softirqs++
	case model.StepCondResched:
		e.fast.seen.cond = e.now
		e.rec.touched = e.now
	case model.StepPeriodicQS:
		if e.now >= e.k.after(e.k.of(e.stamped), e.k.stamp) {
			e.fast.stirs++
			e.apply(e.m.Step(&e.s, model.AgeStamp, 1))
		}
	}
	out := e.m.Step(&e.s, model.Run(0), n)
	e.apply(out)
	e.proceed(was, out)
	if was.step == model.StepUnmask || was.step == model.StepNetRXUnmask {
		e.awaitArrival()
	}
	if out.Effects&^quiet != 0 {
		e.kick()
	}
}

// tell tells the model of the packets that the poll has taken onto the ring.
func (e *engine) tell() {
	if n := e.arrived; n > 0 {
		e.arrived = 0
		e.apply(e.m.Step(&e.s, model.Arrive, int(n)))
	}
}

// proceed starts the step after was, which gave out.
func (e *engine) proceed(was turn, out model.Outcome) {
	at := max(e.now, e.busy)
	if e.owed > 0 {
		at += e.owed
		e.busy, e.owed = at, 0
	}
	step, task := e.m.Next(&e.s, 0)
	next := turn{step, task, e.s.InSoftirq()}
	switch {
	case step == model.StepNone:
		e.turn = turn{}
		e.held = turn{}
		e.q.unset(slotRun0)
	case was.frame && !next.frame && e.held == next && out.Effects&model.EffSchedule == 0:
		e.turn, e.held = next, turn{}
		e.delay(at + e.rest)
	default:
		if !next.frame {
			e.held = turn{}
		}
		e.begin(next, at)
		if was.step == model.StepLoopEntry && step == model.StepPoll && out.Effects&^quiet == 0 {
			e.q.set(slotRun0, e.cruise(e.q.at(slotRun0)))
		}
	}
}

// quiet are the effects that concern nobody but the poll loop.
const quiet = model.EffEntry | model.EffPoll | model.EffFullPoll | model.EffReentry | model.EffStamp | model.EffLine | model.EffMissed

// kick starts what an event may have given CPU 1 to do.
func (e *engine) kick() {
	if e.q.at(slotRun1) == never {
		if step, _ := e.m.Next(&e.s, 1); step != model.StepNone {
			e.q.set(slotRun1, e.now+e.p.wake+e.p.step[step])
		}
	}
	if e.q.at(slotTick1) == never && e.m.Enabled(&e.s).Has(model.Tick(1)) {
		e.q.set(slotTick1, e.k.at(e.k.of(e.now)+1)+e.rnd.below(tickJitter))
	}
}

// tick0 is the timer interrupt of CPU 0. An idle CPU that has nothing to do in it has none.
func (e *engine) tick0() {
	if e.now < e.busy {
		e.q.set(slotTick0, e.busy)
		return
	}
	e.jiffy0 = e.k.of(e.now) + 1
	e.q.set(slotTick0, e.k.at(e.jiffy0)+e.rnd.below(e.late))
	if e.s.Current() == model.Idle && !e.s.InSoftirq() && !e.s.Callbacks(0) {
		return // NO_HZ_IDLE; rcu_needs_cpu
	}
	e.rec.log.ticks++
	e.ageSlice()
	e.interrupt(model.Tick(0))
}

// ageSlice tells the model that the slice of CPU 0's task is over, just before somebody could notice.
func (e *engine) ageSlice() {
	if !e.aged && e.now >= e.sliceAt {
		e.aged = true
		if e.s.Current() != model.Idle {
			e.fast.stirs++
		}
		e.apply(e.m.Step(&e.s, model.AgeSlice, 1))
	}
}

func (e *engine) ipi(slot int, ev model.Event) {
	if e.now < e.busy {
		e.q.set(slot, e.busy)
		return
	}
	e.q.unset(slot)
	e.interrupt(ev)
}

func (e *engine) nicInterrupt() {
	if e.now < e.busy {
		e.q.set(slotNIC, e.busy)
		return
	}
	e.q.unset(slotNIC)
	e.sync()
	e.ageSlice()
	e.dev.last = e.now
	e.fast.seen.irq = e.now
	e.fast.seen.irqs++
	e.interrupt(model.NICInterrupt)
	e.awaitArrival()
}
