package qemu

import (
	"os"
	"testing"

	"github.com/napistall/napistall/internal/testenv"
)

// A process that runs has waited for a CPU, one that isn't there has not, and waiting only grows.
func TestCPUWait(t *testing.T) {
	before := cpuWait(os.Getpid())
	if before <= 0 {
		testenv.Lacks(t, "schedstat", "this kernel keeps none for processes")
	}
	if after := cpuWait(os.Getpid()); after < before {
		t.Errorf("cpuWait = %v after %v", after, before)
	}
	if got := cpuWait(1 << 30); got != 0 {
		t.Errorf("cpuWait of no process = %v; want 0", got)
	}
}
