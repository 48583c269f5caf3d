package model

// A State is one state of the model. The zero State is none: use Model.Initial.
type State struct {
	cpu    uint16 // CPU 0: bits c…
	napi   uint16 // NAPI, its thread and its device: bits n…
	ring   uint16 // packets in the ring
	pc     uint8  // NAPI thread's next micro-step
	curr   Task   // CPU 0's current task
	run    uint8  // CPU 0's runnable tasks, 1<<Task
	rr     Task   // the last of the round robin that was picked
	frame  uint8  // softirq frame on CPU 0: kind
	fpc    uint8  // … its next micro-step
	todo   uint8  // … vectors that this round has still to run
	pend   uint8  // vectors pending on CPU 0
	rounds uint8  // … rounds left
	run1   uint8  // CPU 1's runnable kthreads
	budget uint16 // … what is left of netdev_budget
	gp     uint16 // normal grace period: bits g…
	rcu    [2]uint8
	cbs    [2]uint32
	cbx    [2]uint8
	qsmask uint8 // CPUs that the normal grace period waits for
	exp    uint8 // expedited grace period: bits x…
	work   uint8 // probes whose work item is queued on CPU 0
	rtnl   uint8 // 1 + the probe that holds it
	bar    uint8 // 1 + the probe that holds barrier_mutex | entrained callbacks still to run << 4
	probes [MaxProbes]probe
}

// A probe is one probe task: which operation of its program it is at, and how it waits.
type probe struct{ at, wait uint8 }
