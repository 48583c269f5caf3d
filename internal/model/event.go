package model

import "math/bits"

// An Event is something that may happen next.
type Event uint8

// The events. Run, Tick, Begin and ProbeWake have a function that counts from zero.
const (
	Run0           Event = iota // CPU 0's next micro-step
	Run1                        // CPU 1's next step
	Tick0                       // timer interrupt of CPU 0: update_process_times
	Tick1                       // timer interrupt of CPU 1
	NICInterrupt                // the device's interrupt on CPU 0
	Arrive                      // n packets arrive; the step's n is at least 1
	ExpIPI                      // rcu_exp_handler on CPU 0
	ReschedIPI                  // scheduler_ipi on CPU 0
	FQSTimer                    // the grace-period kthread's sleep between scans ends
	AgeGP                       // young → urgent due (> jtsq) → heavy due (> 2·jtsq) → resched due (> T/2)
	AgeResched                  // jtsq passed since resched_cpu
	StallDue                    // jiffies_stall reached, for the CPU itself; the second one: for other CPUs, too
	ExpStallDue                 // the expedited stall timeout passed
	AgeStamp                    // more than HZ/10 passed since last_qs
	AgeSlice                    // the task on CPU 0 has used its slice
	AgeSoftirq                  // handle_softirqs has run for MAX_SOFTIRQ_TIME
	AgeNetRX                    // net_rx_action has run for netdev_budget_usecs
	Deadline                    // Veth: from now on packets are dropped instead of bounced
	OtherInterrupt              // AllQueues: another queue's interrupt masks this one
	OtherUnmask                 // AllQueues: another queue's completion unmasks this one
	Begin0                      // probe 0 starts a round
	Begin1
	Begin2
	ProbeWake0 // probe 0's timer
	ProbeWake1
	ProbeWake2
	OtherWork // Others: somebody else has work for CPU 0's kworker
	OtherCall // Others: … and a callback on CPU 1

	numEvents = iota
)

// Run is the next step of cpu (0 or 1).
func Run(cpu int) Event { return Run0 + Event(cpu) }

// Tick is the timer interrupt of cpu (0 or 1).
func Tick(cpu int) Event { return Tick0 + Event(cpu) }

// Begin starts a round of probe p.
func Begin(p int) Event { return Begin0 + Event(p) }

// ProbeWake ends the sleep of probe p.
func ProbeWake(p int) Event { return ProbeWake0 + Event(p) }

var eventNames = [numEvents]string{
	"run 0", "run 1", "tick 0", "tick 1", "nic interrupt", "arrive", "exp ipi", "resched ipi", "fqs timer", "age gp", "age resched",
	"stall due", "exp stall due", "age stamp", "age slice", "age softirq", "age net rx", "deadline", "other interrupt", "other unmask",
	"begin 0", "begin 1", "begin 2", "probe wake 0", "probe wake 1", "probe wake 2", "other work", "other call",
}

// String returns e's name.
func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return "event ?"
}

// Events is a set of events.
type Events uint32

// Has reports whether e is in the set.
func (s Events) Has(e Event) bool { return s>>e&1 != 0 }

// Next returns the first event of the set and the rest. It must not be empty.
func (s Events) Next() (Event, Events) {
	return Event(bits.TrailingZeros32(uint32(s))), s & (s - 1)
}

// Len counts the events of the set.
func (s Events) Len() int { return bits.OnesCount32(uint32(s)) }

func set(e Event) Events { return 1 << e }
