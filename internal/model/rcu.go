package model

// tasksQS is rcu_tasks_classic_qs for the NAPI thread (include/linux/rcupdate.h).
func (m *Model) tasksQS(s *State) Effects {
	if s.cpu&cTaskHold == 0 || s.curr != NAPIThread || m.broken(BreakTasks) {
		return 0
	}
	s.cpu &^= cTaskHold
	return EffTasksQS
}

// noteContextSwitch is rcu_note_context_switch (kernel/rcu/tree_plugin.h): a quiescent state, the expedited report that
// was asked for, and without PREEMPT_RCU the answer to an urgent request. Nobody is preempted in a reader here,
// since the poll has BH off. Only a voluntary switch counts for Tasks RCU.
func (m *Model) noteContextSwitch(s *State, preempt bool) Effects {
	var f Effects
	if !preempt {
		f = m.tasksQS(s)
	}
	if s.rcu[0]&(rNoQS|rExp|rUrgent) == 0 || m.broken(BreakScheduleNote) {
		return f
	}
	f |= m.qs(s)
	if s.rcu[0]&rExp != 0 {
		f |= m.reportExp(s)
	}
	if !m.preemptRCU {
		m.momentary(s)
	}
	return f
}

// momentary answers rcu_urgent_qs; if rcu_need_heavy_qs is set, by a momentary extended quiescent state that a scan sees
// (kernel/rcu/tree.c: rcu_momentary_eqs).
func (m *Model) momentary(s *State) {
	if s.rcu[0]&rUrgent == 0 {
		return
	}
	s.rcu[0] &^= rUrgent
	if s.rcu[0]&rHeavy != 0 {
		s.rcu[0] = s.rcu[0]&^rHeavy | rEQS
	}
}

// qs is rcu_qs on CPU 0: clears cpu_no_qs.b.norm; without PREEMPT_RCU it reports a wanted expedited quiescent state,
// too (kernel/rcu/tree_plugin.h).
func (m *Model) qs(s *State) Effects {
	var f Effects
	if s.rcu[0]&rNoQS != 0 {
		s.rcu[0] &^= rNoQS
		f = EffQSNote
	}
	if s.rcu[0]&rExp != 0 && !m.preemptRCU {
		f |= m.reportExp(s)
	}
	return f
}

// reportExp is rcu_report_exp_rdp for a quiescent state that CPU 0's handler asked for.
func (m *Model) reportExp(s *State) Effects {
	s.rcu[0] &^= rExp
	if m.broken(BreakExpReport) {
		return 0
	}
	return m.expReported(s)
}

// rcuAllQS is rcu_all_qs, which exists without PREEMPT_RCU only: nothing unless a scan or an expedited IPI made CPU 0 urgent.
func (m *Model) rcuAllQS(s *State) Effects {
	if s.rcu[0]&rUrgent == 0 || m.broken(BreakAllQS) {
		return 0
	}
	m.momentary(s)
	return m.qs(s)
}

// softirqQS is rcu_softirq_qs (kernel/rcu/tree.c): rcu_qs, then the deferred expedited report, then Tasks RCU.
func (m *Model) softirqQS(s *State) Effects {
	f := m.qs(s)
	if s.rcu[0]&rExp != 0 {
		f |= m.reportExp(s)
	}
	return f | m.tasksQS(s)
}

// clock is rcu_sched_clock_irq of CPU 0's tick (kernel/rcu/tree.c): an urgent CPU in the kernel gets need_resched and
// is no longer urgent; then the tick rule; then rcu_pending, with the stall check first, raises RCU_SOFTIRQ.
func (m *Model) clock(s *State) Effects {
	var f Effects
	away := s.idle() || s.curr == User && s.frame == 0
	if s.rcu[0]&rUrgent != 0 {
		if !away && !m.broken(BreakTickUrgent) {
			f = m.setFull(s, false)
		}
		s.rcu[0] &^= rUrgent
	}
	f |= m.tickRule(s, away)
	f |= m.checkStall(s, 0)
	if m.pending(s, 0) {
		s.pend |= vecRCU
	}
	return f
}

// tickRule is rcu_flavor_sched_clock_irq: when a tick is a quiescent state. In user mode and idle it is; in the kernel never
// without PREEMPT_COUNT; with it where preemption and BH are on; and with PREEMPT_RCU also outside readers, which
// BH-off sections with an expedited request turn into need_resched.
func (m *Model) tickRule(s *State, away bool) Effects {
	free := away || m.preemptCount && !s.preemptOff()
	switch {
	case free && m.preemptRCU && s.rcu[0]&rExp != 0:
		return m.reportExp(s)
	case free:
		return m.qs(s)
	case m.preemptRCU && s.rcu[0]&rExp != 0 && !s.reader():
		return m.setFull(s, false)
	}
	return 0
}

// pending is rcu_pending without the stall check: whether cpu's tick raises RCU_SOFTIRQ.
func (m *Model) pending(s *State, cpu int) bool {
	r, cbs := s.rcu[cpu], s.cbs[cpu]
	switch {
	case r&(rStart|rEnd) != 0:
		return cpu == 1 || !m.broken(BreakNotice) || r&rEnd != 0
	case r&(rNeeds|rNoQS) == rNeeds && s.gp&gActive != 0:
		return true
	case cbs == 0:
		return false
	}
	return cbs>>segDone&segMask != 0 || m.expFrees && cbs>>segZero&segMask != 0 || s.gp&gActive == 0 && cbs>>segNext != 0
}

// core is rcu_core on cpu in RCU_SOFTIRQ: the deferred expedited report, then rcu_check_quiescent_state, then callbacks:
// [7.3] those that an expedited grace period released, a grace period for new ones, and rcu_do_batch for the ready ones.
// frame is who runs softirqs.
func (m *Model) core(s *State, cpu int, frame uint8) Effects {
	var f Effects
	if cpu == 0 {
		f = EffCore
		if s.rcu[0]&rExp != 0 {
			f |= m.deferred(s, frame)
		}
	}
	f |= m.notice(s, cpu)
	if s.rcu[cpu]&(rNeeds|rNoQS) == rNeeds && !m.broken(BreakCoreReport) {
		s.rcu[cpu] &^= rNeeds
		f |= m.report(s, cpu)
	}
	if s.cbs[cpu] == 0 {
		return f
	}
	if m.expFrees {
		m.advance(s, cpu)
	}
	if s.gp&gActive == 0 {
		m.accelerate(s, cpu)
	}
	return f | m.batch(s, cpu)
}

// deferred is what rcu_core does about a wanted expedited quiescent state: with PREEMPT_COUNT and the preempt byte at 0 it
// reports (rcu_preempt_deferred_qs). But local_bh_enable keeps a preempt count of 1 while it runs softirqs
// (__local_bh_enable_ip), so that there PREEMPT_RCU only sets need_resched, and others do nothing. At interrupt exit
// and in ksoftirqd it is 0.
func (m *Model) deferred(s *State, frame uint8) Effects {
	switch {
	case m.preemptCount && frame != frBH:
		return m.reportExp(s)
	case m.preemptRCU:
		return m.setFull(s, false)
	}
	return 0
}

// notice is note_gp_changes: of the end of a grace period, callbacks advance; of a start, the CPU needs a quiescent
// state from now on. What it noted before does not count.
func (m *Model) notice(s *State, cpu int) Effects {
	r := s.rcu[cpu]
	if r&(rStart|rEnd) == 0 {
		return 0
	}
	if r&rEnd != 0 {
		m.advance(s, cpu)
		r &^= rNeeds
	}
	m.accelerate(s, cpu)
	if r&rStart == 0 || cpu == 0 && m.broken(BreakNotice) {
		s.rcu[cpu] = r &^ rEnd
		return 0
	}
	r &^= rStart | rEnd | rNeeds | rNoQS
	if s.qsmask>>cpu&1 != 0 {
		r |= rNeeds | rNoQS
	}
	s.rcu[cpu] = r
	if cpu == 0 {
		return EffNotice
	}
	return 0
}

// report is rcu_report_qs_rdp, and rcu_report_qs_rnp up to the root: the last CPU wakes the grace-period kthread.
func (m *Model) report(s *State, cpu int) Effects {
	if s.gp&gActive == 0 || s.qsmask>>cpu&1 == 0 {
		return 0
	}
	s.qsmask &^= 1 << cpu
	s.rcu[cpu] &^= rUrgent | rHeavy // rcu_disable_urgency_upon_qs, of rcu_report_qs_rdp and force_qs_rnp
	if s.qsmask == 0 {
		s.run1 |= hGP
	}
	switch cpu {
	case 0:
		return EffQS0
	case 1:
		return EffQS1
	}
	return 0
}

// advance is rcu_advance_cbs: callbacks whose grace period completed become ready.
func (m *Model) advance(s *State, cpu int) {
	if m.broken(BreakAdvance) {
		return
	}
	c := s.cbs[cpu]
	s.cbs[cpu] = c&^(segMask<<segZero) | c>>segZero&segMask<<segDone
}

// accelerate is rcu_accelerate_cbs: callbacks without a grace period wait for the next full one, which is the next one to
// end only if none is in progress; and it is asked for. [7.3] they also remember the next full expedited one.
func (m *Model) accelerate(s *State, cpu int) {
	fresh := s.cbs[cpu] >> segNext & segMask
	if fresh == 0 {
		return
	}
	seg, shift := segOne, 0
	if s.gp&gActive != 0 {
		seg, shift = segTwo, 2
	}
	s.cbs[cpu] = s.cbs[cpu]&^(segMask<<segNext) | fresh<<seg
	if m.expFrees {
		snap := uint8(1)
		if s.exp&(xQueued|xActive) != 0 {
			snap = 2
		}
		s.cbx[cpu] = s.cbx[cpu]&^(3<<shift) | snap<<shift
	}
	m.requestGP(s)
}

// batch is rcu_do_batch, without its limits: callbacks that are ready run.
func (m *Model) batch(s *State, cpu int) Effects {
	ready := s.cbs[cpu] >> segDone & segMask
	if ready == 0 {
		return 0
	}
	s.cbs[cpu] &^= segMask << segDone
	if ready&cbBar != 0 {
		m.barrierCallback(s)
	}
	for p := range s.probes {
		if ready&(cbProbe0<<p) != 0 {
			s.probes[p].proceed()
		}
	}
	return EffCallbacks
}
