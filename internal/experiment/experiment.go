// Package experiment holds the study's plain data: what is asked (Experiment, Arm, Load, Probe),
// what is run (Trial), and what comes back (Record and its parts). It parses and validates
// experiment files and plans their trials; it touches no file, clock or process.
package experiment

import (
	"fmt"
	"time"

	"github.com/napistall/napistall/internal/rcu"
)

// An Experiment is a question and the arms that answer it.
type Experiment struct {
	Name     string `json:"name"`
	Question string `json:"question,omitempty"`
	Reps     int    `json:"reps"`            // trials of each arm that doesn't say, ≥ 1
	Seed     uint64 `json:"seed"`            // orders the trials; 0 is a seed like any other
	Quick    bool   `json:"quick,omitempty"` // shortened by Shorten
	// QuickHold is the longest hold that Shorten leaves, where the file states one.
	QuickHold time.Duration `json:"quick_hold,omitempty"`
	Arms      []Arm         `json:"arms"`
	// Expect holds the expectations in the order of the file. One that is not met makes exit status 3.
	Expect []Expectation `json:"expect,omitempty"`
	// Notes are remarks for whoever reads the result, printed with the table: what a kernel stands
	// in for, what the experiment can't show.
	Notes []string `json:"notes,omitempty"`
}

// An Arm is one set of conditions. Every field is filled in by Parse: defaults, the experiment's
// own load, probe and duration, and what like: inherits are resolved there.
type Arm struct {
	Name string `json:"name"`
	// Reps is the number of this arm's trials; 0 is the experiment's.
	Reps   int    `json:"reps,omitempty"`
	Kernel string `json:"kernel"` // a kimage spec: debian:…, deb:…, file:…, host, tree:…, debian-source:…; or a ModelKernel's
	// KernelElse are the kernels to take, in this order, where Kernel can't be had.
	KernelElse []string `json:"kernel_else,omitempty"`
	Config     Config   `json:"config,omitzero"`  // wishes for a kernel built from a tree
	Patch      []string `json:"patch,omitempty"`  // patches for a kernel built from a tree
	Boot       []string `json:"boot,omitempty"`   // kernel parameters, appended last
	VCPUs      int      `json:"vcpus"`            // virtual CPUs, ≥ 2; default 2
	Memory     int      `json:"memory,omitempty"` // MiB; 0 lets the backend choose
	// Preempt is the model wished for at run time. Under PREEMPT_DYNAMIC it becomes preempt= on the
	// command line; elsewhere the kernel must have it by itself. Empty: as the kernel boots.
	Preempt rcu.Preemption `json:"preempt,omitempty"`
	// Threaded is the NAPI mode of the device under load: true runs its poll in a kthread
	// (/sys/class/net/*/threaded, since 5.12), false in softirq. Default true.
	Threaded bool `json:"threaded"`
	// ModeAsIs: nothing is said of the mode, and the load is External: the device keeps the one that it has.
	ModeAsIs bool `json:"mode_as_is,omitempty"`
	// Loop is the variant of the poll loop. NeedsModel says which a real kernel can have.
	Loop Loop `json:"loop,omitempty"`
	// NIC is the device under load; zero for a load that has a device of its own kind.
	NIC NIC `json:"nic,omitzero"`
	// Model holds what only the simulator can be told.
	Model Model `json:"model,omitzero"`
	// StallTimeout and ExpStallTimeout are RCU's stall timeouts (rcupdate.rcu_cpu_stall_timeout,
	// whole seconds 3…300; rcupdate.rcu_exp_cpu_stall_timeout, milliseconds). Zero: the kernel's own.
	StallTimeout    time.Duration `json:"stall_timeout,omitempty"`
	ExpStallTimeout time.Duration `json:"exp_stall_timeout,omitempty"`
	Load            Load          `json:"load"`
	Probe           Probe         `json:"probe"`
	// Duration is how long the trial measures, from the start of the load; it is at least
	// Load.Hold. A probe still blocked at its end is censored. Default: Hold + 3 s, or 10 s without
	// a Hold.
	Duration time.Duration `json:"duration"`
}

// A LoadKind names a way to keep a NAPI busy.
type LoadKind string

// The loads. Bounce keeps Inflight frames between a veth pair by XDP redirection; Flood sends
// frames through AF_PACKET without a pace, to be above the band. Paced is an open loop on an absolute
// schedule; Windowed a closed one with Window frames in flight; TCP a bulk transfer that ends at the device.
// Recorded repeats the arrivals of another trial; External is traffic that comes from elsewhere and is
// only measured. NoLoad is the idle control.
const (
	Bounce   LoadKind = "bounce"
	Flood    LoadKind = "flood"
	Paced    LoadKind = "paced"
	Windowed LoadKind = "windowed"
	TCP      LoadKind = "tcp"
	Recorded LoadKind = "recorded"
	External LoadKind = "external"
	NoLoad   LoadKind = "none"
)

// MinEntries is the rate of polls per second from which a load counts as one. The report's board
// entered the loop 12,069 times a second where it stalled and 2,624 times under LAZY
// (docs/mechanism.md), a bounce hundreds of thousands of times; a line that idles, some tens.
const MinEntries = 1000

// HoldBand, as a load's Band, asks for a controller that keeps the NAPI in the band.
const HoldBand = "hold"

// A Load says what keeps the NAPI under test busy, and for how long.
type Load struct {
	Kind LoadKind `json:"kind"`
	// Inflight is Bounce's number of frames in the loop, 1…256, default 1. XDP flushes redirects in
	// bulks of 16 (DEV_MAP_BULK_SIZE), so up to 16 is in the band, more is above it.
	Inflight int `json:"inflight,omitempty"`
	// Rate is in packets per second. Paced needs one; to TCP it is a limit (0: none), and Recorded is
	// stretched to it (0: as recorded).
	Rate int `json:"rate,omitempty"`
	// Batch is how many packets Paced sends at each of its instants, 1…4096; default 1.
	Batch int `json:"batch,omitempty"`
	// Window is how many packets of Windowed or TCP are in flight at most, 1…65536; default 64.
	Window int `json:"window,omitempty"`
	// Size of a frame in bytes, its checksum not counted, 60…9000; default 60, of TCP 1514.
	Size int `json:"size,omitempty"`
	// RTT is the round trip of Windowed and TCP without any queueing; default 100 µs. On real machines
	// it is what it is.
	RTT time.Duration `json:"rtt,omitempty"`
	// From is what Recorded repeats: a run directory's trial ("RUN/TRIAL"), or a file of arrival instants,
	// one whole number of nanoseconds a line.
	From string `json:"from,omitempty"`
	// Band is HoldBand or empty.
	Band string `json:"band,omitempty"`
	// Hold is how long the load lasts; the BPF program's own deadline ends it. Default 30 s.
	Hold time.Duration `json:"hold,omitempty"`
	// CPU is where the load runs. LastCPU, the default, is the highest that is online.
	CPU int `json:"cpu"`
}

// A NIC is the device under a load that is not a bounce or a flood.
type NIC struct {
	// Ring is the number of receive descriptors, 1…65536; default 1024.
	Ring int `json:"ring"`
	// Moderation is the least time between two interrupts (ethtool's rx-usecs); 0 is off.
	Moderation time.Duration `json:"moderation"`
	// Latch: a cause of interrupts that arrives while it is masked fires when it is unmasked, as airoha_eth's
	// and e1000's do. Default true.
	Latch bool `json:"latch"`
	// MaskScope is PerQueue, the default, or AllQueues: one interrupt masks every queue, and any queue's
	// completion unmasks all (airoha_eth in 6.12).
	MaskScope string `json:"mask_scope"`
}

// The scopes of a NIC's interrupt mask.
const (
	PerQueue  = "per-queue"
	AllQueues = "all-queues"
)

// A Loop is a variant of napi_threaded_poll_loop.
type Loop string

// The variants. Stock is the kernel's own, which the word stock stands for in a file.
const (
	Stock                 Loop = ""
	YieldOnExit           Loop = "yield-on-exit"            // the patch: quiescent state and cond_resched() before the loop's break
	CondReschedOnly       Loop = "cond-resched-only"        // only cond_resched() before the break
	QSOnlyLocalStamp      Loop = "qs-only-local-stamp"      // only rcu_softirq_qs_periodic(), its stamp fresh at each entry
	QSOnlyPersistentStamp Loop = "qs-only-persistent-stamp" // the same with a stamp that outlives the entry
	BusyPoll              Loop = "busy-poll"                // threaded busy polling (after 6.18)
	BusyPollResetStamp    Loop = "busy-poll-reset-stamp"    // before the fix of CVE-2026-43385
	BacklogThread         Loop = "backlog-thread"           // backlog_napi/N (thread_backlog_napi, since 6.10)
)

const stockWord = "stock"

// Loops lists the variants other than Stock.
func Loops() []Loop {
	return []Loop{YieldOnExit, CondReschedOnly, QSOnlyLocalStamp, QSOnlyPersistentStamp, BusyPoll, BusyPollResetStamp, BacklogThread}
}

// A Model holds the knobs that only the simulator has.
type Model struct {
	// ReportCost is the CPU time that one stall report takes, with interrupts off, on the CPU that it
	// is about; 0 is none.
	ReportCost time.Duration `json:"report_cost,omitempty"`
	// Backlog: the CPU under test has packets in its backlog, so that flush_all_backlogs waits for its kworker.
	Backlog bool `json:"backlog,omitempty"`
	// User: a task that never sleeps shares the CPU under test.
	User  bool  `json:"user,omitempty"`
	Costs Costs `json:"costs,omitzero"`
}

// Costs are what things take, each time. Zero leaves the simulator's own.
type Costs struct {
	Entry     time.Duration `json:"entry,omitempty"`     // one entry into the poll loop
	Poll      time.Duration `json:"poll,omitempty"`      // one call of the driver's poll
	Packet    time.Duration `json:"packet,omitempty"`    // one packet in it
	Interrupt time.Duration `json:"interrupt,omitempty"` // one interrupt
	Unmask    time.Duration `json:"unmask,omitempty"`    // switching the interrupt on again
	Switch    time.Duration `json:"switch,omitempty"`    // one context switch
	Wake      time.Duration `json:"wake,omitempty"`      // one wake-up
	// Neighbour is the mean time from one moment at which somebody else wants the CPU under test to the next; Never
	// for nobody.
	Neighbour time.Duration `json:"neighbour,omitempty"`
}

// Never is a Neighbour that doesn't come.
const Never time.Duration = -1

// LastCPU asks for the highest online CPU: the lowest usually serves the console and the timers.
const LastCPU = -1

// The probe's operations. LinkDel is the one that is asked for; Membarrier (one normal grace
// period) and RCUBarrier (one rcu_barrier) run beside it once a second.
const (
	LinkDel    = "link-del"
	Membarrier = "membarrier"
	RCUBarrier = "rcu-barrier"
)

// A Probe is the operation that is timed again and again.
type Probe struct {
	Op     string `json:"op"`               // LinkDel, Membarrier or RCUBarrier; default LinkDel
	Device string `json:"device,omitempty"` // dummy, veth or vlan; default dummy; LinkDel only
	// Every is the pause between the end of one operation and the start of the next. Default 250 ms.
	Every time.Duration `json:"every"`
}

// A Trial is one run of one arm on one target.
type Trial struct {
	Index int    `json:"index"` // place in the plan, from 0
	Rep   int    `json:"rep"`   // repetition of its arm, from 1
	Seed  uint64 `json:"seed"`  // for whatever the trial draws at random
	Arm   Arm    `json:"arm"`
}

// ID names the trial within its run and is its folder's name: "003-stock-1".
func (t Trial) ID() string { return fmt.Sprintf("%03d-%s-%d", t.Index, t.Arm.Name, t.Rep) }
