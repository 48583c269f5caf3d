package qemu

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/wire"
)

// A process is one QEMU. Whoever starts it calls stop, however it ends.
type process struct {
	cmd     *exec.Cmd
	console <-chan string // the console's lines with their ends; closed when QEMU has ended
	records <-chan record // the agent's; closed when QEMU has ended
	stderr  *tail
	last    *tail // of the console
	done    chan struct{}
	err     error // cmd.Wait's; may be read once done is closed
	reading chan struct{}
	stopped chan struct{} // closed by stop, which frees readers that nobody listens to
	pipes   []*os.File    // our read ends
}

// A record is what the records channel gave: a record, or the error that ended it.
type record struct {
	experiment.Record
	err error
}

// The files that QEMU inherits, as their numbers in its command line: everything a trial needs is in
// memory or in a pipe, so that no kill leaves a file behind.
const (
	consolePath = "/dev/fd/1"
	initrdPath  = "/dev/fd/3"
	recordsPath = "/dev/fd/4"
)

// read starts the goroutines that turn the pipes into channels.
func (p *process) read(console, records io.Reader) {
	lines, recs := make(chan string), make(chan record)
	p.console, p.records = lines, recs
	p.reading, p.stopped = make(chan struct{}), make(chan struct{})
	both := make(chan struct{}, 2)
	go func() { p.readConsole(console, lines); both <- struct{}{} }()
	go func() { p.readRecords(records, recs); both <- struct{}{} }()
	go func() { <-both; <-both; close(p.reading) }()
}

func (p *process) readConsole(r io.Reader, lines chan<- string) {
	defer close(lines)
	in := bufio.NewReaderSize(r, 4096)
	for {
		line, err := in.ReadSlice('\n') // a longer line comes in pieces
		if len(line) > 0 {
			_, _ = p.last.Write(line) // never fails
			select {
			case lines <- string(line):
			case <-p.stopped:
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// readRecords passes the records on. After an error it only drains the pipe.
func (p *process) readRecords(r io.Reader, recs chan<- record) {
	defer close(recs)
	in := wire.NewReader(r)
	for {
		rec, err := in.Read()
		if errors.Is(err, io.EOF) || errors.Is(err, wire.ErrCut) {
			break
		}
		select {
		case recs <- record{rec, err}:
		case <-p.stopped:
		}
		if err != nil {
			break
		}
	}
	_, _ = io.Copy(io.Discard, r) // whatever comes after the End has no meaning
}

// kill ends QEMU and waits for it. What it had written can still be read from the channels.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// stop ends QEMU and the readers.
func (p *process) stop() {
	p.kill()
	close(p.stopped)
	<-p.reading
	for _, f := range p.pipes {
		_ = f.Close() // only read from
	}
}

// ended says how QEMU ended, with what it said on its stderr; nil for exit status 0. It may be called
// once QEMU has ended.
func (p *process) ended() error {
	<-p.done
	if p.err == nil {
		return nil
	}
	why := p.err.Error()
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		why = exit.String()
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			why = "killed by signal: " + ws.Signal().String()
		}
	}
	err := fmt.Errorf("QEMU ended with %s", why)
	if said := p.stderr.last(3); len(said) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.Join(said, "; "))
	}
	return err
}
