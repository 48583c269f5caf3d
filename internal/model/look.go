package model

import "fmt"

// Next returns the step that Run(cpu) would take in s, and whose it is: what a driver prices before it lets it happen.
// StepNone if Run(cpu) is not enabled.
func (m *Model) Next(s *State, cpu int) (StepID, Task) {
	if cpu != 0 {
		return m.nextHouse(s)
	}
	switch {
	case s.frame != 0:
		return [...]StepID{StepNetRXPoll, StepNetRXComplete, StepNetRXUnmask, StepRCUCore, StepSoftirqEnd}[s.fpc], s.curr
	case s.curr == NAPIThread:
		return threadSteps[s.pc], NAPIThread
	case s.curr == Kworker && s.work == 0:
		return StepKworkerSleep, Kworker
	case s.curr == Kworker:
		return workStep(s), Kworker
	case s.curr == Ksoftirqd && s.cpu&cPass != 0:
		return StepCondResched, Ksoftirqd
	case s.curr == Ksoftirqd:
		return StepRunKsoftirqd, Ksoftirqd
	case s.curr == Idle && s.cpu&cFull != 0:
		return StepIdleSchedule, Idle
	}
	return StepNone, s.curr
}

var threadSteps = [...]StepID{
	pcWaitSet: StepWaitSet, pcWaitTest: StepWaitTest, pcSchedule: StepWaitSchedule, pcWokeSet: StepWaitSet, pcWokeTest: StepWaitTest,
	pcEntry: StepLoopEntry, pcPoll: StepPoll, pcComplete: StepComplete, pcUnmask: StepUnmask, pcBHEnable: StepBHEnable,
	pcBHCheck: StepBHCheck, pcQS: StepPeriodicQS, pcCond: StepCondResched, pcAgain: StepBHDisable,
}

func (m *Model) nextHouse(s *State) (StepID, Task) {
	switch {
	case s.run1&hExp != 0 && s.exp&xQueued != 0:
		return StepExpSelect, ExpWorker
	case s.run1&hExp != 0:
		return StepExpEnd, ExpWorker
	case s.run1&hGP != 0 && s.gp&gActive == 0:
		return StepGPInit, GPKthread
	case s.run1&hGP != 0 && s.qsmask == 0:
		return StepGPCleanup, GPKthread
	case s.run1&hGP != 0:
		return StepFQS, GPKthread
	}
	for p := range s.probes {
		switch {
		case s.probes[p].wait == wFunnel:
			return StepExpFunnel, Probe0 + Task(p)
		case s.probes[p].runnable():
			return StepProbe, Probe0 + Task(p)
		}
	}
	return StepNone, Idle
}

// ProbeOp returns the operation that probe p is in, End if it is between rounds. SyncTasks shows as the operations
// that it consists of: SyncRCU, TasksScan, SyncRCU.
func (m *Model) ProbeOp(s *State, p int) Op {
	if q := s.probes[p]; q.wait != wNone && q.at < MaxOps {
		return m.progs[p][q.at]
	}
	return End
}

// Running reports whether probe p is within a round.
func (s *State) Running(p int) bool { return s.probes[p].wait != wNone }

// Current returns CPU 0's current task.
func (s *State) Current() Task { return s.curr }

// InSoftirq reports whether softirqs run on CPU 0, so that Run(0) is a step of theirs.
func (s *State) InSoftirq() bool { return s.frame != 0 }

// Packets returns how many packets wait in the ring; of a Veth, how many are in flight.
func (s *State) Packets() int { return int(s.ring) }

// Scheduled reports whether the NAPI has SCHED: somebody owes it a poll.
func (s *State) Scheduled() bool { return s.napi&nSched != 0 }

// Line reports whether the device's interrupt is pending.
func (s *State) Line() bool { return s.napi&(nCause|nMask) == nCause }

// Asleep reports whether the NAPI thread is off the runqueue.
func (s *State) Asleep() bool { return s.run&bit(NAPIThread) == 0 }

// NeedResched reports CPU 0's full and lazy flags.
func (s *State) NeedResched() (full, lazy bool) { return s.cpu&cFull != 0, s.cpu&cLazy != 0 }

// GP reports whether a normal grace period is in progress, and whether one is in progress or asked for.
func (s *State) GP() (active, wanted bool) { return s.gp&gActive != 0, s.gp&(gActive|gInit) != 0 }

// Exp reports whether an expedited grace period is in progress, and whether one is in progress or asked for.
func (s *State) Exp() (active, wanted bool) {
	if s.exp != 0 {
		return s.exp&xActive != 0, true
	}
	for _, p := range s.probes {
		if p.wait == wFunnel {
			return false, true
		}
	}
	return false, false
}

// Owes reports whether CPU 0 owes a quiescent state to the normal and to the expedited grace period.
func (s *State) Owes() (normal, expedited bool) {
	return s.gp&gActive != 0 && s.qsmask&1 != 0, s.exp&xOwed != 0
}

// Holdout reports whether Tasks RCU waits for the NAPI thread.
func (s *State) Holdout() bool { return s.cpu&cTaskHold != 0 }

// WorkPending reports whether CPU 0's kworker has an item to run.
func (s *State) WorkPending() bool { return s.work != 0 }

// OtherPending reports whether it has somebody else's, so that another OtherWork would change nothing.
func (s *State) OtherPending() bool { return s.work&workOther != 0 }

// Callbacks reports whether cpu (0 or 1) has callbacks that have not run.
func (s *State) Callbacks(cpu int) bool { return s.cbs[cpu] != 0 }

// Lost reports whether a wake-up was lost: somebody owes the NAPI a poll and nobody will do it; or nobody owns it, the ring
// has packets, and neither an interrupt is pending nor the mask of another queue explains it.
func (m *Model) Lost(s *State) bool {
	switch {
	case s.napi&(nHeld|nDisable) != 0:
		return false
	case s.napi&nSched != 0 && m.threaded:
		return s.run&bit(NAPIThread) == 0
	case s.napi&nSched != 0:
		return s.frame == 0 && (s.napi&nList == 0 || s.pend&vecRX == 0)
	case s.ring == 0 || s.Line() || s.frame != 0:
		return false
	case m.threaded && s.run&bit(NAPIThread) != 0:
		return false
	}
	return !m.cfg.AllQueues || s.napi&nMask == 0
}

// String describes s in the kernel's words, for whoever debugs a driver.
func (s *State) String() string {
	return fmt.Sprintf("%v runs, frame %d/%d, run %05b, cpu %011b, napi %012b at %v, ring %d, pend %02b, rcu %08b %08b, "+
		"gp %09b of %04b, exp %03b, cbs %#x %#x, probes %v", s.curr, s.frame, s.fpc, s.run, s.cpu, s.napi, threadSteps[s.pc], s.ring,
		s.pend, s.rcu[0], s.rcu[1], s.gp, s.qsmask, s.exp, s.cbs[0], s.cbs[1], s.probes)
}
