package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
	"golang.org/x/sys/unix"
)

// parentVar makes the test binary a napistall that runs a trial and can be killed.
const parentVar = "NAPISTALL_FAKE_PARENT"

// parent runs a trial whose guest says nothing, and prints a line once QEMU runs.
func parent() int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	b := Backend{Accel: tcg, Binary: exe}
	b.fetch = func(context.Context, experiment.Arm) (kernel, error) {
		return kernel{image: "vmlinuz", goarch: "amd64", write: func(w io.Writer, t experiment.Trial) error {
			return json.NewEncoder(w).Encode(t)
		}}, nil
	}
	target, err := b.Acquire(context.Background(), fakeArm())
	if err != nil {
		return 1
	}
	_ = target.Run(context.Background(), experiment.Trial{Arm: fakeArm()}, func(experiment.Record) error {
		fmt.Println("QEMU runs")
		return nil
	})
	return 0
}

// A kill -9 of napistall takes QEMU with it and leaves no file.
func TestKillLeavesNothing(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp, cache := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), parentVar+"=1", fakeVar+"=mute", "TMPDIR="+tmp, "XDG_CACHE_HOME="+cache)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the parent said %q, %v", said, err)
	}
	pidfd := onlyChild(t, cmd.Process.Pid)
	defer func() { _ = unix.Close(pidfd) }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 10_000); n != 1 {
		t.Errorf("QEMU still runs 10 s after its parent was killed: %v", err)
	}
	for _, dir := range []string{tmp, cache} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// onlyChild returns a descriptor of the one process that pid has started.
func onlyChild(t *testing.T, pid int) int {
	t.Helper()
	var pids []string
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	if len(pids) != 1 {
		t.Fatalf("the parent's children are %v; want one", pids)
	}
	child, err := strconv.Atoi(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
