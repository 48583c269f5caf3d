package model

// expHandler is rcu_exp_handler, the expedited IPI on CPU 0 (kernel/rcu/tree_exp.h): it reports
// where the CPU is quiescent, else it leaves a request. There is one IPI for each grace period.
func (m *Model) expHandler(s *State) Outcome {
	if s.cpu&cExpIPI == 0 {
		return Outcome{}
	}
	o := Outcome{Step: StepExpIPI, Where: Where{Task: s.curr}}
	idle := s.idle()
	m.irqEnter(s)
	s.cpu &^= cExpIPI
	if s.exp&xOwed != 0 && s.rcu[0]&rExp == 0 {
		o.Effects = m.expRequested(s, idle)
	}
	o.Effects |= m.irqExit(s)
	return o
}

// expRequested tells the builds apart. Without PREEMPT_COUNT the handler can't know whether it interrupted a reader. With
// PREEMPT_RCU a reader leaves a hint for its end and no need_resched; rcu_urgent_qs comes with [7.3].
func (m *Model) expRequested(s *State, idle bool) Effects {
	if idle || m.preemptCount && !s.preemptOff() {
		return m.expReported(s)
	}
	s.rcu[0] |= rExp
	if m.preemptRCU && s.reader() {
		s.cpu |= cHint
		return EffExpWanted
	}
	if m.broken(BreakExpIPI) {
		return EffExpWanted
	}
	if !m.preemptRCU || m.expUrgent {
		s.rcu[0] |= rUrgent
	}
	return EffExpWanted | m.setFull(s, false)
}

// expReported is rcu_report_exp_cpu_mult for CPU 0: the last report wakes the worker.
func (m *Model) expReported(s *State) Effects {
	if s.exp&xOwed == 0 {
		return 0
	}
	s.exp &^= xOwed
	s.run1 |= hExp
	return EffExpQS
}

// expWorker is rcu_exp_gp_kthread_worker on CPU 1: it selects CPUs, then ends the grace period when nobody owes.
func (m *Model) expWorker(s *State) Outcome {
	o := Outcome{Where: Where{CPU: 1, Task: ExpWorker}}
	if s.exp&xQueued != 0 {
		o.Step = StepExpSelect
		o.Effects = m.expSelect(s)
		return o
	}
	o.Step = StepExpEnd
	o.Effects = m.expEnd(s)
	return o
}

// expSelect is __sync_rcu_exp_select_node_cpus: its own CPU and idle ones are credited, CPU 0 gets an IPI.
func (m *Model) expSelect(s *State) Effects {
	s.exp = xActive
	if s.idle() {
		return EffExpStart
	}
	s.exp |= xOwed
	s.run1 &^= hExp
	s.cpu |= cExpIPI
	return EffExpStart | EffExpIPI
}

// expEnd is rcu_exp_wait_wake: the sequence number advances and waiters go on, except those whose ticket is for the next
// grace period: the first of them gets exp_mutex. [7.3] Callbacks that remember a sequence number that is now over are
// done at their CPU's next rcu_core.
func (m *Model) expEnd(s *State) Effects {
	s.exp = 0
	s.run1 &^= hExp
	funnel := false
	for p := range s.probes {
		switch w := &s.probes[p].wait; *w {
		case wExp1:
			s.probes[p].proceed()
		case wExp2:
			*w = wExp1
			if !funnel {
				*w, funnel = wFunnel, true
			}
		}
	}
	if m.expFrees {
		for cpu := range s.cbs {
			m.expFreed(s, cpu)
		}
	}
	return EffExpEnd
}

func (m *Model) expFreed(s *State, cpu int) {
	c, x := s.cbs[cpu], s.cbx[cpu]
	one, two := x&3, x>>2
	one -= min(one, 1)
	two -= min(two, 1)
	if x&3 == 1 {
		c = c&^(segMask<<segOne) | c>>segOne&segMask<<segZero
	}
	if x>>2 == 1 {
		c = c&^(segMask<<segTwo) | c>>segTwo&segMask<<segZero
	}
	s.cbs[cpu], s.cbx[cpu] = c, one|two<<2
}

// expedite is exp_funnel_lock for probe p: it takes exp_mutex and hands the work over, or waits for a grace period of
// others that covers its ticket: one that starts after now.
func (m *Model) expedite(s *State, p int) {
	w := &s.probes[p].wait
	if s.exp != 0 {
		*w = wExp2
		return
	}
	*w = wExp1
	for _, other := range s.probes {
		if other.wait == wFunnel {
			return
		}
	}
	m.expQueue(s)
}

func (m *Model) expQueue(s *State) {
	s.exp = xQueued
	s.run1 |= hExp
}
