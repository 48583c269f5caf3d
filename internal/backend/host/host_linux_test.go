package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/agent"
	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/testenv"
)

// TestMain lets this test's program be the agent, the trial's process, a napistall that is killed, and a guest's init.
func TestMain(m *testing.M) {
	switch {
	case os.Getpid() == 1:
		guestInit()
	case filepath.Base(os.Args[0]) == "modprobe":
		os.Exit(modprobe(os.Args[len(os.Args)-1]))
	case agent.IsGuest():
		agent.Guest()
	case slices.Equal(os.Args[1:], []string{"agent"}):
		if err := agent.Serve(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
	case os.Getenv(deviceVar) != "":
		os.Exit(deviceTrial())
	case os.Getenv(victimVar) != "":
		os.Exit(victim())
	default:
		os.Exit(m.Run())
	}
}

// here returns a backend that may bounce. The shell that runs the test must not decide where: it is left
// out by a session of our own.
func here(t *testing.T) Backend {
	t.Helper()
	testenv.Need(t, testenv.Root)
	ownSession(t)
	testenv.Alone(t)
	return Backend{Live: backend.Live{Bounce: true}, Log: func(s string) { t.Log(s) }}
}

// ownSession leaves the shell's session. It fails where we lead one already, or a process group.
func ownSession(t *testing.T) {
	t.Helper()
	if _, err := unix.Setsid(); err != nil && !errors.Is(err, unix.EPERM) {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) {
	here(t)
	backendtest.Run(t, func(t *testing.T) backend.Backend {
		return Backend{Live: backend.Live{Bounce: true}, Log: func(s string) { t.Log(s) }}
	}, backendtest.LiveArm())
}

// run runs arm to its end and returns what it said.
func run(t *testing.T, b Backend, arm experiment.Arm, emit func(experiment.Record)) ([]experiment.Record, error) {
	t.Helper()
	target, err := b.Acquire(t.Context(), arm)
	if err != nil {
		return nil, err
	}
	var recs []experiment.Record
	err = target.Run(t.Context(), experiment.Trial{Rep: 1, Arm: arm}, func(r experiment.Record) error {
		recs = append(recs, r)
		emit(r)
		return nil
	})
	return recs, errors.Join(err, target.Close())
}

// What a live machine's arm may ask for is there while it runs, and gone afterwards.
func TestSettingsAreUndone(t *testing.T) {
	b := here(t)
	before := look(t)
	home, err := machine.Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	arm := backendtest.LiveArm()
	arm.StallTimeout = 77 * time.Second
	var during string
	recs, err := run(t, b, arm, func(r experiment.Record) {
		if r.Phase != nil && r.Phase.Name == experiment.Hold {
			during = text("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := backendtest.Check(recs, arm); err != nil {
		t.Error(err)
	}
	if during != "77" {
		t.Errorf("the stall timeout was %q during the trial; want 77", during)
	}
	for _, r := range recs {
		if f := r.Facts; f != nil && (f.StallSec != 77 || f.Kernel != backend.LiveKernel) {
			t.Errorf("facts: stall timeout %d, kernel %q", f.StallSec, f.Kernel)
		}
	}
	if left := settle(t, before); left != "" {
		t.Error(left)
	}
	if now, err := machine.Affinity(0); err != nil || !slices.Equal(now, home) {
		t.Errorf("we may run on %v, %v; want %v as before", now, err, home)
	}
}

func TestWrongKernel(t *testing.T) {
	b := here(t)
	arm := backendtest.LiveArm()
	arm.Preempt = rcu.RT
	_, err := run(t, b, arm, func(experiment.Record) {})
	if _, wrong := errors.AsType[*backend.WrongKernelError](err); !wrong {
		t.Errorf("run = %v; want a WrongKernelError", err)
	}
}

func TestAcquireLooksAtTheMachine(t *testing.T) {
	b := here(t)
	arm := backendtest.LiveArm()
	arm.VCPUs = 70000
	if _, err := b.Acquire(t.Context(), arm); err == nil || !strings.Contains(err.Error(), "70000 CPUs") {
		t.Errorf("Acquire = %v; want too few CPUs", err)
	}
	arm = backendtest.LiveArm()
	arm.Load.CPU = 60000
	if _, err := b.Acquire(t.Context(), arm); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Acquire = %v; want no such CPU", err)
	}
	b.Device = "nosuchdevice0"
	arm.Load = experiment.Load{Kind: experiment.External, Hold: time.Second, CPU: experiment.LastCPU}
	if _, err := b.Acquire(t.Context(), arm); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "nosuchdevice0") {
		t.Errorf("Acquire = %v; want no such device", err)
	}
}

// An agent that dies, or is none, is our machinery's failure.
func TestAgentBreaks(t *testing.T) {
	testenv.Need(t, testenv.Root)
	ownSession(t)
	for script, want := range map[string]string{
		"echo hello":  "it says \"hello\\n\"",
		"echo no >&2": "start the agent",
		"exit 0":      "start the agent",
		`echo 'napistall-agent {"refused":"it is Sunday"}'`:        "it is Sunday",
		`echo 'napistall-agent {}'; read x; echo oops >&2; exit 9`: "exit status 9",
		`echo 'napistall-agent {}'; read x; echo '{"n":0,"x":1}'`:  "not a record",
		`echo 'napistall-agent {}'; read x; kill -9 $$`:            "signal: killed",
	} {
		b := Backend{Live: backend.Live{Bounce: true}, agent: []string{"/bin/sh", "-c", script}}
		_, err := run(t, b, backendtest.LiveArm(), func(experiment.Record) {})
		if _, broke := errors.AsType[*backend.MachineError](err); !broke || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: run = %v; want a MachineError with %q", script, err, want)
		}
	}
}

// A cancelled context is heeded while the agent is still waiting for its turn.
func TestCancelWhileStarting(t *testing.T) {
	testenv.Need(t, testenv.Root)
	ownSession(t)
	b := Backend{Live: backend.Live{Bounce: true}, agent: []string{"/bin/sh", "-c", "read x"}}
	target, err := b.Acquire(t.Context(), backendtest.LiveArm())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = target.Run(ctx, experiment.Trial{Arm: backendtest.LiveArm()}, func(experiment.Record) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run = %v; want the context's error", err)
	}
}

// What a run has left and nobody can undo is named, once, with what to do about it, and no trial runs before that.
func TestWhatCannotBeUndoneIsNamed(t *testing.T) {
	here(t)
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	gone := func() { _, _ = sleeper.Process.Kill(), sleeper.Wait() } // it may have ended
	t.Cleanup(gone)
	knob := fmt.Sprintf("/proc/%d/oom_score_adj", sleeper.Process.Pid)
	line := fmt.Sprintf(`{"knob":{"Path":%q,"Old":"9999","New":%q}}`+"\n", knob, text(knob)) // the kernel has no 9999
	if err := os.WriteFile("/run/napistall-undo-test", []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	arm := backendtest.LiveArm()
	arm.Load, arm.Duration = experiment.Load{Kind: experiment.NoLoad, CPU: experiment.LastCPU}, 100*time.Millisecond
	_, err := run(t, Backend{Log: func(s string) { t.Log(s) }}, arm, func(experiment.Record) {})
	if want := "by hand: echo 9999 > " + knob; err == nil || strings.Count(firstLine(err), want) != 1 {
		t.Errorf("run: %v; want %q, once", err, want)
	}
	gone() // and what was to be undone with it
	sweepByRun(t)
	if left, err := filepath.Glob("/run/napistall-undo-*"); err != nil || len(left) > 0 {
		t.Errorf("journals %q, %v; want none", left, err)
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\nthe console's last lines")
	return line
}
