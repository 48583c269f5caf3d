package report

import (
	"bytes"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// userTime is the CPU time that this process has used by itself: other work on the machine is not in it.
func userTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// A page of 200,000 samples takes 0.5 s of CPU time here and 170 MB of memory, the run itself included. What is asked for is under 3 s
// and 300 MB; the race detector takes several times as much of both, so that the limits leave room for it.
func TestPageOfVeryManyIsCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("200,000 samples with -short")
	}
	r := many(200_000)
	x := extras(r)
	runtime.GC()
	start := userTime(t)
	var b bytes.Buffer
	if err := HTML(&b, r, x); err != nil {
		t.Fatal(err)
	}
	took := userTime(t) - start
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes in %v of CPU time; %d MB from the system", b.Len(), took, after.Sys>>20)
	if took > 9*time.Second {
		t.Errorf("took %v of CPU time; want under 3 s, and never over 9 s", took)
	}
	if mb := after.Sys >> 20; mb > 600 {
		t.Errorf("took %d MB from the system; want under 300, and never over 600", mb)
	}
}
