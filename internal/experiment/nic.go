package experiment

import (
	"slices"
	"time"
)

// A nicText is a NIC as written.
type nicText struct {
	at         opt[struct{}] // where nic: stands
	ring       opt[int]
	moderation opt[time.Duration]
	latch      opt[bool]
	maskScope  opt[string]
}

func (s *source) nic(v value, n *nicText) {
	n.at = opt[struct{}]{at: place(v.node), set: true}
	s.mapping(v, "nic", []field{
		{"ring", func(v value) { n.ring = s.count(v, 1, maxRing) }},
		{"moderation", func(v value) { n.moderation = s.duration(v, 0, maxModeration, time.Microsecond) }},
		{"latch", func(v value) { n.latch = s.truth(v) }},
		{"mask-scope", func(v value) { n.maskScope = s.word(v, []string{PerQueue, AllQueues}) }},
	})
}

func (n nicText) over(base nicText) nicText {
	return nicText{
		at: n.at.or(base.at), ring: n.ring.or(base.ring), moderation: n.moderation.or(base.moderation),
		latch: n.latch.or(base.latch), maskScope: n.maskScope.or(base.maskScope),
	}
}

// nic fills in the defaults, where the load arrives at a NIC at all.
func (n nicText) nic(kind LoadKind) NIC {
	if !kind.OnNIC() {
		return NIC{}
	}
	return NIC{
		Ring: n.ring.or(opt[int]{v: defaultRing}).v, Moderation: n.moderation.v,
		Latch: n.latch.or(opt[bool]{v: true}).v, MaskScope: n.maskScope.or(opt[string]{v: PerQueue}).v,
	}
}

// checkNIC checks that there is a NIC where one is described.
func (s *source) checkNIC(a armText, arm Arm) {
	if !a.nic.at.set || arm.Load.Kind.OnNIC() {
		return
	}
	on := slices.DeleteFunc(LoadKinds(), func(k LoadKind) bool { return !k.OnNIC() })
	s.mistake(a.nic.at.at, "nic belongs to the loads "+andList(words(on)), "arm %s: the load %s has no nic", arm.Name, arm.Load.Kind)
}

// A modelText is the simulator's own knobs as written.
type modelText struct {
	report        opt[time.Duration]
	backlog, user opt[bool]
	costs         [costKinds]opt[time.Duration] // in the order of Costs
}

const costKinds = 8

func (s *source) modelKnobs(v value, m *modelText) {
	s.mapping(v, "model", []field{
		{"report-cost", func(v value) { m.report = s.duration(v, 0, maxReport, time.Nanosecond) }},
		{"backlog", func(v value) { m.backlog = s.truth(v) }},
		{"user", func(v value) { m.user = s.truth(v) }},
		{"costs", func(v value) { s.costs(v, m) }},
	})
}

func (s *source) costs(v value, m *modelText) {
	cost := func(i int) func(value) {
		return func(v value) { m.costs[i] = s.duration(v, time.Nanosecond, maxCost, time.Nanosecond) }
	}
	s.mapping(v, "costs", []field{
		{"entry", cost(0)},
		{"poll", cost(1)},
		{"packet", cost(2)},
		{"interrupt", cost(3)},
		{"unmask", cost(4)},
		{"switch", cost(5)},
		{"wake", cost(6)},
		{"neighbour", func(v value) { m.costs[7] = s.neighbour(v) }},
	})
}

// neighbour reads how seldom somebody else wants the CPU. The word for never is a time of 0.
func (s *source) neighbour(v value) opt[time.Duration] {
	d := s.duration(v, 0, maxNeighbour, time.Microsecond)
	if d.set && d.v == 0 {
		d.v = Never
	}
	return d
}

func (m modelText) over(base modelText) modelText {
	m.report = m.report.or(base.report)
	m.backlog = m.backlog.or(base.backlog)
	m.user = m.user.or(base.user)
	for i := range m.costs {
		m.costs[i] = m.costs[i].or(base.costs[i])
	}
	return m
}

func (m modelText) model() Model {
	c := m.costs
	return Model{
		ReportCost: m.report.v, Backlog: m.backlog.v, User: m.user.v,
		Costs: Costs{Entry: c[0].v, Poll: c[1].v, Packet: c[2].v, Interrupt: c[3].v, Unmask: c[4].v, Switch: c[5].v, Wake: c[6].v, Neighbour: c[7].v},
	}
}

// loop reads a variant of the poll loop. The word stock is the zero value.
func (s *source) loop(v value) opt[Loop] {
	w := s.word(v, append([]string{stockWord}, words(Loops())...))
	if w.v == stockWord {
		w.v = ""
	}
	return opt[Loop]{Loop(w.v), w.at, w.set}
}

// checkLoop checks that there is a loop to vary.
func (s *source) checkLoop(a armText, arm Arm) {
	if arm.Loop != Stock && !arm.Threaded {
		s.mistake(a.loop.at, "drop it, or threaded: false: in softirq mode the loop of threaded NAPI does not run",
			"arm %s: loop %s without a thread", arm.Name, arm.Loop)
	}
}
