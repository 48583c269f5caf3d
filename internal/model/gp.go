package model

// requestGP is rcu_start_this_gp: sets RCU_GP_FLAG_INIT and wakes the grace-period kthread, unless a grace period is in
// progress: rcu_gp_cleanup then sees that another one is needed.
func (m *Model) requestGP(s *State) {
	if s.gp&(gActive|gInit) == 0 {
		s.gp |= gInit
		s.run1 |= hGP
	}
}

// gpKthread is a step of the grace-period kthread on CPU 1 (rcu_gp_kthread): from one sleep to the next.
func (m *Model) gpKthread(s *State) Outcome {
	o := Outcome{Where: Where{CPU: 1, Task: GPKthread}}
	s.gp &^= gTimer
	switch {
	case s.gp&gActive == 0:
		o.Step = StepGPInit
		o.Effects = m.gpInit(s)
	case s.qsmask == 0:
		o.Step = StepGPCleanup
		o.Effects = m.gpCleanup(s)
	default:
		o.Step = StepFQS
		o.Effects = m.scan(s)
	}
	return o
}

// gpInit is rcu_gp_init: every online CPU owes a quiescent state. It calls note_gp_changes for its own CPU (from general
// knowledge of both trees); [7.3] it then reports that CPU's quiescent state.
func (m *Model) gpInit(s *State) Effects {
	s.gp = gActive | gFirst
	s.qsmask = m.online
	s.rcu[0] |= rStart
	s.rcu[1] |= rStart
	for p := range s.probes {
		if s.probes[p].wait == wSR {
			s.probes[p].wait = wSRIn // rcu_sr_normal_gp_init
		}
	}
	f := EffGPStart | m.notice(s, 1)
	if m.ownQS {
		s.rcu[1] &^= rNoQS | rNeeds
		f |= m.report(s, 1)
	}
	return f | m.gpSleep(s)
}

// gpSleep is the swait of rcu_gp_fqs_loop: until the timer, or until the last CPU reported.
func (m *Model) gpSleep(s *State) Effects {
	s.run1 &^= hGP
	if s.qsmask == 0 {
		s.run1 |= hGP
		return 0
	}
	s.gp |= gTimer
	return EffFQSTimer
}

// scan is rcu_gp_fqs. The first one takes snapshots of the dyntick counters and credits idle CPUs
// (rcu_watching_snap_save); later ones credit CPUs whose counter moved, and urge the others by age
// (rcu_watching_snap_recheck).
func (m *Model) scan(s *State) Effects {
	first := s.gp&gFirst != 0
	s.gp &^= gFirst
	var f Effects
	for cpu := 2; cpu < int(m.cfg.CPUs); cpu++ {
		s.qsmask &^= 1 << cpu // idle all the time
	}
	for cpu := range s.rcu {
		switch {
		case s.qsmask>>cpu&1 == 0:
		case cpu == 0 && s.idle() && !m.broken(BreakEQS), !first && s.rcu[cpu]&rEQS != 0 && (cpu == 1 || !m.broken(BreakEQS)):
			f |= m.report(s, cpu)
		case cpu == 0 && !first:
			f |= m.urge(s)
		}
		if first {
			s.rcu[cpu] &^= rEQS
		}
	}
	return f | m.gpSleep(s)
}

// urge is what a scan does to a holdout: beyond jtsq rcu_urgent_qs, beyond 2·jtsq rcu_need_heavy_qs, too, and past
// jiffies_resched a resched_cpu every jtsq jiffies.
func (m *Model) urge(s *State) Effects {
	age := s.gp & gAgeMask / gAge
	if age == 0 || m.broken(BreakFQSUrgent) {
		return 0
	}
	f := EffUrgent
	s.rcu[0] |= rUrgent
	if age >= 2 {
		f |= EffHeavy
		s.rcu[0] |= rHeavy
	}
	if age == 3 && s.gp&gRecent == 0 {
		s.gp |= gRecent
		f |= EffResched | m.setFull(s, true)
	}
	return f
}

// gpCleanup is rcu_gp_cleanup: the grace period ends, waiters of synchronize_rcu go on ([6.12] they wait for a
// callback instead), callbacks that waited for it may advance, and another one starts if somebody needs it.
func (m *Model) gpCleanup(s *State) Effects {
	s.gp = 0
	s.run1 &^= hGP
	needed := false
	for cpu := range s.cbs {
		c := s.cbs[cpu]
		s.cbs[cpu] = c&^(segMask<<segOne|segMask<<segTwo) | c>>segOne&segMask<<segZero | c>>segTwo&segMask<<segOne
		s.cbx[cpu] >>= 2
		s.rcu[cpu] = s.rcu[cpu]&^(rStart|rNeeds|rNoQS) | rEnd
		needed = needed || s.cbs[cpu]>>segOne&segMask != 0
	}
	for p := range s.probes {
		switch s.probes[p].wait {
		case wSRIn:
			s.probes[p].proceed()
		case wSR:
			needed = true
		}
	}
	m.notice(s, 1)
	if needed && !m.broken(BreakCleanup) {
		m.requestGP(s)
	}
	return EffGPEnd
}

// checkStall is check_cpu_stall at a tick of cpu: by CPU 0 if it owes a quiescent state itself, two jiffies later by
// any CPU. A self-detected report sets need_resched, another one forces a scan.
func (m *Model) checkStall(s *State, cpu int) Effects {
	stall := s.gp & gStallMask / gStall
	if stall == 0 || s.gp&gActive == 0 || s.qsmask == 0 {
		return 0
	}
	if s.qsmask>>cpu&1 != 0 {
		s.gp &^= gStallMask
		if cpu == 0 {
			return EffStallSelf | m.setFull(s, false)
		}
		return EffStallSelf
	}
	if stall == 2 {
		s.gp &^= gStallMask
		s.run1 |= hGP
		return EffStallOther
	}
	return 0
}
