package sim

import (
	"cmp"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
)

// DefaultCosts are what things take where an experiment doesn't say: about what an amd64 guest under QEMU's TCG gave on
// this project's 2 cores. docs/simulator.md says which figure comes from which run.
func DefaultCosts() experiment.Costs {
	return experiment.Costs{
		Entry: 230 * time.Nanosecond, Poll: 2200 * time.Nanosecond, Packet: 600 * time.Nanosecond,
		Interrupt: 4 * time.Microsecond, Unmask: 500 * time.Nanosecond,
		Switch: 3 * time.Microsecond, Wake: 20 * time.Microsecond, Neighbour: 50 * time.Millisecond,
	}
}

// prices are what each step takes, in nanoseconds, before its effect; a poll's packets come on top.
type prices struct {
	step      [model.NumSteps]int64
	packet    int64
	interrupt int64
	wake      int64
	neighbour int64 // mean time from one moment at which somebody else wants CPU 0 to the next; 0 for nobody
	report    int64 // interrupts off, on the CPU that a stall report is about
}

// pricesOf spreads the costs over the steps.
//
// Entry is what a pass of the loop takes with softirqs on: from local_bh_enable to the next local_bh_disable. It is small
// beside the rest, and it alone decides how often a tick finds the thread there, which under PREEMPT_DYNAMIC ends
// grace periods. Its default was found by bisection on how long simulated deletions take; docs/simulator.md has the
// real ones. Poll is all of a pass that is with softirqs off and not for each packet: nine tenths the driver's poll,
// the rest napi_complete_done and what follows it.
func pricesOf(m experiment.Model) prices {
	d := DefaultCosts()
	c := m.Costs
	entry, poll := int64(cmp.Or(c.Entry, d.Entry)), int64(cmp.Or(c.Poll, d.Poll))
	unmask, swtch := int64(cmp.Or(c.Unmask, d.Unmask)), int64(cmp.Or(c.Switch, d.Switch))
	p := prices{
		packet: int64(cmp.Or(c.Packet, d.Packet)), interrupt: int64(cmp.Or(c.Interrupt, d.Interrupt)),
		wake: int64(cmp.Or(c.Wake, d.Wake)), report: int64(m.ReportCost),
	}
	if n := cmp.Or(c.Neighbour, d.Neighbour); n != experiment.Never {
		p.neighbour = int64(n)
	}
	complete, enable := poll/20, poll/20
	p.step = [model.NumSteps]int64{
		model.StepWaitSet: entry / 4, model.StepWaitTest: entry / 4, model.StepLoopEntry: entry - entry/4*2,
		model.StepPoll: poll - complete - enable, model.StepComplete: complete, model.StepUnmask: unmask, model.StepBHEnable: enable,
		// Between two polls of one entry there is less: no test of the wait.
		model.StepBHCheck: entry / 4, model.StepPeriodicQS: entry / 4, model.StepCondResched: entry / 4, model.StepBHDisable: entry / 4,
		model.StepWaitSchedule: swtch, model.StepIdleSchedule: p.wake + swtch, model.StepKworkerSleep: swtch, model.StepRunKsoftirqd: entry,
		model.StepNetRXPoll: poll - complete - enable, model.StepNetRXComplete: complete, model.StepNetRXUnmask: unmask,
		model.StepSoftirqEnd: enable, model.StepRCUCore: swtch, model.StepKworker: swtch, model.StepOther: swtch,
		// On CPU 1, each from a sleep to the next one.
		model.StepGPInit: swtch, model.StepFQS: swtch, model.StepGPCleanup: swtch, model.StepExpSelect: swtch, model.StepExpEnd: swtch,
		model.StepProbe: swtch, model.StepExpFunnel: swtch,
	}
	return p
}
