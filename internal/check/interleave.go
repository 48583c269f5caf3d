package check

import (
	"github.com/napistall/napistall/internal/model"
)

// Marks of the low half: one bit for each event that has to happen (set in states where it can't and on edges where it
// does), and two for each strong fairness.
const (
	markTickMay  = 1 << (26 + iota) // a tick could land on the NAPI thread outside its BH-off part
	markTickDoes                    // and does
	markTaskMay                     // the task below a softirq frame could go on
	markTaskDoes                    // and does
	markGPYoung                     // a scan happened and the grace period could have been older
	markRecent                      // a scan happened and its last resched_cpu could have been older

	markStampYoung   = 1 << model.Arrive // events that owe nothing need no mark
	markSliceMay     = 1 << model.StallDue
	markSoftirqYoung = 1 << model.ExpStallDue
	markNetRXYoung   = 1 << model.Deadline
)

// Marks of the high half. Those of states say who waits, those of edges what happened.
const (
	markGP        = 1 << (32 + iota) // a normal grace period is asked for or in progress; it ends
	markExp                          // an expedited one
	markWork                         // CPU 0's kworker has work; it runs
	markCallbacks                    // CPU 0 has callbacks; they run
	markTasks                        // a Tasks RCU grace period waits for the NAPI thread; it ends
	markProbe                        // probe 0 is in a round; it is over
	markPackets                      // the NAPI is owed a poll; it is polled
	markEntry                        // edge: the poll loop is entered, or net_rx_action
	markBroken                       // edge: the first invariant is broken; the others follow
)

// markEventsEnd is how many events have a mark: the low bits of the low half.
const markEventsEnd = 26

// Bits of Act: the event, and above it what comes before it.
const (
	actEvent  = 1<<8 - 1
	actBefore = 8
)

// An interleaving is every order of a model's events: the System that is searched.
type interleaving struct {
	m      *model.Model
	fine   bool // every event is an edge of its own
	fill   bool // packets arrive in time for every poll to use its whole weight
	inv    invariants
	cfg    model.Config
	hotCBs bool // CPU 0 may have callbacks
}

func newInterleaving(m *model.Model, load Load, fine bool) *interleaving {
	cfg := m.Config()
	l := &interleaving{m: m, fine: fine, fill: load == Filling, inv: newInvariants(cfg), cfg: cfg}
	for _, p := range cfg.Programs {
		for _, op := range p {
			l.hotCBs = l.hotCBs || op == model.CallHot
		}
	}
	return l
}

func (l *interleaving) Initial() Key {
	s := l.m.Initial()
	return l.m.Pack(&s)
}

// Next lets everything that may happen in k happen. What would change nothing is no edge: what it stands for is
// in k's own marks, as if it could not happen.
func (l *interleaving) Next(k Key, out []Edge) ([]Edge, uint64) {
	var s model.State
	l.m.Unpack(k, &s)
	enabled := l.enabled(&s)
	shown, marks := l.delayed(&s, enabled)
	if l.fine {
		marks = uint64(^enabled) & ages
	}
	marks |= l.marks(&s, enabled)
	for todo := shown; todo != 0; {
		var e model.Event
		e, todo = todo.Next()
		for before, last, may := l.before(&s, e); before <= last; before++ {
			if before < 8 && may>>before&1 == 0 {
				continue
			}
			a := Act(e) | Act(before)<<actBefore
			to := s
			var w walk
			l.happen(&to, a, &w)
			if to == s && w.marks&(allBroken|allDone|anyYoung) == 0 {
				marks |= w.marks & fairMarks
				continue
			}
			out = append(out, Edge{To: l.m.Pack(&to), Marks: w.marks, Act: a})
		}
	}
	return out, marks
}

// enabled returns the events of s that the search looks at. Stall reports only print, but for a need_resched.
func (l *interleaving) enabled(s *model.State) model.Events {
	const reports = 1<<model.StallDue | 1<<model.ExpStallDue
	return l.m.Enabled(s) &^ reports
}

// edge returns the marks of one event between two states.
func (l *interleaving) edge(from, to *model.State, e model.Event, o *model.Outcome) uint64 {
	m := 1<<e&(weak|ages) | edgeMarks(o) | l.inv.check(l.m, from, to, e, o)
	switch e {
	case model.Run0:
		if !from.InSoftirq() {
			m |= markTaskDoes
		}
		if older, young := l.older(from); older != noEvent {
			m |= young
		}
	case model.Tick0:
		if l.outside(from) {
			m |= markTickDoes
		}
	case model.FQSTimer:
		older, resched := from.GPAge()
		if owes, _ := from.Owes(); !owes {
			return m
		}
		if older > 0 {
			m |= markGPYoung
		}
		if resched {
			m |= markRecent
		}
	}
	return m
}

// marks returns the marks of s.
func (l *interleaving) marks(s *model.State, enabled model.Events) uint64 {
	m := uint64(^enabled) & weak
	m |= l.fairness(s, enabled)
	if _, wanted := s.GP(); wanted {
		m |= markGP
	}
	if _, wanted := s.Exp(); wanted {
		m |= markExp
	}
	if s.WorkPending() {
		m |= markWork
	}
	if s.Callbacks(0) {
		m |= markCallbacks
	}
	if l.m.ProbeOp(s, 0) == model.TasksScan {
		m |= markTasks
	}
	if s.Running(0) {
		m |= markProbe
	}
	if s.Packets() > 0 {
		m |= markPackets
	}
	return m
}

// fairness returns the marks that ask for strong fairness in s.
func (l *interleaving) fairness(s *model.State, enabled model.Events) (m uint64) {
	if s.InSoftirq() || !enabled.Has(model.Run0) {
		return 0
	}
	if l.outside(s) {
		return markTaskMay | markTickMay
	}
	return markTaskMay
}

// outside reports whether an interrupt would find the NAPI thread outside its BH-off part.
func (l *interleaving) outside(s *model.State) bool {
	if s.InSoftirq() || s.Current() != model.NAPIThread {
		return false
	}
	switch step, _ := l.m.Next(s, 0); step {
	case model.StepWaitSet, model.StepWaitTest, model.StepWaitSchedule, model.StepLoopEntry, model.StepBHDisable,
		model.StepPeriodicQS, model.StepCondResched:
		return true
	}
	return false
}

// anyYoung are the marks of comparisons with a time that could have been larger.
const anyYoung = markGPYoung | markRecent | markStampYoung | markSoftirqYoung | markNetRXYoung

// allDone are the marks of whatever ends or counts.
const allDone = markGP | markExp | markWork | markCallbacks | markTasks | markProbe | markPackets | markEntry

// edgeMarks returns what an outcome ends or counts as. Time that is measured from anew is like an event that
// can't happen for a moment: a run may restamp so often that no stamp grows old.
func edgeMarks(o *model.Outcome) (m uint64) {
	const looked = model.EffStamp | model.EffSwitchVol | model.EffSwitchInvol | model.EffSoftirq | model.EffNetRX | model.EffGPStart |
		model.EffGPEnd | model.EffExpEnd | model.EffWork | model.EffTasksQS | model.EffDone0 | model.EffPoll | model.EffEntry |
		model.EffCallbacks
	if o.Effects&looked == 0 {
		return 0
	}
	for _, e := range [...]struct {
		effect model.Effects
		mark   uint64
	}{
		{model.EffStamp, 1 << model.AgeStamp}, {model.EffSwitchVol | model.EffSwitchInvol, 1 << model.AgeSlice},
		{model.EffSoftirq, 1 << model.AgeSoftirq}, {model.EffNetRX, 1 << model.AgeNetRX}, {model.EffGPStart, 1 << model.AgeGP},
		{model.EffGPEnd, markGP}, {model.EffExpEnd, markExp}, {model.EffWork, markWork}, {model.EffTasksQS, markTasks},
		{model.EffDone0, markProbe}, {model.EffPoll, markPackets}, {model.EffEntry | model.EffNetRX, markEntry},
	} {
		if o.Effects&e.effect != 0 {
			m |= e.mark
		}
	}
	if o.Effects&model.EffCallbacks != 0 && o.CPU == 0 {
		m |= markCallbacks
	}
	return m
}
