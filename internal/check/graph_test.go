package check

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// A listed is a small graph written out: states are numbered from 0, which is the initial one.
type listed struct {
	marks []uint64
	edges [][]Edge
}

func name(i int) Key { return Key{uint64(i), ^uint64(i)} }

func (l *listed) Initial() Key { return name(0) }

func (l *listed) Next(k Key, out []Edge) ([]Edge, uint64) {
	return append(out, l.edges[k[0]]...), l.marks[k[0]]
}

func (l *listed) edge(from, to int, marks uint64) {
	l.edges[from] = append(l.edges[from], Edge{To: name(to), Marks: marks, Act: Act(len(l.edges[from]))})
}

// A counter counts each of several digits up and round: size^digits states, each with an edge for each digit.
type counter struct {
	digits int
	size   uint64
}

func (c counter) Initial() Key { return Key{} }

func (c counter) Next(k Key, out []Edge) ([]Edge, uint64) {
	place := uint64(1)
	for i := range c.digits {
		digit := k[0] / place % c.size
		to := k
		if digit == c.size-1 {
			to[0] -= digit * place
		} else {
			to[0] += place
		}
		out = append(out, Edge{To: to, Marks: 1 << i, Act: Act(i)})
		place *= c.size
	}
	return out, 1 << 32
}

// random returns a graph of up to size states with random edges and marks.
func random(r *rand.Rand, size int, fair *Fairness, wait Wait) *listed {
	n := 1 + r.IntN(size)
	l := &listed{marks: make([]uint64, n), edges: make([][]Edge, n)}
	var stateMarks, edgeMarks = fair.Weak, fair.Weak
	for _, s := range fair.Strong {
		stateMarks |= s.Often
		edgeMarks |= s.Then | s.Often
	}
	for i := range n {
		l.marks[i] = r.Uint64() & r.Uint64() & stateMarks
		if r.IntN(5) > 0 {
			l.marks[i] |= wait.Pending
		}
		for range r.IntN(4) {
			marks := r.Uint64() & r.Uint64() & edgeMarks
			if r.IntN(6) == 0 {
				marks |= wait.Done
			}
			l.edge(i, r.IntN(n), marks)
		}
	}
	return l
}

// hasFairCycle answers by following every walk together with the marks that it has collected.
func (l *listed) hasFairCycle(fair *Fairness, wait Wait) bool {
	reached := map[int]bool{0: true}
	for queue := []int{0}; len(queue) > 0; queue = queue[1:] {
		for _, e := range l.edges[queue[0]] {
			if to := int(e.To[0]); !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	type walk struct {
		at    int
		marks uint64
	}
	for start := range reached {
		if l.marks[start]&wait.Pending == 0 {
			continue
		}
		first := walk{start, l.marks[start] & fairMarks}
		seen := map[walk]bool{first: true}
		for queue := []walk{first}; len(queue) > 0; queue = queue[1:] {
			w := queue[0]
			if w.at == start && fair.missing(w.marks) == 0 {
				return true
			}
			for _, e := range l.edges[w.at] {
				to := int(e.To[0])
				next := walk{to, w.marks | (e.Marks|l.marks[to])&fairMarks}
				if e.Marks&wait.Done == 0 && l.marks[to]&wait.Pending != 0 && !seen[next] {
					seen[next] = true
					queue = append(queue, next)
				}
			}
		}
	}
	return false
}

// verify follows a lasso from the initial state and returns an error unless every edge exists, the cycle closes,
// stays pending without the wait's end, and is fair.
func verify(l Lasso, sys System, wait Wait, fair *Fairness) error {
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
