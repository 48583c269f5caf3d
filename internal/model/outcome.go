package model

import "strings"

// A Task is who runs on a CPU.
type Task uint8

// The tasks of CPU 0, then those of CPU 1.
const (
	Idle Task = iota
	NAPIThread
	Kworker
	Ksoftirqd
	User
	GPKthread
	ExpWorker
	Probe0
	Probe1
	Probe2

	numTasks = iota
)

var taskNames = [numTasks]string{
	"idle", "napi", "kworker", "ksoftirqd", "user", "rcu gp kthread", "rcu exp worker", "probe 0", "probe 1", "probe 2",
}

// String returns t's name.
func (t Task) String() string {
	if int(t) < len(taskNames) {
		return taskNames[t]
	}
	return "task ?"
}

// A StepID names what an event did: a micro-step after the kernel function that it is, an interrupt or the passing of
// time. A driver gives it a cost, a trace its name.
type StepID uint8

// The steps.
const (
	StepNone          StepID = iota // nothing: the event was not enabled
	StepWaitSet                     // napi_thread_wait: set_current_state
	StepWaitTest                    // napi_thread_wait: test SCHED_THREADED
	StepWaitSchedule                // napi_thread_wait: schedule
	StepLoopEntry                   // napi_threaded_poll_loop: last_qs, local_bh_disable
	StepPoll                        // __napi_poll: the driver's poll
	StepComplete                    // napi_complete_done
	StepUnmask                      // the driver unmasks, or veth_poll looks at its ring again
	StepBHEnable                    // __local_bh_enable_ip
	StepBHCheck                     // preempt_check_resched after the softirqs of local_bh_enable
	StepPeriodicQS                  // rcu_softirq_qs_periodic
	StepCondResched                 // __cond_resched
	StepBHDisable                   // local_bh_disable of a repoll
	StepNetRXPoll                   // net_rx_action: the driver's poll
	StepNetRXComplete               // net_rx_action: napi_complete_done
	StepNetRXUnmask                 // net_rx_action: the driver unmasks
	StepRCUCore                     // rcu_core, in softirq mode; else it belongs to the step that led to it (EffCore)
	StepSoftirqEnd                  // handle_softirqs: restart, or leave
	StepRunKsoftirqd                // run_ksoftirqd
	StepKworker                     // process_one_work: flush_backlog
	StepKworkerSleep                // worker_thread: schedule
	StepIdleSchedule                // do_idle: schedule_idle
	StepGPInit                      // rcu_gp_init
	StepFQS                         // rcu_gp_fqs: one scan
	StepGPCleanup                   // rcu_gp_cleanup
	StepExpSelect                   // __sync_rcu_exp_select_node_cpus
	StepExpEnd                      // rcu_exp_wait_wake
	StepProbe                       // a probe begins what its program says next
	StepExpFunnel                   // exp_funnel_lock: a probe got exp_mutex after another's grace period
	StepTick                        // update_process_times
	StepNICInterrupt                // the driver's interrupt handler
	StepArrive                      // packets arrive
	StepExpIPI                      // rcu_exp_handler
	StepReschedIPI                  // scheduler_ipi
	StepFQSTimer                    // process_timeout: the grace-period kthread wakes
	StepAge                         // time passed: an Age event, StallDue, Deadline
	StepExpStall                    // synchronize_rcu_expedited_wait: a stall report
	StepOtherQueue                  // another queue's interrupt or completion
	StepBegin                       // a probe starts a round
	StepProbeWake                   // a probe's timer
	StepOtherWork                   // somebody else's queue_work
	StepOtherCall                   // somebody else's call_rcu
	StepOther                       // process_one_work: somebody else's item

	numSteps = iota
)

var stepNames = [numSteps]string{
	"none", "napi_thread_wait: set_current_state", "napi_thread_wait: SCHED_THREADED", "napi_thread_wait: schedule",
	"napi_threaded_poll_loop", "__napi_poll", "napi_complete_done", "unmask", "local_bh_enable", "preempt_check_resched",
	"rcu_softirq_qs_periodic", "cond_resched", "local_bh_disable", "net_rx_action: poll", "net_rx_action: napi_complete_done",
	"net_rx_action: unmask", "rcu_core", "handle_softirqs", "run_ksoftirqd", "flush_backlog", "worker_thread: schedule",
	"schedule_idle", "rcu_gp_init", "rcu_gp_fqs", "rcu_gp_cleanup", "sync_rcu_exp_select_node_cpus", "rcu_exp_wait_wake", "probe",
	"exp_funnel_lock", "update_process_times", "irq handler", "arrival", "rcu_exp_handler", "scheduler_ipi", "process_timeout",
	"time", "synchronize_rcu_expedited_wait", "other queue", "begin", "probe timer",
	"queue_work", "call_rcu", "process_one_work",
}

// String returns the kernel function that the step is, or what passed.
func (s StepID) String() string {
	if int(s) < len(stepNames) {
		return stepNames[s]
	}
	return "step ?"
}

// NumSteps is how many StepIDs there are: for tables of costs.
const NumSteps = numSteps

// An Outcome is what an event did. (Four fields at each level: more, and the compiler keeps it in memory.)
type Outcome struct {
	Step StepID
	Where
	N       int32 // packets that the poll took, or that were dropped (EffDrop)
	Effects Effects
}

// Where is the context of a step.
type Where struct {
	CPU  uint8
	Task Task // who ran, or was interrupted; of a switch, who was switched away from
}

// Effects is a set of things that an event brought about, so that a driver need not compare states.
type Effects uint64

// The effects.
const (
	EffSchedule    Effects = 1 << iota // CPU 0 entered __schedule
	EffSwitchVol                       // … and switched: Outcome.Task went to sleep (its nvcsw)
	EffSwitchInvol                     // … and switched: Outcome.Task stayed runnable (its nivcsw)
	EffEntry                           // napi_threaded_poll_loop was entered
	EffPoll                            // the NAPI was polled; Outcome.N packets
	EffFullPoll                        // … and the poll used its whole weight
	EffSleep                           // the NAPI thread left the runqueue
	EffWake                            // the NAPI thread came back to the runqueue
	EffMissed                          // napi_complete_done found MISSED (window W0)
	EffReentry                         // napi_thread_wait found SCHED_THREADED: an entry without schedule()
	EffLine                            // the device's interrupt is now pending
	EffDrop                            // packets found the ring full; Outcome.N of them
	EffStamp                           // last_qs := jiffies
	EffSoftirq                         // softirqs ran; in softirq mode: a frame began, or ksoftirqd's
	EffNetRX                           // net_rx_action began
	EffSqueeze                         // net_rx_action left work over
	EffKsoftirqd                       // ksoftirqd was woken
	EffFull                            // need_resched was set on CPU 0 (it was clear)
	EffLazy                            // the lazy flag was set on CPU 0
	EffPromote                         // the tick turned the lazy flag into the full one
	EffReschedIPI                      // a reschedule IPI is on its way to CPU 0
	EffGPStart                         // a normal grace period started
	EffGPEnd                           // a normal grace period ended
	EffFQSTimer                        // the grace-period kthread sleeps until its next scan
	EffUrgent                          // a scan set CPU 0's rcu_urgent_qs
	EffHeavy                           // … and rcu_need_heavy_qs
	EffResched                         // a scan called resched_cpu for CPU 0
	EffNotice                          // CPU 0 noticed that a grace period started
	EffQSNote                          // CPU 0 noted a quiescent state that the normal grace period waits for
	EffQS0                             // CPU 0 was taken off the normal grace period's mask
	EffQS1                             // CPU 1 was
	EffExpStart                        // an expedited grace period started
	EffExpEnd                          // an expedited grace period ended
	EffExpIPI                          // an expedited IPI is on its way to CPU 0
	EffExpWanted                       // the IPI could not report: CPU 0 owes the report later
	EffExpQS                           // CPU 0 reported to the expedited grace period
	EffTasksQS                         // the NAPI thread was let go by Tasks RCU
	EffStallSelf                       // a stall report: self-detected on Outcome.CPU
	EffStallOther                      // a stall report: detected by Outcome.CPU; CPU 0 is the one that owes
	EffStallExp                        // a stall report: expedited; CPU 0 is the one that owes
	EffWork                            // the kworker ran an item
	EffCallbacks                       // callbacks ran on Outcome.CPU
	EffWait0                           // probe 0 began another wait: Model.ProbeOp
	EffWait1
	EffWait2
	EffDone0 // probe 0's round is over
	EffDone1
	EffDone2
	EffTimer0 // probe 0 sleeps until ProbeWake(0)
	EffTimer1
	EffTimer2
	EffCore // rcu_core ran on CPU 0

	effEnd
)

// ProbeWait is the effect that probe p began another wait.
func ProbeWait(p int) Effects { return EffWait0 << p }

// ProbeDone is the effect that probe p's round is over.
func ProbeDone(p int) Effects { return EffDone0 << p }

// ProbeTimer is the effect that probe p sleeps until ProbeWake(p).
func ProbeTimer(p int) Effects { return EffTimer0 << p }

var effectNames = [...]string{
	"schedule", "switch-vol", "switch-invol", "entry", "poll", "full-poll", "sleep", "wake", "missed", "reentry", "line", "drop", "stamp",
	"softirq", "net-rx", "squeeze", "ksoftirqd", "full", "lazy", "promote", "resched-ipi", "gp-start", "gp-end", "fqs-timer", "urgent",
	"heavy", "resched", "notice", "qs-note", "qs0", "qs1", "exp-start", "exp-end", "exp-ipi", "exp-wanted", "exp-qs", "tasks-qs",
	"stall-self", "stall-other", "stall-exp", "work", "callbacks", "wait0", "wait1", "wait2", "done0", "done1", "done2", "timer0",
	"timer1", "timer2", "rcu-core",
}

// String lists the set's names.
func (f Effects) String() string {
	var names []string
	for i, name := range effectNames {
		if f>>i&1 != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}
