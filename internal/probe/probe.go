// Package probe times operations that wait for the CPU under test (deleting a network device, a
// grace period, an rcu_barrier), says what a blocked one waits for, and counts what the NAPI does.
package probe

import (
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// Beside is the pause of the operations that run beside the one asked for: once a second.
const Beside = time.Second

// Every is the interval at which counters are read.
const Every = time.Second

// Options say what a probe does again and again.
type Options struct {
	experiment.Probe
	// Isolate lets link-del make its devices in a network namespace of its own, as on a live host.
	Isolate bool
}

// slow is from when on a sample keeps its newest stack.
const slow = time.Second
