package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/load"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/wire"
)

// The limits of an agent on a live machine.
const (
	// lockWait is how long it waits for another trial on its machine to end.
	lockWait = 60 * time.Second
	// setupTime and leaveTime are for a trial's devices before its load, and for their removal after.
	setupTime = 60 * time.Second
	leaveTime = 30 * time.Second
)

// Serve is an agent on a live machine. It greets, runs the trials that in asks for (see wire.Request), one
// after another and each in a process of its own, writes their records to out, and returns when in ends
// or a signal asks it to.
//
// The three processes watch each other: whoever asked (the other end of in), this one, and the trial's. If
// the first goes, in ends; this one then lets the trial's process stop and clean up, and leaves. If the
// trial's is killed, this one undoes what it had noted in its journal. If this one is killed, the trial's
// sees that its own standard input ends, stops and undoes by itself. Namespaces, devices and programs
// belong to the trial's process and go with it in any case. What is left in the journal where both are killed
// is undone by whoever asked, if that is on the same machine (see Sweep), or by the next agent on it.
func Serve(in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // an out that has gone is an error, not our end
	s := &server{out: out, requests: make(chan wire.Request), gone: make(chan struct{})}
	g, err := s.prepare(ctx)
	if err != nil {
		g = wire.Greeting{Refused: err.Error()}
	}
	g.Version = Version()
	line, lineErr := g.Line()
	if lineErr != nil {
		return lineErr
	}
	if _, err := out.Write(line); err != nil || g.Refused != "" {
		return errors.Join(err, refusal(g))
	}
	defer func() { _ = s.lock.Close() }() // only a lock
	go s.read(in)                         // it ends with in, at the latest with the process
	for {
		select {
		case <-ctx.Done():
			return nil
		case r, ok := <-s.requests:
			if !ok {
				return s.bad
			}
			if err := s.trial(ctx, r); err != nil {
				return err
			}
		}
	}
}

func refusal(g wire.Greeting) error {
	if g.Refused == "" {
		return nil
	}
	return errors.New(g.Refused)
}

// A server is one Serve.
type server struct {
	out      io.Writer
	lock     *os.File
	requests chan wire.Request
	gone     chan struct{} // closed when in has ended
	bad      error         // why reading ended, other than by in's end
}

// prepare makes sure that this machine is ours alone, and clean.
func (s *server) prepare(ctx context.Context) (wire.Greeting, error) {
	var g wire.Greeting
	if os.Geteuid() != 0 {
		return g, errors.New("the agent needs root, for BPF, network devices and the kernel's log")
	}
	found, err := machine.Read(machine.Source{})
	if err != nil {
		return g, err
	}
	g.Release = found.Release
	if s.lock, err = lockMachine(ctx); err != nil {
		return g, err
	}
	g.Undone, err = sweep(ctx, journalDir(), dyingTime)
	return g, err
}

// lockName is a socket's name without a file, which is free again as soon as the last process that has the
// socket ends.
const lockName = "@napistall-agent"

// lockMachine waits until no other agent is in this network namespace.
func lockMachine(ctx context.Context) (*os.File, error) {
	limit := time.After(lockWait)
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	for {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("make a lock: %w", err)
		}
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: lockName})
		if err == nil {
			return os.NewFile(uintptr(fd), "lock"), nil
		}
		err = errors.Join(err, unix.Close(fd))
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, fmt.Errorf("take the lock %s: %w", lockName, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit:
			return nil, fmt.Errorf("another trial of napistall has been running on this machine for %v", lockWait)
		case <-tick.C:
		}
	}
}

// read passes on what in asks for, until it ends.
func (s *server) read(in io.Reader) {
	defer close(s.requests)
	defer close(s.gone)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // a request that was cut is none
			return
		}
		r, err := wire.DecodeRequest(line)
		if err != nil {
			s.bad = err
			return
		}
		s.requests <- r
	}
}

// trial runs r in a process of its own, and passes its records on.
func (s *server) trial(ctx context.Context, r wire.Request) error {
	w, err := s.start(r)
	if err != nil {
		return endFor(s.out, 0, err)
	}
	relayed := make(chan result, 1)
	go func() {
		n, ended, err := relay(s.out, w.records)
		relayed <- result{n, ended, err}
	}()
	end := w.watch(ctx, s.gone, relayed, r.Trial.Arm.Duration+setupTime+leaveTime)
	died := w.wait()
	_, err = sweep(ctx, journalDir(), 0) // its process has been waited for
	if end.err != nil {
		return errors.Join(end.err, err)
	}
	if !end.ended {
		return errors.Join(err, endFor(s.out, end.n, fmt.Errorf("the trial's process died: %w: %s", orNil(died), w.said.text())))
	}
	return err
}

// A result is what relay returned.
type result struct {
	n     int
	ended bool
	err   error
}

// A worker is a trial's process as the one that waits for it sees it.
type worker struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	records *os.File
	said    tail
}

// start starts r's process, off the CPU under test. It has a process group of its own: a Ctrl-C is for
// whoever asked to handle.
func (s *server) start(r wire.Request) (*worker, error) {
	records, give, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the records' pipe: %w", err)
	}
	defer func() { _ = give.Close() }() // the child has its own; nothing was written here
	w := &worker{records: records, cmd: exec.Command("/proc/self/exe")}
	w.cmd.Args = []string{"napistall", "trial"}
	w.cmd.Env = append(os.Environ(), roleEnv+"="+roleTrial)
	w.cmd.ExtraFiles = []*os.File{give, s.lock}
	w.cmd.Stderr = &w.said
	w.cmd.WaitDelay = time.Second
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("make the trial's pipe: %w", err), records.Close())
	}
	leaveCPU(r.Trial)
	if err := w.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the trial's process: %w", err), records.Close())
	}
	line, err := r.Line()
	if err == nil {
		_, err = w.stdin.Write(line)
	}
	if err != nil { // it has died already, and will say why
		w.said.Write([]byte(err.Error()))
	}
	return w, nil
}

// watch returns how the records ended. It tells the trial to stop when nobody wants it any more, and
// ends it when it does not stop.
func (w *worker) watch(ctx context.Context, gone <-chan struct{}, relayed <-chan result, limit time.Duration) result {
	late := time.NewTimer(limit)
	defer late.Stop()
	done := ctx.Done()
	for {
		select {
		case r := <-relayed:
			return r
		case <-gone:
			gone = nil
		case <-done:
			done = nil
		case <-late.C:
			_ = w.cmd.Process.Kill() // it may have ended
			return <-relayed
		}
		_ = w.stdin.Close() // it stops, which takes as long as its load at most
		late.Reset(leaveTime)
	}
}

// wait returns when the process has ended, and what it ended with.
func (w *worker) wait() error {
	_ = w.stdin.Close()
	stuck := time.AfterFunc(leaveTime, func() { _ = w.cmd.Process.Kill() })
	defer stuck.Stop()
	err := w.cmd.Wait()
	_ = w.records.Close() // only read
	return err
}

// errLeft is why a trial stops whose waiting process has gone.
var errLeft = errors.New("nobody waits for the trial any more")

// trialProcess is a trial's process: it runs the one that its standard input asks for, until that ends.
func trialProcess() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // nothing comes; that it ends is what matters
		cancel(errLeft)
	}()
	w := wire.NewWriter(os.NewFile(recordsFD, "records"))
	r, err := wire.DecodeRequest(line)
	if err == nil {
		err = Run(ctx, r, w.Write)
	}
	if err == nil {
		return 0
	}
	if err := w.Write(failed(err)); err != nil {
		fmt.Fprintf(os.Stderr, "napistall: %v\n", err)
	}
	return 1
}

// leaveCPU moves this process off the CPU that trial is to test, and so the ones that it starts. What
// is wrong with the trial or the machine is for the trial's own process to say.
func leaveCPU(trial experiment.Trial) {
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return
	}
	online, err := machine.ParseCPUList(string(list))
	if err != nil {
		return
	}
	if _, spare, err := load.CPUs(trial.Arm.Load.CPU, online); err == nil {
		_ = machine.PinProcess(spare) // the trial's process pins itself too, and says so when it can't
	}
}
