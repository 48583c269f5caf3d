package machine

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// tellDevices reads the network devices of the running machine, from sysfs first. It takes RTNL, and so waits for
// whoever holds it.
func tellDevices(emit func(Part) error) error {
	var s Source
	var failed error
	tell := func(p Part) {
		if failed == nil {
			failed = emit(p)
		}
	}
	var devices []Device
	tell(Part{Begins: "network devices in sysfs"})
	why := ""
	if err := s.eachDevice(func(d Device) {
		devices = append(devices, d)
		tell(Part{Device: &d})
	}); err != nil {
		why = err.Error()
	}
	const overNetlink = "NAPI instances, drivers and coalescing over netlink"
	tell(Part{Begins: overNetlink})
	seen := map[int]bool{}
	if err := askDevices(devices, func(d Device) {
		tell(Part{Device: &d})
		for _, n := range d.NAPIs {
			if n.IRQ != nil && !seen[*n.IRQ] {
				seen[*n.IRQ] = true
				irq := s.IRQ(*n.IRQ)
				tell(Part{IRQ: &irq})
			}
		}
	}); err != nil {
		why = err.Error()
	}
	tell(Part{Netlink: &why})
	return failed
}

// kernelLog returns the text of the kernel's log buffer, or "" to somebody without the right (CAP_SYSLOG
// where kernel.dmesg_restrict is 1).
func kernelLog() string {
	size, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
	if err != nil || size <= 0 {
		return ""
	}
	b := make([]byte, min(size, maxFile))
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// A Beat is a line of a helper that measures. Exactly one field is set.
type Beat struct {
	Begin *Wait  `json:"begin,omitempty"`
	End   *Wait  `json:"end,omitempty"`
	Polls *Polls `json:"polls,omitempty"`
	Why   string `json:"why,omitempty"` // it can't
}

// tellGracePeriods waits for one grace period after the other, with pauses of a second, as long as emit takes
// them. Each wait is a membarrier, which nothing can interrupt: that is for a process that may hang.
func tellGracePeriods(emit func(Beat) error) error {
	const global = 1 // MEMBARRIER_CMD_GLOBAL, 4.3
	for next := time.Now(); ; next = next.Add(time.Second) {
		time.Sleep(time.Until(next))
		if err := emit(Beat{Begin: &Wait{}}); err != nil {
			return err
		}
		start := time.Now()
		if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
			return emit(Beat{Why: fmt.Sprintf("membarrier: %v (CONFIG_MEMBARRIER, and no nohz_full=)", errno)})
		}
		if err := emit(Beat{End: &Wait{Took: time.Since(start)}}); err != nil {
			return err
		}
	}
}

// tellTurns measures for each of cpus how long a thread of ours waits until it runs there: moving itself
// returns when it does. A CPU that never lets it run keeps the thread for as long.
func tellTurns(cpus []int, emit func(Beat) error) error {
	done := make(chan Beat)
	for _, cpu := range cpus {
		if err := emit(Beat{Begin: &Wait{CPU: &cpu}}); err != nil {
			return err
		}
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			start := time.Now()
			if err := Pin(0, cpu); err != nil {
				done <- Beat{Why: err.Error()}
				return
			}
			done <- Beat{End: &Wait{CPU: &cpu, Took: time.Since(start)}}
		}()
	}
	var err error
	for range cpus {
		b := <-done
		if e := emit(b); err == nil {
			err = e
		}
	}
	return err
}

// AvoidPollers keeps this process, and what it starts, off the CPUs where a poll thread runs right now, where
// there is another: a thread of ours in the queue of a CPU that is held would be its next victim.
func AvoidPollers() error {
	var s Source
	threads, _, err := s.NAPIThreads()
	if err != nil {
		return err
	}
	held := map[int]bool{}
	for _, t := range threads {
		if t.State == "R" {
			held[t.CPU] = true
		}
	}
	if len(held) == 0 {
		return nil
	}
	mine, err := Affinity(0)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(mine, func(cpu int) bool { return held[cpu] })
	if len(others) == 0 {
		return nil
	}
	return PinProcess(others...)
}

// errNotHere is about tracing where it would do harm.
var errNotHere = errors.New("enabling a tracepoint patches code, for which 32-bit arm stops every CPU (patch_text, stop_machine): one that a thread holds would keep all standing")
