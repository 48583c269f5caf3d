package model

// schedulePrep is napi_schedule_prep (net/core/dev.c): whether the caller now owns the NAPI. A request while it is owned
// sets MISSED; a request while it is being disabled changes nothing.
func (s *State) schedulePrep() bool {
	switch {
	case s.napi&nDisable != 0:
		return false
	case s.napi&nSched != 0:
		s.napi |= nMissed
		return false
	}
	s.napi |= nSched
	return true
}

// napiSchedule is ____napi_schedule (net/core/dev.c): SCHED_THREADED and a wake-up, or the poll list and NET_RX,
// which needs no raising within net_rx_action.
func (m *Model) napiSchedule(s *State, remote bool) Effects {
	if m.threaded {
		s.napi |= nThr
		if m.broken(BreakThreadWake) {
			return 0
		}
		return m.wakeThread(s, remote)
	}
	s.napi |= nList
	if s.frame == 0 || s.todo&vecRX == 0 {
		s.pend |= vecRX
	}
	return 0
}

// napiStep is the NAPI thread's next micro-step.
func (m *Model) napiStep(s *State, n int) Outcome {
	o := Outcome{Where: Where{Task: NAPIThread}}
	switch s.pc {
	case pcWaitSet, pcWokeSet:
		// napi_thread_wait; for a backlog thread smpboot_thread_fn.
		o.Step = StepWaitSet
		s.napi |= nInt
		s.pc++
	case pcWaitTest, pcWokeTest:
		o.Step = StepWaitTest
		o.Effects = m.waitTest(s)
	case pcSchedule:
		o.Step = StepWaitSchedule
		s.pc = pcWokeSet
		o.Effects = m.schedule(s, false, s.napi&nInt != 0 || m.broken(BreakWakeLost))
	case pcEntry:
		// napi_threaded_poll_loop; 7.3 leaves last_qs alone if it is the caller's.
		o.Step, o.Effects = StepLoopEntry, EffEntry
		if m.localStamp {
			s.cpu &^= cStampOld
			o.Effects = EffEntry | EffStamp
		}
		s.pc = pcPoll
	case pcPoll:
		o.Step = StepPoll
		o.N, o.Effects = m.threadPoll(s, n)
	case pcComplete:
		o.Step = StepComplete
		o.Effects = m.threadComplete(s)
	case pcUnmask:
		o.Step = StepUnmask
		o.Effects = m.unmask(s)
		s.pc = pcBHEnable
	case pcBHEnable:
		// __local_bh_enable_ip (kernel/softirq.c).
		o.Step = StepBHEnable
		if s.pend != 0 {
			s.pc = pcBHCheck
			o.Effects = m.softirq(s, frBH)
			break
		}
		o.Effects = m.bhCheck(s)
	case pcBHCheck:
		o.Step = StepBHCheck
		o.Effects = m.bhCheck(s)
	case pcQS:
		o.Step = StepPeriodicQS
		o.Effects = m.periodicQS(s)
		s.pc = m.path(s, &m.afterQS)
	case pcCond:
		o.Step = StepCondResched
		o.Effects = m.condResched(s)
		s.pc = m.path(s, &m.afterCond)
	case pcAgain:
		o.Step = StepBHDisable
		s.pc = pcPoll
	}
	return o
}

// waitTest is the test of SCHED_THREADED in napi_thread_wait: set, and the thread goes in without schedule(). 7.3's
// napi_threaded_poll then brings IN_BUSY_POLL in line with THREADED_BUSY_POLL and DISABLE.
func (m *Model) waitTest(s *State) Effects {
	if s.napi&nThr == 0 {
		s.pc = pcSchedule
		return 0
	}
	again := s.pc == pcWaitTest
	s.napi &^= nInt
	s.pc = pcEntry
	if m.busy {
		s.napi &^= nBusy
		if s.napi&nDisable == 0 {
			s.napi |= nBusy
		}
	}
	if again {
		return EffReentry
	}
	return 0
}

// threadPoll is __napi_poll in the thread: repoll only if the driver used the whole weight and still owns the NAPI.
func (m *Model) threadPoll(s *State, n int) (int32, Effects) {
	work := m.poll(s, n)
	f := EffPoll
	switch {
	case work < m.cfg.Weight:
		s.pc = pcComplete
		if m.backlog {
			// process_backlog gives up a drained queue itself, under its lock.
			s.napi &^= nSched | nThr
			s.pc = pcBHEnable
		}
	case s.napi&nDisable != 0:
		f |= EffFullPoll
		s.pc = pcComplete // napi_complete of a disabled NAPI
	default:
		f |= EffFullPoll
		s.napi |= nRepoll
		s.pc = pcBHEnable
	}
	m.readerEnd(s)
	return int32(work), f
}

// readerEnd is the outermost rcu_read_unlock of a poll (kernel/rcu/tree_plugin.h: rcu_read_unlock_special): with BH
// off, a reader that an expedited grace period waits for raises RCU_SOFTIRQ. PREEMPT_RCU only.
func (m *Model) readerEnd(s *State) {
	if s.cpu&cHint != 0 {
		s.cpu &^= cHint
		s.pend |= vecRCU
	}
}

// poll takes packets from the ring: at most n unless n is negative, the weight and what is there.
func (m *Model) poll(s *State, n int) uint16 {
	work := min(s.ring, m.cfg.Weight)
	if m.veth && s.napi&nDrop == 0 {
		// The redirect's bulk is flushed after the ring was read, or, above its size, while it is read.
		if s.ring > m.cfg.Bulk {
			work = m.cfg.Weight
		}
		return work
	}
	// A driver leaves packets only if they came after it looked: a backlog never does, nor a latch without cause.
	if n >= 0 && n < int(work) && m.nic && (!m.cfg.Latch || s.napi&nCause != 0) {
		work = uint16(n)
	}
	s.ring -= work
	if s.ring == 0 && m.nic && !m.cfg.Latch {
		s.napi &^= nCause
	}
	return work
}

// complete is napi_complete_done: false under busy poll or if a request came meanwhile (MISSED, window W0), which
// schedules the NAPI again.
func (m *Model) complete(s *State) (done bool, f Effects) {
	if s.napi&nBusy != 0 {
		return false, 0
	}
	if s.napi&nMissed != 0 && !m.broken(BreakMissed) {
		s.napi &^= nMissed | nThr
		return false, EffMissed | m.napiSchedule(s, false)
	}
	s.napi &^= nSched | nMissed | nThr | nList
	return true, 0
}

func (m *Model) threadComplete(s *State) Effects {
	s.pc = pcBHEnable
	done, f := m.complete(s)
	if done {
		s.pc = pcUnmask
	}
	return f
}

// bhCheck drops the last count of local_bh_enable and looks whether to preempt: nothing without PREEMPTION, nor under
// DYNAMIC none and voluntary. Then the loop takes one of its exits.
func (m *Model) bhCheck(s *State) Effects {
	s.pc = m.path(s, &m.afterBH)
	if m.bhPreempts && s.cpu&cFull != 0 {
		return m.schedule(s, true, false)
	}
	return 0
}

// path is where the thread goes next by after, one of the tables of wire: again, or out of the loop.
func (m *Model) path(s *State, after *[4]uint8) uint8 {
	to := after[(s.napi&nRepoll)/nRepoll|(s.napi&nBusy)/nBusy<<1]
	switch to {
	case pcWaitSet:
		s.cpu &^= m.leave
	case pcAgain:
		s.napi &^= nRepoll
	}
	return to
}

// periodicQS is rcu_softirq_qs_periodic (include/linux/rcupdate.h): if more than HZ/10 passed since last_qs it reports and
// restamps. Its preempt_enable is a preemption point where there are any.
func (m *Model) periodicQS(s *State) Effects {
	if s.cpu&cStampOld == 0 {
		return 0
	}
	s.cpu &^= cStampOld
	f := EffStamp
	if !m.broken(BreakPeriodic) {
		f |= m.softirqQS(s)
	}
	if m.points && s.cpu&cFull != 0 {
		f |= m.schedule(s, true, false)
	}
	return f
}
