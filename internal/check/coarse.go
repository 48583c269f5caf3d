package check

import (
	"math/bits"

	"github.com/napistall/napistall/internal/model"
)

// Three kinds of event need no edge of their own. docs/checker.md gives the reasons why leaving out the orders in which
// they come elsewhere leaves out no behaviour of CPU 0; Question.Fine keeps them all, and tests compare.
//
//   - Time that passes is noticed by few steps. An Age event happens just before the step that could notice it.
//   - What CPU 1 does by itself touches nothing that CPU 0 looks at. It follows at once on what caused it.
//   - RCU_SOFTIRQ by itself, in threaded mode, is one step with what began it.

// ages are the events of passing time.
const ages = 1<<model.AgeGP | 1<<model.AgeResched | 1<<model.AgeStamp | 1<<model.AgeSlice | 1<<model.AgeSoftirq | 1<<model.AgeNetRX

// delayed returns what remains of the enabled events, and the marks of the delayed ones that may happen now.
func (l *interleaving) delayed(s *model.State, enabled model.Events) (model.Events, uint64) {
	if l.fine || enabled&ages == 0 {
		return enabled, 0
	}
	shown := enabled &^ ages
	if !enabled.Has(model.AgeSlice) {
		return shown, 0
	}
	if step, _ := l.m.Next(s, 0); l.sliceMatters(s, step) {
		return shown | 1<<model.AgeSlice, markSliceMay
	}
	return shown, 0
}

// noEvent is no event.
const noEvent model.Event = 255

// older returns the event of time that CPU 0's next step could notice, if it could happen now, and the mark of
// a step before which it didn't.
func (l *interleaving) older(s *model.State) (model.Event, uint64) {
	e, young := noEvent, uint64(0)
	switch step, _ := l.m.Next(s, 0); step {
	case model.StepPeriodicQS:
		e, young = model.AgeStamp, markStampYoung
	case model.StepSoftirqEnd:
		e, young = model.AgeSoftirq, markSoftirqYoung
	case model.StepNetRXPoll, model.StepNetRXComplete, model.StepNetRXUnmask:
		e, young = model.AgeNetRX, markNetRXYoung
	}
	if e == noEvent || !l.m.Enabled(s).Has(e) {
		return noEvent, 0
	}
	return e, young
}

// sliceMatters reports whether an event may come that asks whether the current task has used its slice: a tick or a pick
// with a competitor, or a wake-up of one.
func (l *interleaving) sliceMatters(s *model.State, step model.StepID) bool {
	if s.Competitor() || s.Current() != model.NAPIThread || step == model.StepSoftirqEnd {
		return true
	}
	for p := range l.cfg.Programs {
		if l.queues(p) {
			return true
		}
	}
	return false
}

// queues reports whether probe p ever queues work on CPU 0.
func (l *interleaving) queues(p int) bool {
	for _, op := range l.cfg.Programs[p] {
		if op == model.Work || op == model.Flush && l.cfg.Backlog {
			return true
		}
	}
	return false
}

// before returns the numbers, from first to last, that an Act of e in s can carry for what comes before it: packets that
// arrive in time for a poll, a time that has passed, the age of a grace period. Those whose bit isn't set in may
// are left out.
func (l *interleaving) before(s *model.State, e model.Event) (first, last int, may uint8) {
	const all = 1<<8 - 1
	switch {
	case e == model.Run0 && l.fill && l.short(s) > 0:
		return l.short(s), l.short(s), all
	case l.fine:
	case e == model.Run0:
		if e, _ := l.older(s); e != noEvent {
			return 0, 1, all
		}
	case e == model.FQSTimer:
		// Bits 0 and 1 say by how much the grace period is older, bit 2 whether the last resched_cpu is.
		// A scan looks at the ages only if CPU 0 is a holdout.
		older, resched := s.GPAge()
		if owes, _ := s.Owes(); !owes {
			older, resched = 0, false
		}
		may = 1<<(older+1) - 1
		if resched {
			may |= may << 4
		}
		return 0, bits.Len8(may) - 1, may
	}
	return 0, 0, all
}

// short returns how many packets are missing for a poll that has to find its whole weight.
func (l *interleaving) short(s *model.State) int {
	if step, _ := l.m.Next(s, 0); step != model.StepPoll && step != model.StepNetRXPoll {
		return 0
	}
	return max(0, int(l.cfg.Weight)-s.Packets())
}

// A walk follows what happens: the marks of it all, and if asked each event with its outcome.
type walk struct {
	marks  uint64
	keep   bool
	events []occurrence
}

func (w *walk) happenings() []Happening {
	var out []Happening
	for _, o := range w.events {
		out = append(out, o.Happening)
	}
	return out
}

// An occurrence is an event that happened.
type occurrence struct {
	Happening
	outcome  model.Outcome
	from, to model.State
}

// happen lets a happen in s: what comes before it, the event, and what follows at once.
func (l *interleaving) happen(s *model.State, a Act, w *walk) {
	e, before := model.Event(a&actEvent), int(a>>actBefore)
	if before > 0 {
		l.prelude(s, e, before, w)
	}
	effects := l.let(s, Happening{Event: e}, w)
	if l.fine || !s.InSoftirq() && ofCPU0>>e&1 != 0 && effects&reaches == 0 {
		return
	}
	for {
		e, ok := l.atOnce(s)
		if !ok {
			return
		}
		l.let(s, Happening{Event: e}, w)
	}
}

// ofCPU0 are the events that by themselves give CPU 1 nothing to do at once, and reaches the effects with which
// they may.
const (
	ofCPU0 = 1<<model.Run0 | 1<<model.Tick0 | 1<<model.NICInterrupt | 1<<model.Arrive | 1<<model.ExpIPI | 1<<model.ReschedIPI |
		1<<model.OtherInterrupt | 1<<model.OtherUnmask | ages
	reaches = model.EffWork | model.EffCallbacks | model.EffSoftirq | model.EffQS0 | model.EffExpQS | model.EffNetRX | model.EffNotice
)

// prelude lets what comes before e happen.
func (l *interleaving) prelude(s *model.State, e model.Event, before int, w *walk) {
	switch {
	case e == model.Run0 && l.fill && l.short(s) > 0:
		l.one(s, Happening{model.Arrive, before}, w)
	case e == model.Run0:
		if e, _ := l.older(s); e != noEvent {
			l.let(s, Happening{Event: e}, w)
		}
	case e == model.FQSTimer:
		for range before & 3 {
			l.one(s, Happening{Event: model.AgeGP}, w)
		}
		if before&4 != 0 {
			l.one(s, Happening{Event: model.AgeResched}, w)
		}
	}
}

// one lets a single event happen, if it may.
func (l *interleaving) one(s *model.State, h Happening, w *walk) {
	if l.m.Enabled(s).Has(h.Event) {
		l.let(s, h, w)
	}
}

// let lets a single event happen that may.
func (l *interleaving) let(s *model.State, h Happening, w *walk) model.Effects {
	n := h.Packets
	switch {
	case h.Event == model.Arrive && n == 0:
		n = 1
	case h.Event != model.Arrive:
		n = -1
	}
	from := *s
	o := l.m.Step(s, h.Event, n)
	l.m.Forget(s)
	w.marks |= l.edge(&from, s, h.Event, &o)
	if w.keep {
		w.events = append(w.events, occurrence{h, o, from, *s})
	}
	return o.Effects
}

// atOnce returns the event that follows at once in s, if there is one.
func (l *interleaving) atOnce(s *model.State) (model.Event, bool) {
	if s.InSoftirq() {
		if step, _ := l.m.Next(s, 0); !l.cfg.Softirq || step == model.StepRCUCore {
			return model.Run0, true
		}
	}
	switch step, _ := l.m.Next(s, 1); step {
	case model.StepProbe, model.StepExpFunnel, model.StepExpSelect, model.StepFQS:
		return model.Run1, true
	case model.StepGPInit:
		if !l.hotCBs {
			return model.Run1, true
		}
	}
	if l.m.HouseTicks(s) {
		to := *s
		l.m.Step(&to, model.Tick1, -1)
		l.m.Forget(&to)
		return model.Tick1, to != *s
	}
	return 0, false
}
