package model

// A State is one state of the model. The zero State is none: use Model.Initial.
type State struct {
	cpu    uint16 // CPU 0: bits c…
	napi   uint16 // NAPI, its thread and its device: bits n…
	ring   uint16 // packets in the ring; of a Veth, in flight
	pc     uint8  // NAPI thread's next micro-step
	curr   Task   // CPU 0's current task
	run    uint8  // CPU 0's runnable tasks, 1<<Task
	rr     Task   // the last of the round robin that was picked
	frame  uint8  // softirq frame on CPU 0: kind
	fpc    uint8  // … its next micro-step
	todo   uint8  // … vectors that this round has still to run
	pend   uint8  // vectors pending on CPU 0
	rounds uint8  // … rounds left
	run1   uint8  // CPU 1's runnable kthreads: bits h…
	budget uint16 // … what is left of netdev_budget
	gp     uint16 // normal grace period: bits g…
	rcu    [2]uint8
	cbs    [2]uint32
	cbx    [2]uint8
	qsmask uint8 // CPUs that the normal grace period waits for
	exp    uint8 // expedited grace period: bits x…
	work   uint8 // whose work item is queued on CPU 0: probe p's is 1 << p, others' workOther
	rtnl   uint8 // 1 + the probe that holds it
	bar    uint8 // 1 + the probe that holds barrier_mutex | entrained callbacks still to run << 2
	probes [MaxProbes]probe
}

// A probe is one probe task: which operation of its program it is at, and how it waits (w…).
type probe struct{ at, wait uint8 }

// State.cpu.
const (
	cFull       = 1 << iota // TIF_NEED_RESCHED of the current task
	cLazy                   // TIF_NEED_RESCHED_LAZY
	cReschedIPI             // reschedule IPI on its way
	cExpIPI                 // expedited IPI on its way
	cSliceOver              // the current task has used its slice
	cStampOld               // jiffies is after last_qs + HZ/10
	cTaskHold               // rcu_tasks_holdout of the NAPI thread
	cHint                   // rcu_read_unlock_special.exp_hint of the NAPI thread
	cSoftOld                // handle_softirqs is past MAX_SOFTIRQ_TIME
	cRxOld                  // net_rx_action is past its time limit
	cPass                   // ksoftirqd has run softirqs and is about to look whether to yield

	cBits = iota
)

// State.napi.
const (
	nSched   = 1 << iota // NAPI_STATE_SCHED
	nMissed              // NAPI_STATE_MISSED
	nThr                 // NAPI_STATE_SCHED_THREADED
	nDisable             // NAPI_STATE_DISABLE
	nHeld                // NAPI_STATE_NPSVC: napi_disable has it
	nBusy                // NAPI_STATE_IN_BUSY_POLL
	nList                // on softnet_data.poll_list
	nInt                 // the thread's state is TASK_INTERRUPTIBLE
	nRepoll              // the last poll used its whole weight
	nMask                // the device's interrupt is masked; veth: rx_notify_masked
	nCause               // the device has a cause to interrupt
	nDrop                // veth: the XDP program drops

	nBits = iota
)

// State.pc. BH is off from pcPoll to pcBHEnable, preemption to pcBHCheck. A thread that sleeps is at pcWokeSet.
const (
	pcWaitSet uint8 = iota
	pcWaitTest
	pcSchedule
	pcWokeSet // like pcWaitSet, but schedule() was called since the last entry
	pcWokeTest
	pcEntry
	pcPoll
	pcComplete
	pcUnmask
	pcBHEnable
	pcBHCheck
	pcQS
	pcCond
	pcAgain
)

// State.gp.
const (
	gActive = 1 << iota // gp_seq is odd
	gInit               // RCU_GP_FLAG_INIT
	gFirst              // the first scan is still to come
	gTimer              // the GP kthread's timer is armed
	gRecent             // resched_cpu less than jtsq ago
	gAge                // 2 bits: young, urgent due, heavy due, resched due
	_
	gStall // 2 bits: not due, due for CPU 0 itself, due for others, too
	_

	gBits      = iota
	gAgeMask   = 3 * gAge
	gStallMask = 3 * gStall
)

// State.exp.
const (
	xQueued = 1 << iota // the worker has work: a grace period has started but selected no CPUs yet
	xActive             // CPUs are selected
	xOwed               // CPU 0 owes its report

	xBits = iota
)

// State.run1.
const (
	hExp = 1 << iota
	hGP

	hBits = iota
)

// State.rcu, per CPU (struct rcu_data). CPU 1 is never urgent: nothing hogs it.
const (
	rStart  = 1 << iota // a grace period started that this CPU has not noticed
	rEnd                // one ended that it has not noticed
	rNeeds              // core_needs_qs
	rNoQS               // cpu_no_qs.b.norm
	rEQS                // the dyntick counter moved since the first scan's snapshot
	rExp                // cpu_no_qs.b.exp
	rUrgent             // rcu_urgent_qs
	rHeavy              // rcu_need_heavy_qs

	rBits1 = 5 // of these CPU 1 uses
)

// State.cbs: five segments of five bits, one bit for each kind of callback.
const (
	cbBits   = 5
	segDone  = 0          // ready to run
	segZero  = cbBits     // its grace period completed; the CPU has not noticed
	segOne   = 2 * cbBits // waits for one grace period to end (RCU_WAIT_TAIL, RCU_NEXT_READY_TAIL)
	segTwo   = 3 * cbBits // waits for two
	segNext  = 4 * cbBits // no grace period assigned (RCU_NEXT_TAIL)
	segMask  = 1<<cbBits - 1
	cbPlain  = 1 << 0 // what a teardown queued: any number of them
	cbBar    = 1 << 1 // rcu_barrier's
	cbProbe0 = 1 << 2 // probe p's own is cbProbe0 << p
)

// probe.wait.
const (
	wNone     uint8 = iota // between rounds
	wRun                   // runnable
	wFunnel                // runnable: got exp_mutex
	wLook                  // runnable: looks again after its timer
	wLock                  // RTNL
	wExp1                  // until the end of the expedited grace period that is queued or in progress
	wExp2                  // until the end of the one after it
	wSR                    // 7.3: rcu_sr_normal, before rcu_gp_init took the list
	wSRIn                  // after it
	wCB                    // its callback
	wBar                   // barrier_mutex
	wBarCover              // … and a barrier that started since covers it
	wBarHold               // entrained callbacks
	wWork                  // flush_work
	wTimer                 // a timer, to look again
	wSleep                 // a timer
)

// workOther is State.work's bit of whoever is no probe.
const workOther = 1 << MaxProbes

// Softirq vectors, frames and their steps.
const (
	vecRX  = 1
	vecRCU = 2

	frIRQ  uint8 = 1 // irq_exit
	frBH   uint8 = 2 // local_bh_enable of the NAPI thread
	frKsof uint8 = 3 // run_ksoftirqd

	fpPoll     uint8 = 0
	fpComplete uint8 = 1
	fpUnmask   uint8 = 2
	fpCore     uint8 = 3
	fpEnd      uint8 = 4
)

func bit(t Task) uint8 { return 1 << t }

// bhOff reports whether softirqs may not run at interrupt exit on CPU 0: BH-off, or serving softirqs.
func (s *State) bhOff() bool {
	return s.frame != 0 || s.curr == NAPIThread && s.pc >= pcPoll && s.pc <= pcBHEnable
}

// preemptOff reports whether preempt_count of CPU 0's context is not zero.
func (s *State) preemptOff() bool {
	return s.frame != 0 || s.curr == NAPIThread && s.pc >= pcPoll && s.pc <= pcBHCheck
}

// reader reports whether CPU 0 is in an RCU reader: the driver's poll.
func (s *State) reader() bool {
	if s.frame != 0 {
		return s.fpc == fpPoll
	}
	return s.curr == NAPIThread && s.pc == pcPoll
}

// idle reports whether CPU 0 is in an extended quiescent state.
func (s *State) idle() bool { return s.curr == Idle && s.frame == 0 }

// houseIdle reports whether CPU 1 has nothing to run.
func (s *State) houseIdle() bool {
	return s.run1 == 0 && !s.probes[0].runnable() && !s.probes[1].runnable() && !s.probes[2].runnable()
}

func (p probe) runnable() bool { return p.wait >= wRun && p.wait <= wLook }
