package check

import (
	"errors"
	"slices"
)

// A Lasso is a run that shows how a wait never ends: the stem leads from the initial state to one from which the
// cycle leads back to it. An empty cycle is a state in which nothing has to happen any more.
type Lasso struct {
	Stem, Cycle []Edge
}

// lasso turns a fair component into a run: the shortest way there, and a cycle through all that makes it fair.
func (s *seeker) lasso(c *component) (Lasso, error) {
	for _, id := range c.states {
		*s.at(id) = member
	}
	l := Lasso{Stem: s.g.way(c.entry)}
	at := c.entry
	marks := s.marks(at)
	for {
		miss := s.fair.missing(marks)
		leg := s.leg(c, at, func(id uint32, m uint64) bool {
			if miss == 0 {
				return id == c.entry
			}
			return m&miss != 0
		})
		switch {
		case miss == 0 && at == c.entry:
			leg = nil
		case len(leg) == 0:
			return l, errors.New("a component that isn't strongly connected")
		}
		for _, st := range leg {
			l.Cycle = append(l.Cycle, st.edge)
			at = s.g.st.find(&st.edge.To)
			marks |= st.edge.Marks&fairMarks | s.marks(at)
		}
		if at == c.entry && s.fair.missing(marks) == 0 {
			return l, nil
		}
	}
}

// marks returns a state's marks that matter to fairness.
func (s *seeker) marks(id uint32) uint64 {
	var m uint64
	s.edges, m = s.g.sys.Next(s.g.st.key(id), s.edges[:0])
	return m & fairMarks
}

// leg returns the shortest way inside the chosen component from a state to one that will do, or to an edge that will:
// do is asked for a target and for the marks of an edge or of the target itself.
func (s *seeker) leg(c *component, from uint32, do func(id uint32, marks uint64) bool) []step {
	came := map[uint32]step{}
	queue := []uint32{from}
	for first := true; len(queue) > 0; first = false {
		id := queue[0]
		queue = queue[1:]
		edges, marks := s.g.sys.Next(s.g.st.key(id), nil)
		if !first && do(id, marks&fairMarks) {
			return back(came, from, id)
		}
		for _, e := range edges {
			to := s.g.st.find(&e.To)
			if e.Marks&(s.wait.Done|c.avoid) != 0 || to == noState || *s.at(to) != member {
				continue
			}
			if do(to, e.Marks&fairMarks) {
				return append(back(came, from, id), step{id, e})
			}
			if _, ok := came[to]; !ok && to != from {
				came[to] = step{id, e}
				queue = append(queue, to)
			}
		}
	}
	return nil
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
