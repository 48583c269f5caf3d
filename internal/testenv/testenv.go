// Package testenv tells tests what the machine has. A test that needs something that is missing is
// skipped by name, and fails instead where NAPISTALL_MUST lists it, so that CI cannot skip by mistake.
package testenv

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/flock"
)

// What a test can need.
const (
	QEMUx86   = "qemu-x86"   // qemu-system-x86_64
	QEMUArm   = "qemu-arm"   // qemu-system-arm
	QEMUArm64 = "qemu-arm64" // qemu-system-aarch64
	Apt       = "apt"        // apt-get, with a mirror that answers
	Root      = "root"       // uid 0 on Linux, to load BPF and make network devices
	Go        = "go"         // the go command, to build a guest's program
	Chromium  = "chromium"   // a browser without a screen, for the HTML report
	Load      = "load"       // beside root: a kernel that can carry a load here, on two CPUs
	BPF       = "bpf"        // beside root: a kernel that takes programs for its tracepoints
)

// Must is the environment variable that lists what has to be there, with commas between; "all" lists
// everything.
const Must = "NAPISTALL_MUST"

// Need skips t when the machine lacks what, or fails it where Must lists what. With -short, what
// boots a virtual machine is skipped in any case.
func Need(t testing.TB, what ...string) {
	t.Helper()
	for _, w := range what {
		if testing.Short() && strings.HasPrefix(w, "qemu-") {
			t.Skipf("no virtual machines with -short")
		}
		if why := missing(w); why != "" {
			Lacks(t, w, why)
		}
	}
}

// Lacks skips t, or fails it where Must lists what, for a reason that the test found out itself.
func Lacks(t testing.TB, what, why string) {
	t.Helper()
	if must := strings.Split(os.Getenv(Must), ","); slices.Contains(must, what) || slices.Contains(must, "all") {
		t.Fatalf("%s lists %s: %s", Must, what, why)
	}
	t.Skipf("needs %s: %s", what, why)
}

// missing returns why the machine lacks what, or nothing.
func missing(what string) string {
	switch what {
	case QEMUx86:
		return command("qemu-system-x86_64")
	case QEMUArm:
		return command("qemu-system-arm")
	case QEMUArm64:
		return command("qemu-system-aarch64")
	case Apt:
		return command("apt-get")
	case Go:
		return command("go")
	case Chromium:
		return command("chromium")
	case Root:
		if runtime.GOOS != "linux" || os.Geteuid() != 0 {
			return "not root on Linux"
		}
		return ""
	}
	return "testenv does not know it"
}

func command(name string) string {
	if _, err := exec.LookPath(name); err != nil {
		return err.Error()
	}
	return ""
}

// Lock is the environment variable that names a lock file, by which tests that measure this machine, or hold a CPU of it,
// keep out of each other's way.
const Lock = "NAPISTALL_TEST_LOCK"

// Alone waits until no other test on this machine has the lock that Lock names, and has it until t ends. Without a name
// it does nothing.
func Alone(t testing.TB) {
	t.Helper()
	name := os.Getenv(Lock)
	if name == "" {
		return
	}
	l := flock.New(name)
	if err := l.Lock(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // only a lock
}
