package model

// Step lets e happen in s. n is the number of packets that Arrive brings (at least 1); at the step that polls it bounds
// the packets taken, -1 meaning as many as weight and ring allow; elsewhere it is not looked at. Packets that a
// bound leaves behind came after the driver looked, so the bound is ignored where the device has no cause to show for
// them, and by a bouncing veth. An event that is not enabled changes nothing and is a StepNone, except that Arrive
// at a full ring drops.
func (m *Model) Step(s *State, e Event, n int) Outcome {
	if e == Run0 {
		switch {
		case s.frame != 0:
			return m.softirqStep(s, n)
		case s.curr == NAPIThread:
			return m.napiStep(s, n)
		}
		return m.runTask(s)
	}
	switch e {
	case OtherWork:
		return m.otherWork(s)
	case OtherCall:
		return m.otherCall(s)
	case Run1:
		return m.house(s)
	case Tick0:
		return m.tick(s)
	case Tick1:
		return m.houseTick(s)
	case NICInterrupt:
		return m.nicInterrupt(s)
	case Arrive:
		return m.arrive(s, n)
	case ExpIPI:
		return m.expHandler(s)
	case ReschedIPI:
		return m.reschedIPI(s)
	case FQSTimer:
		if s.gp&gTimer == 0 {
			return Outcome{}
		}
		s.gp &^= gTimer
		s.run1 |= hGP
		return Outcome{Step: StepFQSTimer, Where: Where{CPU: 1, Task: GPKthread}}
	case ExpStallDue:
		if s.exp&xOwed == 0 {
			return Outcome{}
		}
		return Outcome{Step: StepExpStall, Where: Where{CPU: 1, Task: ExpWorker}, Effects: EffStallExp}
	case OtherInterrupt, OtherUnmask:
		return m.otherQueue(s, e)
	case Begin0, Begin1, Begin2:
		return m.begins(s, int(e-Begin0))
	case ProbeWake0, ProbeWake1, ProbeWake2:
		return m.wakes(s, int(e-ProbeWake0))
	}
	if !m.aged(s).Has(e) {
		return Outcome{}
	}
	return m.age(s, e)
}

// house is CPU 1's next step: the expedited worker, the grace-period kthread, then the probes. Each step ends in a
// sleep or in the next step of the same task; a CPU with nothing left to run goes idle.
func (m *Model) house(s *State) Outcome {
	var o Outcome
	switch {
	case s.run1&hExp != 0:
		o = m.expWorker(s)
	case s.run1&hGP != 0:
		o = m.gpKthread(s)
	default:
		for p := range s.probes {
			if s.probes[p].runnable() {
				o = m.probeStep(s, p)
				break
			}
		}
		if o.Step == StepNone {
			return o
		}
	}
	if _, next := m.nextHouse(s); next != o.Task {
		s.rcu[1] &^= rNoQS // __schedule
		if next == Idle {
			s.rcu[1] |= rEQS
		}
	}
	return o
}

// Enabled returns the events that may happen in s. Events that would change nothing are mostly left out, too.
func (m *Model) Enabled(s *State) Events {
	e := set(Tick0) | m.aged(s)
	if s.frame != 0 || s.curr != User && (s.curr != Idle || s.cpu&cFull != 0) {
		e |= set(Run0)
	}
	if !s.houseIdle() {
		e |= set(Run1)
	}
	if m.houseTicks(s) {
		e |= set(Tick1)
	}
	if s.cpu&cExpIPI != 0 {
		e |= set(ExpIPI)
	}
	if s.cpu&cReschedIPI != 0 {
		e |= set(ReschedIPI)
	}
	if s.gp&gTimer != 0 {
		e |= set(FQSTimer)
	}
	if s.exp&xOwed != 0 {
		e |= set(ExpStallDue)
	}
	for p := range s.probes {
		switch s.probes[p].wait {
		case wNone:
			if m.progs[p][0] != End {
				e |= set(Begin(p))
			}
		case wTimer, wSleep:
			e |= set(ProbeWake(p))
		}
	}
	if m.cfg.Others {
		e |= set(OtherCall)
		if !s.OtherPending() {
			e |= set(OtherWork)
		}
	}
	return e | m.deviceEvents(s)
}

func (m *Model) deviceEvents(s *State) Events {
	var e Events
	if s.ring < m.cfg.Ring {
		e |= set(Arrive)
	}
	if !m.nic {
		return e
	}
	if s.Line() {
		e |= set(NICInterrupt)
	}
	if m.cfg.AllQueues {
		if s.napi&nMask != 0 {
			e |= set(OtherUnmask)
		} else {
			e |= set(OtherInterrupt)
		}
	}
	return e
}

// aged returns the events of time that would change s.
func (m *Model) aged(s *State) Events {
	var e Events
	if s.gp&gActive != 0 {
		if s.gp&gAgeMask != gAgeMask {
			e |= set(AgeGP)
		}
		if s.gp&gRecent != 0 {
			e |= set(AgeResched)
		}
		if s.gp&gStallMask < 2*gStall {
			e |= set(StallDue)
		}
	}
	if s.cpu&cStampOld == 0 && m.stamps(s) {
		e |= set(AgeStamp)
	}
	if s.cpu&cSliceOver == 0 && s.curr != Idle && s.curr != Kworker && !m.alone {
		e |= set(AgeSlice)
	}
	if !m.threaded && s.frame != 0 {
		if s.cpu&cSoftOld == 0 {
			e |= set(AgeSoftirq)
		}
		if s.cpu&cRxOld == 0 && s.todo&vecRX != 0 {
			e |= set(AgeNetRX)
		}
	}
	if m.veth && s.napi&nDrop == 0 {
		e |= set(Deadline)
	}
	return e
}

// stamps reports whether the NAPI thread has a last_qs that can grow old: its own within an entry, or one that outlives
// entries.
func (m *Model) stamps(s *State) bool {
	if !m.threaded || m.broken(BreakStamp) {
		return false
	}
	return !m.localStamp || s.pc >= pcPoll
}
