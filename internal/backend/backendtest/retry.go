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

// Boot runs cmd, an emulator whose console is its output, and returns the console. A guest that died because TCG ran
// code which its kernel had replaced meanwhile is a *backend.MachineError, for Retry; see internal/backend/qemu.
func Boot(cmd *exec.Cmd) ([]byte, error) {
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
