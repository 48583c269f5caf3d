package model

// schedule is __schedule on CPU 0 (kernel/sched/core.c): it notes the quiescent state before it picks, whether or not the
// pick is another task. preempt is SM_PREEMPT; sleeps says that the current task's state is not TASK_RUNNING, which counts
// only without preempt. Both flags are cleared in 6.12 (which has one) and 7.3.
func (m *Model) schedule(s *State, preempt, sleeps bool) Effects {
	f := EffSchedule | m.noteContextSwitch(s, preempt)
	prev := s.curr
	if sleeps {
		s.run &^= bit(prev)
		if prev == NAPIThread {
			f |= EffSleep
		}
	}
	next := m.pick(s, sleeps)
	s.cpu &^= cFull | cLazy
	if next == prev {
		return f
	}
	s.curr = next
	s.cpu &^= cSliceOver
	if next != Idle && next != Kworker {
		s.rr = next
	}
	if prev == Idle || next == Idle {
		s.rcu[0] |= rEQS // ct_idle_enter, ct_idle_exit (kernel/context_tracking.c)
	}
	if sleeps {
		return f | EffSwitchVol
	}
	return f | EffSwitchInvol
}

// pick is pick_next_task of the fair class as far as the model goes: the kworker of nice -20, then whoever has not
// used his slice (RUN_TO_PARITY), then the round robin (kernel/sched/fair.c: pick_eevdf).
func (m *Model) pick(s *State, sleeps bool) Task {
	next := m.next[s.run>>1&15][s.rr]
	if !sleeps && next != Kworker && s.cpu&cSliceOver == 0 && s.run&bit(s.curr) != 0 && s.curr != Kworker {
		return s.curr
	}
	return next
}

// setFull is resched_curr for CPU 0's current task: sets TIF_NEED_RESCHED and, from another CPU, sends the IPI.
func (m *Model) setFull(s *State, remote bool) Effects {
	if s.cpu&cFull != 0 {
		return 0
	}
	s.cpu |= cFull
	if remote {
		s.cpu |= cReschedIPI
		return EffFull | EffReschedIPI
	}
	return EffFull
}

// setFair is what the fair class asks for: resched_curr in 6.12, resched_curr_lazy in 7.3, which sends no IPI and is
// upgraded over an idle task (kernel/sched/core.c).
func (m *Model) setFair(s *State, remote bool) Effects {
	switch {
	case s.curr == Idle:
		return m.setFull(s, remote)
	case m.broken(BreakFairFlag):
		return 0
	case !m.lazy:
		return m.setFull(s, remote)
	case s.cpu&(cFull|cLazy) != 0:
		return 0
	}
	s.cpu |= cLazy
	return EffLazy
}

// wake is try_to_wake_up of a task of CPU 0 that is not the NAPI thread.
func (m *Model) wake(s *State, t Task, remote bool) Effects {
	if s.run&bit(t) != 0 {
		return 0
	}
	s.run |= bit(t)
	return m.wakeupPreempt(s, remote)
}

// wakeThread is wake_up_process of the NAPI thread (kernel/sched/core.c: try_to_wake_up): nothing but its state changes if it
// is current; if it is queued there is a preemption check; if it sleeps it is queued first.
func (m *Model) wakeThread(s *State, remote bool) Effects {
	if s.napi&nInt == 0 {
		return 0
	}
	s.napi &^= nInt
	if s.curr == NAPIThread {
		return 0
	}
	if s.run&bit(NAPIThread) != 0 {
		return m.wakeupPreempt(s, remote)
	}
	s.run |= bit(NAPIThread)
	return EffWake | m.wakeupPreempt(s, remote)
}

// wakeupPreempt is check_preempt_wakeup_fair (6.12), wakeup_preempt_fair (7.3): the woken task wins if the current
// one is no longer protected by its slice; otherwise the tick will tell.
func (m *Model) wakeupPreempt(s *State, remote bool) Effects {
	if s.curr == Idle || s.cpu&cSliceOver != 0 {
		return m.setFair(s, remote)
	}
	return 0
}

// competitor reports whether another task is queued behind CPU 0's current one.
func (s *State) competitor() bool { return s.curr != Idle && s.run&^bit(s.curr) != 0 }

// condResched is __cond_resched: real under NONE and VOLUNTARY, static and dynamic; in builds without PREEMPT_RCU it
// calls rcu_all_qs if it does not schedule.
func (m *Model) condResched(s *State) Effects {
	if s.cpu&cFull != 0 && !m.broken(BreakCondResched) {
		return m.schedule(s, true, false)
	}
	if m.allQS {
		return m.rcuAllQS(s)
	}
	return 0
}

// runTask is a micro-step of CPU 0's current task that is not the NAPI thread.
func (m *Model) runTask(s *State) Outcome {
	o := Outcome{Where: Where{Task: s.curr}}
	switch s.curr {
	case Idle:
		if s.cpu&cFull == 0 {
			return Outcome{}
		}
		o.Step = StepIdleSchedule
		o.Effects = m.schedule(s, false, false)
	case Kworker:
		if s.work == 0 {
			o.Step = StepKworkerSleep
			o.Effects = m.schedule(s, false, true)
			break
		}
		o.Step = workStep(s)
		o.Effects = m.oneWork(s)
	case Ksoftirqd:
		o.Step, o.Effects = m.ksoftirqd(s)
	default:
		return Outcome{}
	}
	return o
}

// workStep is the item that the kworker runs next: probes' come first.
func workStep(s *State) StepID {
	if s.work == workOther {
		return StepOther
	}
	return StepKworker
}

// oneWork is process_one_work (kernel/workqueue.c). The probes' item is flush_backlog (net/core/dev.c), and its
// flush_work returns.
func (m *Model) oneWork(s *State) Effects {
	if s.work == workOther {
		s.work = 0
		return EffWork
	}
	for p := range s.probes {
		if s.work>>p&1 != 0 {
			s.work &^= 1 << p
			s.probes[p].proceed()
			break
		}
	}
	return EffWork
}

// otherWork is queue_work_on of an item for CPU 0 by somebody else, on CPU 1. One that is queued already is not queued again.
func (m *Model) otherWork(s *State) Outcome {
	if !m.cfg.Others || s.OtherPending() {
		return Outcome{}
	}
	s.work |= workOther
	return Outcome{Step: StepOtherWork, Where: Where{CPU: 1}, Effects: m.wake(s, Kworker, true)}
}
