// Package load keeps one NAPI busy: bounce holds a number of frames in a veth pair by XDP
// redirection, flood sends frames without a pace, none leaves the machine idle.
package load

import (
	"errors"
	"fmt"
	"slices"

	"github.com/napistall/napistall/internal/experiment"
)

// Options say how a load is set up. The zero value is softirq mode in the caller's own network
// namespace, as in a guest that is thrown away.
type Options struct {
	// Threaded runs the poll in a kthread (/sys/class/net/*/threaded, since 5.12).
	Threaded bool
	// Isolate sets the load up in a network namespace of its own, as on a live host.
	Isolate bool
	// Spare is a CPU other than the one under test, for what must run beside the load.
	Spare int
}

// The names of a load's devices: frames are sent into sender and received by Device, whose NAPI is
// the one under test. Its kthread is called napi/vb-N.
const (
	sender = "va"
	Device = "vb"
)

// etherType marks the load's own frames: IEEE 802 local experimental 1. The XDP programs drop
// everything else, so that no neighbour discovery joins the loop.
const etherType = 0x88b5

// frameLen is the length of a load's frames: the shortest that Ethernet has, without its checksum.
const frameLen = 60

// frame returns one of the load's frames: broadcast, from a locally administered address.
func frame() []byte {
	f := make([]byte, frameLen)
	copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0, 0, 0x01, etherType >> 8, etherType & 0xff})
	return f
}

// CPUs returns the CPU under test that want names among those online, and the CPU for the agent
// and its probes: the lowest other one. A machine with one CPU is refused with an
// error that matches errors.ErrUnsupported.
func CPUs(want int, online []int) (test, spare int, err error) {
	if len(online) < 2 {
		return 0, 0, fmt.Errorf("%d CPU online, 2 are needed: the probe would share the CPU under test, be the stall's first victim "+
			"and measure nothing: %w", len(online), errors.ErrUnsupported)
	}
	test = want
	if want == experiment.LastCPU {
		test = slices.Max(online)
	}
	if !slices.Contains(online, test) {
		return 0, 0, fmt.Errorf("CPU %d is not online: the online ones are %v", want, online)
	}
	others := slices.DeleteFunc(slices.Clone(online), func(c int) bool { return c == test })
	return test, slices.Min(others), nil
}
