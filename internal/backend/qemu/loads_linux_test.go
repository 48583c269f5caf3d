package qemu

import (
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// Every load of a veth pair comes up on Debian's kernel, from its modules, and moves packets; the windowed one, which
// is set far above the band, is steered into it and stays there.
func TestVMLoads(t *testing.T) {
	b := vm(t, "amd64")
	arm := shortArm("debian:trixie/amd64/cloud-amd64") // 6.12 can run with none
	arm.Preempt = rcu.None
	nic := experiment.NIC{Ring: 1024, Latch: true, MaskScope: experiment.PerQueue}
	for _, tt := range []struct {
		load experiment.Load
		in   int // seconds of the hold that must be in the band
	}{
		{experiment.Load{Kind: experiment.Paced, Rate: 500, Batch: 1, Size: 60, Hold: 3 * time.Second}, 0},
		{experiment.Load{Kind: experiment.TCP, Window: 16, Size: 1514, Hold: 3 * time.Second}, 0},
		{experiment.Load{Kind: experiment.Windowed, Window: 64, Size: 60, Band: experiment.HoldBand, Hold: 15 * time.Second}, 8},
	} {
		t.Run(string(tt.load.Kind), func(t *testing.T) {
			arm := arm
			arm.Load, arm.NIC = tt.load, nic
			arm.Load.CPU, arm.Duration = experiment.LastCPU, tt.load.Hold+2*time.Second
			checkFlow(t, trial(t, b, arm), tt.in)
		})
	}
}

// checkFlow checks that packets went through the whole hold, and that it was in the band for some of it.
func checkFlow(t *testing.T, recs []experiment.Record, in int) {
	t.Helper()
	var last experiment.Counters
	band := 0
	for _, r := range recs {
		c := r.Counters
		if c == nil || !c.InHold {
			continue
		}
		if !c.Traced || c.Packets < last.Packets {
			t.Errorf("counters %+v after %+v", c, last)
		}
		polls := c.Polls - last.Polls
		if polls >= experiment.MinEntries && c.Voluntary == last.Voluntary && c.FullPolls == last.FullPolls {
			band++
		}
		last = *c
	}
	if last.Packets < 100 || last.Sent < 100 {
		t.Errorf("%d packets arrived of %d sent; want a flow", last.Packets, last.Sent)
	}
	if band < in {
		t.Errorf("%d seconds in the band; want %d: window %d at the end", band, in, last.Window)
	}
}
