// Package check decides by explicit states whether a loop variant lets every wait end: it lets
// everything that can happen happen in every order, and looks for a run that is fair and yet leaves
// somebody waiting for ever.
package check

import (
	"math/bits"

	"github.com/napistall/napistall/internal/model"
)

// A Key is a packed state: two states are the same if and only if their keys are.
type Key = model.Key

// An Act names what happens on an edge: an event and how many packets come with it.
type Act uint16

// An Edge leads from the state that was asked to To.
type Edge struct {
	To    Key
	Marks uint64 // what this step did: bits that fairness, properties and invariants are stated in
	Act   Act
}

// A System is a finite graph that is found by asking. Its methods may be called from several goroutines
// at once, and answer the same to the same question.
type System interface {
	// Initial returns the state in which everything starts.
	Initial() Key
	// Next appends k's edges to out, always in the same order, and returns k's own marks.
	Next(k Key, out []Edge) (edges []Edge, marks uint64)
}

// hash spreads a key over 64 bits: each word meets a constant of its own in a full product, whose halves
// are folded (the construction of wyhash and its kin).
func hash(k *Key) uint64 {
	hi, lo := bits.Mul64(k[0]^0x9e3779b97f4a7c15, k[1]^0xd1b54a32d192ed03)
	h := hi ^ lo ^ k[0] ^ k[2]*0x8bb84b93962eacc9
	hi, lo = bits.Mul64(h, 0xaef17502108ef2d9)
	return hi ^ lo
}
