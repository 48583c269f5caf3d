package check

import (
	"math/bits"

	"github.com/napistall/napistall/internal/model"
)

// An invariant is what no step may do.
type invariant uint8

// The invariants: what the scheduler and RCU promise of a poll loop (docs/checker.md lists them with their reasons), the
// safety of RCU itself, and that no wake-up is lost.
const (
	wakeLost      invariant = iota // a wake-up was lost
	earlyGPEnd                     // a normal grace period ended although CPU 0 owed it a quiescent state
	earlyExpEnd                    // an expedited one did
	switchedAway                   // without PREEMPTION the NAPI thread was switched away from elsewhere than where it waits or calls cond_resched
	flagOutlived                   // with preemption a need_resched outlived the local_bh_enable that should have seen it
	switchNoEntry                  // a switch outside __schedule
	twoExpedited                   // an expedited grace period started during another
	reportEarly                    // CPU 0 reported to an expedited grace period before its IPI came, and was not idle
	barrierWaits                   // rcu_barrier waits with no callback queued anywhere

	numInvariants
)

var invariantNames = [numInvariants]string{
	"no wake-up is lost",
	"no normal grace period ends while CPU 0 owes it a quiescent state",
	"no expedited grace period ends while CPU 0 owes it a quiescent state",
	"without preemption the NAPI thread gives up its CPU only where it waits or calls cond_resched",
	"with preemption a poll starts with need_resched clear",
	"every switch happens in __schedule",
	"at most one expedited grace period is in progress",
	"no report to an expedited grace period precedes its IPI, unless the CPU is idle",
	"rcu_barrier waits for nothing if there are no callbacks",
}

// String returns what the invariant says.
func (i invariant) String() string { return invariantNames[i] }

func (i invariant) mark() uint64 { return markBroken << i }

// allBroken are the marks of every invariant.
const allBroken = (1<<numInvariants - 1) * markBroken

// firstBroken returns the first invariant that marks say is broken.
func firstBroken(marks uint64) invariant {
	return invariant(bits.TrailingZeros64(marks/markBroken) & 63)
}

// invariants are those that hold for one Config.
type invariants struct {
	preempts bool // local_bh_enable and interrupt exit give way
	built    bool // PREEMPTION=y
}

func newInvariants(cfg model.Config) invariants {
	built := cfg.Dynamic || cfg.Preempt.Preempts()
	return invariants{preempts: cfg.Preempt.Preempts(), built: built}
}

// check returns the marks of what the step e from s to to broke.
func (v invariants) check(m *model.Model, s, to *model.State, e model.Event, o *model.Outcome) (marks uint64) {
	if m.Lost(to) {
		marks |= wakeLost.mark()
	}
	f := o.Effects
	const looked = model.EffGPEnd | model.EffExpEnd | model.EffExpStart | model.EffSwitchVol | model.EffSwitchInvol | model.EffExpQS | model.EffWait0
	if f&looked != 0 {
		marks |= v.rare(m, s, to, e, o)
	}
	if v.preempts && (o.Step == model.StepLoopEntry || o.Step == model.StepBHDisable) && e == model.Run0 {
		if full, _ := s.NeedResched(); full && !m.Enabled(s).Has(model.ReschedIPI) {
			marks |= flagOutlived.mark()
		}
	}
	return marks
}

// rare checks what only some effects can break.
func (v invariants) rare(m *model.Model, s, to *model.State, e model.Event, o *model.Outcome) (marks uint64) {
	f := o.Effects
	normal, expedited := s.Owes()
	if f&model.EffGPEnd != 0 && normal {
		marks |= earlyGPEnd.mark()
	}
	if f&model.EffExpEnd != 0 && expedited {
		marks |= earlyExpEnd.mark()
	}
	if active, _ := s.Exp(); active && f&model.EffExpStart != 0 && f&model.EffExpEnd == 0 {
		marks |= twoExpedited.mark()
	}
	if f&(model.EffSwitchVol|model.EffSwitchInvol) != 0 {
		if f&model.EffSchedule == 0 {
			marks |= switchNoEntry.mark()
		}
		gives := o.Step == model.StepWaitSchedule || o.Step == model.StepCondResched
		if !v.built && o.Task == model.NAPIThread && !gives {
			marks |= switchedAway.mark()
		}
	}
	if f&model.EffExpQS != 0 && m.Enabled(s).Has(model.ExpIPI) && e != model.ExpIPI && s.Current() != model.Idle {
		marks |= reportEarly.mark()
	}
	if f&model.EffWait0 != 0 && m.ProbeOp(to, 0) == model.Barrier && !s.Callbacks(0) && !s.Callbacks(1) {
		marks |= barrierWaits.mark()
	}
	return marks
}
