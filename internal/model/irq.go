package model

// irqEnter is irq_enter on CPU 0: an idle CPU leaves its extended quiescent state, so the dyntick counter moves.
func (m *Model) irqEnter(s *State) {
	if s.idle() {
		s.rcu[0] |= rEQS
	}
}

// irqExit is irq_exit on CPU 0 and the return from the interrupt (kernel/softirq.c: __irq_exit_rcu; kernel/entry/common.c:
// raw_irqentry_exit_cond_resched; [6.12] arm64's own code): softirqs run unless BH is off or they run already.
func (m *Model) irqExit(s *State) Effects {
	if s.pend == 0 || s.bhOff() {
		return m.irqReturn(s)
	}
	if m.threaded {
		f := m.softirq(s, frIRQ)
		return f | m.irqReturn(s)
	}
	return m.beginFrame(s, frIRQ)
}

// irqReturn goes back to what was interrupted: user mode honours either flag; the kernel is preempted only where there are
// points, the full flag is set and preempt_count is zero; the idle loop looks for itself.
func (m *Model) irqReturn(s *State) Effects {
	if s.cpu&(cFull|cLazy) == 0 || s.frame != 0 {
		return 0
	}
	switch {
	case s.curr == User:
		return m.schedule(s, false, false)
	case s.curr == Idle || !m.irqPreempts || s.cpu&cFull == 0 || s.preemptOff():
		return 0
	}
	return m.schedule(s, true, false)
}

// tick is CPU 0's timer interrupt (kernel/time/timer.c: update_process_times): RCU first, then sched_tick, which under
// lazy preemption first turns the lazy flag into the full one; then the fair class asks a task whose slice is over to give
// way to a competitor.
func (m *Model) tick(s *State) Outcome {
	o := Outcome{Step: StepTick, Where: Where{Task: s.curr}}
	m.irqEnter(s)
	o.Effects = m.clock(s)
	if s.cpu&cLazy != 0 && !m.broken(BreakPromotion) {
		s.cpu &^= cLazy
		o.Effects |= EffPromote | m.setFull(s, false)
	}
	if s.cpu&cSliceOver != 0 && s.competitor() {
		o.Effects |= m.setFair(s, false)
	}
	o.Effects |= m.irqExit(s)
	return o
}

// houseTick is CPU 1's timer interrupt: RCU's part, with the softirq that it raises.
func (m *Model) houseTick(s *State) Outcome {
	if !m.houseTicks(s) {
		return Outcome{}
	}
	o := Outcome{Step: StepTick, Where: Where{CPU: 1}}
	if s.houseIdle() || m.preemptCount {
		s.rcu[1] &^= rNoQS
	}
	o.Effects = m.checkStall(s, 1)
	if m.pending(s, 1) {
		o.Effects |= m.core(s, 1, frIRQ)
	}
	return o
}

// houseTicks reports whether CPU 1's tick would do anything.
func (m *Model) houseTicks(s *State) bool {
	if m.pending(s, 1) {
		return true
	}
	if s.gp&gActive == 0 || s.qsmask == 0 {
		return false
	}
	stall := s.gp & gStallMask / gStall
	return stall == 2 || s.qsmask>>1&1 != 0 && (stall == 1 || s.rcu[1]&rNoQS != 0)
}

// reschedIPI is scheduler_ipi: nothing but its exit.
func (m *Model) reschedIPI(s *State) Outcome {
	if s.cpu&cReschedIPI == 0 {
		return Outcome{}
	}
	o := Outcome{Step: StepReschedIPI, Where: Where{Task: s.curr}}
	m.irqEnter(s)
	s.cpu &^= cReschedIPI
	o.Effects = m.irqExit(s)
	return o
}

// age lets time pass for one comparison with jiffies or the clock.
func (m *Model) age(s *State, e Event) Outcome {
	o := Outcome{Step: StepAge}
	switch e {
	case AgeGP:
		s.gp += gAge
	case AgeResched:
		s.gp &^= gRecent
	case StallDue:
		s.gp += gStall
	case AgeStamp:
		s.cpu |= cStampOld
	case AgeSlice:
		o.Task = s.curr
		s.cpu |= cSliceOver
		if m.hrtick && s.competitor() && !m.broken(BreakFairFlag) {
			// hrtick: resched_curr at slice end while two tasks are queued ([7.3] x86).
			o.Effects = m.setFull(s, false)
			o.Effects |= m.irqExit(s)
		}
	case AgeSoftirq:
		s.cpu |= cSoftOld
	case AgeNetRX:
		s.cpu |= cRxOld
	case Deadline:
		s.napi |= nDrop
	}
	return o
}
