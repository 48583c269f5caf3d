// Package load keeps one NAPI busy: bounce holds a number of frames in a veth pair by XDP
// redirection, flood sends frames without a pace, paced on a schedule, windowed as many as arrive, tcp is a
// bulk transfer, external watches what comes from elsewhere, none leaves the machine idle. It also
// steers a load so that the NAPI stays in the band.
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
	// Loop is the variant of the thread's poll loop: Stock, or BusyPoll (after 6.18).
	Loop experiment.Loop
	// Spare is a CPU other than the one under test, for what must run beside the load. Where there is a third
	// CPU, that is the sender's.
	Spare int
	// Device is the real device that External watches.
	Device string
	// Preempts: the kernel preempts (rcu.Preemption.Preempts), so that a band controller must not take the
	// full-budget polls that follow a preemption for too much load.
	Preempts bool
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

// headerLen is the length of an Ethernet header, which an MTU doesn't count.
const headerLen = 14

// frame returns one of the load's frames, of size bytes: broadcast, from a locally administered address.
func frame(size int) []byte {
	f := make([]byte, size)
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

// senderCPU returns the CPU for what sends to the NAPI on CPU test: the highest one that is neither that nor the
// probes' spare, or the spare where there is no third. In softirq mode the NAPI runs where the frames come
// from: there it is test itself.
func senderCPU(test, spare int, online []int, threaded bool) int {
	if !threaded {
		return test
	}
	free := slices.DeleteFunc(slices.Clone(online), func(c int) bool { return c == test || c == spare })
	if len(free) == 0 {
		return spare
	}
	return slices.Max(free)
}
