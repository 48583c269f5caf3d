package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/backend"
)

// Retry calls try, and calls it again after a *backend.MachineError, as often as the runner tries a trial:
// a test that drives a backend without the runner deals with a machine that breaks now and then as a run
// does, and fails on one that always breaks. Each such error is logged with the console's last lines. Try
// starts afresh whenever it is called; Retry returns its last error, or nil.
func Retry(t testing.TB, try func() error) error {
	t.Helper()
	for n := 1; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		broke, ok := errors.AsType[*backend.MachineError](err)
		if !ok {
			return err
		}
		t.Logf("try %d of %d: %v\n\t%s", n, 1+backend.Retries, err, strings.Join(broke.Last, "\n\t"))
		if n > backend.Retries {
			return err
		}
	}
}

// The words with which -accel tcg,thread= says how a guest's CPUs are run.
const (
	ThreadEach = "multi"  // each in a thread of its own
	ThreadOne  = "single" // all in one, in turn
)

// Boot runs an emulator whose console is its output, by the command for what -accel's thread= is to be, and returns the
// console and that word. With a thread for each CPU, TCG before QEMU 8.1 may run code which the guest's kernel has
// replaced meanwhile (see internal/backend/qemu), and is likely to where a tracepoint of the poll is switched on or off while
// the loop runs through it, 10,000 times a second. A guest that died of that is booted again, all its CPUs in one
// thread, where no two run at once: with that, times mean nothing.
func Boot(t testing.TB, command func(threads string) *exec.Cmd) (console []byte, threads string, err error) {
	t.Helper()
	threads = ThreadEach
	err = Retry(t, func() (err error) {
		if console, err = boot(command(threads)); err != nil {
			threads = ThreadOne
		}
		return err
	})
	return console, threads, err
}

// boot boots a guest once. One that died of stale code is a *backend.MachineError, for Retry.
func boot(cmd *exec.Cmd) ([]byte, error) {
	console, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", cmd.Path, err, console)
	}
	if _, oops, stale := bytes.Cut(console, []byte("int3: 0000 [#")); stale {
		lines := strings.Split(string(oops), "\n")
		return nil, &backend.MachineError{Op: "run the guest", Err: errors.New("its kernel died of an int3"), Last: lines[:min(20, len(lines))]}
	}
	return console, nil
}
