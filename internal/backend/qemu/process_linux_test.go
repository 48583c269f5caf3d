package qemu

import (
	"os"
	"testing"
)

// A process that runs has waited for a CPU, one that isn't there has not, and waiting only grows.
func TestCPUWait(t *testing.T) {
	before := cpuWait(os.Getpid())
	if before <= 0 {
		t.Skip("this kernel keeps no schedstat")
	}
	if after := cpuWait(os.Getpid()); after < before {
		t.Errorf("cpuWait = %v after %v", after, before)
	}
	if got := cpuWait(1 << 30); got != 0 {
		t.Errorf("cpuWait of no process = %v; want 0", got)
	}
}
