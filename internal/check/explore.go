package check

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Sizes of the search. They decide in which order states get their numbers, so they don't depend on how
// many cores there are.
const (
	batchStates = 1 << 14
	batchParts  = 16
	aloneStates = 256 // a smaller batch isn't worth waking anybody for
)

const (
	// overhead is what the parts hold between the two halves of their work.
	overhead = batchStates * 8 * 32
	// LeastMemory is the smallest amount that a search can begin with.
	LeastMemory = 8 << 20
)

// Limits say when a search gives up, and how many cores it may use.
type Limits struct {
	Memory  int64 // bytes for states, their index and the search's own needs; 0: no limit
	States  int   // 0: no limit
	Workers int   // default: GOMAXPROCS. The result doesn't depend on it
}

func (l Limits) workers() int {
	if l.Workers > 0 {
		return l.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// A Graph is what a search found: all states that can be reached, or those found before it gave up.
type Graph struct {
	sys     System
	st      *store
	levels  [][shards]uint32 // levels[d]: how many states each shard had when those d steps away were all found
	workers int

	forbidden   uint64
	Transitions int64
	Complete    bool
	Reason      string // why it isn't complete
	broken      []step // the first edges with each forbidden mark
}

// A step is an edge with the state that it leaves.
type step struct {
	from uint32
	edge Edge
}

// States returns how many distinct states were found.
func (g *Graph) States() int { return g.st.len() }

// Depth returns how many steps the farthest states are from the initial one.
func (g *Graph) Depth() int { return len(g.levels) - 1 }

// Bytes returns the memory of the states and their index.
func (g *Graph) Bytes() int64 { return g.st.bytes() }

// A found is a state that an edge leads to, on its way to its shard.
type found struct {
	key    Key
	parent uint32
}

// A part is a fixed share of a batch: one goroutine expands it, and leaves what it finds by shard.
type part struct {
	out         [shards][]found
	edges       []Edge
	transitions int64
	forbidden   uint64 // marks met here first, each with its step
	broken      []step
}

// explore finds every state that can be reached, breadth first. Edges with a mark of forbidden are noted,
// the first of each mark, and followed like the others. What it finds, and under which numbers, depends
// on sys and the limits alone.
func explore(ctx context.Context, sys System, forbidden uint64, lim Limits) (*Graph, error) {
	budget := lim.Memory
	if budget > 0 {
		budget = max(budget, LeastMemory) - overhead
	}
	g := &Graph{sys: sys, st: newStore(budget), workers: lim.workers(), forbidden: forbidden, Complete: true}
	first := sys.Initial()
	h := hash(&first)
	s := shardOf(h)
	g.st.shards[s].add(&first, h, number(s, 0))
	g.closeLevel()
	parts := make([]part, batchParts)
	for lo := [shards]uint32{}; g.Complete; {
		hi := g.levels[len(g.levels)-1]
		if hi == lo {
			g.levels = g.levels[:len(g.levels)-1] // it only repeats the one before
			break
		}
		if err := g.level(ctx, parts, &lo, &hi, lim.States); err != nil {
			return nil, err
		}
		lo = hi
		g.closeLevel()
	}
	return g, nil
}

func (g *Graph) closeLevel() {
	var ends [shards]uint32
	for i := range ends {
		ends[i] = g.st.shards[i].count
	}
	g.levels = append(g.levels, ends)
}

// level expands the states from lo to hi, a batch at a time.
func (g *Graph) level(ctx context.Context, parts []part, lo, hi *[shards]uint32, limit int) error {
	var starts [shards + 1]int // positions: all of shard 0's, then shard 1's, ...
	for i := range lo {
		starts[i+1] = starts[i] + int(hi[i]-lo[i])
	}
	size := starts[shards]
	for from := 0; from < size && g.Complete; from += batchStates {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := min(from+batchStates, size)
		workers := g.workers
		if to-from < aloneStates {
			workers = 1
		}
		together(workers, batchParts, func(i int) {
			a, b := from+(to-from)*i/batchParts, from+(to-from)*(i+1)/batchParts
			g.expand(&parts[i], lo, &starts, a, b)
		})
		together(workers, shards, func(i int) { g.settle(parts, uint32(i)) })
		g.collect(parts, limit)
	}
	return nil
}

// together runs f(0) to f(n-1) on several goroutines and waits for them.
func together(workers, n int, f func(int)) {
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// expand asks for the edges of the states at positions a to b.
func (g *Graph) expand(p *part, lo *[shards]uint32, starts *[shards + 1]int, a, b int) {
	for i := range p.out {
		p.out[i] = p.out[i][:0]
	}
	p.transitions, p.forbidden, p.broken = 0, 0, nil
	for s := uint32(0); s < shards; s++ {
		for at := max(a, starts[s]); at < min(b, starts[s+1]); at++ {
			id := number(s, lo[s]+uint32(at-starts[s]))
			p.edges, _ = g.sys.Next(g.st.key(id), p.edges[:0])
			p.transitions += int64(len(p.edges))
			for i := range p.edges {
				e := &p.edges[i]
				if bad := e.Marks & g.forbidden &^ p.forbidden; bad != 0 {
					p.forbidden |= bad
					p.broken = append(p.broken, step{id, *e})
				}
				to := shardOf(hash(&e.To))
				p.out[to] = append(p.out[to], found{e.To, id})
			}
		}
	}
}

// settle stores what all parts found for one shard, in the order of the parts.
func (g *Graph) settle(parts []part, s uint32) {
	sh := &g.st.shards[s]
	for i := range parts {
		out := parts[i].out[s]
		for j := range out {
			sh.add(&out[j].key, hash(&out[j].key), out[j].parent)
		}
	}
}

// collect adds up a batch, and ends the search where it has to end.
func (g *Graph) collect(parts []part, limit int) {
	var seen uint64
	for _, b := range g.broken {
		seen |= b.edge.Marks & g.forbidden
	}
	for i := range parts {
		g.Transitions += parts[i].transitions
		for _, b := range parts[i].broken {
			if bad := b.edge.Marks & g.forbidden; bad&^seen != 0 {
				seen |= bad
				g.broken = append(g.broken, b)
			}
		}
	}
	if limit > 0 && g.st.len() > limit {
		g.Complete, g.Reason = false, "the limit of states was reached"
	}
	for i := range g.st.shards {
		if g.st.shards[i].full {
			g.Complete, g.Reason = false, "memory ran out"
		}
	}
}

// distance returns how many steps id is from the initial state.
func (g *Graph) distance(id uint32) int {
	s, place := id&(shards-1), id>>shardBits
	lo, hi := 0, len(g.levels)-1
	for lo < hi {
		if mid := (lo + hi) / 2; g.levels[mid][s] > place {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
