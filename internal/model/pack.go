package model

import "math/bits"

// layout is how wide the fields of a Key are that depend on the Config. The rest of a Key is fixed: a first word of
// what nearly every step changes, then what RCU keeps for each CPU.
type layout struct {
	rounds, ring, budget, work uint // bits
	others                     uint // 1 if others have work, too
	probes                     int
	callbacks                  bool // some probe queues callbacks
	hot                        bool // … on CPU 0
	barrier                    bool
	freed                      bool // callbacks remember expedited grace periods
}

func (m *Model) newLayout() layout {
	l := layout{
		rounds: uint(bits.Len8(m.cfg.Restarts)), ring: uint(bits.Len16(m.cfg.Ring)), freed: m.expFrees,
	}
	if !m.threaded {
		l.budget = uint(bits.Len16(m.cfg.Budget))
	}
	for p, program := range m.progs {
		if program[0] != End {
			l.probes = p + 1
		}
	}
	l.hot = m.uses(CallHot)
	l.barrier = m.uses(Barrier)
	l.callbacks = m.cfg.Others || l.hot || l.barrier || m.uses(Call) || !m.normalWake && (m.uses(SyncRCU) || m.uses(SyncNet))
	l.work = uint(l.probes)
	if m.cfg.Others {
		l.others = 1
	}
	return l
}

// A packer writes fields of a Key one after the other.
type packer struct {
	k  Key
	at uint
}

func (p *packer) put(v uint64, width uint) {
	i, off := p.at>>6, p.at&63
	p.k[i] |= v << off
	if off+width > 64 {
		p.k[i+1] |= v >> (64 - off)
	}
	p.at += width
}

func (p *packer) take(width uint) uint64 {
	i, off := p.at>>6, p.at&63
	v := p.k[i] >> off
	if off+width > 64 {
		v |= p.k[i+1] << (64 - off)
	}
	p.at += width
	return v & (1<<width - 1)
}

// Offsets of the first word of a Key.
const (
	atNAPI   = cBits
	atPC     = atNAPI + nBits
	atCurr   = atPC + 4
	atRun    = atCurr + 3
	atRR     = atRun + 4
	atGP     = atRR + 2
	atRun1   = atGP + gBits
	atExp    = atRun1 + hBits
	atQSMask = atExp + xBits
	atRTNL   = atQSMask + MaxCPUs
	atFrame  = atRTNL + 2
	atPend   = atFrame + 2
	atTodo   = atPend + 2
	_        = uint(64 - (atTodo + 2)) // it fits
)

// Pack returns s as a key.
func (m *Model) Pack(s *State) Key {
	p := packer{}
	m.pack(s, &p)
	return p.k
}

func (m *Model) pack(s *State, p *packer) {
	l := &m.layout
	p.k[0] = uint64(s.cpu) | uint64(s.napi)<<atNAPI | uint64(s.pc)<<atPC | uint64(s.curr)<<atCurr | uint64(s.run>>1)<<atRun |
		uint64(s.rr>>1)<<atRR | uint64(s.gp)<<atGP | uint64(s.run1)<<atRun1 | uint64(s.exp)<<atExp | uint64(s.qsmask)<<atQSMask |
		uint64(s.rtnl)<<atRTNL | uint64(s.frame)<<atFrame | uint64(s.pend)<<atPend | uint64(s.todo)<<atTodo
	p.k[1] = uint64(s.rcu[0]) | uint64(s.rcu[1])<<8 | uint64(s.fpc)<<(8+rBits1)
	p.at = 64 + 8 + rBits1 + 3
	p.put(uint64(s.rounds), l.rounds)
	p.put(uint64(s.ring), l.ring)
	p.put(uint64(s.budget), l.budget)
	p.put(uint64(s.work>>MaxProbes), l.others)
	if l.probes == 0 && l.others == 0 {
		return
	}
	p.put(uint64(s.work&^workOther), l.work)
	for i := range l.probes {
		p.put(uint64(s.probes[i].at)|uint64(s.probes[i].wait)<<4, 8)
	}
	if l.callbacks {
		m.packCallbacks(s, p)
	}
}

func (m *Model) packCallbacks(s *State, p *packer) {
	l := &m.layout
	plain := s.cbs[1]
	p.put(uint64(plain&1|plain>>4&2|plain>>8&4|plain>>12&8|plain>>16&16), 5)
	for i := range l.probes {
		p.put(segment(s.cbs[0]|s.cbs[1], cbProbe0<<i), 3)
	}
	if l.barrier {
		p.put(uint64(s.bar), 4)
		p.put(segment(s.cbs[0], cbBar)|segment(s.cbs[1], cbBar)<<3, 6)
	}
	if l.freed {
		p.put(uint64(s.cbx[1]), 4)
		if l.hot {
			p.put(uint64(s.cbx[0]), 4)
		}
	}
}

// segment returns 1 + the segment that the callback is in, 0 if it is queued in none.
func segment(cbs uint32, callback uint32) uint64 {
	for seg := range uint64(5) {
		if cbs>>(seg*cbBits)&callback != 0 {
			return seg + 1
		}
	}
	return 0
}

func enqueue(cbs *uint32, callback uint32, segment uint64) {
	if segment > 0 {
		*cbs |= callback << ((segment - 1) * cbBits)
	}
}

// Unpack sets s to the state that was packed into k.
func (m *Model) Unpack(k Key, s *State) {
	l := &m.layout
	field := func(at, width uint) uint64 { return k[0] >> at & (1<<width - 1) }
	*s = State{
		cpu: uint16(field(0, cBits)), napi: uint16(field(atNAPI, nBits)), pc: uint8(field(atPC, 4)), curr: Task(field(atCurr, 3)),
		run: uint8(field(atRun, 4) << 1), rr: [4]Task{NAPIThread, Ksoftirqd, User, Idle}[field(atRR, 2)],
		gp: uint16(field(atGP, gBits)), run1: uint8(field(atRun1, hBits)), exp: uint8(field(atExp, xBits)),
		qsmask: uint8(field(atQSMask, MaxCPUs)), rtnl: uint8(field(atRTNL, 2)), frame: uint8(field(atFrame, 2)),
		pend: uint8(field(atPend, 2)), todo: uint8(field(atTodo, 2)),
	}
	s.rcu = [2]uint8{uint8(k[1]), uint8(k[1]>>8) & (1<<rBits1 - 1)}
	s.fpc = uint8(k[1]>>(8+rBits1)) & 7
	p := packer{k: k, at: 64 + 8 + rBits1 + 3}
	s.rounds = uint8(p.take(l.rounds))
	s.ring = uint16(p.take(l.ring))
	s.budget = uint16(p.take(l.budget))
	s.work = uint8(p.take(l.others)) << MaxProbes
	if l.probes == 0 && l.others == 0 {
		return
	}
	s.work |= uint8(p.take(l.work))
	for i := range l.probes {
		v := p.take(8)
		s.probes[i] = probe{at: uint8(v & 15), wait: uint8(v >> 4)}
	}
	if l.callbacks {
		m.unpackCallbacks(s, &p)
	}
}

func (m *Model) unpackCallbacks(s *State, p *packer) {
	l := &m.layout
	plain := uint32(p.take(5))
	s.cbs[1] = plain&1 | plain&2<<4 | plain&4<<8 | plain&8<<12 | plain&16<<16
	for i := range l.probes {
		cpu := 1
		if m.ProbeOp(s, i) == CallHot {
			cpu = 0
		}
		enqueue(&s.cbs[cpu], cbProbe0<<i, p.take(3))
	}
	if l.barrier {
		s.bar = uint8(p.take(4))
		v := p.take(6)
		enqueue(&s.cbs[0], cbBar, v&7)
		enqueue(&s.cbs[1], cbBar, v>>3)
	}
	if l.freed {
		s.cbx[1] = uint8(p.take(4))
		if l.hot {
			s.cbx[0] = uint8(p.take(4))
		}
	}
}
