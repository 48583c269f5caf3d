package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/napistall/napistall/internal/agent"
	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/load"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/wire"
)

// refuseMachine returns why this machine, as it is now, can't or may not run arm.
func (b Backend) refuseMachine(arm experiment.Arm) error {
	if os.Geteuid() != 0 {
		return unsupported("on this machine it needs root, for BPF, network devices and the kernel's log")
	}
	found, err := machine.Read(machine.Source{})
	if err != nil {
		return err
	}
	facts := experiment.Facts{Preempt: found.Preempt, Dynamic: found.Dynamic, CPUs: len(found.Online)}
	if facts.Preempt == "" {
		facts.Preempt = arm.Preempt // the boot log will tell
	}
	if err := backend.CheckLive(facts, arm); err != nil {
		return err
	}
	if b.Device != "" {
		if _, err := os.Stat("/sys/class/net/" + b.Device); err != nil {
			return unsupported("this machine has no device %s", b.Device)
		}
		return nil
	}
	test, _, err := load.CPUs(arm.Load.CPU, found.Online)
	if errors.Is(err, errors.ErrUnsupported) {
		return unsupported("%d CPU is online and 2 are needed: the load would take the only one", len(found.Online))
	}
	if err != nil {
		return unsupported("%v", err)
	}
	if !backend.Starves(arm.Load) {
		return nil
	}
	return tree{root: "/proc"}.refuse(os.Getpid(), test)
}

// Run runs trial in an agent's process.
func (t *target) Run(ctx context.Context, trial experiment.Trial, emit func(experiment.Record) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	back, err := t.stepAside(trial.Arm)
	if err != nil {
		return &backend.MachineError{Op: "leave the CPU under test", Err: err}
	}
	defer func() { err = errors.Join(err, back()) }()
	a, err := t.b.start()
	if err != nil {
		return &backend.MachineError{Op: "start the agent", Err: err}
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	if err := a.ask(ctx, t.b, wire.Request{Trial: trial, Device: t.b.Device}); err != nil {
		return err
	}
	return a.explain(backend.Follow(ctx, backend.Following{
		Arm:     trial.Arm,
		First:   []experiment.Record{{Command: &experiment.Command{Argv: a.cmd.Args, Accel: "none"}}},
		Records: a.records,
		Facts: func(f *experiment.Facts) error {
			f.Kernel = backend.LiveKernel
			return backend.CheckLive(*f, trial.Arm)
		},
		Late: func(quiet time.Duration) (experiment.End, error) {
			// The agent shares our kernel and not the CPU under test: that it can't go on is that kernel's doing.
			return experiment.End{Outcome: experiment.Silent, Why: fmt.Sprintf(
				"no end long past the trial's %v; last record %.1f s ago", trial.Arm.Duration, quiet.Seconds())}, nil
		},
	}, emit))
}

// stepAside takes this process off the CPU under test, so that it is neither its victim nor its guest.
func (t *target) stepAside(arm experiment.Arm) (back func() error, err error) {
	home, err := machine.Affinity(0)
	if err != nil {
		return nil, err
	}
	found, err := machine.Read(machine.Source{})
	if err != nil {
		return nil, err
	}
	test, spare, err := load.CPUs(arm.Load.CPU, found.Online)
	if err != nil || t.b.Device != "" {
		return func() error { return nil }, nil // the agent says what is wrong, or finds the CPU
	}
	var others []int
	for _, c := range home {
		if c != test {
			others = append(others, c)
		}
	}
	if len(others) == 0 {
		others = []int{spare}
	}
	back = func() error { return machine.PinProcess(home...) }
	if err := machine.PinProcess(others...); err != nil {
		return nil, errors.Join(err, back()) // some of our threads may have moved
	}
	return back, nil
}

// An agentProcess is an agent that runs.
type agentProcess struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	lines   chan string           // what it says before its greeting, and that
	records chan backend.Incoming // after that
	said    *backend.Said
	done    chan struct{} // closed when it has ended
	left    chan struct{} // closed by stop, which frees the reader
	err     error         // cmd.Wait's
}

// start starts an agent in a session of its own, so that it outlives whatever kills us by group or
// terminal, to clean up.
func (b Backend) start() (*agentProcess, error) {
	argv := b.agent
	if argv == nil {
		argv = []string{"/proc/self/exe", "agent"}
	}
	a := &agentProcess{
		lines: make(chan string), records: make(chan backend.Incoming), said: new(backend.Said),
		done: make(chan struct{}), left: make(chan struct{}),
	}
	a.cmd = exec.Command(argv[0], argv[1:]...)
	a.cmd.Args[0] = "napistall"
	a.cmd.Stderr = a.said
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, give, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the records' pipe: %w", err)
	}
	defer func() { _ = give.Close() }() // the child has its own; nothing was written here
	a.cmd.Stdout = give
	if a.stdin, err = a.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	if err := a.cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer func() { _ = out.Close() }() // only read
		a.read(bufio.NewReaderSize(out, 64<<10))
	}()
	go func() {
		a.err = a.cmd.Wait()
		<-read
		close(a.done)
	}()
	return a, nil
}

// read passes on the greeting and then the records, up to their end.
func (a *agentProcess) read(in *bufio.Reader) {
	defer close(a.lines)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	select {
	case a.lines <- line:
	case <-a.left:
		return
	}
	recs := wire.NewReader(in)
	for {
		r, err := recs.Read()
		select {
		case a.records <- backend.Incoming{Record: r, Err: err}:
		case <-a.left:
			return
		}
		if err != nil || r.End != nil {
			return
		}
	}
}

// greetTime is for another trial on this machine to end (see agent.Serve), and some more.
const greetTime = 90 * time.Second

// ask waits for the greeting and sends the request.
func (a *agentProcess) ask(ctx context.Context, b Backend, r wire.Request) error {
	line, err := r.Line()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(greetTime):
		return a.broke("start the agent", fmt.Errorf("no word from it for %v", greetTime))
	case text := <-a.lines: // empty where it has ended
		g, ok, err := wire.DecodeGreeting(text)
		switch {
		case err != nil || !ok:
			return a.broke("start the agent", errors.Join(fmt.Errorf("it says %q", text), err))
		case g.Refused != "":
			return a.broke("start the agent", errors.New(g.Refused))
		}
		for _, what := range g.Undone {
			b.log("left by a run that was killed, and undone: " + what)
		}
	}
	if _, err := a.stdin.Write(line); err != nil {
		return a.broke("ask the agent", err)
	}
	return nil
}

// shownLines of what the agent said go with an error.
const shownLines = 12

// broke is a *backend.MachineError with how the agent ended, if it has, and what it said.
func (a *agentProcess) broke(op string, err error) error {
	return a.explain(&backend.MachineError{Op: op, Err: err})
}

// explain adds to a *backend.MachineError how the agent ended, if it has, and what it said.
func (a *agentProcess) explain(err error) error {
	broke, ok := errors.AsType[*backend.MachineError](err)
	if !ok {
		return err
	}
	if errors.Is(broke.Err, wire.ErrCut) { // it ends, or has
		select {
		case <-a.done:
			if a.err != nil {
				broke.Err = fmt.Errorf("%w: the agent ended with %w", broke.Err, a.err)
			}
		case <-time.After(time.Second):
		}
	}
	broke.Last = a.said.Lines(shownLines)
	return err
}

// stopTime is more than an agent gives a trial to leave.
const stopTime = 75 * time.Second

// stop asks the agent to undo everything and leave, and waits for that.
func (a *agentProcess) stop() error {
	_ = a.stdin.Close() // it may have ended
	close(a.left)
	select {
	case <-a.done:
		if !brokeOff(a.err) {
			return nil // what it could not undo, it has said
		}
		// It was killed or crashed, and its other process may have been killed. Whatever ends us must not end this.
		_, err := agent.Sweep(context.Background())
		return err
	case <-time.After(stopTime):
	}
	_ = a.cmd.Process.Kill() // its other process sees that
	<-a.done
	return &backend.MachineError{Op: "stop the agent", Err: fmt.Errorf("it was not done after %v", stopTime), Last: a.said.Lines(shownLines)}
}

// brokeOff reports whether err is of a process that ended before its time: by a signal, or with the status of a Go
// program that panicked.
func brokeOff(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() || status.ExitStatus() == panicked)
}

// panicked is the status with which Go's runtime ends a program that panics or can't go on.
const panicked = 2
