package check

import (
	"context"
	"strings"
	"sync"
)

// A Row is one line of the matrix: a loop variant under some preemption models.
type Row struct {
	Title    string    `json:"title"`
	Models   string    `json:"models"`
	Variants []Variant `json:"-"`
	Cells    []Cell    `json:"cells"`
}

// A Cell is one thing asked of a row's variants.
type Cell struct {
	Column   string     `json:"column"`
	Asks     []Property `json:"asks"`
	Expected string     `json:"expected"` // from the source, before anything was computed
	Answers  []Answer   `json:"answers"`
	Computed string     `json:"computed"`
}

// What a cell can say.
const (
	Yes        = "yes"
	YesIfTicks = "yes, if ticks land outside the BH-off part again and again"
	No         = "no"
	Open       = "not decided"
)

// Columns of the matrix.
const (
	columnGPs     = "grace periods end"
	columnKworker = "kworker runs"
	columnPackets = "packets polled"
	columnTasks   = "Tasks RCU ends"
)

// Columns returns the matrix's columns in their order.
func Columns() []string { return []string{columnGPs, columnKworker, columnPackets, columnTasks} }

// Matrix returns the rows with what the kernel's source lets one expect, and nothing computed. A thread that polls
// busily is never woken, so that no wake-up of it can be lost.
func Matrix() []Row {
	const old, mid, now = "6.12", "6.18", "7.3"
	on := func(gen string, v Variant, preempts ...string) []Variant {
		var out []Variant
		for _, p := range preempts {
			w := v
			w.Generation, w.Preempt = gen, p
			out = append(out, w)
		}
		return out
	}
	busy := func(title, models string, vs []Variant, gps, kworker string) Row {
		return Row{title, models, vs, []Cell{
			{Column: columnGPs, Asks: []Property{NormalGP, ExpeditedGP, Callbacks, Barrier}, Expected: gps},
			{Column: columnKworker, Asks: []Property{Kworker}, Expected: kworker},
		}}
	}
	row := func(title, models string, vs []Variant, gps, kworker string) Row {
		r := busy(title, models, vs, gps, kworker)
		r.Cells = append(r.Cells, Cell{Column: columnPackets, Asks: []Property{Packets}, Expected: Yes})
		return r
	}
	tasks := func(r Row, expected string) Row {
		r.Cells = append(r.Cells, Cell{Column: columnTasks, Asks: []Property{TasksGP}, Expected: expected})
		return r
	}
	lazy := append(on(now, Variant{}, "lazy", "full"), on(now, Variant{Dynamic: true}, "lazy", "full")...)
	return []Row{
		row("stock", "NONE, VOLUNTARY", on(old, Variant{}, "none", "voluntary"), No, No),
		row("stock, load always fills the budget", "NONE", on(old, Variant{Load: Filling}, "none"), Yes, Yes),
		row("yield-on-exit", "NONE, VOLUNTARY", on(old, Variant{Loop: "yield-on-exit"}, "none", "voluntary"), Yes, Yes),
		row("qs-only, local stamp", "NONE", on(old, Variant{Loop: "qs-only-local-stamp"}, "none"), No, No),
		row("qs-only, persistent stamp", "NONE", on(old, Variant{Loop: "qs-only-persistent-stamp"}, "none"), Yes, No),
		row("stock", "DYNAMIC none", on(old, Variant{Dynamic: true}, "none"), YesIfTicks, No),
		row("stock", "LAZY static and dynamic, FULL", lazy, Yes, Yes),
		busy("busy-poll", "NONE", on(mid, Variant{Loop: "busy-poll"}, "none"), Yes, Yes),
		tasks(busy("busy-poll", "LAZY", on(now, Variant{Loop: "busy-poll"}, "lazy"), Yes, Yes), Yes),
		tasks(busy("busy-poll-reset-stamp", "LAZY", on(now, Variant{Loop: "busy-poll-reset-stamp"}, "lazy"), Yes, Yes), No),
		row("softirq", "NONE", on(old, Variant{Loop: softirqLoop}, "none"), Yes, Yes),
	}
}

// Fill computes every cell of rows, several at a time. After each answer it calls told, if that isn't nil, from one
// goroutine at a time.
func Fill(ctx context.Context, rows []Row, lim Limits, told func(Answer)) error {
	type job struct {
		cell *Cell
		at   int
		q    Question
	}
	var jobs []job
	workers := lim.workers()
	lim.Workers = 1
	if lim.Memory > 0 {
		lim.Memory /= int64(workers)
	}
	for r := range rows {
		for c := range rows[r].Cells {
			cell := &rows[r].Cells[c]
			for _, v := range rows[r].Variants {
				for _, p := range cell.Asks {
					jobs = append(jobs, job{cell, len(cell.Answers), Question{Variant: v, Property: p, Limits: lim}})
					cell.Answers = append(cell.Answers, Answer{})
				}
			}
		}
	}
	var mu sync.Mutex
	var failed error
	together(workers, len(jobs), func(i int) {
		a, err := askTwice(ctx, jobs[i].q)
		mu.Lock()
		defer mu.Unlock()
		jobs[i].cell.Answers[jobs[i].at] = a
		if failed == nil {
			failed = err
		}
		if told != nil && err == nil {
			told(a)
		}
	})
	for r := range rows {
		for c := range rows[r].Cells {
			rows[r].Cells[c].decide()
		}
	}
	return failed
}

// askTwice asks again with ticks that land where they can report, if they are what is missing.
func askTwice(ctx context.Context, q Question) (Answer, error) {
	a, err := Ask(ctx, q)
	if err != nil || a.Verdict != Violated || a.Invariant != "" {
		return a, err
	}
	q.TicksOutside = true
	b, err := Ask(ctx, q)
	if err == nil && b.Verdict == Holds {
		return b, nil
	}
	return a, err
}

// decide sums up a cell's answers. Variants that differ are told apart.
func (c *Cell) decide() {
	var said []string
	byVariant := map[string]string{}
	for _, a := range c.Answers {
		v := a.Variant
		v.Programs = nil
		name := v.String()
		if _, ok := byVariant[name]; !ok {
			said = append(said, name)
		}
		byVariant[name] = worse(byVariant[name], a.word())
	}
	c.Computed = byVariant[said[0]]
	for _, name := range said {
		if byVariant[name] != c.Computed {
			c.Computed = ""
		}
	}
	if c.Computed == "" {
		for i, name := range said {
			said[i] = name + ": " + byVariant[name]
		}
		c.Computed = strings.Join(said, "; ")
	}
}

// word returns what a says in a cell.
func (a *Answer) word() string {
	switch {
	case a.Verdict == Violated:
		return No
	case a.Verdict == NotDecided:
		return Open
	case a.TicksOutside:
		return YesIfTicks
	}
	return Yes
}

// worse returns the word that wins where two properties of a cell differ.
func worse(a, b string) string {
	for _, w := range []string{No, Open, YesIfTicks} {
		if a == w || b == w {
			return w
		}
	}
	return Yes
}
