package check

import (
	"context"
	"errors"
	"slices"
)

// Marks come in two halves. The low half is about fairness and is all that a search for a fair cycle
// remembers; the high half is about properties and invariants.
const fairMarks = 1<<32 - 1

// A Wait is something that must end: a state is pending if it has the mark Pending, and the wait is over
// with an edge that has a mark of Done.
type Wait struct {
	Name    string
	Pending uint64
	Done    uint64
}

// A Fairness says which runs count. Weak is a set of events: a run that doesn't take one for ever though it
// could all along is none. An event's bit is set in the marks of the states where it can't happen, and in those
// of the edges where it does. A run may also stop for good where no event of Weak can happen.
type Fairness struct {
	Weak   uint64
	Strong []Strong
}

// A Strong fairness: a run that has states or edges with the mark Often again and again, and edges with the
// mark Then no more, is none.
type Strong struct{ Often, Then uint64 }

// missing returns the marks that a cycle with these marks lacks to be fair.
func (f *Fairness) missing(marks uint64) uint64 {
	miss := f.Weak &^ marks
	for _, s := range f.Strong {
		if marks&s.Often != 0 && marks&s.Then == 0 {
			miss |= s.Then
		}
	}
	return miss
}

// errMemory says that a search for a fair cycle would take more memory than it may.
var errMemory = errors.New("memory ran out")

// The index of a state in a search for a fair cycle: unseen, or its place among the open ones plus 1, or
// what became of it once its component was closed.
const (
	unseen uint32 = 0
	closed uint32 = ^uint32(0)
	member uint32 = closed - 1 // of the component that was chosen
)

// A component is a set of states each of which reaches each other, and in which a run can be fair.
type component struct {
	states   []uint32
	entry    uint32 // the one nearest to the initial state
	distance int
	avoid    uint64 // edges with such a mark don't belong to it
}

// A seeker looks for the fair components of the states that are pending, by depth-first search that keeps
// one entry for each component still open (Gabow's path-based algorithm) together with the marks seen inside
// it (as Couvreur does for emptiness of generalised Büchi automata). Strong fairness that isn't met takes the
// component apart and searches what remains (Emerson and Lei; Streett automata).
type seeker struct {
	g     *Graph
	wait  Wait
	fair  *Fairness
	index *[shards][]uint32
	avoid uint64 // states and edges with such a mark are left out

	open   stack[uint32]
	roots  stack[root]
	frames stack[frame]
	todos  stack[todo]
	edges  []Edge

	best   *component
	seen   int // pending states
	budget int64
	ctx    context.Context
	err    error
}

// A root is the first state of an open component.
type root struct {
	at     uint32 // place among the open states
	in     uint32 // marks of the edge that led to it
	inside uint32 // marks of its states and the edges among them
}

// A frame is a state on the path of the search: its place among the open ones and where its todos begin.
type frame struct{ at, todos uint32 }

// A todo is an edge that hasn't been followed.
type todo struct{ to, marks uint32 }

// seek returns the fair component of g's pending states that is nearest to the initial state, or nil.
func (g *Graph) seek(ctx context.Context, wait Wait, fair *Fairness, budget int64) (*component, *seeker, error) {
	var index [shards][]uint32
	for i := range index {
		index[i] = make([]uint32, g.st.shards[i].count)
	}
	s := &seeker{g: g, wait: wait, fair: fair, index: &index, ctx: ctx, budget: budget}
	var lo [shards]uint32
	for _, hi := range g.levels { // nearest first
		for sh := range uint32(shards) {
			for place := lo[sh]; place < hi[sh]; place++ {
				if index[sh][place] == unseen {
					s.search(number(sh, place))
				}
				if s.err != nil {
					return nil, s, s.err
				}
			}
		}
		lo = hi
	}
	return s.best, s, nil
}

func (s *seeker) at(id uint32) *uint32 { return &s.index[id&(shards-1)][id>>shardBits] }

// bytes returns what the search has allocated besides the graph.
func (s *seeker) bytes() int64 {
	n := int64(s.g.States()) * 4
	stacks := len(s.open.chunks)*4 + len(s.roots.chunks)*12 + len(s.frames.chunks)*8 + len(s.todos.chunks)*8
	return n + int64(stacks)*stackChunk
}

// search opens everything that is pending and can be reached from id without the wait's end.
func (s *seeker) search(id uint32) {
	s.visit(id, 0)
	for s.frames.n > 0 && s.err == nil {
		f := *s.frames.top()
		if s.todos.n == int(f.todos) {
			s.frames.pop()
			if s.roots.top().at == f.at {
				s.close()
			}
			continue
		}
		t := s.todos.pop()
		switch at := *s.at(t.to); at {
		case unseen:
			s.visit(t.to, t.marks)
		case closed:
		default:
			s.merge(at-1, t.marks)
		}
	}
}

// visit opens a state if it is pending.
func (s *seeker) visit(id, in uint32) {
	var marks uint64
	s.edges, marks = s.g.sys.Next(s.g.st.key(id), s.edges[:0])
	if marks&s.wait.Pending == 0 || marks&s.avoid != 0 {
		*s.at(id) = closed
		return
	}
	s.seen++
	if s.seen&(1<<16-1) == 0 {
		s.breathe()
	}
	at := uint32(s.open.n)
	*s.at(id) = at + 1
	s.open.push(id)
	s.roots.push(root{at, in, uint32(marks)})
	s.frames.push(frame{at, uint32(s.todos.n)})
	for i := range s.edges {
		e := &s.edges[i]
		if e.Marks&s.wait.Done != 0 || e.Marks&s.avoid != 0 {
			continue
		}
		to := s.g.st.find(&e.To)
		if to == noState { // the graph isn't complete
			continue
		}
		switch seen := *s.at(to); seen {
		case closed:
		case unseen:
			s.todos.push(todo{to, uint32(e.Marks)})
		default:
			s.merge(seen-1, uint32(e.Marks))
		}
	}
}

// breathe looks from time to time whether to go on.
func (s *seeker) breathe() {
	s.err = s.ctx.Err()
	if s.err == nil && s.budget > 0 && s.bytes() > s.budget {
		s.err = errMemory
	}
}

// merge makes one component of all since the open state at that place: an edge leads back to it.
func (s *seeker) merge(at, marks uint32) {
	for s.roots.top().at > at {
		r := s.roots.pop()
		marks |= r.in | r.inside
	}
	s.roots.top().inside |= marks
}

// close ends the youngest component: nothing leads back from it to what is older.
func (s *seeker) close() {
	r := s.roots.pop()
	missing := s.fair.missing(uint64(r.inside))
	hopeless := missing&s.fair.Weak != 0 // and so is every part of it
	var states []uint32
	for s.open.n > int(r.at) {
		id := s.open.pop()
		*s.at(id) = closed
		if !hopeless {
			states = append(states, id)
		}
	}
	switch {
	case hopeless:
	case missing == 0:
		s.offer(states)
	default:
		s.refine(states, missing)
	}
}

// refine searches what remains of a component without the states that ask for edges it hasn't got.
func (s *seeker) refine(states []uint32, missing uint64) {
	sub := &seeker{g: s.g, wait: s.wait, fair: s.fair, index: s.index, avoid: s.avoid, best: s.best, ctx: s.ctx, budget: s.budget}
	for _, f := range s.fair.Strong {
		if f.Then&missing != 0 {
			sub.avoid |= f.Often
		}
	}
	slices.Sort(states)
	for _, id := range states {
		*s.at(id) = unseen
	}
	for _, id := range states {
		if *s.at(id) == unseen && sub.err == nil {
			sub.search(id)
		}
	}
	s.best, s.err = sub.best, sub.err
}

// offer keeps a fair component if it is nearer than the best so far.
func (s *seeker) offer(states []uint32) {
	c := &component{states: states, distance: s.g.Depth() + 1, avoid: s.avoid}
	for _, id := range states {
		if d := s.g.distance(id); d < c.distance || d == c.distance && id < c.entry {
			c.entry, c.distance = id, d
		}
	}
	if s.best == nil || c.distance < s.best.distance {
		s.best = c
	}
}
