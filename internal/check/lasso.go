package check

import (
	"errors"
	"fmt"
	"slices"
)

// A Lasso is a run that shows how a wait never ends: the stem leads from the initial state to one from which the
// cycle leads back to it. An empty cycle is a state in which nothing has to happen any more.
type Lasso struct {
	Stem, Cycle []Edge
}

// lasso turns a fair component into a run: the shortest way there, and a cycle through all that makes it fair.
func (s *seeker) lasso(c *component) Lasso {
	for _, id := range c.states {
		*s.at(id) = member
	}
	l := Lasso{Stem: s.g.way(c.entry)}
	at := c.entry
	marks := s.marks(at)
	for {
		miss := s.fair.missing(marks)
		leg := s.leg(at, func(id uint32, m uint64) bool {
			if miss == 0 {
				return id == c.entry
			}
			return m&miss != 0
		})
		if miss == 0 && at == c.entry {
			leg = nil
		}
		for _, st := range leg {
			l.Cycle = append(l.Cycle, st.edge)
			at = s.g.st.find(&st.edge.To)
			marks |= st.edge.Marks&fairMarks | s.marks(at)
		}
		if at == c.entry && s.fair.missing(marks) == 0 {
			return l
		}
	}
}

// marks returns a state's marks that matter to fairness.
func (s *seeker) marks(id uint32) uint64 {
	var m uint64
	s.edges, m = s.g.sys.Next(s.g.st.key(id), s.edges[:0])
	return m & fairMarks
}

// leg returns the shortest way inside the chosen component from a state to an edge that will do: one whose target
// id and marks, its own and its target's, satisfy it.
func (s *seeker) leg(from uint32, do func(id uint32, marks uint64) bool) []step {
	came := map[uint32]step{}
	queue := []uint32{from}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		edges, _ := s.g.sys.Next(s.g.st.key(id), nil)
		for _, e := range edges {
			to := s.g.st.find(&e.To)
			if e.Marks&s.wait.Done != 0 || to == noState || *s.at(to) != member {
				continue
			}
			if do(to, e.Marks&fairMarks|s.marks(to)) {
				return append(back(came, from, id), step{id, e})
			}
			if _, ok := came[to]; !ok && to != from {
				came[to] = step{id, e}
				queue = append(queue, to)
			}
		}
	}
	return nil // can't be: the component is strongly connected
}

// back returns the steps by which a search came from a state to another.
func back(came map[uint32]step, from, to uint32) []step {
	var way []step
	for to != from {
		st := came[to]
		way = append(way, st)
		to = st.from
	}
	slices.Reverse(way)
	return way
}

// way returns the edges of a shortest way from the initial state to id.
func (g *Graph) way(id uint32) []Edge {
	var way []Edge
	for g.distance(id) > 0 {
		parent, key := g.st.parent(id), g.st.key(id)
		edges, _ := g.sys.Next(g.st.key(parent), nil)
		i := slices.IndexFunc(edges, func(e Edge) bool { return e.To == key })
		way = append(way, edges[i])
		id = parent
	}
	slices.Reverse(way)
	return way
}

// Verify follows a lasso from the initial state and returns an error unless every edge exists, the cycle closes,
// stays pending without the wait's end, and is fair.
func (l Lasso) Verify(sys System, wait Wait, fair *Fairness) error {
	at := sys.Initial()
	for i, e := range l.Stem {
		if !hasEdge(sys, at, e) {
			return fmt.Errorf("step %d of the stem can't happen", i+1)
		}
		at = e.To
	}
	start := at
	_, marks := sys.Next(at, nil)
	if marks&wait.Pending == 0 {
		return fmt.Errorf("%s isn't pending where the cycle starts", wait.Name)
	}
	for i, e := range l.Cycle {
		if !hasEdge(sys, at, e) {
			return fmt.Errorf("step %d of the cycle can't happen", i+1)
		}
		at = e.To
		_, m := sys.Next(at, nil)
		if m&wait.Pending == 0 || e.Marks&wait.Done != 0 {
			return fmt.Errorf("%s ends with step %d of the cycle", wait.Name, i+1)
		}
		marks |= m | e.Marks
	}
	if at != start {
		return errors.New("the cycle doesn't return to where it started")
	}
	if miss := fair.missing(marks & fairMarks); miss != 0 {
		return fmt.Errorf("the cycle isn't fair: it lacks %#x", miss)
	}
	return nil
}

func hasEdge(sys System, at Key, e Edge) bool {
	edges, _ := sys.Next(at, nil)
	return slices.Contains(edges, e)
}
