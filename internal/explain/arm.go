package explain

import (
	"cmp"
	"slices"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/klog"
)

// An ArmSummary pools the trials of one arm. Only trials that are data are in it: aborted ones never.
type ArmSummary struct {
	Arm    experiment.Arm
	Trials []TrialSummary   // by Rep
	Facts  experiment.Facts // of the first trial
	Band   Band             // the trials' band; Mixed where they differ; UnknownBand without trials
	Rates  Rates            // summed over the trials

	Hold Lengths // the arm's own operation, begun in the hold: what the table is about
	Tail Lengths // begun after it

	// Reports by the kernel since the load began, each grace period once.
	Classic, Expedited     int
	SoftLockups, HungTasks int
	TasksRCU, Workqueue    int
	Starved                int           // grace-period kthread starved
	Early                  int           // any report from before the load: in none of the others
	Panicked, Silent       int           // trials that ended so
	Stalled                int           // trials that Stall says something of
	SlowTime               time.Duration // spent in operations over SlowLimit, of all trials together
}

// Summarize pools trials, which must all be arm's.
func Summarize(arm experiment.Arm, trials []TrialSummary) ArmSummary {
	a := ArmSummary{Arm: arm, Trials: slices.Clone(trials), Band: UnknownBand}
	slices.SortStableFunc(a.Trials, func(x, y TrialSummary) int { return cmp.Compare(x.Rep, y.Rep) })
	for i, t := range a.Trials {
		if i == 0 {
			a.Facts, a.Band = t.Facts, t.Band.Band
		} else if a.Band != t.Band.Band {
			a.Band = Mixed
		}
		a.Rates = a.Rates.add(t.Rates)
		a.count(t)
		for _, s := range t.Main().Hold {
			if s.Took > SlowLimit {
				a.SlowTime += s.Took
			}
		}
	}
	a.Hold, a.Tail = a.Op(arm.Probe.Op)
	return a
}

func (a *ArmSummary) count(t TrialSummary) {
	a.Classic += t.Stalls(klog.Classic)
	a.Expedited += t.Stalls(klog.Expedited)
	a.SoftLockups += t.Stalls(klog.SoftLockup)
	a.HungTasks += t.Stalls(klog.HungTask)
	a.TasksRCU += t.Stalls(klog.TasksRCU)
	a.Workqueue += t.Stalls(klog.WorkqueueLockup)
	a.Starved += t.Stalls(klog.Starved)
	a.Early += len(t.Early)
	if t.Outcome == experiment.Panicked {
		a.Panicked++
	}
	if t.Outcome == experiment.Silent {
		a.Silent++
	}
	if t.Stall() != NoStall {
		a.Stalled++
	}
}

// RCUStalls is the number of RCU stalls, classic and expedited.
func (a ArmSummary) RCUStalls() int { return a.Classic + a.Expedited }

// Op pools the samples of one operation over a's trials, those of the hold and those after it.
func (a ArmSummary) Op(op string) (hold, tail Lengths) {
	for _, t := range a.Trials {
		for _, o := range t.Ops {
			if o.Op == op {
				hold.add(t.Rep, o.Hold)
				tail.add(t.Rep, o.Tail)
				hold.Refused += o.Refused
			}
		}
	}
	hold.sum()
	tail.sum()
	return hold, tail
}

// Ops lists the operations that a's trials timed beside the arm's own, sorted.
func (a ArmSummary) Ops() []string {
	var ops []string
	for _, t := range a.Trials {
		for _, o := range t.Ops[1:] {
			ops = append(ops, o.Op)
		}
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}

// SlowOnes returns the operations over SlowLimit of a's trials that began in the hold, longest first.
func (a ArmSummary) SlowOnes() []Slow {
	var slow []Slow
	for _, t := range a.Trials {
		slow = append(slow, t.SlowOnes()...)
	}
	slices.SortStableFunc(slow, func(x, y Slow) int { return cmp.Compare(y.Sample.Took, x.Sample.Took) })
	return slow
}
