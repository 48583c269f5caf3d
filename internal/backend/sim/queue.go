package sim

import "math"

// A queue holds one instant for each of a fixed number of slots and gives the earliest. Of two slots with the
// same instant the lower number comes first, so that a run never depends on the order in which instants were
// set. Nothing is allocated after newQueue.
//
// It is a tournament: a complete binary tree whose leaves are the slots and whose nodes hold the lesser of their
// children. Instant and slot are one word, instant first, so that the lesser of two is one comparison without
// a branch, and a tie decides itself.
type queue struct {
	node [2 * slots]uint64 // node[1] is the winner, node[slots+i] slot i's own
}

const (
	slotBits = 5
	slots    = 1 << slotBits
	// never is the instant of a slot that is not set: later than any that is. Instants have 58 bits, nine years.
	never = math.MaxInt64 >> slotBits
)

// newQueue returns a queue without an instant set.
func newQueue() *queue {
	q := new(queue)
	q.reset()
	return q
}

// reset unsets every slot.
func (q *queue) reset() {
	for i := range slots {
		q.node[slots+i] = never<<slotBits | uint64(i)
	}
	for i := slots - 1; i >= 1; i-- {
		q.node[i] = min(q.node[2*i], q.node[2*i+1])
	}
}

// set gives slot the instant at, from 0 to never.
func (q *queue) set(slot int, at int64) {
	i := slots + slot&(slots-1)
	key := uint64(at)<<slotBits | uint64(slot)
	q.node[i] = key
	// On the way up the lesser key stays in a register, and only siblings are read, which were not just written.
	// Unrolled, slotBits levels: it is what a run spends its time on beside the model's own steps.
	key = min(key, q.node[i^1])
	i >>= 1
	q.node[i] = key
	key = min(key, q.node[i^1])
	i >>= 1
	q.node[i] = key
	key = min(key, q.node[i^1])
	i >>= 1
	q.node[i] = key
	key = min(key, q.node[i^1])
	i >>= 1
	q.node[i&3] = key
	q.node[1] = min(key, q.node[i&3^1])
}

// unset takes slot's instant away.
func (q *queue) unset(slot int) { q.set(slot, never) }

// at returns slot's instant, never when it is not set.
func (q *queue) at(slot int) int64 { return int64(q.node[slots+slot&(slots-1)] >> slotBits) }

// next returns the earliest slot and its instant, which is never when none is set.
func (q *queue) next() (slot int, at int64) {
	return int(q.node[1] & (slots - 1)), int64(q.node[1] >> slotBits)
}
