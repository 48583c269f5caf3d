package model

// arrive brings n packets from outside. To a NIC they are a cause to interrupt; a veth's sender schedules the NAPI
// unless rx_notify_masked is set (drivers/net/veth.c: __veth_xdp_flush); a backlog's sender, on another CPU, schedules
// it unless it is owned (net/core/dev.c: enqueue_to_backlog). Packets beyond the ring are dropped and cause nothing.
func (m *Model) arrive(s *State, n int) Outcome {
	taken := min(max(n, 1), int(m.cfg.Ring-s.ring))
	o := Outcome{Step: StepArrive, Where: Where{CPU: 1}}
	if dropped := max(n, 1) - taken; dropped > 0 {
		o.N, o.Effects = int32(dropped), EffDrop
	}
	if taken == 0 {
		return o
	}
	s.ring += uint16(taken)
	switch {
	case m.backlog:
		if s.napi&nSched == 0 {
			s.napi |= nSched
			o.Effects |= m.napiSchedule(s, true)
		}
	case m.veth:
		o.Effects |= m.vethNotify(s, true)
	case s.napi&nCause != 0 || s.napi&nMask != 0 && !m.cfg.Latch:
	default:
		s.napi |= nCause
		if s.napi&nMask == 0 {
			o.Effects |= EffLine
		}
	}
	return o
}

// vethNotify schedules a veth's NAPI and sets rx_notify_masked, if neither is done yet. Without a NAPI thread it runs
// where the sender does, which is CPU 0.
func (m *Model) vethNotify(s *State, remote bool) Effects {
	if s.napi&nMask != 0 || !s.schedulePrep() {
		return 0
	}
	s.napi |= nMask
	f := m.napiSchedule(s, remote)
	if remote && !m.threaded {
		m.irqEnter(s)
		f |= m.irqExit(s)
	}
	return f
}

// nicInterrupt is the driver's handler: it masks, acknowledges the cause and schedules the NAPI. A NAPI that is being
// disabled stays masked.
func (m *Model) nicInterrupt(s *State) Outcome {
	if !s.Line() {
		return Outcome{}
	}
	o := Outcome{Step: StepNICInterrupt, Where: Where{Task: s.curr}}
	m.irqEnter(s)
	s.napi = s.napi&^nCause | nMask
	if s.schedulePrep() {
		o.Effects = m.napiSchedule(s, false)
	}
	o.Effects |= m.irqExit(s)
	return o
}

// unmask is the end of the driver's poll after napi_complete_done returned true. A latched cause fires at once, as does
// a level with packets in the ring; veth_poll looks at its ring again and reschedules itself.
func (m *Model) unmask(s *State) Effects {
	s.napi &^= nMask
	if m.broken(BreakUnmask) {
		s.napi &^= nCause
		return 0
	}
	switch {
	case m.veth && s.ring > 0:
		return m.vethNotify(s, false)
	case !m.nic:
		return 0
	case !m.cfg.Latch && s.ring > 0:
		s.napi |= nCause
	}
	if s.napi&nCause != 0 {
		return EffLine
	}
	return 0
}

// otherQueue is another queue of the device, which shares the mask (airoha up to 6.12): its interrupt masks this one
// and leaves its cause alone, its completion unmasks it, whoever owns this NAPI.
func (m *Model) otherQueue(s *State, e Event) Outcome {
	o := Outcome{Step: StepOtherQueue, Where: Where{Task: s.curr}}
	if !m.cfg.AllQueues || (e == OtherInterrupt) == (s.napi&nMask != 0) {
		return Outcome{}
	}
	if e == OtherUnmask {
		o.Effects = m.unmask(s)
		return o
	}
	s.napi |= nMask
	if !m.cfg.Latch {
		s.napi &^= nCause
	}
	m.irqEnter(s)
	o.Effects = m.irqExit(s)
	return o
}
