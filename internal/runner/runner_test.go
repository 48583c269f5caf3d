package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/rundir"
)

// A fake is a backend whose trials take 10 s. acquire and run may say otherwise.
type fake struct {
	slots   int
	acquire func(arm string) error
	run     func(ctx context.Context, t experiment.Trial, emit func(experiment.Record) error) error
	close   func(arm string) error

	mu       sync.Mutex
	open     int      // targets that are not closed
	running  int      // trials under way
	most     int      // of them at once
	acquired []string // arms, as asked for
	ran      []string // trials, in the order in which they began
}

func (f *fake) Slots() int { return f.slots }

func (f *fake) Acquire(_ context.Context, arm experiment.Arm) (backend.Target, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acquired = append(f.acquired, arm.Name)
	if f.acquire != nil {
		if err := f.acquire(arm.Name); err != nil {
			return nil, err
		}
	}
	f.open++
	return &fakeTarget{f, arm.Name}, nil
}

type fakeTarget struct {
	f   *fake
	arm string
}

func (g *fakeTarget) Close() error {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.open--
	if g.f.close != nil {
		return g.f.close(g.arm)
	}
	return nil
}

func (g *fakeTarget) Run(ctx context.Context, t experiment.Trial, emit func(experiment.Record) error) error {
	f := g.f
	f.mu.Lock()
	f.ran = append(f.ran, t.ID())
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	if f.run != nil {
		return f.run(ctx, t, emit)
	}
	return tenSeconds(ctx, t, emit)
}

// tenSeconds is a trial without events: 4 s of boot, 6 s of hold with a sample of each second.
func tenSeconds(ctx context.Context, _ experiment.Trial, emit func(experiment.Record) error) error {
	if err := rest(ctx, 4*time.Second); err != nil {
		return err
	}
	if err := emit(experiment.Record{At: second(1), Phase: &experiment.Phase{Name: experiment.Hold, Expect: 6 * time.Second}}); err != nil {
		return err
	}
	for i := range 6 {
		if err := rest(ctx, time.Second); err != nil {
			return err
		}
		s := &experiment.Sample{Op: experiment.LinkDel, Start: second(1 + i), Took: time.Duration(i+1) * time.Millisecond}
		if err := emit(experiment.Record{At: second(2 + i), Sample: s}); err != nil {
			return err
		}
	}
	return emit(experiment.Record{End: &experiment.End{Outcome: experiment.Completed}})
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func second(n int) rcu.Ktime { return rcu.Ktime(n) * rcu.Ktime(time.Second) }

// planOf plans reps trials of each arm, in turn.
func planOf(reps int, names ...string) []experiment.Trial {
	var plan []experiment.Trial
	for rep := range reps {
		for _, name := range names {
			plan = append(plan, experiment.Trial{Index: len(plan), Rep: rep + 1, Arm: experiment.Arm{Name: name,
				Duration: 6 * time.Second, Probe: experiment.Probe{Op: experiment.LinkDel, Every: 250 * time.Millisecond}}})
		}
	}
	return plan
}

func ids(plan []experiment.Trial) []string {
	var s []string
	for _, t := range plan {
		s = append(s, t.ID())
	}
	return s
}

func create(t *testing.T, plan []experiment.Trial) *rundir.Dir {
	t.Helper()
	d, err := rundir.Create(filepath.Join(t.TempDir(), "run"), nil, rundir.Plan{Trials: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// closed fails the test if f has a target that was not closed or a trial that still runs.
func (f *fake) closed(t *testing.T) {
	t.Helper()
	if f.open != 0 || f.running != 0 {
		t.Errorf("%d targets open, %d trials running after Run", f.open, f.running)
	}
}

func partials(t *testing.T, d *rundir.Dir) []string {
	left, err := filepath.Glob(filepath.Join(d.Path(), "trials", ".*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestRunWalksThePlanInOrder(t *testing.T) {
	for _, slots := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			plan := planOf(3, "stock", "lazy")
			d, f, began := create(t, plan), &fake{slots: slots}, time.Now()
			result, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Result{Done: 6}, result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(ids(plan), d.Done()); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
			if slots < 2 {
				if diff := cmp.Diff(ids(plan), f.ran); diff != "" {
					t.Errorf("ran (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff([]string{"stock", "lazy"}, f.acquired[:2]); diff != "" {
				t.Errorf("looked at first (-want +got):\n%s", diff)
			}
			width := max(1, slots)
			if got, want := time.Since(began), time.Duration(60/width)*time.Second; got != want || f.most != width {
				t.Errorf("%d slots took %v with up to %d trials at once; want %v", slots, got, f.most, want)
			}
			f.closed(t)
		})
	}
}

// TestArmsAreLookedAtFirst: an arm that can't run is known before any trial starts, and the others go on.
func TestArmsAreLookedAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := planOf(2, "stock", "bare", "lazy")
		d, f := create(t, plan), &fake{}
		f.acquire = func(arm string) error {
			if arm != "bare" {
				return nil
			}
			if len(f.ran) > 0 {
				t.Errorf("looked at arm %s after %v", arm, f.ran)
			}
			return fmt.Errorf("kernel without BPF: %w", errors.ErrUnsupported)
		}
		result, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		notRun := []rundir.NotRun{{Arm: "bare", Reason: "kernel without BPF: unsupported operation"}}
		if diff := cmp.Diff(Result{Done: 4, NotRun: notRun}, result); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(notRun, d.NotRun()); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		if n := len(slices.DeleteFunc(f.acquired, func(s string) bool { return s != "bare" })); n != 1 {
			t.Errorf("asked for the arm %d times", n)
		}
		f.closed(t)
	})
}

func TestNoArmCanRun(t *testing.T) {
	plan := planOf(1, "a", "b", "c")
	d := create(t, plan)
	f := &fake{acquire: func(arm string) error {
		if arm == "b" {
			return fmt.Errorf("b is odd: %w", errors.ErrUnsupported)
		}
		return fmt.Errorf("no QEMU: %w", errors.ErrUnsupported)
	}}
	_, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
	want := "no arm can run here: a, c: no QEMU: unsupported operation; b: b is odd: unsupported operation"
	if !errors.Is(err, errors.ErrUnsupported) || err.Error() != want {
		t.Errorf("Run() = %v; want %q", err, want)
	}
	if len(f.ran) > 0 || len(d.NotRun()) != 3 {
		t.Errorf("ran %v, kept as not run %v", f.ran, d.NotRun())
	}
}

// TestFaults: each kind of error of a trial has its own consequence.
func TestFaults(t *testing.T) {
	machine := &backend.MachineError{Op: "boot", Err: syscall.ENOTSUP, Last: []string{"VFS: Cannot open root"}}
	wrong := &backend.WrongKernelError{Wish: "preempt=none", Got: "preempt=lazy"}
	other := errors.New("bug")
	for _, tt := range []struct {
		name    string
		fail    error // of the stock arm's trials
		tries   int   // of them that fail, the others work
		retries int
		ran     string // trials' indices
		want    Result
		aborted int   // tries kept
		err     error // that Run's matches
	}{
		{name: "machine, once", fail: machine, tries: 1, ran: "00123", want: Result{Done: 4}, aborted: 1},
		{name: "machine, wrapped", fail: fmt.Errorf("x: %w", machine), tries: 2, ran: "000123", want: Result{Done: 4}, aborted: 2},
		{name: "machine, always", fail: machine, tries: 99, ran: "00012223", want: Result{Done: 2, Aborted: []string{"000-stock-1", "002-stock-2"}}, aborted: 6},
		{name: "machine, no retries", fail: machine, tries: 99, retries: -1, ran: "0123", want: Result{Done: 2, Aborted: []string{"000-stock-1", "002-stock-2"}}, aborted: 2},
		{name: "wrong kernel", fail: wrong, tries: 99, ran: "013", aborted: 1, want: Result{Done: 2,
			NotRun: []rundir.NotRun{{Arm: "stock", Reason: "the kernel runs with preempt=lazy, the arm asks for preempt=none"}}}},
		{name: "unsupported", fail: fmt.Errorf("BPF refused: %w", errors.ErrUnsupported), tries: 99, ran: "013", aborted: 1, want: Result{Done: 2,
			NotRun: []rundir.NotRun{{Arm: "stock", Reason: "BPF refused: unsupported operation"}}}},
		{name: "other", fail: other, tries: 99, ran: "0", err: other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				plan := planOf(2, "stock", "lazy")
				d, f, failed := create(t, plan), &fake{}, 0
				f.run = func(ctx context.Context, tr experiment.Trial, emit func(experiment.Record) error) error {
					if tr.Arm.Name == "stock" && failed < tt.tries {
						failed++
						return errors.Join(emit(experiment.Record{Phase: &experiment.Phase{Name: experiment.Boot}}), tt.fail)
					}
					return tenSeconds(ctx, tr, emit)
				}
				result, err := (&Runner{Backend: f, Dir: d, Retries: tt.retries}).Run(t.Context(), plan)
				if !errors.Is(err, tt.err) || (err != nil) != (tt.err != nil) {
					t.Errorf("err = %v; want %v", err, tt.err)
				}
				if diff := cmp.Diff(tt.want, result); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				ran := ""
				for _, id := range f.ran {
					ran += id[2:3]
				}
				if ran != tt.ran {
					t.Errorf("ran %s; want %s", ran, tt.ran)
				}
				if got := d.Aborted(); len(got) != tt.aborted {
					t.Errorf("aborted tries: %v; want %d", got, tt.aborted)
				}
				if left := partials(t, d); len(left) > 0 {
					t.Errorf("left %v", left)
				}
				f.closed(t)
			})
		})
	}
}

// TestEveryTrialAborted: a run without any data is no success.
func TestEveryTrialAborted(t *testing.T) {
	plan := planOf(2, "stock")
	d := create(t, plan)
	f := &fake{run: func(context.Context, experiment.Trial, func(experiment.Record) error) error {
		return &backend.MachineError{Op: "boot", Err: errors.New("QEMU died"), Last: []string{"last words"}}
	}}
	result, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
	if _, ok := errors.AsType[*backend.MachineError](err); !ok || err.Error() != "every trial was aborted: boot: QEMU died" {
		t.Errorf("Run() = %v", err)
	}
	if len(result.Aborted) != 2 {
		t.Errorf("result %+v", result)
	}
	want := rundir.Aborted{Trial: "000-stock-1", Try: 3, Op: "boot", Error: "boot: QEMU died", Last: []string{"last words"}}
	if diff := cmp.Diff(want, d.Aborted()[2]); diff != "" {
		t.Errorf("third try (-want +got):\n%s", diff)
	}
}

// TestBadRecords: a target that says nothing is wrong but sent no end, or said that it failed, is retried.
func TestBadRecords(t *testing.T) {
	for _, tt := range []struct{ end *experiment.End }{{nil}, {&experiment.End{Outcome: experiment.Failed, Why: "no veth"}}} {
		plan := planOf(1, "stock")
		d, tries := create(t, plan), 0
		f := &fake{run: func(_ context.Context, _ experiment.Trial, emit func(experiment.Record) error) error {
			if tries++; tries > 1 {
				return emit(experiment.Record{End: &experiment.End{Outcome: experiment.Panicked}})
			}
			if tt.end == nil {
				return nil
			}
			_ = emit(experiment.Record{End: tt.end}) // as a careless backend
			return nil
		}}
		result, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
		if err != nil || result.Done != 1 || len(d.Aborted()) != 1 {
			t.Errorf("first try ends with %v: %+v, %v, aborted %v", tt.end, result, err, d.Aborted())
		}
	}
}

func TestArmIsLookedAtAgain(t *testing.T) {
	plan := planOf(1, "stock")
	broken := &backend.MachineError{Op: "fetch", Err: errors.New("connection reset")}
	for failures, ok := range map[int]bool{2: true, 3: false} {
		synctest.Test(t, func(t *testing.T) {
			d, n := create(t, plan), 0
			f := &fake{acquire: func(string) error {
				if n++; n <= failures {
					return broken
				}
				return nil
			}}
			result, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
			if ok && (err != nil || result.Done != 1) || !ok && (!errors.Is(err, broken) || len(f.ran) > 0) {
				t.Errorf("%d failures: %+v, %v, ran %v", failures, result, err, f.ran)
			}
		})
	}
}

// TestCloseFails: what a target leaves behind could disturb the trials that follow.
func TestCloseFails(t *testing.T) {
	plan := planOf(2, "stock")
	d := create(t, plan)
	closed := 0
	f := &fake{close: func(string) error {
		if closed++; closed == 2 {
			return fmt.Errorf("qemu 123 still runs: %w", errors.ErrUnsupported) // whatever it matches
		}
		return nil
	}, run: func(_ context.Context, _ experiment.Trial, emit func(experiment.Record) error) error {
		return emit(experiment.Record{End: &experiment.End{Outcome: experiment.Completed}})
	}}
	result, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
	if err == nil || !strings.Contains(err.Error(), "close target of trial 000-stock-1: qemu 123 still runs") {
		t.Errorf("Run() = %v", err)
	}
	if result.Done != 1 || len(d.Done()) != 1 || len(f.ran) != 1 {
		t.Errorf("%+v, done %v, ran %v; want the finished trial kept and no other run", result, d.Done(), f.ran)
	}
}

// TestInterrupt stops a run in each of its phases; going on then gives each trial once.
func TestInterrupt(t *testing.T) {
	for _, slots := range []int{1, 2} {
		for _, at := range []int{0, 4, 9, 10, 16, 20, 29, 39, 40} {
			synctest.Test(t, func(t *testing.T) {
				plan := planOf(2, "stock", "lazy")
				d, f := create(t, plan), &fake{slots: slots}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(at)*time.Second+500*time.Millisecond)
				defer cancel()
				first, err := (&Runner{Backend: f, Dir: d}).Run(ctx, plan)
				if want := at < 40/slots; errors.Is(err, context.DeadlineExceeded) != want {
					t.Fatalf("stopped after %d s: %v", at, err)
				}
				if want := min(4, at/10*slots); first.Done != want || len(d.Done()) != want {
					t.Errorf("stopped after %d s: %+v, kept %v; want %d", at, first, d.Done(), want)
				}
				if len(d.Aborted()) > 0 || len(partials(t, d)) > 0 {
					t.Errorf("aborted %v, left %v", d.Aborted(), partials(t, d))
				}
				f.closed(t)

				f.ran = nil
				second, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
				if err != nil || second.Skipped != first.Done || first.Done+second.Done != 4 || len(f.ran) != second.Done {
					t.Errorf("gone on: %+v, %v, ran %v", second, err, f.ran)
				}
				if diff := cmp.Diff(ids(plan), d.Done()); diff != "" {
					t.Errorf("done (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestInterruptedMachine: what breaks because we stop it is neither retried nor kept as aborted, and
// what it left behind is told.
func TestInterruptedMachine(t *testing.T) {
	for _, busy := range []error{nil, errors.New("rm /tmp/x: busy")} {
		plan := planOf(1, "stock")
		d := create(t, plan)
		ctx, cancel := context.WithCancel(t.Context())
		f := &fake{run: func(context.Context, experiment.Trial, func(experiment.Record) error) error {
			cancel()
			return &backend.MachineError{Op: "run", Err: errors.New("QEMU was killed")}
		}, close: func(string) error {
			if ctx.Err() != nil {
				return busy
			}
			return nil
		}}
		_, err := (&Runner{Backend: f, Dir: d}).Run(ctx, plan)
		want := "stopped: context canceled"
		if busy != nil {
			want += ": close target of trial 000-stock-1: " + busy.Error()
		}
		if !errors.Is(err, context.Canceled) || err.Error() != want || len(d.Aborted()) > 0 || len(f.ran) != 1 {
			t.Errorf("Run() = %v; want %s; aborted %v, ran %v", err, want, d.Aborted(), f.ran)
		}
	}
}

// TestFatalErrorStopsTheOthers: with two slots, an error that ends the run ends the other's trial.
func TestFatalErrorStopsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, bug := planOf(3, "stock", "lazy"), errors.New("bug")
		d, f, began := create(t, plan), &fake{slots: 2}, time.Now()
		f.run = func(ctx context.Context, tr experiment.Trial, emit func(experiment.Record) error) error {
			if tr.Index == 3 {
				return bug
			}
			return tenSeconds(ctx, tr, emit)
		}
		result, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
		if !errors.Is(err, bug) || !strings.Contains(err.Error(), "003-lazy-2") || result.Done != 2 || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %+v, %v", time.Since(began), result, err)
		}
		f.closed(t)
	})
}

// TestDiskFails: a record that can't be kept ends the run at once, whatever a backend makes of it.
func TestDiskFails(t *testing.T) {
	plan := planOf(2, "stock")
	d := create(t, plan)
	f := &fake{run: func(_ context.Context, _ experiment.Trial, emit func(experiment.Record) error) error {
		end := experiment.Record{End: &experiment.End{Outcome: experiment.Completed}}
		if err := errors.Join(emit(end), emit(end)); err != nil { // the second can't be kept
			return &backend.MachineError{Op: "pass on records", Err: errors.New("refused")}
		}
		return nil
	}}
	_, err := (&Runner{Backend: f, Dir: d}).Run(t.Context(), plan)
	if err == nil || !strings.Contains(err.Error(), "keep trial 000-stock-1") || len(f.ran) != 1 || len(d.Done()) != 0 {
		t.Errorf("Run() = %v, ran %v, done %v", err, f.ran, d.Done())
	}
}
