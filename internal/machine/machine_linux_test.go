package machine

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPinProcess pins every thread, those that start meanwhile too, and puts them back.
func TestPinProcess(t *testing.T) {
	home, err := Affinity(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := PinProcess(home...); err != nil {
			t.Error(err)
		}
	}()
	stop := make(chan struct{})
	defer close(stop)
	for range 4 {
		go func() {
			runtime.LockOSThread()
			<-stop
		}()
	}
	if err := PinProcess(home[0]); err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Affinity(tid); err == nil && !cmp.Equal(got, home[:1]) {
			t.Errorf("thread %d may run on %v; want %v", tid, got, home[:1])
		}
	}
}

func TestNowAdvances(t *testing.T) {
	a, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Now()
	if err != nil || b < a || a <= 0 {
		t.Errorf("Now = %d, then %d, %v", a, b, err)
	}
}

func TestReadThisMachine(t *testing.T) {
	f, err := Read(Source{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Release == "" || f.Arch == "" || len(f.Online) == 0 {
		t.Errorf("Read = %+v", f)
	}
}
