package check

import (
	"errors"
	"fmt"

	"github.com/napistall/napistall/internal/model"
)

// A Run is a counterexample, event by event from the initial state: one that breaks an invariant with its last event, or
// one whose cycle repeats for ever and never ends a wait. An empty cycle is a state in which nothing has to
// happen any more.
type Run struct {
	Stem, Cycle []Happening
}

// A Happening is one event of the model, and how many packets an Arrive brings.
type Happening struct {
	Event   model.Event
	Packets int
}

// unfold returns the single events of a way through the graph from s, which it moves.
func (l *interleaving) unfold(s *model.State, way []Edge) ([]Happening, error) {
	var out []Happening
	for i, e := range way {
		w := walk{keep: true}
		l.happen(s, e.Act, &w)
		if l.m.Pack(s) != e.To {
			return nil, fmt.Errorf("step %d leads elsewhere", i+1)
		}
		out = append(out, w.happenings()...)
	}
	return out, nil
}

// run turns a lasso of the search into single events that are fair by themselves: what changes nothing was no step of
// the search and is put in; times that nobody compares in the cycle are let pass before it; and the cycle is
// repeated until it closes.
func (l *interleaving) run(lasso Lasso, fair *Fairness) (*Run, error) {
	s := l.m.Initial()
	stem, err := l.unfold(&s, lasso.Stem)
	if err != nil {
		return nil, err
	}
	to := s
	cycle, err := l.unfold(&to, lasso.Cycle)
	if err != nil {
		return nil, err
	}
	for range 16 {
		end := s
		marks, err := l.follow(&end, cycle)
		if err != nil {
			return nil, err
		}
		missing := fair.missing(marks & fairMarks)
		switch {
		case missing == 0 && end == s:
			return &Run{stem, cycle}, nil
		case missing == 0:
			stem, s = append(stem, cycle...), end
			continue
		}
		var rest uint64
		if cycle, rest = l.idle(s, lasso.Cycle, missing); rest&^ages != 0 {
			return nil, fmt.Errorf("the cycle lacks %#x", rest)
		}
		for e := range model.Event(markEventsEnd) {
			if rest>>e&1 != 0 {
				h := []Happening{{Event: e}}
				if _, err := l.follow(&s, h); err != nil {
					return nil, err
				}
				stem = append(stem, h...)
			}
		}
	}
	return nil, errors.New("the cycle doesn't close")
}

// idle unfolds a cycle from s and puts what changes nothing into it, each where it first can come, for the marks that
// are missing. It returns those that still are.
func (l *interleaving) idle(s model.State, cycle []Edge, missing uint64) (out []Happening, rest uint64) {
	for i := 0; ; i++ {
		shown, _ := l.delayed(&s, l.enabled(&s))
		for e := range model.Event(markEventsEnd) {
			if !shown.Has(e) {
				continue
			}
			for before, last, may := l.before(&s, e); before <= last; before++ {
				if before < 8 && may>>before&1 == 0 {
					continue
				}
				to, w := s, walk{keep: true}
				l.happen(&to, Act(e)|Act(before)<<actBefore, &w)
				if to == s && w.marks&missing != 0 && w.marks&allDone == 0 {
					missing &^= w.marks
					out = append(out, w.happenings()...)
				}
			}
		}
		if i == len(cycle) {
			return out, missing
		}
		w := walk{keep: true}
		l.happen(&s, cycle[i].Act, &w)
		out = append(out, w.happenings()...)
	}
}

// follow lets events happen from s, which it moves, and returns the marks of the states and events on the way.
func (l *interleaving) follow(s *model.State, events []Happening) (uint64, error) {
	w := walk{marks: l.fineMarks(s)}
	for i, h := range events {
		if !l.m.Enabled(s).Has(h.Event) {
			return 0, &eventError{i, fmt.Errorf("%v can't happen here", h.Event)}
		}
		l.one(s, h, &w)
		w.marks |= l.fineMarks(s)
	}
	return w.marks, nil
}

// An eventError is about one event of a run, counted from 0.
type eventError struct {
	at  int
	err error
}

func (e *eventError) Error() string { return fmt.Sprintf("event %d: %v", e.at+1, e.err) }

// fineMarks are a state's marks when every event is on its own.
func (l *interleaving) fineMarks(s *model.State) uint64 {
	enabled := l.m.Enabled(s)
	return l.marks(s, enabled) | uint64(^enabled)&ages
}

// verify lets r happen and returns an error unless it can and shows what it is meant to: that its last event breaks the
// invariant, or that its cycle closes, is fair, and leaves the wait pending without ever ending it.
func (l *interleaving) verify(r *Run, wait Wait, fair *Fairness, broken string) error {
	s := l.m.Initial()
	if broken != "" {
		return l.breaks(&s, r.Stem, broken)
	}
	if _, err := l.follow(&s, r.Stem); err != nil {
		return err
	}
	start := s
	marks := l.fineMarks(&s)
	if marks&wait.Pending == 0 {
		return fmt.Errorf("nobody waits where the cycle starts: %s", wait.Name)
	}
	for i, h := range r.Cycle {
		w := walk{}
		if !l.m.Enabled(&s).Has(h.Event) {
			return &eventError{len(r.Stem) + i, fmt.Errorf("%v can't happen here", h.Event)}
		}
		l.one(&s, h, &w)
		now := l.fineMarks(&s)
		if now&wait.Pending == 0 || w.marks&wait.Done != 0 {
			return &eventError{len(r.Stem) + i, fmt.Errorf("the wait ends here: %s", wait.Name)}
		}
		marks |= w.marks | now
	}
	if s != start {
		return errors.New("the cycle doesn't return to where it started")
	}
	if missing := fair.missing(marks & fairMarks); missing != 0 {
		return fmt.Errorf("the cycle isn't fair: %s", owing(missing))
	}
	return nil
}

// breaks lets events happen and returns an error unless the last one breaks the invariant.
func (l *interleaving) breaks(s *model.State, events []Happening, broken string) error {
	if len(events) == 0 {
		return errors.New("no event breaks an invariant")
	}
	last := len(events) - 1
	if _, err := l.follow(s, events[:last]); err != nil {
		return err
	}
	w := walk{}
	if !l.m.Enabled(s).Has(events[last].Event) {
		return &eventError{last, fmt.Errorf("%v can't happen here", events[last].Event)}
	}
	l.one(s, events[last], &w)
	for i := range numInvariants {
		if w.marks&i.mark() != 0 && i.String() == broken {
			return nil
		}
	}
	return &eventError{last, fmt.Errorf("it doesn't break the invariant %q", broken)}
}

// owing names the events that a cycle lacks.
func owing(missing uint64) string {
	for e := range model.Event(markEventsEnd) {
		if missing>>e&1 != 0 && (weak|ages)>>e&1 != 0 {
			return fmt.Sprintf("%v could happen all along and never does", e)
		}
	}
	if missing&markTickDoes != 0 {
		return "ticks never land outside the BH-off part"
	}
	return "the task below the softirqs never goes on"
}
