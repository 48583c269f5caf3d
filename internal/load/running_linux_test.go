package load

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/testenv"
)

// TestLoads runs each load for a moment on the machine that runs the test, in a network namespace of
// its own, until it goes on by itself: at once, unless the machine is busy, and far from every stall timeout.
func TestLoads(t *testing.T) {
	testenv.Need(t, testenv.Root)
	test, spare := cpus(t)
	const hold = 2 * time.Second
	for _, tt := range []struct {
		name     string
		load     experiment.Load
		threaded bool
	}{
		{"bounce", experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: hold}, true},
		{"bounce above the band", experiment.Load{Kind: experiment.Bounce, Inflight: 40, Hold: hold}, true},
		{"bounce in softirq", experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: hold}, false},
		{"flood", experiment.Load{Kind: experiment.Flood, Hold: hold}, true},
		{"flood in softirq", experiment.Load{Kind: experiment.Flood, Hold: hold}, false},
		{"paced", experiment.Load{Kind: experiment.Paced, Rate: 2000, Batch: 4, Size: 60, Hold: hold}, true},
		{"paced in softirq", experiment.Load{Kind: experiment.Paced, Rate: 2000, Batch: 1, Size: 1514, Hold: hold}, false},
		{"windowed", experiment.Load{Kind: experiment.Windowed, Window: 8, Size: 60, Hold: hold}, true},
		{"windowed in softirq", experiment.Load{Kind: experiment.Windowed, Window: 8, Size: 60, Hold: hold}, false},
		{"tcp", experiment.Load{Kind: experiment.TCP, Window: 16, Size: 1514, Hold: hold}, true},
		{"tcp at a rate in softirq", experiment.Load{Kind: experiment.TCP, Window: 16, Rate: 1000, Size: 576, Hold: hold}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Prepare(t.Context(), tt.load, test, Options{Threaded: tt.threaded, Isolate: true, Spare: spare})
			if errors.Is(err, errors.ErrUnsupported) {
				testenv.Lacks(t, testenv.Load, err.Error())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Stop(); err != nil {
					t.Error(err)
				}
			}()
			checkLoad(t, r, tt.threaded)
		})
	}
}

func checkLoad(t *testing.T, r *Running, threaded bool) {
	t.Helper()
	if got := r.Thread.PID != 0; got != threaded {
		t.Errorf("NAPI thread %+v; want one: %v", r.Thread, threaded)
	}
	if threaded {
		if cpus, err := machine.Affinity(r.Thread.PID); err != nil || len(cpus) != 1 || cpus[0] != r.CPU {
			t.Errorf("%s may run on %v, %v; want %d", r.Thread.Comm, cpus, err, r.CPU)
		}
	}
	if n := received(t, r); n != 0 {
		t.Errorf("%d packets before the start; want 0", n)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.Deadline.Sub(r.Begin); got != r.Load.Hold {
		t.Errorf("the load lasts %v; want %v", got, r.Load.Hold)
	}
	want := uint64(r.Load.Inflight + 1) // it goes on by itself: more than were put in
	for received(t, r) < want && r.left() > 0 {
	}
	if n := received(t, r); n < want {
		t.Errorf("%d packets when the load ended; want %d", n, want)
	}
	if l, err := netlink.LinkByName(Device); err == nil {
		t.Errorf("the load's device is in the namespace of the test: %v", l.Attrs())
	}
}

func received(t *testing.T, r *Running) uint64 {
	t.Helper()
	n, err := r.Packets()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestStopBeforeTheDeadline(t *testing.T) {
	testenv.Need(t, testenv.Root)
	test, spare := cpus(t)
	l := experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: 2 * time.Second}
	r, err := Prepare(t.Context(), l, test, Options{Threaded: true, Isolate: true, Spare: spare})
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Lacks(t, testenv.Load, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	threads, err := machine.Source{}.Threads(r.Thread.Comm)
	if err != nil || len(threads) > 0 {
		t.Errorf("after Stop: threads %v, %v; want none", threads, err)
	}
}

func TestNoLoad(t *testing.T) {
	r, err := Prepare(t.Context(), experiment.Load{Kind: experiment.NoLoad}, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := r.Packets(); n != 0 || err != nil || r.Begin == 0 || r.Deadline != r.Begin {
		t.Errorf("no load: %d packets, %v, from %d to %d", n, err, r.Begin, r.Deadline)
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	if _, err := Prepare(t.Context(), experiment.Load{Kind: "storm"}, 1, Options{}); err == nil || !strings.Contains(err.Error(), "want one of [bounce") {
		t.Errorf("Prepare of an unknown load: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Prepare(ctx, experiment.Load{Kind: experiment.NoLoad}, 1, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Prepare after the end: %v", err)
	}
}
