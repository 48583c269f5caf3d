package backendtest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// A script is a backend whose trials always say the same, but for every second, which breaks if brittle.
type script struct {
	recs    []experiment.Record
	brittle bool
	broken  *int // trials that broke
	runs    *int
}

func (s script) Slots() int   { return 1 }
func (s script) Close() error { return nil }
func (s script) Acquire(context.Context, experiment.Arm) (backend.Target, error) {
	return s, nil
}

func (s script) Run(ctx context.Context, _ experiment.Trial, emit func(experiment.Record) error) error {
	if s.brittle {
		if *s.runs++; *s.runs%2 == 1 {
			*s.broken++
			return broke()
		}
	}
	for _, r := range s.recs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

func broke() error {
	return &backend.MachineError{Op: "boot the guest", Err: errors.New("it died"), Last: []string{"RIP: here", "panic"}}
}

func arm() experiment.Arm { return experiment.Arm{Name: "a", VCPUs: 2, Preempt: rcu.None} }

func good() []experiment.Record {
	recs := []experiment.Record{
		{Facts: &experiment.Facts{Release: "7.2", CPUs: 2, Preempt: rcu.None}},
		{At: 10, Phase: &experiment.Phase{Name: experiment.Hold}},
		{At: 30, Sample: &experiment.Sample{Op: experiment.LinkDel, Start: 12, Took: 3, Phase: experiment.Hold}},
		{At: 40, Phase: &experiment.Phase{Name: experiment.Tail}},
		{At: 60, Sample: &experiment.Sample{Op: experiment.LinkDel, Start: 41, Took: time.Second, Phase: experiment.Tail}},
		{End: &experiment.End{Outcome: experiment.Completed, Records: 5}},
	}
	for i := range recs {
		recs[i].N = i
	}
	return recs
}

func TestRunAcceptsAGoodBackend(t *testing.T) {
	Run(t, func(*testing.T) backend.Backend { return script{recs: good()} }, arm())
}

// A machine that breaks now and then breaks no promise.
func TestRunIsPatient(t *testing.T) {
	var broken, runs int
	t.Run("brittle", func(t *testing.T) {
		complete(t, func(*testing.T) backend.Backend { return script{good(), true, &broken, &runs} }, arm())
		cancelled(t, func(*testing.T) backend.Backend { return script{good(), true, &broken, &runs} }, arm())
		emitRefuses(t, func(*testing.T) backend.Backend { return script{good(), true, &broken, &runs} }, arm())
	})
	if broken != 4 || runs != 8 {
		t.Errorf("%d of %d trials broke; want 4 of 8", broken, runs)
	}
}

func TestRetry(t *testing.T) {
	broke, other := broke(), errors.New("other")
	for _, tt := range []struct {
		name  string
		gives []error
		want  error
		calls int
	}{
		{"works", []error{nil}, nil, 1},
		{"breaks once", []error{broke, nil}, nil, 2},
		{"breaks as often as is borne", []error{broke, broke, nil}, nil, 3},
		{"always breaks", []error{broke, broke, broke, nil}, broke, 3},
		{"another error", []error{other, nil}, other, 1},
		{"another error after a try", []error{broke, other, nil}, other, 2},
	} {
		calls := 0
		err := Retry(t, func() error { calls++; return tt.gives[calls-1] })
		if !errors.Is(err, tt.want) || calls != tt.calls {
			t.Errorf("%s: Retry = %v after %d calls; want %v after %d", tt.name, err, calls, tt.want, tt.calls)
		}
	}
}

// Each try that breaks is told of with what the console showed.
func TestRetryTells(t *testing.T) {
	told := &teller{TB: t}
	_ = Retry(told, func() error { return broke() })
	if n := strings.Count(told.log, "boot the guest: it died"); n != 1+backend.Retries || !strings.Contains(told.log, "try 2 of 3") ||
		!strings.Contains(told.log, "\n\tRIP: here\n\tpanic") {
		t.Errorf("Retry logs %q", told.log)
	}
}

// A teller keeps what a test logs.
type teller struct {
	testing.TB
	log string
}

func (r *teller) Helper()                        {}
func (r *teller) Logf(format string, arg ...any) { r.log += fmt.Sprintf(format, arg...) + "\n" }

func TestCheckFinds(t *testing.T) {
	for want, spoil := range map[string]func([]experiment.Record) []experiment.Record{
		"no End":        func(r []experiment.Record) []experiment.Record { return r[:5] },
		"is numbered 7": func(r []experiment.Record) []experiment.Record { r[1].N = 7; return r },
		"0 parts":       func(r []experiment.Record) []experiment.Record { r[1].Phase = nil; return r },
		"sample before the facts": func(r []experiment.Record) []experiment.Record {
			r[0] = experiment.Record{Loss: &experiment.Loss{What: "facts"}}
			return r
		},
		"the arm wishes \"none\"": func(r []experiment.Record) []experiment.Record { r[0].Facts.Preempt = rcu.Lazy; return r },
		"1 CPUs":                  func(r []experiment.Record) []experiment.Record { r[0].Facts.CPUs = 1; return r },
		"without a release":       func(r []experiment.Record) []experiment.Record { r[0].Facts.Release = ""; return r },
		"unknown phase":           func(r []experiment.Record) []experiment.Record { r[1].Phase.Name = "x"; return r },
		"hold after phase hold":   func(r []experiment.Record) []experiment.Record { r[3].Phase.Name = experiment.Hold; return r },
		"before the hold":         func(r []experiment.Record) []experiment.Record { r[2].Sample.Start = -2e9; return r },
		"a sample before the hold": func(r []experiment.Record) []experiment.Record {
			r[1] = experiment.Record{N: 1, Loss: &experiment.Loss{What: "phase"}}
			return r
		},
		"of the hold that began": func(r []experiment.Record) []experiment.Record {
			r[4].Sample.Phase, r[4].Sample.Start = experiment.Hold, 2e9
			return r
		},
		"tail that began": func(r []experiment.Record) []experiment.Record {
			r[4].Sample.Start, r[3].At = 20, 2e9
			return r
		},
		"sample in phase":  func(r []experiment.Record) []experiment.Record { r[2].Sample.Phase = ""; return r },
		"that took -1ns":   func(r []experiment.Record) []experiment.Record { r[2].Sample.Took = -1; return r },
		"counts 4 records": func(r []experiment.Record) []experiment.Record { r[5].End.Records = 4; return r },
		"unknown outcome":  func(r []experiment.Record) []experiment.Record { r[5].End.Outcome = experiment.Failed; return r },
		"before the last":  func(r []experiment.Record) []experiment.Record { return append(r, r[0]) },
		"no Facts":         func([]experiment.Record) []experiment.Record { return nil },
	} {
		if err := Check(spoil(good()), arm()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check = %v; want %q", err, want)
		}
	}
	if err := Check(good(), arm()); err != nil {
		t.Errorf("Check = %v; want nil", err)
	}
}

// A guest that dies of an emulator's mistake is the machine's fault, and no other end is.
func TestBoot(t *testing.T) {
	console, err := boot(exec.CommandContext(t.Context(), "sh", "-c", "echo up; echo 'Kernel panic - not syncing: Attempted to kill init!'"))
	if err != nil || !strings.Contains(string(console), "panic") {
		t.Errorf("Boot = %q, %v; want the console", console, err)
	}
	_, err = boot(exec.CommandContext(t.Context(), "sh", "-c", "echo '[   16.9] Oops: int3: 0000 [#1] SMP NOPTI'; echo '[   16.9] CPU: 1'"))
	broke, ok := errors.AsType[*backend.MachineError](err)
	if !ok || !strings.Contains(strings.Join(broke.Last, "\n"), "CPU: 1") {
		t.Errorf("Boot = %v; want a MachineError with the oops", err)
	}
	if _, err := boot(exec.CommandContext(t.Context(), "false")); err == nil || errors.As(err, &broke) {
		t.Errorf("Boot of a program that fails = %v; want its error", err)
	}
}

// A guest that died of stale code gets one thread from then on; what else went wrong is not tried again.
func TestBootTakesOneThread(t *testing.T) {
	var tried []string
	console, threads, err := Boot(t, func(threads string) *exec.Cmd {
		tried = append(tried, threads)
		if threads == ThreadEach {
			return exec.CommandContext(t.Context(), "echo", "Oops: int3: 0000 [#1] SMP NOPTI")
		}
		return exec.CommandContext(t.Context(), "echo", "up")
	})
	if err != nil || string(console) != "up\n" || threads != ThreadOne || !slices.Equal(tried, []string{ThreadEach, ThreadOne}) {
		t.Errorf("Boot = %q, %q, %v with %q; want up, with one thread the second time", console, threads, err, tried)
	}
	tried = nil
	_, _, err = Boot(t, func(threads string) *exec.Cmd {
		tried = append(tried, threads)
		return exec.CommandContext(t.Context(), "false")
	})
	if err == nil || len(tried) != 1 {
		t.Errorf("Boot = %v with %q; want an error, and one try", err, tried)
	}
}
