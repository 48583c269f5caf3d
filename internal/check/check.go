package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/napistall/napistall/internal/model"
)

// A Verdict is the answer to a Question.
type Verdict string

// The verdicts. NotDecided means that no violation was found among the states that were looked at, and
// that there are more.
const (
	Holds      Verdict = "holds"
	Violated   Verdict = "violated"
	NotDecided Verdict = "not decided"
)

// A Question asks whether a variant has a property.
type Question struct {
	Variant
	Property Property `json:"property"`
	// TicksOutside assumes that ticks which may land outside the BH-off part of the NAPI thread do so again and again.
	TicksOutside bool `json:"ticksOutside,omitempty"`
	// Fine gives every event an edge of its own, instead of leaving out orders that make no difference: many more states.
	Fine bool `json:"fine,omitempty"`
	// Bound asks for the largest number of poll-loop entries that a waiter is passed over, too.
	Bound  bool   `json:"-"`
	Limits Limits `json:"-"`
}

// An Answer is what a search found out.
type Answer struct {
	Question
	Verdict     Verdict `json:"verdict"`
	Invariant   string  `json:"invariant,omitempty"` // the one that is broken, whatever the property
	Why         string  `json:"why,omitempty"`       // what ended the search early
	States      int     `json:"states"`
	Transitions int64   `json:"transitions"`
	Depth       int     `json:"depth"`
	Pending     int     `json:"pending"` // states in which somebody waits
	// Bytes is the memory of the states, their index and the search for a cycle at its largest.
	Bytes   int64         `json:"bytes"`
	Elapsed time.Duration `json:"-"`
	Entries *Entries      `json:"entries,omitempty"`
	// Run is the counterexample: a run to the broken invariant, or one that never ends the wait.
	Run *Run `json:"-"`
}

// Entries is the largest number of poll-loop entries that a waiter is passed over, if everything that
// has to happen does so within one entry.
type Entries struct {
	Most    int    `json:"most"`
	Endless bool   `json:"endless,omitempty"`
	Unknown string `json:"unknown,omitempty"` // why the number is not known
}

// Validate returns an error if q asks about something that can't be: one that matches errors.ErrUnsupported if a kernel
// can't have the variant, another one if q contradicts itself or has unknown words.
func (q Question) Validate() error {
	_, err := q.system()
	return err
}

// Ask searches for the answer to q. Its error is what Validate returns, or the context's.
func Ask(ctx context.Context, q Question) (Answer, error) {
	began := time.Now()
	a := Answer{Question: q}
	p, err := q.Property.find()
	if err != nil {
		return a, err
	}
	sys, err := q.system()
	if err != nil {
		return a, err
	}
	a.Variant = q.explicit()
	a.Programs = q.programs(sys.m.Config())
	g, err := explore(ctx, sys, allBroken, q.Limits)
	if err != nil {
		return a, err
	}
	a.States, a.Transitions, a.Depth, a.Bytes = g.States(), g.Transitions, g.Depth(), g.Bytes()
	if err := a.judge(ctx, sys, g, p); err != nil {
		return a, err
	}
	a.Elapsed = time.Since(began)
	return a, nil
}

// system builds what q asks about.
func (q Question) system() (*interleaving, error) {
	cfg, err := q.Config()
	if err != nil {
		return nil, err
	}
	if len(q.Programs) == 0 {
		p, err := q.Property.find()
		if err != nil {
			return nil, err
		}
		cfg.Programs[0] = p.program(cfg)
	}
	m, err := model.New(cfg)
	if err != nil {
		return nil, err
	}
	return newInterleaving(m, q.Load, q.Fine), nil
}

// programs returns the words of what the probes do, so that an answer says it all.
func (q Question) programs(cfg model.Config) [][]string {
	var out [][]string
	for _, p := range cfg.Programs {
		if n := names(p); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// judge decides by what was found.
func (a *Answer) judge(ctx context.Context, sys *interleaving, g *Graph, p property) error {
	if len(g.broken) > 0 {
		first := g.broken[0]
		a.Verdict, a.Invariant = Violated, firstBroken(first.edge.Marks&allBroken).String()
		return a.show(sys, p, Lasso{Stem: append(g.way(first.from), first.edge)})
	}
	fair := fairness(a.Fine, a.TicksOutside)
	budget := a.Limits.Memory
	if budget > 0 {
		budget = max(budget-g.Bytes(), 1)
	}
	c, s, err := g.seek(ctx, p.wait(), fair, budget)
	a.Pending = s.seen
	a.Bytes = g.Bytes() + s.bytes()
	switch {
	case errors.Is(err, errMemory):
		a.Verdict, a.Why = NotDecided, "memory ran out in the search for a cycle"
		return nil
	case err != nil:
		return err
	case c != nil:
		a.Verdict = Violated
		l, err := s.lasso(c)
		if err == nil {
			err = a.show(sys, p, l)
		}
		if err != nil {
			return err
		}
	case !g.Complete:
		a.Verdict, a.Why = NotDecided, g.Reason
	default:
		a.Verdict = Holds
	}
	if a.Question.Bound && g.Complete {
		return a.count(ctx, g, p)
	}
	return nil
}

// show makes l a's run, once it has been seen to happen event by event.
func (a *Answer) show(sys *interleaving, p property, l Lasso) error {
	fair := fairness(true, a.TicksOutside)
	var err error
	if a.Invariant != "" {
		s := sys.m.Initial()
		a.Run = &Run{}
		a.Run.Stem, err = sys.unfold(&s, l.Stem)
	} else {
		a.Run, err = sys.run(l, fair)
	}
	if err == nil {
		err = sys.verify(a.Run, p.wait(), fair, a.Invariant)
	}
	if err != nil {
		return fmt.Errorf("a counterexample that doesn't happen: %s, %s: %w", a.Variant, a.Property, err)
	}
	return nil
}

// count finds how many entries a waiter is passed over.
func (a *Answer) count(ctx context.Context, g *Graph, p property) error {
	if a.Verdict == Violated {
		a.Entries = &Entries{Endless: true}
		return nil
	}
	n, _, err := g.bound(ctx, p.wait(), fairness(a.Fine, a.TicksOutside), pace(), a.Limits)
	switch {
	case errors.Is(err, errUnbounded):
		a.Entries = &Entries{Endless: true}
	case errors.Is(err, errMemory):
		a.Entries = &Entries{Unknown: "memory ran out"}
	case err != nil:
		return fmt.Errorf("count entries: %w", err)
	default:
		a.Entries = &Entries{Most: n}
	}
	return nil
}
