package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/experiment"
)

// servers are the two that boards have.
func servers() map[string]func(*testing.T) *server {
	return map[string]func(*testing.T) *server{"openssh": sshd, "dropbear and busybox": dropbear}
}

func TestContract(t *testing.T) {
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			backendtest.Run(t, func(t *testing.T) backend.Backend { return s.backend(t) }, backendtest.LiveArm())
			s.clean(t)
		})
	}
}

// run acquires a target and runs arm on it.
func run(ctx context.Context, b Backend, arm experiment.Arm, emit func(experiment.Record)) error {
	target, err := b.Acquire(ctx, arm)
	if err != nil {
		return err
	}
	err = target.Run(ctx, experiment.Trial{Rep: 1, Arm: arm}, func(r experiment.Record) error { emit(r); return nil })
	return errors.Join(err, target.Close())
}

// inHold calls f once the load is on.
func inHold(f func()) func(experiment.Record) {
	return func(r experiment.Record) {
		if r.Phase != nil && r.Phase.Name == experiment.Hold {
			f()
		}
	}
}

// A connection that breaks in the middle of a trial is the machinery's failure, and the board cleans up.
func TestConnectionBreaks(t *testing.T) {
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			for who, kill := range map[string]func(t *testing.T){
				"the client":             func(t *testing.T) { killChildren(t, os.Getpid(), "ssh") },
				"the board's connection": func(t *testing.T) { killChildren(t, s.cmd.Process.Pid, "") },
			} {
				arm := backendtest.LiveArm()
				arm.StallTimeout = 77 * time.Second
				err := run(t.Context(), s.backend(t), arm, inHold(func() { kill(t) }))
				if _, broke := errors.AsType[*backend.MachineError](err); !broke {
					t.Errorf("%s killed: run = %v; want a MachineError", who, err)
				}
				s.clean(t)
			}
			if got := knob(t); got == "77" {
				t.Error("the stall timeout is still 77")
			}
		})
	}
}

func knob(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// killChildren kills the children of a process whose command is comm, or all if that is empty.
func killChildren(t *testing.T, pid int, comm string) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(children)) {
			name, err := os.ReadFile("/proc/" + child + "/comm")
			if err != nil || comm != "" && strings.TrimSpace(string(name)) != comm {
				continue
			}
			var n int
			if _, err := fmt.Sscan(child, &n); err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(n, unix.SIGKILL); err == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		t.Errorf("no child %q of %d to kill", comm, pid)
	}
}

// A host key that is not the known one, or that nobody knows, ends the run before a byte is sent.
func TestHostKey(t *testing.T) {
	s := sshd(t)
	b := s.backend(t)
	other := strings.Replace(s.read(t, "known_hosts"), strings.Fields(s.read(t, "host.pub"))[1], strings.Fields(s.read(t, "user.pub"))[1], 1)
	for what, known := range map[string]string{"wrong": other, "unknown": ""} {
		s.write(t, "known_hosts", known)
		b.options = append(s.options(), "-o", "StrictHostKeyChecking=no") // a careless configuration changes nothing
		err := run(t.Context(), b, backendtest.LiveArm(), func(experiment.Record) {})
		_, broke := errors.AsType[*backend.MachineError](err)
		if err == nil || broke || !strings.Contains(err.Error(), "key is not the known one") {
			t.Errorf("%s key: run = %v; want a refusal that no retry follows", what, err)
		}
	}
	s.clean(t)
	if log := s.read(t, serverLog); !strings.Contains(log, "listening on") || strings.Contains(log, "Accepted") {
		t.Errorf("somebody has logged in, or nothing was logged:\n%s", log)
	}
}

func TestNoEntry(t *testing.T) {
	s := sshd(t)
	s.write(t, "authorized", "")
	err := run(t.Context(), s.backend(t), backendtest.LiveArm(), func(experiment.Record) {})
	if _, broke := errors.AsType[*backend.MachineError](err); err == nil || broke || !strings.Contains(err.Error(), "only keys") {
		t.Errorf("no key: run = %v", err)
	}
	b := s.backend(t)
	b.Target.Port = "1"
	err = run(t.Context(), b, backendtest.LiveArm(), func(experiment.Record) {})
	if _, broke := errors.AsType[*backend.MachineError](err); !broke || !strings.Contains(strings.Join(lines(err), " "), "refused") {
		t.Errorf("nobody listens: run = %v, %q; want a MachineError, for the board may be booting", err, lines(err))
	}
}

func lines(err error) []string {
	if broke, ok := errors.AsType[*backend.MachineError](err); ok {
		return broke.Last
	}
	return nil
}

// What the board is decides: another architecture, no root, no directory for programs.
func TestBoardsThatCannot(t *testing.T) {
	for what, tc := range map[string]struct{ tool, script, want string }{
		"mips":       {"uname", "echo mips", "--agent FILE"},
		"other user": {"id", "echo 1000", "log in as root"},
		"noexec":     {"chmod", "exit 1", "no directory in which a program can be run"},
	} {
		t.Run(what, func(t *testing.T) {
			s := dropbear(t)
			s.fake(t, tc.tool, tc.script)
			b := s.backend(t)
			if what == "mips" {
				b.Agent = ""
			}
			err := run(t.Context(), b, backendtest.LiveArm(), func(experiment.Record) {})
			_, broke := errors.AsType[*backend.MachineError](err)
			if err == nil || broke || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("run = %v; want ErrUnsupported with %q", err, tc.want)
			}
			s.clean(t)
		})
	}
}

// fake puts a script in the place of one of the board's tools, and another shell in that of busybox's, which
// would not look for it.
func (s *server) fake(t *testing.T, tool, script string) {
	t.Helper()
	s.do(t, "cp", "--remove-destination", "/usr/bin/dash", filepath.Join(s.dir, "bin/sh"))
	path := filepath.Join(s.dir, "bin", tool)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.write(t, "bin/"+tool, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A login that talks a lot is no obstacle, nor a board whose head counts no bytes.
func TestChattyLogin(t *testing.T) {
	s := dropbear(t)
	s.write(t, "home/.profile", "")
	s.fake(t, "head", "exit 1")
	b := s.backend(t)
	b.options = append(s.options(), "-o", "LogLevel=VERBOSE")
	if err := run(t.Context(), b, backendtest.LiveArm(), func(experiment.Record) {}); err != nil {
		t.Errorf("run = %v %q", err, lines(err))
	}
	s.clean(t)
}

// victimVar makes this test's program a napistall that is killed; its value says how it reaches the board.
const victimVar = "NAPISTALL_TEST_VICTIM"

func victim() int {
	var v struct {
		Agent        string
		SSH, Options []string
	}
	if err := json.Unmarshal([]byte(os.Getenv(victimVar)), &v); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b := Backend{Live: backend.Live{Bounce: true}, Target: Target{Host: "root@127.0.0.1", Port: port}, Agent: v.Agent, ssh: v.SSH, options: v.Options}
	err := run(context.Background(), b, backendtest.LiveArm(), inHold(func() { fmt.Println("load") }))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A kill -9 of napistall leaves nothing, here or on the board.
func TestKillLeavesNothing(t *testing.T) {
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			b := s.backend(t)
			text, err := json.Marshal(map[string]any{"Agent": b.Agent, "SSH": b.ssh, "Options": b.options})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Env = append(os.Environ(), victimVar+"="+string(text))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("the run said %q, %v", said, err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // "signal: killed"
			s.clean(t)
		})
	}
}
