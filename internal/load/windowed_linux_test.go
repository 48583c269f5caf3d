package load

import (
	"errors"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/testenv"
)

// cpus returns the machine's last CPU, to test on, and one beside it.
func cpus(t *testing.T) (test, spare int) {
	t.Helper()
	f, err := machine.Read(machine.Source{})
	if err != nil {
		t.Fatal(err)
	}
	test, spare, err = CPUs(experiment.LastCPU, f.Online)
	if err != nil {
		testenv.Lacks(t, testenv.Load, err.Error())
	}
	return test, spare
}

// prepare sets a load up in namespaces of its own, and stops it when the test ends.
func prepare(t *testing.T, l experiment.Load, threaded bool) *Running {
	t.Helper()
	testenv.Need(t, testenv.Root)
	test, spare := cpus(t)
	r, err := Prepare(t.Context(), l, test, Options{Threaded: threaded, Isolate: true, Spare: spare})
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Lacks(t, testenv.Load, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// until waits for ok while the load lasts.
func until(t *testing.T, r *Running, what string, ok func() bool) {
	t.Helper()
	for r.left() > 0 {
		if ok() {
			return
		}
	}
	t.Fatalf("the load has ended without %s: %+v", what, r.Progress())
}

// Frames that get lost on the way are noticed, counted and replaced, and the loop goes on with as many as
// before: all of them lost at once, and some of them.
func TestWindowedRepairsLosses(t *testing.T) {
	const window = 8
	for _, threaded := range []bool{true, false} {
		r := prepare(t, experiment.Load{Kind: experiment.Windowed, Window: window, Size: 60, Hold: 10 * time.Second}, threaded)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, r, "a flow", func() bool { return r.Progress().Sent > 1000 })
		if n := r.Progress().Lost; n != 0 {
			t.Errorf("%d lost without a cause", n)
		}
		devmap := r.couple.consume.devmap.FD()
		for _, code := range []string{"drop", "consume"} {
			err := r.thread.do(func() error {
				if code == "drop" {
					return r.pair.attach(code, dropProgram(0))
				}
				return r.pair.attach(code, consumeProgram(devmap, nil))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		until(t, r, "the losses being found", func() bool { return r.Progress().Lost >= window })
		sent := r.Progress().Sent
		until(t, r, "going on", func() bool { return r.Progress().Sent > sent+1000 })
		p := r.Progress() // those that were put in before the exchange was over got lost, too
		until(t, r, "going on", func() bool { return r.Progress().Sent > p.Sent+1000 })
		if n := r.Progress().Lost; n != p.Lost || n > 10*window {
			t.Errorf("threaded %v: %d lost, and then %d; want no more", threaded, p.Lost, n)
		}
	}
}

// A window that is made smaller while the loop runs lets frames go, and gets them back when it grows; none is
// lost by that.
func TestWindowedFollowsItsWindow(t *testing.T) {
	r := prepare(t, experiment.Load{Kind: experiment.Windowed, Window: 40, Size: 60, Hold: 10 * time.Second}, true)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := make([]sighting, maxFrames)
	for _, window := range []int{40, 3, 12} {
		r.flow.window.Store(int64(window))
		until(t, r, "a round of the frames in the window", func() bool { return rounds(r, now, window) })
	}
	if p := r.Progress(); p.Lost != 0 || p.Window != 12 {
		t.Errorf("%+v; want none lost, window 12", p)
	}
}

// rounds reports whether each frame below window went round since the last call that reported so, and no other.
func rounds(r *Running, before []sighting, window int) bool {
	now := make([]sighting, maxFrames)
	r.couple.consume.read(now)
	timer := time.NewTimer(10 * time.Millisecond)
	<-timer.C
	r.couple.consume.read(before)
	for i := range now {
		if moved := before[i].taken > now[i].taken; moved != (i < window) {
			return false
		}
	}
	return true
}

// The controller turns the right knob the right way.
func TestSteerTurnsTheKnob(t *testing.T) {
	for _, tt := range []struct {
		load experiment.Load
		see  Observation // of one look
		more bool
		knob func(Progress) int
	}{
		{experiment.Load{Kind: experiment.Windowed, Window: 16, Size: 60}, Observation{Polls: 5000, Sleeps: 9}, true, func(p Progress) int { return p.Window }},
		{experiment.Load{Kind: experiment.Windowed, Window: 16, Size: 60}, Observation{Polls: 5000, Full: 9}, false, func(p Progress) int { return p.Window }},
		{experiment.Load{Kind: experiment.Paced, Rate: 5000, Batch: 1, Size: 60}, Observation{Polls: 5000, Sleeps: 900}, true, func(p Progress) int { return p.Rate }},
		{experiment.Load{Kind: experiment.TCP, Window: 16, Size: 1514}, Observation{Polls: 5000, Full: 9}, false, func(p Progress) int { return p.Window }},
		{experiment.Load{Kind: experiment.TCP, Window: 16, Rate: 5000, Size: 1514}, Observation{Polls: 5000, Sleeps: 9}, true, func(p Progress) int { return p.Rate }},
	} {
		l := tt.load
		l.Hold, l.Band = 5*time.Second, experiment.HoldBand
		r := prepare(t, l, true)
		var sum Observation
		r.Watch(func() (Observation, error) {
			sum = Observation{sum.Polls + tt.see.Polls, sum.Full + tt.see.Full, sum.Sleeps + tt.see.Sleeps, 0}
			return sum, nil
		})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		from := tt.knob(r.Progress())
		until(t, r, "a turn", func() bool { return tt.knob(r.Progress()) != from })
		if now := tt.knob(r.Progress()); (now > from) != tt.more {
			t.Errorf("%s, %+v: from %d to %d; want more: %v", l, tt.see, from, now, tt.more)
		}
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestHoldingTheBandNeedsEyes(t *testing.T) {
	r := prepare(t, experiment.Load{Kind: experiment.Windowed, Window: 4, Size: 60, Hold: time.Second, Band: experiment.HoldBand}, true)
	if err := r.Start(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Start without a Watch: %v; want ErrUnsupported", err)
	}
}

func TestPrepareRefusesWhatTheseDevicesCant(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, tt := range []struct {
		load   experiment.Load
		device string
	}{
		{experiment.Load{Kind: experiment.External}, ""},
		{experiment.Load{Kind: experiment.Windowed, Window: 257, Size: 60}, ""},
		{experiment.Load{Kind: experiment.TCP, Window: 4, Size: 60}, ""},
		{experiment.Load{Kind: experiment.Recorded, From: "x"}, ""},
		{experiment.Load{Kind: experiment.Paced, Rate: 1, Batch: 1, Size: 60}, "eth0"},
	} {
		if _, err := Prepare(t.Context(), tt.load, 1, Options{Threaded: true, Isolate: true, Device: tt.device}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Prepare %s on %q: %v; want ErrUnsupported", tt.load, tt.device, err)
		}
	}
}

// Busy polling is set or refused as unsupported, and a loop that no load here reaches is refused.
func TestLoops(t *testing.T) {
	testenv.Need(t, testenv.Root)
	l := experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: time.Second}
	for _, loop := range []experiment.Loop{experiment.BusyPoll, experiment.BacklogThread, experiment.YieldOnExit} {
		r, err := Prepare(t.Context(), l, 1, Options{Threaded: true, Isolate: true, Loop: loop})
		switch {
		case err == nil && loop == experiment.BusyPoll:
			if err := r.Stop(); err != nil {
				t.Error(err)
			}
		case !errors.Is(err, errors.ErrUnsupported):
			t.Errorf("loop %s: %v; want ErrUnsupported", loop, err)
		}
	}
}

// External only watches: the device's own count is what it reads.
func TestExternal(t *testing.T) {
	r, err := Prepare(t.Context(), experiment.Load{Kind: experiment.External, Hold: time.Second}, 0, Options{Device: "lo"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Device != "lo" || r.Ifindex != 1 || r.Thread.PID != 0 {
		t.Errorf("%+v", r)
	}
	if _, err := r.Packets(); err != nil {
		t.Error(err)
	}
	if err := r.Start(t.Context()); err != nil || r.Deadline.Sub(r.Begin) != time.Second {
		t.Errorf("Start: %v, lasts %v", err, r.Deadline.Sub(r.Begin))
	}
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := Prepare(t.Context(), experiment.Load{Kind: experiment.External}, 0, Options{Device: "nosuch0"}); err == nil {
		t.Error("a device that isn't there")
	}
}

// A paced load that is to hold the band keeps its thread from sleeping, however late the sender is now and then; without
// that, the thread sleeps as a habit.
func TestPacedHoldsItsThread(t *testing.T) {
	for _, band := range []string{experiment.HoldBand, ""} {
		r := prepare(t, experiment.Load{Kind: experiment.Paced, Rate: 20000, Batch: 1, Size: 60, Hold: 2 * time.Second, Band: band}, true)
		var polls uint64
		r.Watch(func() (Observation, error) { polls += 1e6; return Observation{Polls: polls}, nil })
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, r, "a flow", func() bool { return received(t, r) > 1000 })
		before, err := machine.Source{}.Usage(r.Thread.PID)
		if err != nil {
			t.Fatal(err)
		}
		first, after := received(t, r), before
		for r.left() > 0 {
			if after, err = (machine.Source{}).Usage(r.Thread.PID); err != nil {
				t.Fatal(err)
			}
		}
		packets, sleeps := received(t, r)-first, after.Voluntary-before.Voluntary
		t.Logf("band %q: %d packets, %d sleeps, %d nonvoluntary switches", band, packets, sleeps, after.Nonvoluntary-before.Nonvoluntary)
		if often := 110*sleeps > packets; packets == 0 || often != (band == "") {
			t.Errorf("band %q: %d packets and %d sleeps; want them often: %v", band, packets, sleeps, band == "")
		}
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	}
}
