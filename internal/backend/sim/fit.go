package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/napistall/napistall/internal/experiment"
)

// An Observation is what one second of a real NAPI thread's run time went into.
type Observation struct {
	Polls, Packets, Switches, Interrupts uint64
	Run                                  time.Duration // of the thread, interrupts on its CPU included
}

// An Estimate is one cost as far as the observations tell it.
type Estimate struct {
	Name  string
	Value time.Duration
	Error time.Duration // standard error; 0 where there are too few observations for one
	Told  bool
	Why   string // why it can't be told
}

// A Fit is what observations tell of the costs.
type Fit struct {
	Costs     experiment.Costs // with the parts that can't be told as they are by default
	Estimates []Estimate       // poll (with the entry), packet, switch, interrupt, entry, neighbour
	N         int              // observations
	Residual  float64          // root mean square of what is left over, as a share of the run time
}

// distinct is how much of a quantity must not be explained by those before it for its cost to be told from theirs.
const distinct = 0.05

// Estimates' places.
const (
	fitPoll = iota
	fitPacket
	fitSwitch
	fitInterrupt
	fitQuantities
	fitEntry     = fitQuantities
	fitNeighbour = fitQuantities + 1
)

// FitCosts estimates costs from obs by least squares: the thread's run time is what its polls, their packets, its
// switches and the interrupts on its CPU took. A cost is only told where its quantity varies apart from the others; the
// error says how many observations are needed, or that the costs that come out can't be anybody's. hz is the kernel's tick rate; 0
// counts as 250. FitEntry and FitNeighbour tell the other two costs.
func FitCosts(obs []Observation, hz int) (Fit, error) {
	used := obs[:0:0]
	for _, o := range obs {
		if o.Polls > 0 && o.Run > 0 {
			used = append(used, o)
		}
	}
	if len(used) < 2 {
		return Fit{}, fmt.Errorf("%d seconds with polls: at least 2 are needed", len(used))
	}
	f := Fit{N: len(used), Costs: DefaultCosts()}
	names := [fitQuantities]string{"poll", "packet", "switch", "interrupt"}
	whys := [fitQuantities]string{
		"", "each poll took as many packets as any other: add an arm with another inflight or rate",
		"too few switches, or as many at each poll", "too few interrupts beside the polls, or as many at each",
	}
	rows := scaledRows(used)
	var columns []int
	for q := range fitQuantities {
		f.Estimates = append(f.Estimates, Estimate{Name: names[q], Why: whys[q]})
		if isDistinct(rows, columns, q) {
			columns = append(columns, q)
		}
	}
	if len(columns) == 0 || columns[0] != fitPoll {
		return Fit{}, errors.New("the polls don't explain the run time")
	}
	if err := f.solve(rows, columns, 1e9/float64(cmp.Or(hz, 250))/2); err != nil {
		return Fit{}, err
	}
	f.spread(used)
	f.Estimates = append(f.Estimates, Estimate{Name: "entry", Why: whyEntry}, Estimate{Name: "neighbour", Why: whyNeighbour})
	return f, nil
}

// scaledRows has each observation's quantities for a nanosecond of run time, so that each second weighs the same.
func scaledRows(obs []Observation) [][fitQuantities]float64 {
	var rows [][fitQuantities]float64
	for _, o := range obs {
		run := float64(o.Run)
		rows = append(rows, [fitQuantities]float64{
			float64(o.Polls) / run, float64(o.Packets) / run, float64(o.Switches) / run, float64(o.Interrupts) / run,
		})
	}
	return rows
}

// isDistinct reports whether quantity q has a part, and an amount that matters, that columns don't explain.
func isDistinct(rows [][fitQuantities]float64, columns []int, q int) bool {
	y := mat.NewVecDense(len(rows), nil)
	for i, r := range rows {
		y.SetVec(i, r[q])
	}
	whole := mat.Norm(y, 2)
	if whole == 0 || len(rows) <= len(columns) {
		return false
	}
	if q == fitSwitch || q == fitInterrupt {
		if few(rows, q) {
			return false
		}
	}
	if len(columns) == 0 {
		return true
	}
	x := design(rows, columns)
	var b mat.VecDense
	if err := b.SolveVec(x, y); err != nil {
		return false
	}
	var rest mat.VecDense
	rest.MulVec(x, &b)
	rest.SubVec(y, &rest)
	return mat.Norm(&rest, 2) > distinct*whole
}

// seldom is how many of a quantity there must be for each poll: what a tick takes is lost in what a thousand polls take.
const seldom = 0.05

func few(rows [][fitQuantities]float64, q int) bool {
	var polls, others float64
	for _, r := range rows {
		polls += r[fitPoll]
		others += r[q]
	}
	return others < seldom*polls
}

func design(rows [][fitQuantities]float64, columns []int) *mat.Dense {
	x := mat.NewDense(len(rows), len(columns), nil)
	for i, r := range rows {
		for j, q := range columns {
			x.Set(i, j, r[q])
		}
	}
	return x
}

// solve estimates the costs of columns. One that comes out absurd is not told, and the others are estimated anew. most is
// the longest that a switch or an interrupt can take, in nanoseconds.
func (f *Fit) solve(rows [][fitQuantities]float64, columns []int, most float64) error {
	ones := mat.NewVecDense(len(rows), nil)
	for i := range rows {
		ones.SetVec(i, 1)
	}
	for {
		x := design(rows, columns)
		var b mat.VecDense
		if err := b.SolveVec(x, ones); err != nil {
			return fmt.Errorf("the seconds are too much alike: %w", err)
		}
		if j, why := absurd(&b, columns, most); why != "" {
			if columns[j] == fitPoll {
				return errors.New("a poll comes out as taking no time: the arms are not of one machine, or it was too busy")
			}
			f.Estimates[columns[j]].Why = why
			columns = append(columns[:j:j], columns[j+1:]...)
			continue
		}
		var rest mat.VecDense
		rest.MulVec(x, &b)
		rest.SubVec(ones, &rest)
		square := mat.Dot(&rest, &rest)
		f.Residual = math.Sqrt(square / float64(len(rows)))
		f.told(x, &b, columns, square)
		return nil
	}
}

// absurd returns the place of a column whose cost must not be told, and why: it can't be what that takes, or no time is
// left for the polls beside it. A machine that is busy with other things gives such costs, because what its guest waited
// for is shared out among whatever there was more of in those seconds. It is the poll's place if nothing else is to blame.
func absurd(b *mat.VecDense, columns []int, most float64) (place int, why string) {
	for j, q := range columns {
		if (q == fitSwitch || q == fitInterrupt) && b.AtVec(j) > most {
			return j, fmt.Sprintf("it comes out as %v, longer than half a tick: the machine was busy with something else",
				time.Duration(b.AtVec(j)).Round(time.Microsecond))
		}
	}
	j := leastOf(b)
	if b.AtVec(j) >= 0.5 { // rounds to a nanosecond or more
		return 0, ""
	}
	if columns[j] != fitPoll {
		return j, "it comes out as no time or less"
	}
	if last := len(columns) - 1; columns[last] == fitSwitch || columns[last] == fitInterrupt {
		return last, "with it a poll comes out as taking no time"
	}
	return j, "no time"
}

func leastOf(b *mat.VecDense) int {
	least := 0
	for j := range b.Len() {
		if b.AtVec(j) < b.AtVec(least) {
			least = j
		}
	}
	return least
}

// told notes the solution with its standard errors.
func (f *Fit) told(x *mat.Dense, b *mat.VecDense, columns []int, square float64) {
	var normal, inverse mat.Dense
	normal.Mul(x.T(), x)
	free := x.RawMatrix().Rows - len(columns)
	ok := free > 0 && inverse.Inverse(&normal) == nil
	for j, q := range columns {
		e := &f.Estimates[q]
		e.Value, e.Told, e.Why = time.Duration(math.Round(b.AtVec(j))), true, ""
		if ok {
			e.Error = time.Duration(math.Round(math.Sqrt(math.Max(0, inverse.At(j, j)*square/float64(free)))))
		}
	}
}

// spread makes costs of the estimates. What can't be told apart is divided as it is by default.
func (f *Fit) spread(obs []Observation) {
	d := DefaultCosts()
	poll := f.Estimates[fitPoll].Value
	if p := f.Estimates[fitPacket]; p.Told {
		f.Costs.Packet = p.Value
	} else {
		var polls, packets float64
		for _, o := range obs {
			polls += float64(o.Polls)
			packets += float64(o.Packets)
		}
		each := packets / polls
		share := each * float64(d.Packet) / (each*float64(d.Packet) + float64(d.Poll+d.Entry))
		if each > 0 {
			f.Costs.Packet = max(1, time.Duration(float64(poll)*share/each))
			poll = max(2, time.Duration(float64(poll)*(1-share)))
		}
	}
	if e := f.Estimates[fitSwitch]; e.Told {
		f.Costs.Switch = e.Value
	}
	if e := f.Estimates[fitInterrupt]; e.Told {
		f.Costs.Interrupt = e.Value
	}
	f.Costs.Entry = max(1, time.Duration(float64(poll)*float64(d.Entry)/float64(d.Entry+d.Poll)))
	f.Costs.Poll = max(1, poll-f.Costs.Entry)
}
