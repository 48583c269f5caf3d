package check

// A walker finds the walk with the most marked edges, component by component as seeker does.
type walker struct {
	g     *Graph
	mark  uint64
	index [shards][]uint32
	most  [shards][]uint16 // from a state on, once its component is closed

	open   stack[uint32]
	roots  stack[crowd]
	frames stack[frame]
	todos  stack[todo]
	edges  []Edge
	err    error
}

// A crowd is an open component: what it can still collect behind it, and whether it can collect for ever.
type crowd struct {
	at      uint32
	in      uint16 // 1 if the edge that led to it is marked
	most    uint16
	endless bool
}

// longest returns the largest number of edges with the mark on a walk from the initial state, or
// errUnbounded if they can follow each other for ever.
func (g *Graph) longest(mark uint64) (int, error) {
	w := &walker{g: g, mark: mark}
	for i := range w.index {
		n := g.st.shards[i].count
		w.index[i], w.most[i] = make([]uint32, n), make([]uint16, n)
	}
	first := g.sys.Initial()
	id := g.st.find(&first)
	w.visit(id, 0)
	for w.frames.n > 0 && w.err == nil {
		f := *w.frames.top()
		if w.todos.n == int(f.todos) {
			w.frames.pop()
			if w.roots.top().at == f.at {
				w.close()
			}
			continue
		}
		t := w.todos.pop()
		w.follow(t.to, uint16(t.marks), true)
	}
	return int(*w.value(id)), w.err
}

func (w *walker) at(id uint32) *uint32 { return &w.index[id&(shards-1)][id>>shardBits] }

func (w *walker) value(id uint32) *uint16 { return &w.most[id&(shards-1)][id>>shardBits] }

func (w *walker) visit(id uint32, in uint16) {
	at := uint32(w.open.n)
	*w.at(id) = at + 1
	w.open.push(id)
	w.roots.push(crowd{at: at, in: in})
	w.frames.push(frame{at, uint32(w.todos.n)})
	w.edges, _ = w.g.sys.Next(w.g.st.key(id), w.edges[:0])
	for i := range w.edges {
		step := uint16(0)
		if w.edges[i].Marks&w.mark != 0 {
			step = 1
		}
		w.follow(w.g.st.find(&w.edges[i].To), step, false)
	}
}

// follow takes an edge into account, and opens a new state now or later.
func (w *walker) follow(to uint32, step uint16, now bool) {
	switch at := *w.at(to); {
	case at == closed:
		w.reach(step + *w.value(to))
	case at == unseen && now:
		w.visit(to, step)
	case at == unseen:
		w.todos.push(todo{to, uint32(step)})
	default:
		w.merge(at-1, step != 0)
	}
}

func (w *walker) reach(n uint16) {
	r := w.roots.top()
	r.most = max(r.most, n)
}

func (w *walker) merge(at uint32, endless bool) {
	most := uint16(0)
	for w.roots.top().at > at {
		r := w.roots.pop()
		most, endless = max(most, r.most), endless || r.endless || r.in > 0
	}
	r := w.roots.top()
	r.most, r.endless = max(r.most, most), r.endless || endless
}

func (w *walker) close() {
	r := w.roots.pop()
	if r.endless {
		w.err = errUnbounded
	}
	for w.open.n > int(r.at) {
		id := w.open.pop()
		*w.at(id), *w.value(id) = closed, r.most
	}
	if w.roots.n > 0 {
		w.reach(r.in + r.most)
	}
}
