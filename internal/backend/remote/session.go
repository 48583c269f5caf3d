package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/wire"
)

// script is what the board's shell runs: it says what the board is, takes a number and as many bytes, and
// becomes the program that they are. It is POSIX sh as busybox has it, on one line and without a quote or
// backslash, so that any login shell passes it on.
//
// The program's file is made anew (noclobber), for root alone, where a program can be run; it is removed
// before the program starts, and when the shell ends before that. Reading stops after exactly the bytes that
// were announced, since nothing else is sent before the program's greeting.
const script = `echo napistall-board $(uname -m) $(id -u) $(uname -r); read n || exit 1; umask 077; f=; ` +
	`for d in /tmp /var/tmp /dev/shm /run /root; do f=$d/.napistall-agent-$$; ` +
	`(set -C; : >$f) 2>/dev/null || { f=; continue; }; ` +
	`trap "rm -f $f" 0; trap "exit 1" 1 2 15; ` +
	`echo "exit 0" >$f && chmod 700 $f && $f 2>/dev/null && break; rm -f $f; f=; done; ` +
	`[ "$f" ] || { echo ` + noRoom + `; cat >/dev/null; exit 1; }; ` +
	`if [ "$(echo ab | head -c 1 2>/dev/null)" = a ]; then head -c $n >$f; else dd bs=1 count=$n >$f 2>/dev/null; fi; ` +
	`[ $(wc -c <$f) -eq $n ] || exit 1; exec 9<$f; rm -f $f; trap - 0; exec /proc/self/fd/9 agent`

// noRoom is what the script says when no directory will do; it takes the program all the same, so that this
// is what is heard and not that nobody listens.
const noRoom = "napistall-no-room"

// boardSays begins the script's line about the board.
const boardSays = "napistall-board "

// A board is what the script says of one.
type board struct {
	machine string // uname -m
	release string // uname -r
	root    bool
}

// A session is one ssh with an agent at its other end.
type session struct {
	target Target
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	pipe   *os.File
	out    *bufio.Reader // of pipe
	said   *backend.Said
	ended  chan struct{} // closed when ssh has ended
	err    error         // cmd.Wait's
	left   chan struct{} // closed by close, which frees readers
	reads  sync.WaitGroup
}

// command returns ssh's command line. BatchMode: nobody is there to answer a prompt in the middle of a run.
// A host's key that is not known is refused, whatever the configuration says. A board that stalls does not answer
// for a while, which must not end the session.
func (b Backend) command() []string {
	argv := b.ssh
	if len(argv) == 0 {
		argv = []string{"ssh"}
	}
	argv = append(append([]string(nil), argv...), "-T", "-e", "none",
		"-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=0",
		"-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no")
	if b.Target.Port != "" {
		argv = append(argv, "-p", b.Target.Port)
	}
	argv = append(argv, b.options...)
	return append(argv, "--", b.Target.Host, "exec sh -c '"+script+"'")
}

// argv is the command as a person would want to see it: without the script.
func (s *session) argv() []string {
	return append(s.cmd.Args[:len(s.cmd.Args)-1:len(s.cmd.Args)-1], "napistall agent")
}

// open connects to the board, sends it the agent that fits, and waits for the agent's greeting.
func (b Backend) open(ctx context.Context) (*session, error) {
	s, err := b.dial()
	if err != nil {
		return nil, err
	}
	err = s.prepare(ctx, b)
	if err == nil {
		return s, nil
	}
	err = s.explain(err)
	if closeErr := s.close(b.limit().leave); closeErr != nil {
		b.log(closeErr.Error())
	}
	return nil, err
}

// dial starts ssh.
func (b Backend) dial() (*session, error) {
	argv := b.command()
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, backend.UnsupportedError(fmt.Sprintf("reach %s: %s is not there: install ssh, on Debian openssh-client", b.Target, argv[0]))
	}
	s := &session{target: b.Target, cmd: exec.Command(argv[0], argv[1:]...), said: new(backend.Said),
		ended: make(chan struct{}), left: make(chan struct{})}
	s.cmd.Stderr = s.said
	s.cmd.WaitDelay = time.Second
	out, give, err := os.Pipe() // not StdoutPipe, which ssh's end would close with records in it
	if err != nil {
		return nil, fmt.Errorf("make the records' pipe: %w", err)
	}
	defer func() { _ = give.Close() }() // the child has its own; nothing was written here
	s.pipe, s.out, s.cmd.Stdout = out, bufio.NewReaderSize(out, maxWord), give
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	if err := s.start(); err != nil {
		return nil, errors.Join(&backend.MachineError{Op: "start " + argv[0], Err: err}, out.Close())
	}
	return s, nil
}

// prepare talks to the script and then to the agent, up to its greeting.
func (s *session) prepare(ctx context.Context, b Backend) error {
	var what board
	if err := s.await(ctx, b.limit().connect, func(line string) (found bool, err error) {
		what, found = parseBoard(line)
		return found, nil
	}); err != nil {
		return &backend.MachineError{Op: "connect to " + s.target.String(), Err: err}
	}
	if !what.root {
		return backend.UnsupportedError(fmt.Sprintf("run trials on %s: it needs root, for BPF, network devices and the kernel's log: log in as root", s.target))
	}
	program, err := b.program(what)
	if err != nil {
		return err
	}
	if err := s.send(ctx, b.limit().upload, program); err != nil {
		return &backend.MachineError{Op: "send the agent to " + s.target.String(), Err: err}
	}
	var g wire.Greeting
	if err := s.await(ctx, b.limit().upload, func(line string) (found bool, err error) {
		if strings.Contains(line, noRoom) {
			return false, errNoRoom
		}
		g, found, err = wire.DecodeGreeting(line)
		return found, err
	}); errors.Is(err, errNoRoom) {
		return backend.UnsupportedError(fmt.Sprintf("run trials on %s: %v", s.target, err))
	} else if err != nil {
		return &backend.MachineError{Op: "start the agent on " + s.target.String(), Err: err}
	}
	if g.Refused != "" {
		return &backend.MachineError{Op: "start the agent on " + s.target.String(), Err: errors.New(g.Refused)}
	}
	for _, done := range g.Undone {
		b.log("left on " + s.target.String() + " by a run that was killed, and undone: " + done)
	}
	return nil
}

// parseBoard reads the script's line.
func parseBoard(line string) (board, bool) {
	_, rest, ok := strings.Cut(line, boardSays)
	f := strings.Fields(rest)
	if !ok || len(f) != 3 {
		return board{}, false
	}
	return board{machine: f[0], root: f[1] == "0", release: f[2]}, true
}

var errNoRoom = errors.New("it has no directory in which a program can be run: /tmp, /var/tmp, /dev/shm, /run and /root are full or mounted noexec")

// maxBanner is how many lines a login may print before what we wait for, and maxWord how long one may be.
const (
	maxBanner = 1000
	maxWord   = 64 << 10
)

// errLate says that a step took longer than it may.
var errLate = errors.New("no answer")

// await passes lines to find until it has found what it looks for.
func (s *session) await(ctx context.Context, limit time.Duration, find func(string) (bool, error)) error {
	return s.bounded(ctx, limit, func() error {
		var last string
		for range maxBanner {
			text, err := s.out.ReadSlice('\n')
			line := string(text)
			if errors.Is(err, bufio.ErrBufferFull) {
				return fmt.Errorf("a line of more than %d bytes, which begins %.200q", maxWord, line)
			}
			if err != nil {
				if last = strings.TrimSpace(last + line); last != "" {
					return fmt.Errorf("the session ended; the last that it said: %.200q", last)
				}
				return errors.New("the session ended")
			}
			if found, err := find(line); found || err != nil {
				return err
			}
			last = line
		}
		return fmt.Errorf("%d lines and no answer among them", maxBanner)
	})
}

// send sends the program behind its length.
func (s *session) send(ctx context.Context, limit time.Duration, program []byte) error {
	return s.bounded(ctx, limit, func() error {
		_, err := s.stdin.Write(append([]byte(strconv.Itoa(len(program))+"\n"), program...))
		return err
	})
}

// bounded runs f, which ends at the latest with the session, and ends the session when f takes too long.
func (s *session) bounded(ctx context.Context, limit time.Duration, f func() error) error {
	result := make(chan error, 1)
	s.reads.Go(func() { result <- f() })
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		s.kill()
		return ctx.Err()
	case <-late.C:
		s.kill()
		return fmt.Errorf("%w for %v", errLate, limit)
	}
}

// wait waits for ssh's end.
func (s *session) wait() {
	s.err = s.cmd.Wait()
	close(s.ended)
}

// kill ends ssh without waiting for the board, which then sees its end of the connection close.
func (s *session) kill() { _ = s.cmd.Process.Kill() } // it may have ended

// ask sends a request. The records that answer it come from the channel, up to an End or an error.
func (s *session) ask(r wire.Request) (<-chan backend.Incoming, error) {
	line, err := r.Line()
	if err != nil {
		return nil, err
	}
	if _, err := s.stdin.Write(line); err != nil {
		return nil, err
	}
	records := make(chan backend.Incoming)
	s.reads.Go(func() {
		in := wire.NewReader(s.out) // nothing follows an End before the next request
		for {
			r, err := in.Read()
			select {
			case records <- backend.Incoming{Record: r, Err: err}:
			case <-s.left:
				_, _ = io.Copy(io.Discard, s.out) // so that the agent can end
				return
			}
			if err != nil || r.End != nil {
				return
			}
		}
	})
	return records, nil
}

// close ends the agent's input and waits until it has undone everything and the session has ended.
func (s *session) close(limit time.Duration) error {
	_ = s.stdin.Close() // it may have ended
	close(s.left)
	var err error
	select {
	case <-s.ended:
	case <-time.After(limit):
		s.kill()
		<-s.ended
		err = &backend.MachineError{Op: "leave " + s.target.String(), Err: fmt.Errorf("the agent did not end within %v; it stops by itself when its trial's time is over", limit)}
	}
	s.reads.Wait()
	_ = s.pipe.Close() // only read
	return err
}

// shownLines of what ssh and the agent said go with an error.
const shownLines = 12

// endTime is for ssh to say why the connection was lost.
const endTime = 2 * time.Second

// explain adds to a *backend.MachineError what ssh and the agent said. What another try can't mend becomes
// another error.
func (s *session) explain(err error) error {
	broke, ok := errors.AsType[*backend.MachineError](err)
	if !ok {
		return err
	}
	select {
	case <-s.ended:
		if s.err != nil {
			broke.Err = fmt.Errorf("%w: ssh ended with %w", broke.Err, s.err)
		}
	case <-time.After(endTime):
	}
	broke.Last = s.said.Lines(shownLines)
	text := strings.Join(broke.Last, "\n")
	for sign, advice := range map[string]string{
		"Host key verification failed": "its key is not the known one, or none is known: look at it, and connect once by hand with ssh",
		"Permission denied":            "it wants a password or another key: only keys and an ssh agent can be used here",
		"Could not resolve hostname":   "there is no such host",
	} {
		if strings.Contains(text, sign) {
			return fmt.Errorf("connect to %s: %s: %s", s.target, advice, broke.Last[len(broke.Last)-1])
		}
	}
	return err
}
