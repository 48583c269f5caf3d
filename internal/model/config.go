package model

import "github.com/napistall/napistall/internal/rcu"

// MaxCPUs and MaxProbes bound a Config.
const (
	MaxCPUs   = 4
	MaxProbes = 3
)

// A Generation is a kernel release whose rules the model follows. The package comment says what was read and
// what is assumed.
type Generation uint8

// The generations.
const (
	V612 Generation = iota // Linux 6.12
	V618                   // Linux 6.18
	V73                    // Linux 7.3
)

// An Arch decides which preemption models a generation can be built with.
type Arch uint8

// The architectures.
const (
	AMD64 Arch = iota
	ARM64
	ARMHF // 32-bit arm: no lazy preemption, no PREEMPT_DYNAMIC
	MIPS  // like ARMHF
)

// A Loop is a variant of napi_threaded_poll_loop and its caller (net/core/dev.c).
type Loop uint8

// The loop variants. "Both calls" are rcu_softirq_qs_periodic and cond_resched.
const (
	Stock              Loop = iota // both calls on a repoll only
	YieldOnExit                    // both calls on every pass
	CondReschedOnly                // cond_resched on every pass, the periodic report on a repoll only
	QSLocalStamp                   // the periodic report on every pass with the stamp of this entry; cond_resched on a repoll only
	QSPersistentStamp              // the same with a stamp that outlives the entry
	BusyPoll                       // threaded busy poll (6.19): both calls on every pass, the stamp is the caller's
	BusyPollResetStamp             // the same with a stamp of this entry: CVE-2026-43385
	BacklogThread                  // backlog_napi/0 of smpboot_thread_fn with process_backlog; packets come from other CPUs
)

// A Device is what the polled NAPI belongs to.
type Device uint8

// The devices.
const (
	NIC  Device = iota // a ring, a mask, an interrupt
	Veth               // a veth whose XDP program bounces every packet back: reschedules itself from inside its poll
)

// Config chooses a variant of the model. The zero value is a stock loop under PREEMPT_NONE of 6.12 with two CPUs and
// no probe.
type Config struct {
	Generation Generation
	Arch       Arch
	// Preempt is the model in force, "" meaning none. Without Dynamic it is what the kernel was built with.
	Preempt rcu.Preemption
	// Dynamic is PREEMPT_DYNAMIC: built preemptible, told by preempt= to follow Preempt.
	Dynamic bool
	// PreemptCount is DEBUG_ATOMIC_SLEEP: PREEMPT_COUNT=y in a build without PREEMPTION. Others have it anyway.
	PreemptCount bool

	Loop    Loop
	Softirq bool   // threaded off: NET_RX polls; with Loop Stock only
	Device  Device // NIC by default
	// Latch: a cause that arrives while masked fires at unmask, even if its packets were polled meanwhile. Without
	// it the interrupt is a level, on while the ring has packets. NIC only.
	Latch bool
	// AllQueues: the mask is shared with other queues of the device, whose interrupt masks and whose completion
	// unmasks this one (airoha up to 6.12). NIC only.
	AllQueues bool

	Weight   uint16 // of the NAPI; default 64
	Ring     uint16 // descriptors; default 1024
	Bulk     uint16 // Veth: above this many packets in flight a poll refills itself (DEV_MAP_BULK_SIZE); default 16
	Budget   uint16 // softirq: netdev_budget; default 300
	Restarts uint8  // softirq: MAX_SOFTIRQ_RESTART; default 10, at most 15

	Backlog bool  // CPU 0 has backlog packets: flush_all_backlogs waits for its kworker
	User    bool  // a CPU-bound user task runs on CPU 0, too
	Others  bool  // others have work for CPU 0's kworker and callbacks on CPU 1, too: OtherWork, OtherCall. For a simulator: a checker has Work and Call
	CPUs    uint8 // 2 (default) to MaxCPUs

	// Programs are what each probe task waits for in one round.
	Programs [MaxProbes]Program

	// Break breaks rules of the model, for tests of whoever checks it.
	Break Break
}

// Break is a set of rules to break. It exists so that a checker can show that its verdicts depend on each rule. Where the
// kernel has a second rule to the same end, breaking one of them only makes a wait longer; the comment says which.
type Break uint32

// The rules that can be broken.
const (
	BreakScheduleNote Break = 1 << iota // __schedule notes no quiescent state
	BreakAllQS                          // rcu_all_qs ignores rcu_urgent_qs (the tick's need_resched comes a tick later)
	BreakPromotion                      // the tick doesn't make a lazy flag a full one
	BreakUnmask                         // unmasking doesn't fire what came while masked
	BreakMissed                         // napi_complete_done drops MISSED
	BreakFQSUrgent                      // the scan does nothing to a holdout: no urgent, no heavy, no resched_cpu
	BreakExpIPI                         // rcu_exp_handler neither sets need_resched nor rcu_urgent_qs
	BreakCoreReport                     // rcu_core doesn't report (without PREEMPT_RCU the heavy momentary EQS still does)
	BreakWakeLost                       // schedule() sleeps although a wake-up came after the test
	BreakCondResched                    // cond_resched ignores need_resched
	BreakBHCheck                        // local_bh_enable has no preemption check
	BreakIRQExit                        // interrupt exit has no preemption check (local_bh_enable has one at the latest)
	BreakTickUrgent                     // the tick clears rcu_urgent_qs and sets no flag (resched_cpu does past T/2)
	BreakNotice                         // CPU 0 never notices that a grace period started (see BreakCoreReport)
	BreakPickKworker                    // the pick passes over the kworker
	BreakFairFlag                       // neither wake-up nor tick sets a flag for a fair competitor
	BreakPeriodic                       // rcu_softirq_qs_periodic reports nothing
	BreakStamp                          // last_qs never grows old
	BreakAdvance                        // callbacks of a completed grace period are not advanced
	BreakKsoftirqd                      // handle_softirqs wakes no ksoftirqd at its limits
	BreakExpReport                      // an expedited quiescent state that was asked for later is not reported
	BreakCleanup                        // rcu_gp_cleanup starts no grace period that was asked for meanwhile
	BreakThreadWake                     // ____napi_schedule sets SCHED_THREADED and wakes nobody
	BreakEQS                            // the scan credits no CPU by its dyntick counter (ticks in idle still report)
	BreakTasks                          // a quiescent state for Tasks RCU is not noted

	breakEnd
)

// Breaks returns every single rule that Config.Break can break.
func Breaks() []Break {
	var out []Break
	for b := Break(1); b < breakEnd; b <<= 1 {
		out = append(out, b)
	}
	return out
}
