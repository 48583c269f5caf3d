package model

// proceed ends a probe's wait: it goes on with its next operation.
func (p *probe) proceed() {
	p.at++
	p.wait = wRun
}

// probeStep is the next step of probe p, a task of CPU 1: it begins what its program says next, which may be a wait.
func (m *Model) probeStep(s *State, p int) Outcome {
	o := Outcome{Step: StepProbe, Where: Where{CPU: 1, Task: Probe0 + Task(p)}}
	q := &s.probes[p]
	if q.wait == wFunnel {
		o.Step = StepExpFunnel
		q.wait = wExp1
		m.expQueue(s)
		return o
	}
	op := End
	if q.at < MaxOps {
		op = m.progs[p][q.at]
	}
	o.Effects = m.begin(s, p, op)
	switch q.wait {
	case wRun, wNone:
	case wTimer, wSleep:
		o.Effects |= ProbeWait(p) | ProbeTimer(p)
	default:
		o.Effects |= ProbeWait(p)
	}
	return o
}

// begin lets probe p begin op.
func (m *Model) begin(s *State, p int, op Op) Effects {
	q := &s.probes[p]
	switch op {
	case End:
		*q = probe{}
		return ProbeDone(p)
	case Lock:
		m.lock(s, p)
	case Unlock:
		m.unlock(s)
		q.proceed()
	case SyncNet:
		// synchronize_net (net/core/dev.c): expedited if rtnl_is_locked, whoever holds it.
		if s.rtnl != 0 {
			m.expedite(s, p)
		} else {
			m.synchronize(s, p)
		}
	case SyncRCU:
		m.synchronize(s, p)
	case SyncExp:
		m.expedite(s, p)
	case Flush, Work:
		return m.queueWork(s, p, op)
	case Call:
		s.cbs[1] |= cbPlain << segNext
		q.proceed()
	case CallHot:
		s.cbs[0] |= cbProbe0 << p << segNext
		q.wait = wCB
	case Barrier:
		m.barrier(s, p)
	case TasksScan:
		return m.scanTasks(s, p)
	case Disable:
		m.disable(s, p)
	case Enable:
		q.proceed()
		return m.enable(s)
	case Sleep:
		q.wait = wSleep
	}
	return 0
}

// otherCall is somebody else's call_rcu on CPU 1.
func (m *Model) otherCall(s *State) Outcome {
	if !m.cfg.Others {
		return Outcome{}
	}
	s.cbs[1] |= cbPlain << segNext
	return Outcome{Step: StepOtherCall, Where: Where{CPU: 1}}
}

func (m *Model) lock(s *State, p int) {
	if s.rtnl != 0 {
		s.probes[p].wait = wLock
		return
	}
	s.rtnl = uint8(p) + 1
	s.probes[p].proceed()
}

// unlock frees RTNL; the first probe that waits for it tries again.
func (m *Model) unlock(s *State) {
	s.rtnl = 0
	for p := range s.probes {
		if s.probes[p].wait == wLock {
			s.probes[p].wait = wRun
			return
		}
	}
}

// synchronize is synchronize_rcu: [6.12] a callback on the calling CPU, later rcu_sr_normal, whose waiters the
// grace-period kthread wakes.
func (m *Model) synchronize(s *State, p int) {
	if m.normalWake {
		s.probes[p].wait = wSR
		m.requestGP(s)
		return
	}
	s.cbs[1] |= cbProbe0 << p << segNext
	s.probes[p].wait = wCB
}

// queueWork is flush_all_backlogs for CPU 0, which queues work only if there is a backlog (CONFIG_RPS=y), and
// flush_work.
func (m *Model) queueWork(s *State, p int, op Op) Effects {
	if op == Flush && !m.cfg.Backlog {
		s.probes[p].proceed()
		return 0
	}
	s.work |= 1 << p
	s.probes[p].wait = wWork
	return m.wake(s, Kworker, true)
}

// barrier is rcu_barrier (kernel/rcu/tree.c): under barrier_mutex it entrains a callback behind the last non-empty segment
// of every CPU that has callbacks. With none anywhere it returns at once.
func (m *Model) barrier(s *State, p int) {
	if s.bar != 0 {
		s.probes[p].wait = wBar
		return
	}
	count := uint8(0)
	for cpu := range s.cbs {
		if s.cbs[cpu] == 0 {
			continue
		}
		seg := segNext
		for s.cbs[cpu]>>seg&segMask == 0 {
			seg -= cbBits
		}
		s.cbs[cpu] |= cbBar << seg
		count++
	}
	if count == 0 {
		s.probes[p].proceed()
		return
	}
	s.bar = uint8(p) + 1 | count<<2
	s.probes[p].wait = wBarHold
	for i := range s.probes {
		if s.probes[i].wait == wBar {
			s.probes[i].wait = wBarCover
		}
	}
}

// barrierCallback is rcu_barrier_callback: the last one lets the holder go on, and with him those who queued on
// barrier_mutex before he started; the first of the others starts over.
func (m *Model) barrierCallback(s *State) {
	s.bar -= 1 << 2
	if s.bar>>2 != 0 {
		return
	}
	s.bar = 0
	first := true
	for p := range s.probes {
		switch s.probes[p].wait {
		case wBarHold, wBarCover:
			s.probes[p].proceed()
		case wBar:
			if first {
				s.probes[p].wait = wRun
			}
			first = false
		}
	}
}

// scanTasks is rcu_tasks_wait_gp (kernel/rcu/tasks.h): the first pass makes the NAPI thread a holdout if it is on a
// runqueue; later ones let it go if it has switched voluntarily, reported, or sleeps.
func (m *Model) scanTasks(s *State, p int) Effects {
	q := &s.probes[p]
	queued := s.run&bit(NAPIThread) != 0
	if q.wait != wLook && queued {
		s.cpu |= cTaskHold
	}
	if !queued || s.cpu&cTaskHold == 0 {
		s.cpu &^= cTaskHold
		q.proceed()
		return 0
	}
	q.wait = wTimer
	return 0
}

// disable is napi_disable: DISABLE is set, then it waits until nobody owns the NAPI, and takes it.
func (m *Model) disable(s *State, p int) {
	s.napi |= nDisable
	if s.napi&nSched != 0 {
		s.probes[p].wait = wTimer
		return
	}
	s.napi = s.napi&^nDisable | nSched | nHeld
	s.probes[p].proceed()
}

// enable is napi_enable and what the driver does after it: it unmasks, and what came meanwhile interrupts, though a handler
// that found the NAPI taken may have acknowledged it (drivers look for themselves: virtnet_napi_enable).
func (m *Model) enable(s *State) Effects {
	s.napi &^= nSched | nHeld
	if m.veth {
		s.napi &^= nMask
		if s.ring > 0 {
			return m.vethNotify(s, true)
		}
		return 0
	}
	if s.ring > 0 && m.nic {
		s.napi |= nCause
	}
	return m.unmask(s)
}

// begins starts a round of probe p.
func (m *Model) begins(s *State, p int) Outcome {
	if s.probes[p].wait != wNone || m.progs[p][0] == End {
		return Outcome{}
	}
	s.probes[p].wait = wRun
	return Outcome{Step: StepBegin, Where: Where{CPU: 1, Task: Probe0 + Task(p)}}
}

// wakes ends probe p's sleep.
func (m *Model) wakes(s *State, p int) Outcome {
	q := &s.probes[p]
	switch q.wait {
	case wTimer:
		q.wait = wLook
	case wSleep:
		q.proceed()
	default:
		return Outcome{}
	}
	return Outcome{Step: StepProbeWake, Where: Where{CPU: 1, Task: Probe0 + Task(p)}}
}
