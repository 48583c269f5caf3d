package sim

import "github.com/napistall/napistall/internal/model"

// frees is for how many of a neighbour's moments there is one at which it calls call_rcu: so many that rcu_barrier finds
// nothing to wait for about as often as in guests under TCG, where it came back at once in 92 of 186 calls.
const frees = 5

// neighbour gives CPU 0's kworker an item of somebody else's: what a machine has besides the load and the probe wants each
// CPU now and then, and frees what RCU waits for. While an item waits, another changes nothing.
func (e *engine) neighbour() {
	e.q.set(slotNeighbour, e.now+max(1, e.rnd.exponential(e.p.neighbour)))
	if e.rnd.below(frees) == 0 {
		e.fast.stirs++
		e.elsewhere(model.OtherCall)
	}
	if e.s.OtherPending() {
		return
	}
	e.fast.stirs++
	e.ageSlice()
	e.elsewhere(model.OtherWork)
}

// The other queues of a device whose mask they share: otherRate of their interrupts a second, exponentially apart, each
// followed by a completion otherPoll later. A guess: no board has said.
const (
	otherRate = 1000
	otherPoll = 50 * microsecond
)

// otherQueue lets another queue's interrupt or completion happen.
func (e *engine) otherQueue() {
	e.sync()
	ev, wait := model.OtherInterrupt, otherPoll
	if e.dev.masked {
		ev, wait = model.OtherUnmask, e.rnd.exponential(second/otherRate)
	}
	e.dev.masked = !e.dev.masked
	e.q.set(slotOther, e.now+wait)
	e.elsewhere(ev)
	e.awaitArrival()
}
