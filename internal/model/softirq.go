package model

// softirq is handle_softirqs while a NAPI thread polls: there is only RCU_SOFTIRQ to run, in microseconds and without
// raising anything, so that it is one step with what led to it.
func (m *Model) softirq(s *State, kind uint8) Effects {
	s.pend = 0
	return EffSoftirq | m.core(s, 0, kind)
}

// beginFrame is the start of a round of handle_softirqs (kernel/softirq.c): it takes all pending vectors.
func (m *Model) beginFrame(s *State, kind uint8) Effects {
	s.frame = kind
	s.rounds = m.cfg.Restarts
	s.cpu &^= cSoftOld
	return EffSoftirq | m.round(s)
}

func (m *Model) round(s *State) Effects {
	s.todo, s.pend = s.pend, 0
	if s.todo&vecRX == 0 {
		s.fpc = fpCore
		return 0
	}
	// net_rx_action (net/core/dev.c)
	s.fpc = fpPoll
	s.budget = m.cfg.Budget
	s.cpu &^= cRxOld
	return EffNetRX
}

// softirqStep is the next micro-step of the softirq frame on CPU 0.
func (m *Model) softirqStep(s *State, n int) Outcome {
	o := Outcome{Where: Where{Task: s.curr}}
	switch s.fpc {
	case fpPoll:
		o.Step = StepNetRXPoll
		work := m.poll(s, n)
		o.N, o.Effects = int32(work), EffPoll|m.netRXPolled(s, work)
	case fpComplete:
		o.Step = StepNetRXComplete
		done, f := m.complete(s)
		o.Effects = f
		if done {
			s.fpc = fpUnmask
		} else {
			o.Effects |= m.netRXNext(s)
		}
	case fpUnmask:
		o.Step = StepNetRXUnmask
		o.Effects = m.unmask(s)
		o.Effects |= m.netRXNext(s)
	case fpCore:
		o.Step = StepRCUCore
		s.todo = 0
		s.fpc = fpEnd
		o.Effects = m.core(s, 0, s.frame)
	case fpEnd:
		o.Step = StepSoftirqEnd
		o.Effects = m.frameEnd(s)
	}
	return o
}

// netRXPolled accounts for a poll of net_rx_action: napi_poll puts a NAPI that used its weight back on the list.
func (m *Model) netRXPolled(s *State, work uint16) Effects {
	s.budget -= min(work, s.budget)
	var f Effects
	if work == m.cfg.Weight {
		f = EffFullPoll
	}
	if work < m.cfg.Weight || s.napi&nDisable != 0 {
		s.fpc = fpComplete
	} else {
		f |= m.netRXNext(s)
	}
	m.readerEnd(s)
	return f
}

// netRXNext polls again while the NAPI is on the list, up to netdev_budget packets and two jiffies; what is left over
// raises NET_RX again.
func (m *Model) netRXNext(s *State) Effects {
	var f Effects
	if s.napi&nList != 0 {
		if s.budget > 0 && s.cpu&cRxOld == 0 {
			s.fpc = fpPoll
			return 0
		}
		s.pend |= vecRX
		f = EffSqueeze
	}
	s.todo &^= vecRX
	s.budget = 0
	s.cpu &^= cRxOld
	s.fpc = fpEnd
	if s.todo != 0 {
		s.fpc = fpCore
	}
	return f
}

// frameEnd is the end of a round of handle_softirqs: it goes on while there is more, less than MAX_SOFTIRQ_TIME passed,
// need_resched is clear and rounds are left; otherwise ksoftirqd is woken. ksoftirqd itself reports a quiescent
// state in each round.
func (m *Model) frameEnd(s *State) Effects {
	var f Effects
	if s.frame == frKsof {
		f = m.softirqQS(s)
	}
	if s.pend != 0 {
		s.rounds--
		if s.rounds > 0 && s.cpu&(cSoftOld|cFull) == 0 {
			return f | m.round(s)
		}
		if !m.broken(BreakKsoftirqd) && s.run&bit(Ksoftirqd) == 0 {
			f |= EffKsoftirqd | m.wake(s, Ksoftirqd, false)
		}
	}
	kind := s.frame
	s.frame, s.fpc, s.rounds = 0, 0, 0
	s.cpu &^= cSoftOld
	if kind == frIRQ {
		f |= m.irqReturn(s)
	}
	return f
}

// ksoftirqd is run_ksoftirqd and the smpboot_thread_fn around it: a pass of handle_softirqs, then cond_resched and the
// preempt_enable of smpboot_thread_fn; without pending softirqs it sleeps.
func (m *Model) ksoftirqd(s *State) (StepID, Effects) {
	switch {
	case s.cpu&cPass != 0:
		s.cpu &^= cPass
		if m.cond {
			return StepCondResched, m.condResched(s)
		}
		if m.points && s.cpu&cFull != 0 {
			return StepCondResched, m.schedule(s, true, false)
		}
		return StepCondResched, 0
	case s.pend != 0:
		s.cpu |= cPass
		return StepRunKsoftirqd, m.beginFrame(s, frKsof)
	}
	return StepRunKsoftirqd, m.schedule(s, false, true)
}
