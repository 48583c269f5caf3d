// Package model is threaded NAPI, the scheduler's preemption models and RCU as one state machine: the poll
// loop of net/core/dev.c on one CPU, whoever competes with it there, and the waits of a device deletion.
// Two engines drive it. The simulator (internal/backend/sim) picks the next event by a clock and random
// numbers; the checker (internal/check) picks every one of them. So what is proved is what is simulated.
//
// The package is pure: no clock, no randomness, no goroutine, and no allocation in Initial, Enabled, Step, Pack
// and Unpack. A *Model is read-only after New and may be used by any number of goroutines; a State belongs
// to whoever holds it and is copied by assignment and compared by ==.
//
// # Layout
//
// CPU 0 is the CPU under test. On it run the NAPI kthread (or the backlog thread), a kworker of nice -20,
// ksoftirqd/0, and a CPU-bound user task if Config.User is set. CPU 1 keeps house: the grace-period kthread, the
// expedited worker and up to three probe tasks, which are not bound and would be pulled off a hogged CPU. CPUs
// 2 and 3, where configured, are idle for ever. There is one leaf rcu_node (kernel: up to 16 CPUs).
//
// # Who decides when
//
// The model never decides when: Step lets one event happen, Enabled says which may. What depends on time in the
// kernel (a comparison with jiffies, a timer) is state that an event of its own changes. A checker lets these
// events happen whenever they are enabled. A simulator has to schedule them after these effects:
//
//	effect                          event               when the kernel's comparison turns
//	EffLine                         NICInterrupt        the device's delay and moderation
//	EffExpIPI, EffReschedIPI        ExpIPI, ReschedIPI  the delivery of an interrupt
//	EffSwitchVol, EffSwitchInvol    AgeSlice            one base slice after the switch (kernel-wide: 0.7 ms × (1 + log2 CPUs))
//	EffStamp                        AgeStamp            first jiffy later than the stamp + HZ/10
//	EffSoftirq                      AgeSoftirq          MAX_SOFTIRQ_TIME: 2 ms, at least one jiffy
//	EffNetRX                        AgeNetRX            netdev_budget_usecs: two jiffies
//	EffGPStart                      AgeGP, three times  first jiffies later than start + jtsq, + 2·jtsq, + T/2
//	EffGPStart                      StallDue, twice     start + T, and two jiffies later (RCU_STALL_RAT_DELAY)
//	EffStallSelf, EffStallOther     StallDue, twice     end of the report + 3·T + 3 jiffies, and two jiffies later
//	EffFQSTimer                     FQSTimer            jiffies_till_first_fqs or _next_fqs, up to one jiffy more
//	EffResched                      AgeResched          jtsq jiffies later
//	EffExpStart                     ExpStallDue         the expedited stall timeout
//	EffStallExp                     ExpStallDue         three times the timeout + 3 jiffies
//	ProbeTimer(p)                   ProbeWake(p)        what Model.ProbeOp(s, p) sleeps for (Op's comment)
//
// An event that is due and no longer enabled is dropped, except that AgeSlice and AgeStamp may be given late: just
// before the step that could notice them (a tick or a wake-up; rcu_softirq_qs_periodic). Only where the scheduler
// has its own timer for it (hrtick: 7.3 on amd64) AgeSlice is an interrupt and belongs to its instant once another
// task is queued. A stamp of the entry's own is renewed at every entry (EffStamp), so keep its instant and not a
// timer. Tick(0) recurs at HZ; Tick(1) is enabled only while CPU 1's tick has something to do. Begin(p) starts a
// probe's round; a kworker that has nothing to do with the probes is one more probe with the program Of(Work), or,
// where nobody asks when it runs, Config.Others with the event OtherWork. Run(0) and Run(1) are the next micro-step of whatever context runs there: on CPU 0 a softirq frame if there is one, else the
// current task; on CPU 1 the expedited worker before the grace-period kthread before the probes, each of which
// blocks after finitely many steps. Run(0) is not enabled while CPU 0 idles without need_resched or runs
// the user task: time passes there until an interrupt. Model.Next names the step that Run would take, before it happens.
//
// Fairness, for whoever proves liveness: Run, Tick(0), Tick(1), NICInterrupt, ExpIPI, ReschedIPI, FQSTimer, ProbeWake
// and every Age event happens if it stays enabled. In softirq mode interrupts can come so fast that frames follow
// each other and the task below never takes a step; a real CPU gets some way between two interrupts, so a
// checker wants Run(0) outside a frame (State.InSoftirq) to be strongly fair. Arrive, Begin, OtherInterrupt,
// OtherWork, OtherCall, StallDue and ExpStallDue owe nothing to anybody.
//
// # What is atomic
//
// An event is atomic. A micro-step of a task stands for the time that passes before its effect: interrupts land
// before it. In an entry of the poll loop those points are
//
//	StepWaitSet      napi_thread_wait: state := INTERRUPTIBLE   window W1 before it
//	StepWaitTest     napi_thread_wait: test SCHED_THREADED      window W2 before it
//	StepWaitSchedule schedule()                                 window W3 before it, W4 after it
//	StepLoopEntry    last_qs := jiffies; local_bh_disable
//	StepPoll         the driver's poll; packets leave the ring  BH off, in a reader
//	StepComplete     napi_complete_done                         BH off; window W0 before it
//	StepUnmask       driver unmasks, or veth looks again        BH off
//	StepBHEnable     local_bh_enable: pending softirqs, then the preemption check (StepBHCheck, if softirqs ran)
//	StepPeriodicQS   rcu_softirq_qs_periodic                    only where the exit taken calls it
//	StepCondResched  cond_resched                               likewise, and only if it is more than a constant
//	StepBHDisable    local_bh_disable of a repoll
//
// Hard interrupts are atomic, with irq_exit, the RCU_SOFTIRQ that it runs, and its preemption check; so is the
// RCU_SOFTIRQ that local_bh_enable runs. In softirq mode, where NET_RX polls, softirqs are micro-steps in a frame
// on top of the task (StepNetRX…, StepRCUCore, StepSoftirqEnd), after which the preemption check follows; other hard
// interrupts nest in it. A note of a quiescent state, the pick and the switch in __schedule are
// one step, as interrupts are off there. Everything on CPU 1 from one sleep to the next is one step.
//
// # Scheduler
//
// The kworker runs before anybody else; the others go round robin when their slice is over or they sleep; nobody is
// switched away from within his slice except by the kworker. So the pick is fair by construction. A task that
// runs alone gets no flag from the scheduler. With a competitor a wake-up sets a flag if the current task's slice is
// over, else the first tick after it is over does: the full flag up to 6.12, the lazy one under the lazy model.
//
// # Generations
//
// 6.12 and 7.3 were read. 6.18 is taken like 7.3 in: lazy preemption, PREEMPT_RCU not under static LAZY, the
// quiescent state of the grace-period kthread's own CPU in rcu_gp_init, synchronize_rcu woken by the kthread (the
// last was seen at run time; the others were not verified). It is taken like 6.12 in: NONE and VOLUNTARY exist
// on every architecture, expedited grace periods release no callbacks, an expedited IPI does not set
// rcu_urgent_qs under PREEMPT_RCU, the close batch of a deletion always waits. Threaded busy poll came with 6.19; on
// 6.18 it stands for that loop on a tree that still has NONE.
//
// RCU_SOFTIRQ within local_bh_enable finds a preempt count of 1 and so does not report a deferred expedited quiescent
// state (Model.deferred): under DYNAMIC none such a report waits for a tick outside the BH-off part, as a normal one
// does. PREEMPT_NONE on 7.3 is refused for every Arch here: it needs ARCH_NO_PREEMPT (alpha, hexagon, m68k);
// VOLUNTARY on armhf and mips has the same points.
//
// # What the model leaves out
//
// Other NAPI instances on CPU 0 (except as events of a shared mask, Config.AllQueues); GRO and defer-hard-irqs;
// PREFER_BUSY_POLL; netpoll; switching between threaded and softirq mode at run time; nocb, nohz_full, rcuc threads,
// kthread_prio and boosting; callback floods (all ready callbacks run in one go, so no blimit); the special.need_qs
// help of a reader older than a second under PREEMPT_RCU (it only sets need_resched); the irq_work probe of a
// holdout; EEVDF's arithmetic of lag; migration; the IPI of rcu_barrier (callbacks are entrained at once);
// TTWU_QUEUE; the kworker of CPUs other than 0, which is never late; reference counts that outlive rcu_barrier; the
// urgent request of a Tasks RCU scan. Tasks RCU watches the NAPI thread alone.
package model
