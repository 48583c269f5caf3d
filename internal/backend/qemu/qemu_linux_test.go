package qemu

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

func TestContract(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend { return fake(t, "good") }, fakeArm())
}

func TestMachineErrors(t *testing.T) {
	for _, tt := range []struct{ act, want, last string }{
		{"dies", "boot the guest: QEMU ended with exit status 1: qemu: could not load kernel 'x': no such file", ""},
		{"mute", "no line on the console for 300ms while booting", ""},
		{"VFS panic", "the kernel panicked before the trial began: Kernel panic - not syncing: VFS: Unable to mount root fs", "VFS: Unable to mount"},
		{"boots for ever", "no record from the agent 1s after the start", ""},
		{"garbage", "read the guest's records: line 1: not a record", "agent v0 up"},
		{"no channel", "boot the guest: the guest gave up: no channel for records", "agent v0 up"},
		{"powers off", "run the trial: QEMU ended by itself", "agent v0 up"},
		{"crashes", "killed by signal: killed", "agent v0 up"},
		{"no load", "the agent did not start the load within 300ms", "agent v0 up"},
		{"gives up", "the agent gave up: no veth", "agent v0 up"},
		{"stale code", "run the trial: the emulator ran code that the kernel had changed", "RIP: 0010:enqueue_timer"},
		{"stale code in the end", "run the trial: the emulator ran code that the kernel had changed", "int3"},
	} {
		t.Run(tt.act, func(t *testing.T) {
			t.Setenv(fakeVar+"_WHY", "no veth")
			recs, err := runFake(t, fake(t, tt.act))
			var broke *backend.MachineError
			if !errors.As(err, &broke) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Run = %v; want a MachineError with %q", err, tt.want)
			}
			if got := strings.Join(broke.Last, "\n"); !strings.Contains(got, tt.last) {
				t.Errorf("its last lines are %q; want %q in them", got, tt.last)
			}
			if slices.ContainsFunc(recs, func(r experiment.Record) bool { return r.End != nil }) {
				t.Error("a trial that is no data has an End")
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct{ act, outcome, why string }{
		{"good", experiment.Completed, ""},
		{"panics", experiment.Panicked, "hung_task: blocked tasks"},
		{"panics and exits", experiment.Panicked, "hung_task: blocked tasks"},
		{"falls silent", experiment.Silent, "no end 1s past the trial's 200ms; last record"},
	} {
		t.Run(tt.act, func(t *testing.T) {
			recs, err := runFake(t, fake(t, tt.act))
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if err := backendtest.Check(recs, fakeArm()); err != nil {
				t.Error(err)
			}
			end := recs[len(recs)-1].End
			if end.Outcome != tt.outcome || !strings.Contains(end.Why, tt.why) {
				t.Errorf("it ended as %+v; want %s with %q", end, tt.outcome, tt.why)
			}
			if !strings.Contains(consoleText(recs), "napistall: agent v0 up\r\n") {
				t.Errorf("the console is not whole: %q", consoleText(recs))
			}
		})
	}
}

// A guest that falls silent or panics had its probe blocked for at least as long as the agent was seen alive.
func TestCutTrialLeavesACensoredSample(t *testing.T) {
	for _, act := range []string{"falls silent", "panics"} {
		recs, err := runFake(t, fake(t, act))
		if err != nil {
			t.Fatal(err)
		}
		got := recs[len(recs)-2].Sample
		const sec = rcu.Ktime(time.Second)
		want := &experiment.Sample{ // from the delete's end, 250 ms of pause and 1 s for the device, to the Counters
			Op: experiment.LinkDel, Censored: true, Phase: experiment.Hold,
			Start: sec + 1 + rcu.Ktime(1270*time.Millisecond),
			Took:  8*time.Second - 1270*time.Millisecond - 1,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the last sample (-want +got):\n%s", act, diff)
		}
	}
}

func TestFirstRecordIsTheCommand(t *testing.T) {
	recs, err := runFake(t, fake(t, "good"))
	if err != nil {
		t.Fatal(err)
	}
	c := recs[0].Command
	if c == nil || c.Accel != tcg || !slices.Contains(c.Argv, "vmlinuz") || !slices.Contains(c.Argv, initrdPath) {
		t.Errorf("the first record is %+v; want the command", recs[0])
	}
	i := slices.IndexFunc(recs, func(r experiment.Record) bool { return r.Facts != nil })
	if got := recs[i].Facts.Agent; got != "000-stock-1" {
		t.Errorf("the guest was given trial %q; want 000-stock-1", got)
	}
}

func TestAnotherKernelThanWished(t *testing.T) {
	for act, want := range map[string]string{
		"wrong model":   "the kernel runs with preempt=lazy, the arm asks for preempt=voluntary",
		"unknown model": "the kernel runs with an unknown preemption model",
		"one CPU":       "the kernel runs with 1 CPUs, the arm asks for 2 CPUs",
	} {
		_, err := runFake(t, fake(t, act))
		var wrong *backend.WrongKernelError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Run = %v; want %q", act, err, want)
		}
	}
}

func TestAgentCannot(t *testing.T) {
	t.Setenv(fakeVar+"_WHY", "unsupported: BPF is off")
	_, err := runFake(t, fake(t, "gives up"))
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "BPF is off") {
		t.Errorf("Run = %v; want an unsupported error", err)
	}
}

func TestAutoFallsBackToTCG(t *testing.T) {
	for act, want := range map[string]string{
		"msr":       "failed to set MSR 0x10a to 0x69",
		"emulation": "KVM internal error",
		"mute":      "the guest printed nothing for 300ms",
	} {
		t.Run(act, func(t *testing.T) {
			b := fakeKVM(t, act)
			var said []string
			b.Log = func(s string) { said = append(said, s) }
			for range 2 { // the second time from memory
				recs, err := runFake(t, b)
				if err != nil {
					t.Fatal(err)
				}
				if got := recs[0].Command.Accel; got != tcg {
					t.Errorf("the trial ran under %s; want tcg", got)
				}
			}
			if len(said) != 1 || !strings.Contains(said[0], want) || !strings.Contains(said[0], "TCG") {
				t.Errorf("said %q; want one line with %q", said, want)
			}
			b.Accel = kvm
			_, err := b.Acquire(t.Context(), fakeArm())
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want) {
				t.Errorf("Acquire with KVM forced = %v; want an unsupported error with %q", err, want)
			}
		})
	}
}

// KVM that worked once and then breaks is not trusted again.
func TestKVMBreaksLater(t *testing.T) {
	b := fakeKVM(t, "works")
	target, err := b.Acquire(t.Context(), fakeArm())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(fakeVar+"_KVM", "msr")
	run := func() error {
		return target.Run(t.Context(), experiment.Trial{Rep: 1, Arm: fakeArm()}, func(experiment.Record) error { return nil })
	}
	var broke *backend.MachineError
	if err := run(); !errors.As(err, &broke) {
		t.Errorf("Run = %v; want a MachineError", err)
	}
	if err := run(); err != nil {
		t.Errorf("second Run = %v; want the trial under TCG", err)
	}
}

// A guest that panics while it boots says nothing against KVM.
func TestKVMIsNotBlamed(t *testing.T) {
	b := fakeKVM(t, "works")
	target, err := b.Acquire(t.Context(), fakeArm())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(fakeVar+"_KVM", "panic")
	for range 2 {
		var accel string
		err := target.Run(t.Context(), experiment.Trial{Rep: 1, Arm: fakeArm()}, func(r experiment.Record) error {
			if r.Command != nil {
				accel = r.Command.Accel
			}
			return nil
		})
		var broke *backend.MachineError
		if !errors.As(err, &broke) || accel != kvm {
			t.Errorf("Run under %s = %v; want a MachineError under kvm", accel, err)
		}
	}
}

func TestCancelWhileProving(t *testing.T) {
	b := fakeKVM(t, "mute")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Acquire(ctx, fakeArm()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v; want the context's error", err)
	}
}

func TestMissingQEMUNamesThePackage(t *testing.T) {
	b := fake(t, "good")
	b.Binary = ""
	t.Setenv("PATH", t.TempDir())
	_, err := b.Acquire(t.Context(), fakeArm())
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "qemu-system-x86") {
		t.Errorf("Acquire = %v; want the package's name", err)
	}
}

// fakeKVM is a backend that finds a /dev/kvm under which its QEMU plays act.
func fakeKVM(t *testing.T, act string) Backend {
	t.Helper()
	b := fake(t, "good")
	b.Accel = auto
	b.kvmDevice = "/dev/null"
	if act == "mute" {
		b.proof = proofLimits{line: 300 * time.Millisecond, agent: time.Minute}
	}
	t.Setenv(fakeVar+"_KVM", act)
	return b
}
