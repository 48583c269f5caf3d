package backendtest

import (
	"errors"
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
