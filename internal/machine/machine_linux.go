package machine

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/rcu"
)

func sysUname() kernelNames {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return kernelNames{}
	}
	return kernelNames{
		release: unix.ByteSliceToString(u.Release[:]),
		version: unix.ByteSliceToString(u.Version[:]),
		machine: unix.ByteSliceToString(u.Machine[:]),
	}
}

// Now returns the instant on this machine's CLOCK_MONOTONIC, which bpf_ktime_get_ns reads too.
func Now() (rcu.Ktime, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	return rcu.Ktime(t.Nano()), nil
}

// Pin binds thread tid to cpus; 0 is the calling thread, which the caller has locked to its
// goroutine. The thread may be a kernel thread.
func Pin(tid int, cpus ...int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("pin thread %d to CPUs %v: %w", tid, cpus, err)
	}
	return nil
}

// Affinity returns the CPUs on which thread tid may run; 0 is the calling thread.
func Affinity(tid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return nil, fmt.Errorf("read the CPUs of thread %d: %w", tid, err)
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// PinProcess binds every thread of this process to cpus. New threads inherit it from the one that
// starts them, so that it goes on until a whole pass finds no thread that it has not bound.
func PinProcess(cpus ...int) error {
	bound := map[int]bool{}
	for {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list our threads: %w", err)
		}
		fresh := 0
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || bound[tid] {
				continue
			}
			if err := Pin(tid, cpus...); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			bound[tid] = true
			fresh++
		}
		if fresh == 0 {
			return nil
		}
	}
}
