// Package backendtest is the contract of a backend.Backend as a test: each backend's own tests run it
// against a short arm.
package backendtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
)

// Run checks what every backend promises, with Retry's patience. New is called once per subtest and makes the backend; what it
// needs, it asks of that subtest. Arm has a duration of a few seconds at most, since several of its
// trials are run, and can be run by the backend to the end.
func Run(t *testing.T, new func(*testing.T) backend.Backend, arm experiment.Arm) {
	t.Run("complete", func(t *testing.T) { complete(t, new, arm) })
	t.Run("cancelled before", func(t *testing.T) { cancelledBefore(t, new, arm) })
	t.Run("cancelled", func(t *testing.T) { cancelled(t, new, arm) })
	t.Run("emit refuses", func(t *testing.T) { emitRefuses(t, new, arm) })
}

// LiveArm bounces one frame on a live machine, for less than anybody there notices.
func LiveArm() experiment.Arm {
	return experiment.Arm{
		Name: "short", Kernel: backend.LiveKernel, VCPUs: 2, Threaded: true,
		Load:     experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: 500 * time.Millisecond, CPU: experiment.LastCPU},
		Probe:    experiment.Probe{Op: experiment.LinkDel, Device: "veth", Every: 50 * time.Millisecond},
		Duration: 800 * time.Millisecond,
	}
}

// acquire returns a target in a surrounding that is checked for leftovers when the test ends.
func acquire(t *testing.T, new func(*testing.T) backend.Backend, arm experiment.Arm) backend.Target {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before := children(t)
	b := new(t)
	if n := b.Slots(); n < 1 {
		t.Errorf("Slots() = %d; want at least 1", n)
	}
	target, err := b.Acquire(t.Context(), arm)
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := target.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		for pid := range children(t) {
			if !before[pid] {
				t.Errorf("process %s is left", pid)
			}
		}
		left, err := os.ReadDir(tmp)
		if err != nil || len(left) > 0 {
			t.Errorf("left in the temporary directory: %v, %v", left, err)
		}
	})
	return target
}

// children returns the processes that this one has started and that are still there.
func children(t *testing.T) map[string]bool {
	t.Helper()
	pids := make(map[string]bool)
	if runtime.GOOS != "linux" {
		return pids
	}
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, pid := range strings.Fields(string(text)) {
			pids[pid] = true
		}
	}
	return pids
}

func trialOf(arm experiment.Arm, rep int) experiment.Trial {
	return experiment.Trial{Index: rep - 1, Rep: rep, Seed: 1, Arm: arm}
}

// complete runs two trials on one target, one after the other.
func complete(t *testing.T, new func(*testing.T) backend.Backend, arm experiment.Arm) {
	target := acquire(t, new, arm)
	for rep := 1; rep <= 2; rep++ {
		var recs []experiment.Record
		err := Retry(t, func() error {
			recs = nil
			return target.Run(t.Context(), trialOf(arm, rep), func(r experiment.Record) error {
				recs = append(recs, r)
				return nil
			})
		})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if err := Check(recs, arm); err != nil {
			t.Errorf("trial %d: %v", rep, err)
		}
		if end := recs[len(recs)-1].End; end != nil && end.Outcome != experiment.Completed {
			t.Errorf("trial %d ended as %s (%s); want completed", rep, end.Outcome, end.Why)
		}
	}
}

func cancelledBefore(t *testing.T, new func(*testing.T) backend.Backend, arm experiment.Arm) {
	target := acquire(t, new, arm)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := target.Run(ctx, trialOf(arm, 1), func(r experiment.Record) error {
		if r.End != nil {
			t.Error("an End after the context's end")
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v; want context.Canceled", err)
	}
}

// cancelled ends the context when the load begins.
func cancelled(t *testing.T, new func(*testing.T) backend.Backend, arm experiment.Arm) {
	target := acquire(t, new, arm)
	err := Retry(t, func() error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return target.Run(ctx, trialOf(arm, 1), func(r experiment.Record) error {
			if r.Phase != nil && r.Phase.Name == experiment.Hold {
				cancel()
			}
			if r.End != nil {
				t.Error("an End after the context's end")
			}
			return nil
		})
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Run = %v; want context.Canceled", err)
	}
}

// emitRefuses gives an error back for the second record, as a full disk does.
func emitRefuses(t *testing.T, new func(*testing.T) backend.Backend, arm experiment.Arm) {
	target := acquire(t, new, arm)
	full := errors.New("no space left")
	err := Retry(t, func() error {
		calls := 0
		return target.Run(t.Context(), trialOf(arm, 1), func(experiment.Record) error {
			if calls++; calls > 2 {
				t.Error("emit is called after it gave an error")
			}
			if calls == 2 {
				return fmt.Errorf("write: %w", full)
			}
			return nil
		})
	})
	if !errors.Is(err, full) {
		t.Errorf("Run = %v; want emit's error", err)
	}
}
