package check

import "github.com/napistall/napistall/internal/model"

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
	step, _ := l.m.Next(s, 0)
	shown := enabled &^ (1<<model.AgeGP | 1<<model.AgeResched | 1<<model.AgeStamp)
	var marks uint64
	may := func(e model.Event, now bool, mark uint64) {
		switch {
		case !enabled.Has(e):
		case now:
			marks |= mark
		default:
			shown &^= 1 << e
		}
	}
	may(model.AgeSlice, l.sliceMatters(s, step), markSliceMay)
	may(model.AgeSoftirq, step == model.StepSoftirqEnd, markSoftirqMay)
	may(model.AgeNetRX, step == model.StepNetRXPoll || step == model.StepNetRXComplete || step == model.StepNetRXUnmask, markNetRXMay)
	return shown, marks
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

// before returns the smallest and the largest number that an Act of e in s can carry for what comes before it: packets
// that arrive in time for a poll, a stamp that has grown old, the age of a grace period.
func (l *interleaving) before(s *model.State, e model.Event) (first, last int) {
	switch e {
	case model.Run0:
		switch step, _ := l.m.Next(s, 0); step {
		case model.StepPoll, model.StepNetRXPoll:
			if l.fill && s.Packets() < int(l.cfg.Weight) {
				n := int(l.cfg.Weight) - s.Packets()
				return n, n
			}
		case model.StepPeriodicQS:
			if !l.fine && l.m.Enabled(s).Has(model.AgeStamp) {
				return 0, 1
			}
		}
	case model.FQSTimer:
		if !l.fine {
			return 0, l.olderBy(s)
		}
	}
	return 0, 0
}

// olderBy returns how many events of time can come before a scan: bits 0 and 1 are for the grace period's age,
// which is the larger number where both can, and bit 2 is for the last resched_cpu. A number that counts an event which
// can't happen is like the smaller one; there are few.
func (l *interleaving) olderBy(s *model.State) int {
	to, n := *s, 0
	for n < 3 && l.m.Enabled(&to).Has(model.AgeGP) {
		l.m.Step(&to, model.AgeGP, -1)
		n++
	}
	if l.m.Enabled(s).Has(model.AgeResched) {
		return 7
	}
	return n
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
	l.let(s, Happening{Event: e}, w)
	if l.fine {
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

// prelude lets what comes before e happen.
func (l *interleaving) prelude(s *model.State, e model.Event, before int, w *walk) {
	switch {
	case e == model.Run0 && before > 0:
		if step, _ := l.m.Next(s, 0); step == model.StepPeriodicQS {
			l.one(s, Happening{Event: model.AgeStamp}, w)
		} else {
			l.one(s, Happening{model.Arrive, before}, w)
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
func (l *interleaving) let(s *model.State, h Happening, w *walk) {
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
