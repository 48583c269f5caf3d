package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/wire"
)

// roleEnv tells a process that an agent starts what it is: the guest's second process, the agent proper,
// or a trial on a live machine.
const (
	roleEnv   = "NAPISTALL_ROLE"
	roleGuest = "guest"
	roleTrial = "trial"
)

// lossesFile is where the first process leaves what it missed for the second.
const lossesFile = "/run/napistall-losses.json"

// recordsFD is the second process's pipe to the first.
const recordsFD = 3

// IsGuest reports whether this process is a guest's first process, or one that an agent has started:
// then Guest is all that it should call. A container's first process is no guest.
func IsGuest() bool {
	if os.Getenv(roleEnv) != "" {
		return true
	}
	_, err := os.Stat(TrialFile)
	return os.Getpid() == 1 && err == nil
}

// Guest is what a guest's init does: mounts, modules, one trial, power off. It does not return. The
// trial runs in a second process, so that whatever ends it, a Go panic too, is reported as a Failed
// end and not as a panic of the kernel under test; and because cilium/ebpf looks for /proc when a
// process starts, before the first one has mounted it. In a process that an agent has started, Guest does
// that process's part.
func Guest() {
	switch os.Getenv(roleEnv) {
	case roleGuest:
		os.Exit(guestAgent())
	case roleTrial:
		os.Exit(trialProcess())
	}
	if err := supervise(); err != nil {
		fmt.Printf("napistall: %v\n", err)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Printf("napistall: power off: %v\n", err)
	}
	select {} // an init that ends is a kernel panic
}

// guestAgent is the second process: it runs the trial and writes its records to the pipe. Nothing here ends
// the trial early: a guest is stopped by its host.
func guestAgent() int {
	w := wire.NewWriter(os.NewFile(recordsFD, "records"))
	for _, l := range readLosses() {
		if err := w.Write(experiment.Record{Loss: &l}); err != nil {
			return 1
		}
	}
	trial, err := readTrial()
	if err == nil {
		err = run(context.Background(), wire.Request{Trial: trial}, w.Write, false)
	}
	if err == nil {
		return 0
	}
	if err := w.Write(failed(err)); err != nil {
		fmt.Fprintf(os.Stderr, "napistall: %v\n", err)
		return 1
	}
	return 0
}

func readTrial() (experiment.Trial, error) {
	var t experiment.Trial
	b, err := os.ReadFile(TrialFile)
	if err != nil {
		return t, fmt.Errorf("read the trial: %w", err)
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, fmt.Errorf("read the trial: %s: %w", TrialFile, err)
	}
	return t, nil
}

func readLosses() []experiment.Loss {
	b, err := os.ReadFile(lossesFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var l []experiment.Loss
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return []experiment.Loss{{What: "records", Count: 1, Why: err.Error()}}
	}
	return l
}

// supervise is the first process.
func supervise() error {
	if err := mountAll(); err != nil {
		return err
	}
	fmt.Printf("napistall: agent %s up\n", Version())
	losses := loadModules()
	port, err := openRecords()
	if err != nil {
		return fmt.Errorf("no channel for records: %w", err)
	}
	if len(losses) > 0 {
		b, err := json.Marshal(losses)
		if err != nil {
			return err
		}
		if err := os.WriteFile(lossesFile, b, 0o600); err != nil {
			return fmt.Errorf("keep what was missed: %w", err)
		}
	}
	pinInit()
	return superviseAgent(port)
}

// pinInit moves the first process off the CPU under test, and so the second before it starts.
func pinInit() {
	if trial, err := readTrial(); err == nil { // else it is for the second to say
		leaveCPU(trial)
	}
}

// superviseAgent starts the second process, passes its records on, and ends them when it did not.
func superviseAgent(port io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make the records' pipe: %w", err)
	}
	var last tail
	agent := exec.Command("/proc/self/exe")
	agent.Env = append(os.Environ(), roleEnv+"="+roleGuest)
	agent.ExtraFiles = []*os.File{w}
	agent.Stdout, agent.Stderr = os.Stdout, &last
	startErr := agent.Start()
	if err := w.Close(); err != nil {
		return fmt.Errorf("close the records' pipe: %w", err)
	}
	if startErr != nil {
		return endFor(port, 0, fmt.Errorf("start the agent: %w", startErr))
	}
	n, ended, err := relay(port, r)
	if err != nil || ended { // not waited for: a probe of its that is blocked in the kernel can't be ended
		return err
	}
	return endFor(port, n, fmt.Errorf("the agent died: %w: %s", orNil(agent.Wait()), last.text()))
}

func orNil(err error) error {
	if err == nil {
		return errors.New("without an end")
	}
	return err
}

// relay copies whole lines from r to w, up to an End or to where r ends. It returns how many records
// those were, and whether the last was an End.
func relay(w io.Writer, r io.Reader) (n int, ended bool, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for !ended {
		line, err := lines.ReadBytes('\n')
		if err != nil { // a line that was cut is worth nothing
			break
		}
		if _, err := w.Write(line); err != nil {
			return n, ended, fmt.Errorf("pass a record on: %w", err)
		}
		n++
		ended = bytes.Contains(line, []byte(`"end":`)) && isEnd(line)
	}
	return n, ended, nil
}

func isEnd(line []byte) bool {
	rec, err := wire.Decode(line)
	return err == nil && rec.End != nil
}

// endFor writes the End that the agent did not, after its n records.
func endFor(w io.Writer, n int, err error) error {
	rec := failed(err)
	rec.N, rec.End.Records = n, n
	line, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the end: %w", err)
	}
	return nil
}

// A tail keeps the beginning of what is written to it, where a Go panic says what happened.
type tail struct{ b []byte }

// tailMax bounds what is kept.
const tailMax = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[:min(len(p), tailMax-len(t.b))]...)
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(string(t.b)) }
