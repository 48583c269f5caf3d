package check

import (
	"context"
	"errors"
)

// A Pace says what "in time" means when entries are counted: between two edges with the mark Entry each
// event of Once that could happen all along has happened, and each of Idle has got to where it can't happen
// (a CPU has done all that it had to do). Strong fairness counts likewise: what was asked for since the
// last entry has been done before the next.
type Pace struct {
	Entry, Once, Idle uint64
}

// errUnbounded says that entries can follow each other for ever.
var errUnbounded = errors.New("no bound")

// A paced is the part of a graph where a wait is pending, with what is owed before the next entry: its keys are
// a state's number with the owed events, and all of the states in which the wait can begin hang on one first
// key.
type paced struct {
	g      *Graph
	wait   Wait
	pace   Pace
	fair   *Fairness
	starts []uint32
}

func (p *paced) Initial() Key { return Key{0, 1} }

func (p *paced) Next(k Key, out []Edge) ([]Edge, uint64) {
	if k[1] == 1 {
		for _, id := range p.starts {
			out = append(out, Edge{To: Key{uint64(id)}})
		}
		return out, 0
	}
	owed := k[0] >> 32
	first := len(out)
	out, _ = p.g.sys.Next(p.g.st.key(uint32(k[0])), out)
	edges := out[first:]
	out = out[:first]
	for _, e := range edges {
		if e.Marks&p.wait.Done != 0 || e.Marks&p.pace.Entry != 0 && owed != 0 {
			continue
		}
		to := p.g.st.find(&e.To)
		if to == noState {
			continue
		}
		marks, pending := p.marks(to)
		if !pending {
			continue
		}
		left := owed &^ (e.Marks & p.pace.Once)
		if e.Marks&p.pace.Entry != 0 {
			left = p.pace.Once | p.pace.Idle
		}
		left &^= marks & (p.pace.Once | p.pace.Idle)
		left = p.strong(left, e.Marks, marks)
		out = append(out, Edge{To: Key{uint64(to) | left<<32}, Marks: e.Marks & p.pace.Entry})
	}
	return out, 0
}

// strong adds to what is owed, or takes off, what strong fairness asks for.
func (p *paced) strong(owed, edge, state uint64) uint64 {
	for _, s := range p.fair.Strong {
		if edge&s.Then != 0 {
			owed &^= s.Then
		}
		if (edge|state)&s.Often != 0 && edge&s.Then == 0 {
			owed |= s.Then
		}
	}
	return owed
}

func (p *paced) marks(id uint32) (marks uint64, pending bool) {
	var room [32]Edge
	_, marks = p.g.sys.Next(p.g.st.key(id), room[:0])
	return marks, marks&p.wait.Pending != 0
}

// bound returns the largest number of edges with the mark Entry that a run in pace passes while the wait is pending, and
// how many states with their debts it looked at.
func (g *Graph) bound(ctx context.Context, wait Wait, fair *Fairness, pace Pace, lim Limits) (entries, states int, err error) {
	p := &paced{g: g, wait: wait, pace: pace, fair: fair, starts: g.starts(wait)}
	product, err := explore(ctx, p, 0, lim)
	if err != nil {
		return 0, 0, err
	}
	if !product.Complete {
		return 0, product.States(), errMemory
	}
	entries, err = product.longest(pace.Entry)
	return entries, product.States(), err
}

// starts returns the states in which the wait begins: it wasn't pending before, or another one has just ended.
func (g *Graph) starts(wait Wait) []uint32 {
	var starts []uint32
	seen := map[uint32]bool{}
	var edges, room []Edge
	for s := range uint32(shards) {
		for place := range g.st.shards[s].count {
			id := number(s, place)
			var marks uint64
			edges, marks = g.sys.Next(g.st.key(id), edges[:0])
			if marks&wait.Pending != 0 && g.distance(id) == 0 && !seen[id] {
				seen[id] = true
				starts = append(starts, id)
			}
			for _, e := range edges {
				if marks&wait.Pending != 0 && e.Marks&wait.Done == 0 {
					continue
				}
				to := g.st.find(&e.To)
				if to == noState || seen[to] {
					continue
				}
				seen[to] = true
				var m uint64
				room, m = g.sys.Next(e.To, room[:0])
				if m&wait.Pending != 0 {
					starts = append(starts, to)
				}
			}
		}
	}
	return starts
}
