package model

// Next returns the step that Run(cpu) would take in s, and whose it is: what a driver prices before it lets it happen.
// StepNone if Run(cpu) is not enabled.
func (m *Model) Next(s *State, cpu int) (StepID, Task) { return StepNone, Idle }

// ProbeOp returns the operation that probe p is in, End if it is between rounds. SyncTasks shows as the operations
// that it consists of: SyncRCU, TasksScan, SyncRCU.
func (m *Model) ProbeOp(s *State, p int) Op { return End }

// Running reports whether probe p is within a round.
func (s *State) Running(p int) bool { return false }

// Current returns CPU 0's current task.
func (s *State) Current() Task { return s.curr }

// InSoftirq reports whether softirqs run on CPU 0, so that Run(0) is a step of theirs.
func (s *State) InSoftirq() bool { return s.frame != 0 }

// Packets returns how many packets wait in the ring; of a Veth, how many are in flight.
func (s *State) Packets() int { return int(s.ring) }

// Scheduled reports whether the NAPI has SCHED: somebody owes it a poll.
func (s *State) Scheduled() bool { return false }

// Line reports whether the device's interrupt is pending.
func (s *State) Line() bool { return false }

// Asleep reports whether the NAPI thread is off the runqueue.
func (s *State) Asleep() bool { return false }

// NeedResched reports CPU 0's full and lazy flags.
func (s *State) NeedResched() (full, lazy bool) { return false, false }

// GP reports whether a normal grace period is in progress, and whether one is in progress or asked for.
func (s *State) GP() (active, wanted bool) { return false, false }

// Exp reports whether an expedited grace period is in progress, and whether one is in progress or asked for.
func (s *State) Exp() (active, wanted bool) { return false, false }

// Owes reports whether CPU 0 owes a quiescent state to the normal and to the expedited grace period.
func (s *State) Owes() (normal, expedited bool) { return false, false }

// WorkPending reports whether CPU 0's kworker has an item to run.
func (s *State) WorkPending() bool { return s.work != 0 }

// Callbacks reports whether cpu (0 or 1) has callbacks that have not run.
func (s *State) Callbacks(cpu int) bool { return s.cbs[cpu] != 0 }

// Lost reports whether a wake-up was lost: the NAPI thread is off the runqueue, and owns its NAPI; or nobody owns the
// NAPI, the ring has packets, and neither an interrupt is pending nor the mask of another queue explains it.
func (m *Model) Lost(s *State) bool { return false }

// String describes s in the kernel's words, for whoever debugs a driver.
func (s *State) String() string { return "" }
