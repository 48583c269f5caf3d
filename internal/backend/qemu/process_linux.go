package qemu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// start runs argv with initrd as its descriptor 3. QEMU dies with us even when we are killed: the
// kernel sends it SIGKILL when the thread that started it ends, so that thread belongs to it alone.
// It has a process group of its own: a terminal's Ctrl-C is ours to handle.
func start(argv []string, initrd *os.File) (*process, error) {
	p := &process{done: make(chan struct{}), stderr: new(tail), last: new(tail)}
	consoleR, consoleW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the console: %w", err)
	}
	defer consoleW.Close()
	recordsR, recordsW, err := os.Pipe()
	if err != nil {
		_ = consoleR.Close() // never used
		return nil, fmt.Errorf("make a pipe for the records: %w", err)
	}
	defer recordsW.Close()
	p.pipes = []*os.File{consoleR, recordsR}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = consoleW, p.stderr
	p.cmd.ExtraFiles = []*os.File{initrd, recordsW} // 3 and 4
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	p.cmd.WaitDelay = time.Second // for a stderr that something else keeps open
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		_, _ = consoleR.Close(), recordsR.Close() // never used
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p.read(consoleR, recordsR)
	return p, nil
}

// waited is how long the guest's CPUs have waited for one of ours so far: the second field of
// QEMU's threads' schedstat (Documentation/scheduler/sched-stats.rst), of all of which only those of the
// CPUs run for long. 0 where it can't be read.
func (p *process) waited() time.Duration { return cpuWait(p.cmd.Process.Pid) }

func cpuWait(pid int) time.Duration {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		return 0 // only a bad pattern
	}
	var sum time.Duration
	for _, t := range threads {
		stat, err := os.ReadFile(filepath.Join(t, "schedstat"))
		if fields := strings.Fields(string(stat)); err == nil && len(fields) == 3 {
			ns, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				sum += time.Duration(ns)
			}
		}
	}
	return sum
}

// memory returns a file that exists only in memory and only while it is open.
func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
