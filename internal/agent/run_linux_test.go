package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/testenv"
	"github.com/napistall/napistall/internal/wire"
)

// home puts the process back on its CPUs after the test: Run leaves it pinned.
func home(t *testing.T) {
	t.Helper()
	cpus, err := machine.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := machine.PinProcess(cpus...); err != nil {
			t.Error(err)
		}
	})
}

func request() wire.Request { return wire.Request{Trial: trial()} }

func trial() experiment.Trial {
	return experiment.Trial{Rep: 1, Arm: experiment.Arm{
		Name: "stock", Threaded: true, Duration: 700 * time.Millisecond,
		Load:  experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: 400 * time.Millisecond, CPU: experiment.LastCPU},
		Probe: experiment.Probe{Op: experiment.LinkDel, Device: "veth", Every: 20 * time.Millisecond},
	}}
}

// TestRunHere runs a whole trial on this machine, for less than a second and in namespaces of its own.
func TestRunHere(t *testing.T) {
	testenv.Need(t, testenv.Root)
	home(t)
	var facts, samples, counters int
	var phases []string
	var last experiment.Record
	var packets uint64
	err := Run(t.Context(), request(), func(r experiment.Record) error {
		switch {
		case r.Facts != nil:
			facts++
		case r.Phase != nil:
			phases = append(phases, r.Phase.Name)
		case r.Sample != nil:
			samples++
			if s := r.Sample; s.Err != "" || s.Took <= 0 || (s.Phase != experiment.Hold && s.Phase != experiment.Tail) {
				t.Errorf("sample %+v", s)
			}
		case r.Counters != nil:
			counters++
			packets = r.Counters.Packets
		}
		if last.End != nil {
			t.Errorf("a record after the end: %+v", r)
		}
		last = r
		return nil
	})
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Lacks(t, testenv.Load, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	if last.End == nil || last.End.Outcome != experiment.Completed {
		t.Errorf("the last record is %+v; want a completed end", last)
	}
	if facts != 2 || samples < 3 || counters < 3 || packets < 1000 {
		t.Errorf("%d facts, %d samples, %d counters, %d packets; want 2, ≥ 3, ≥ 3, ≥ 1000", facts, samples, counters, packets)
	}
	if len(phases) != 3 || phases[0] != experiment.Setup || phases[1] != experiment.Hold || phases[2] != experiment.Tail {
		t.Errorf("phases %q", phases)
	}
	if left, err := (machine.Source{}).Threads("napi/vb-"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	testenv.Need(t, testenv.Root)
	home(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, request(), func(r experiment.Record) error {
		if r.Phase != nil && r.Phase.Name == experiment.Hold {
			cancel()
		}
		if r.End != nil {
			t.Errorf("an end, although it was stopped: %+v", r.End)
		}
		return nil
	})
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Lacks(t, testenv.Load, err.Error())
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v; want context.Canceled", err)
	}
}

func TestRunReturnsEmitsError(t *testing.T) {
	testenv.Need(t, testenv.Root)
	home(t)
	full := errors.New("disk full")
	err := Run(t.Context(), request(), func(experiment.Record) error { return full })
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Lacks(t, testenv.Load, err.Error())
	}
	if !errors.Is(err, full) {
		t.Errorf("Run = %v; want emit's error", err)
	}
}
