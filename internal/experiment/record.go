package experiment

import (
	"time"

	"github.com/napistall/napistall/internal/rcu"
)

// A Record is one thing that a trial reported. Exactly one of the pointers is set. A stream of
// records ends with an End; one that stops before it is cut.
type Record struct {
	N  int       `json:"n"`            // number in the emitter's stream, from 0; a gap is a loss
	At rcu.Ktime `json:"at,omitempty"` // when, on the target's clock; 0 for what the host adds

	Command  *Command  `json:"command,omitempty"`
	Console  *Console  `json:"console,omitempty"`
	Facts    *Facts    `json:"facts,omitempty"`
	Phase    *Phase    `json:"phase,omitempty"`
	Sample   *Sample   `json:"sample,omitempty"`
	Counters *Counters `json:"counters,omitempty"`
	Kmsg     *Kmsg     `json:"kmsg,omitempty"`
	Loss     *Loss     `json:"loss,omitempty"`
	End      *End      `json:"end,omitempty"`
}

// A Command is the exact command that started the target.
type Command struct {
	Argv []string `json:"argv"`
	// Accel is what runs the target's instructions: kvm, tcg, none (the live machine) or model.
	Accel string `json:"accel,omitempty"`
}

// A Console is a piece of what the target printed on its console, as it came: a piece may begin or
// end within a line.
type Console struct {
	Text string `json:"text"`
}

// Facts say what a target is, as it reports itself. Every trial has them: what was wished for is in
// the arm. A field that could not be read is at its zero value, and Unknown names it.
type Facts struct {
	Kernel    string         `json:"kernel,omitempty"` // the spec that was booted, where the arm has alternatives
	Release   string         `json:"release"`          // uname -r
	Version   string         `json:"version"`          // uname -v
	Arch      string         `json:"arch"`             // uname -m
	Preempt   rcu.Preemption `json:"preempt,omitempty"`
	Dynamic   bool           `json:"dynamic"` // PREEMPT_DYNAMIC
	Flavor    rcu.Flavor     `json:"flavor,omitempty"`
	HZ        int            `json:"hz,omitempty"` // ticks per second
	CPUs      int            `json:"cpus"`         // online
	Cmdline   string         `json:"cmdline,omitempty"`
	ClockSrc  string         `json:"clocksource,omitempty"`
	StallSec  int            `json:"stall_sec,omitempty"`   // rcu_cpu_stall_timeout, seconds
	ExpMillis int            `json:"exp_millis"`            // rcu_exp_cpu_stall_timeout, ms; 0 follows StallSec
	Stacks    bool           `json:"stacks"`                // /proc/PID/stack can be read
	PollTrace bool           `json:"poll_trace"`            // polls are counted at napi:napi_poll
	Agent     string         `json:"agent,omitempty"`       // the agent's version
	Evidence  []string       `json:"evidence,omitempty"`    // "preempt: debugfs sched/preempt says (lazy)"
	Unknown   []string       `json:"unknown,omitempty"`     // names of fields that could not be read
	Config    []string       `json:"config,omitempty"`      // CONFIG_ lines that rcu.Decides, where the target or its package has them
	LoadCPU   int            `json:"load_cpu"`              // CPU under test
	ProbeCPU  int            `json:"probe_cpu"`             // CPU the agent and its probes are pinned to
	Thread    string         `json:"napi_thread,omitempty"` // comm of the NAPI thread under test
	ThreadPID int            `json:"napi_pid,omitempty"`    // its pid; 0 in softirq mode

	// Source and KconfigDiff are kimage.Image's, of a kernel that was built here.
	Source      string `json:"source,omitempty"`
	KconfigDiff string `json:"kconfig_diff,omitempty"`
}

// Phases of a trial, in order.
const (
	Boot  = "boot"  // until the agent's first record
	Setup = "setup" // devices, programs, pinning
	Hold  = "hold"  // the load is on
	Tail  = "tail"  // the load has ended, the probes go on
)

// A Phase says that the target entered a phase, and how long it should last.
type Phase struct {
	Name   string        `json:"name"`
	Expect time.Duration `json:"expect,omitempty"`
}

// A Sample is one timed operation.
type Sample struct {
	Op    string        `json:"op"`
	Start rcu.Ktime     `json:"start"`
	Took  time.Duration `json:"took"`
	// Censored: the trial ended while the operation was still blocked, so it took longer than Took.
	Censored bool `json:"censored,omitempty"`
	// Phase is the one in which the operation began: Hold or Tail.
	Phase string `json:"phase"`
	// Waits counts the stack samples of the blocked task, taken each StackEvery, by what it waited for.
	Waits map[rcu.Wait]int `json:"waits,omitempty"`
	// Runs are the same stack samples in their order, MaxRuns runs of them at most. An agent that did not keep
	// the order left it nil.
	Runs []WaitRun `json:"runs,omitempty"`
	// Stack is the newest stack seen while the operation took over 1 s: function names, innermost first.
	Stack []string `json:"stack,omitempty"`
	// Err is set when the operation itself was refused; Took then means nothing.
	Err string `json:"err,omitempty"`
}

// StackEvery is the interval at which a blocked probe's stack is sampled.
const StackEvery = 50 * time.Millisecond

// Counters are running totals since the load began, taken once a second.
type Counters struct {
	// Polls of the NAPI under test, and those of them that used the whole budget of 64; both from the
	// tracepoint napi:napi_poll when Traced, else Polls is Packets ÷ inflight and FullPolls is unknown (0).
	Traced    bool   `json:"traced"`
	Polls     uint64 `json:"polls"`
	FullPolls uint64 `json:"full_polls"`
	Packets   uint64 `json:"packets"` // received by the device under test
	// The NAPI thread's switches and run time; zero in softirq mode.
	Voluntary    uint64        `json:"voluntary"`
	Nonvoluntary uint64        `json:"nonvoluntary"`
	RunTime      time.Duration `json:"run_time"`
	Interrupts   uint64        `json:"interrupts"`   // on the CPU under test, /proc/interrupts
	SoftnetDone  uint64        `json:"softnet"`      // /proc/net/softnet_stat column 1, CPU under test
	SoftnetDrop  uint64        `json:"softnet_drop"` // column 2
	Squeezed     uint64        `json:"squeezed"`     // column 3
	InHold       bool          `json:"in_hold"`
	// What the load's sender has done, where it has one that counts: frames sent, those among them that did not arrive,
	// and the packets per second or the packets in flight that it is set to at this instant, which a band controller steers.
	Sent   uint64 `json:"sent,omitempty"`
	Lost   uint64 `json:"lost,omitempty"`
	Rate   int    `json:"rate,omitempty"`
	Window int    `json:"window,omitempty"`
}

// A Kmsg is one line of the target's kernel log as read from /dev/kmsg.
type Kmsg struct {
	Seq   uint64        `json:"seq"`
	Stamp time.Duration `json:"stamp"` // printk's time stamp, µs resolution
	Level int           `json:"level"` // 0 emergency … 7 debug
	Text  string        `json:"text"`
}

// A Loss says that something was missed, so that no number hides it.
type Loss struct {
	What  string `json:"what"` // "kmsg lines", "stack samples", "records"
	Count int    `json:"count"`
	Why   string `json:"why,omitempty"`
}

// How a trial ended.
const (
	Completed = "completed" // the agent measured to the end
	Panicked  = "panic"     // the kernel panicked: a result
	Silent    = "silent"    // the guest stopped answering past its time: cut, its blocked probes censored
	Failed    = "failed"    // the agent could not do its part: no result; only between agent and backend
)

// UnsupportedWhy begins the Why of a Failed end when the machine can't do what was asked, rather than
// that something broke.
const UnsupportedWhy = "unsupported: "

// An End closes a trial's records.
type End struct {
	Outcome string `json:"outcome"`
	Records int    `json:"records"`       // the emitter's records before this one
	Why     string `json:"why,omitempty"` // for Panicked and Silent: the evidence
	// HostWait is how long the target's CPUs, taken together, stood ready to run while the host's were busy
	// with others, from the start of the load on. Nothing measured here knows of it: to the target, its
	// own clock goes on. 0 where that can't be told.
	HostWait time.Duration `json:"host_wait,omitempty"`
}
