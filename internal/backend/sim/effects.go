package sim

import "github.com/napistall/napistall/internal/model"

// stallOthers is RCU_STALL_RAT_DELAY: how many jiffies later than the CPU itself the others report it.
const stallOthers = 2

// apply counts what a step did, and sets the timers that it started.
func (e *engine) apply(out model.Outcome) {
	f := out.Effects
	if f&model.EffPoll != 0 {
		e.rec.polled(out)
		if !e.dev.veth {
			e.load.polled(int64(out.N), e.now)
		}
	}
	if f&model.EffStamp != 0 {
		e.stamped = e.now
	}
	if f&model.EffLine != 0 {
		e.q.set(slotNIC, max(e.now, e.dev.last+e.dev.moderation))
	}
	if e.watch != nil {
		e.watch(out)
	}
	if f&^quiet == 0 {
		return
	}
	e.fast.loud |= f &^ routine
	e.scheduler(f, out)
	e.normal(f)
	e.expedited(f)
	e.reports(f, out)
	for p := range model.MaxProbes {
		e.probe(p, f)
	}
}

func (e *engine) scheduler(f model.Effects, out model.Outcome) {
	if f&model.EffSoftirq != 0 {
		e.q.set(slotAgeSoftirq, e.k.at(e.k.of(e.now)+e.k.softirq))
	}
	if f&model.EffNetRX != 0 {
		e.q.set(slotAgeNetRX, e.k.at(e.k.of(e.now)+2))
	}
	if f&model.EffSqueeze != 0 {
		e.rec.squeezed++
	}
	if f&model.EffReschedIPI != 0 {
		e.q.set(slotReschedIPI, e.now+ipiDelay)
	}
	if f&model.EffSchedule != 0 {
		e.rec.touched = e.now
		e.fast.scheduled(out, e.s.Current(), e.now)
	}
	if f&(model.EffSwitchVol|model.EffSwitchInvol) != 0 {
		e.sliceAt, e.aged = e.now+e.k.slice, false
		e.rec.switched(out, e.s.Current(), e.now)
	}
}

// normal sets the timers of a normal grace period.
func (e *engine) normal(f model.Effects) {
	if f&model.EffGPEnd != 0 {
		e.q.unset(slotAgeGP)
		e.q.unset(slotStall)
		e.q.unset(slotAgeResched)
		e.q.unset(slotFQS)
	}
	if f&model.EffGPStart != 0 {
		j := e.k.of(e.now)
		urgent, heavy := e.k.after(j, e.k.sched), e.k.after(j, 2*e.k.sched)
		e.ages = [3]int64{urgent, heavy, max(heavy, e.k.after(j, e.k.stall/2))}
		e.stage = -1
		e.nextAge()
		e.fresh = true
		e.rec.gpStarted(j)
		e.dueStall(j + e.k.stall)
	}
	if f&model.EffNotice != 0 {
		e.rec.log.noticed()
	}
	if f&model.EffFQSTimer != 0 {
		n := e.k.next
		if e.fresh {
			n, e.fresh = e.k.first, false
		} else {
			e.rec.fqs++
		}
		e.q.set(slotFQS, e.k.timer(e.now, n))
	}
	if f&model.EffResched != 0 {
		e.q.set(slotAgeResched, e.k.at(e.k.of(e.now)+e.k.sched))
	}
}

// nextAge sets the next of AgeGP's three instants.
func (e *engine) nextAge() {
	if e.stage++; e.stage < len(e.ages) {
		e.q.set(slotAgeGP, max(e.ages[e.stage], e.now))
	}
}

// dueStall sets when the CPU itself may report its stall, which begins with jiffy j.
func (e *engine) dueStall(j int64) {
	if !e.silent {
		e.second = false
		e.q.set(slotStall, e.k.at(j))
	}
}

// expedited sets the timers of an expedited grace period.
func (e *engine) expedited(f model.Effects) {
	if f&model.EffExpEnd != 0 {
		e.q.unset(slotExpStall)
	}
	if f&model.EffExpStart != 0 {
		e.rec.expStarted(e.k.of(e.now))
		if !e.silent {
			e.q.set(slotExpStall, e.k.timer(e.now, e.k.exp))
		}
	}
	if f&model.EffExpIPI != 0 {
		e.q.set(slotExpIPI, e.now+ipiDelay)
	}
}

// reports lets a stall report be printed: the lines, the CPU time, and when the next one is due.
func (e *engine) reports(f model.Effects, out model.Outcome) {
	if f&(model.EffStallSelf|model.EffStallOther|model.EffStallExp) == 0 {
		return
	}
	e.owed += e.p.report
	e.rec.stalled(e, f)
	j := e.k.of(e.now + e.p.report)
	if f&model.EffStallExp != 0 {
		e.q.set(slotExpStall, e.k.timer(e.now+e.p.report, 3*e.k.exp+3))
		return
	}
	e.dueStall(j + 3*e.k.stall + 3)
}

// oversleep bounds how much longer than asked for a probe's pause is: its timer's slack, and until it has the CPU. Without it
// two probes that once ended together would begin together for ever.
const oversleep = millisecond

// probe follows probe p through its round.
func (e *engine) probe(p int, f model.Effects) {
	if f&(model.ProbeWait(p)|model.ProbeDone(p)|model.ProbeTimer(p)) == 0 {
		return
	}
	if f&model.ProbeDone(p) != 0 {
		e.rec.done(e, p)
		e.q.set(slotBegin+p, e.q.at(slotBegin+p)+e.rnd.below(oversleep))
		return
	}
	op := e.m.ProbeOp(&e.s, p)
	if f&model.ProbeWait(p) != 0 {
		e.rec.waits(p, op, e.now)
	}
	if f&model.ProbeTimer(p) == 0 {
		return
	}
	at := e.k.timer(e.now, 1)
	switch op {
	case model.Disable:
		at = e.now + 20*microsecond + e.rnd.below(180*microsecond) // usleep_range(20, 200)
	case model.TasksScan:
		at = e.k.timer(e.now, max(1, e.k.hz/10))
	}
	e.q.set(slotProbeTimer+p, at)
}
