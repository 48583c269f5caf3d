package qemu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/testenv"
)

// vm returns a backend for real guests. Its kernels stay in the user's cache, where the next run of
// the tests, and of the program, finds them.
func vm(t *testing.T, goarch string) Backend {
	t.Helper()
	need := map[string]string{"amd64": testenv.QEMUx86, "arm": testenv.QEMUArm, "arm64": testenv.QEMUArm64}
	testenv.Need(t, need[goarch], testenv.Apt)
	if _, err := kimage.Agent(goarch); err != nil {
		testenv.Lacks(t, need[goarch], "no agent for its guest, make agents: "+err.Error())
	}
	dir, err := kimage.DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	return Backend{Accel: tcg, Store: kimage.Store{Dir: dir, Log: func(s string) { t.Log(s) }}, CacheDir: t.TempDir()}
}

// shortArm holds one packet in the loop for as short as shows a stall.
func shortArm(spec string) experiment.Arm {
	return experiment.Arm{
		Name: "short", Kernel: spec, VCPUs: 2, Threaded: true, StallTimeout: 3 * time.Second,
		Load:     experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: 2 * time.Second, CPU: experiment.LastCPU},
		Probe:    experiment.Probe{Op: experiment.LinkDel, Device: "dummy", Every: 250 * time.Millisecond},
		Duration: 4 * time.Second,
	}
}

const (
	stockArm = "debian:sid/armhf"
	stockX86 = "debian:trixie-backports/amd64/cloud-amd64"
)

func TestVMContract(t *testing.T) {
	arm := shortArm(stockX86)
	arm.Preempt = rcu.Lazy
	backendtest.Run(t, func(t *testing.T) backend.Backend { return vm(t, "amd64") }, arm)
}

// The stock arm kernel stalls: a delete waits for the whole hold, and the kernel says so on both the
// log and the console.
func TestVMStallIsData(t *testing.T) {
	b := vm(t, "arm")
	arm := shortArm(stockArm)
	arm.Preempt, arm.Load.Hold, arm.Duration = rcu.Voluntary, 8*time.Second, 11*time.Second
	start := time.Now()
	recs := trial(t, b, arm)
	t.Logf("%.1f s beyond the hold", (time.Since(start) - arm.Load.Hold).Seconds())
	var worst time.Duration
	var stalls int
	for _, r := range recs {
		if r.Sample != nil && r.Sample.Op == experiment.LinkDel && r.Sample.Err == "" {
			worst = max(worst, r.Sample.Took)
		}
		if r.Kmsg != nil && strings.Contains(r.Kmsg.Text, "rcu: INFO: rcu_sched") {
			stalls++
		}
	}
	if worst < arm.Load.Hold*9/10 || stalls == 0 {
		t.Errorf("worst delete %v with %d stall lines; want at least %v and some", worst, stalls, arm.Load.Hold*9/10)
	}
	if text := consoleText(recs); !strings.Contains(text, "rcu: INFO: rcu_sched") || !strings.Contains(text, "Linux version") {
		t.Error("the console lacks the stall or the boot")
	}
}

// A kernel told to panic over a stall (kernel.panic_on_rcu_stall, since 4.8, as a boot parameter since
// 5.8) gives a result.
func TestVMPanicIsData(t *testing.T) {
	b := vm(t, "arm")
	arm := shortArm(stockArm)
	arm.Load.Hold, arm.Duration = 20*time.Second, 22*time.Second
	arm.Boot = []string{"sysctl.kernel.panic_on_rcu_stall=1"}
	recs := trial(t, b, arm)
	if end := recs[len(recs)-1].End; end.Outcome != experiment.Panicked || !strings.Contains(end.Why, "RCU Stall") {
		t.Errorf("it ended as %+v; want a panic over the stall", end)
	}
	if text := consoleText(recs); !strings.Contains(text, panicDone) {
		t.Error("the console lacks the panic's end")
	}
}

// KVM, where this machine has it, or the fallback: either way the trial runs.
func TestVMAuto(t *testing.T) {
	b := vm(t, "amd64")
	b.Accel = auto
	b.Log = func(s string) { t.Log(s) }
	recs := trial(t, b, shortArm(stockX86))
	if c := recs[0].Command; c == nil || c.Accel != kvm && c.Accel != tcg {
		t.Errorf("the first record is %+v; want the command", recs[0])
	}
}

func TestVMRefuses(t *testing.T) {
	b := vm(t, "amd64")
	arm := shortArm(stockX86)
	arm.Preempt = rcu.None
	_, err := b.Acquire(t.Context(), arm)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "can't run with preempt=none") {
		t.Errorf("Acquire = %v; want a refusal that says what the kernel accepts", err)
	}
}

// A guest that panics before the trial is the machine's fault, and its last lines are shown.
func TestVMNeverBoots(t *testing.T) {
	b := vm(t, "amd64")
	arm := shortArm(stockX86)
	arm.Boot = []string{"rdinit=/nothing", "root=/dev/nothing"}
	broke := breaks(t, b, arm, func(experiment.Record) error { return nil }, "Kernel panic - not syncing: VFS")
	if text := strings.Join(broke.Last, "\n"); !strings.Contains(text, "Kernel panic") {
		t.Errorf("the last lines are\n%s", text)
	}
}

// A kernel without virtio-serial sends its records over the second serial port.
func TestVMSecondSerialPort(t *testing.T) {
	b := vm(t, "amd64")
	plain := b
	b.fetch = func(ctx context.Context, arm experiment.Arm) (kernel, error) {
		k, err := plain.kernel(ctx, arm)
		k.channels = channels{serial: true}
		return k, err
	}
	trial(t, b, shortArm(stockX86))
}

// A kernel that can't be had gives way to the next, and it is said.
func TestVMAlternative(t *testing.T) {
	b := vm(t, "amd64")
	var said []string
	b.Log = func(s string) { said = append(said, s) }
	arm := shortArm("debian:trixie-backports/amd64/cloud-amd64/1.2.13")
	if _, err := b.Acquire(t.Context(), arm); err == nil {
		t.Error("a kernel 1.2.13 was found")
	}
	arm.KernelElse = []string{stockX86}
	if _, err := b.Acquire(t.Context(), arm); err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "1.2.13") || !strings.Contains(said[0], "runs "+stockX86) {
		t.Errorf("said %q; want one line with both kernels", said)
	}
}

// A guest with one CPU less than the arm wants gives no number.
func TestVMOneCPU(t *testing.T) {
	b := vm(t, "amd64")
	arm := shortArm(stockX86)
	arm.Boot = []string{"maxcpus=1"}
	err := backendtest.Retry(t, func() error {
		return run(t.Context(), b, arm, func(experiment.Record) error { return nil })
	})
	var wrong *backend.WrongKernelError
	if !errors.As(err, &wrong) {
		t.Errorf("Run = %v; want a WrongKernelError", err)
	}
}

// QEMU killed from outside, in the middle of the hold, is no stall.
func TestVMKilled(t *testing.T) {
	b := vm(t, "amd64")
	breaks(t, b, shortArm(stockX86), func(r experiment.Record) error {
		if r.Phase != nil && r.Phase.Name == experiment.Hold {
			killQEMU(t)
		}
		return nil
	}, "killed by signal: killed")
}

// killQEMU kills the child of this process that runs QEMU.
func killQEMU(t *testing.T) {
	t.Helper()
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
			if strings.Contains(firstLine("/proc/"+pid+"/comm"), "qemu") {
				n, err := strconv.Atoi(pid)
				if err == nil {
					err = syscall.Kill(n, syscall.SIGKILL)
				}
				if err != nil {
					t.Errorf("kill QEMU: %v", err)
				}
			}
		}
	}
}

func run(ctx context.Context, b Backend, arm experiment.Arm, emit func(experiment.Record) error) error {
	target, err := b.Acquire(ctx, arm)
	if err != nil {
		return err
	}
	return errors.Join(target.Run(ctx, experiment.Trial{Rep: 1, Arm: arm}, emit), target.Close())
}

// breaks runs arm until the machine breaks as want says. What else breaks it is tried again.
func breaks(t *testing.T, b Backend, arm experiment.Arm, emit func(experiment.Record) error, want string) *backend.MachineError {
	t.Helper()
	var as *backend.MachineError
	err := backendtest.Retry(t, func() error {
		err := run(t.Context(), b, arm, emit)
		if broke, ok := errors.AsType[*backend.MachineError](err); ok && strings.Contains(err.Error(), want) {
			as = broke
			return nil
		}
		return err
	})
	if as == nil {
		t.Fatalf("Run = %v; want a MachineError with %q", err, want)
	}
	return as
}

// trial runs arm to its end and returns what it said.
func trial(t *testing.T, b Backend, arm experiment.Arm) []experiment.Record {
	t.Helper()
	var recs []experiment.Record
	err := backendtest.Retry(t, func() error {
		recs = nil
		return run(t.Context(), b, arm, func(r experiment.Record) error { recs = append(recs, r); return nil })
	})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if err := backendtest.Check(recs, arm); err != nil {
		t.Error(err)
	}
	return recs
}
