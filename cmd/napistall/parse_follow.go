package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/napistall/napistall/klog"
)

const (
	// followPause is how long a log must be quiet before what it reported is shown: a report takes many lines.
	followPause = time.Second
	// followLimit is how long it is waited for that.
	followLimit = 5 * time.Second
	// followLine is how much of a line is looked at.
	followLine = 64 << 10
)

// followLog shows what the log of args, or /dev/kmsg, reports, from what is there already on until ctx is done or
// the log ends. Whenever an incident has changed, all of it is shown again.
func followLog(ctx context.Context, args []string, p logPrinter) (found bool, err error) {
	name := "/dev/kmsg"
	if len(args) > 0 {
		name = args[0]
	}
	f, err := openLog(ctx, name)
	if errors.Is(err, fs.ErrNotExist) && len(args) == 0 {
		return false, fmt.Errorf("follow the kernel's log: %w: no %s here", errors.ErrUnsupported, name)
	}
	if err != nil {
		return false, named(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })
	defer stop()
	w := follower{p: p, shown: map[string]int{}}
	w.parser = klog.NewParser(func(e klog.Event) { w.gone = append(w.gone, e) })
	if err := w.read(ctx, f); err != nil {
		return len(w.shown) > 0, fmt.Errorf("follow %s: %w", name, err)
	}
	w.parser.Close()
	w.show()
	return w.found, ctx.Err()
}

// A follower shows a log that grows.
type follower struct {
	p      logPrinter
	parser *klog.Parser
	gone   []klog.Event   // of boots before, not shown yet
	shown  map[string]int // reports of each event that were shown
	found  bool
	partly []byte // of a line
	long   bool   // the line's rest is left out
}

// read takes in the log until it ends or ctx is done.
func (w *follower) read(ctx context.Context, f *os.File) error {
	buf := make([]byte, 16<<10) // a record of /dev/kmsg comes whole or not at all
	var since time.Time         // of the oldest line that nothing was shown after
	for ctx.Err() == nil {
		var wake time.Time
		if !since.IsZero() {
			wake = time.Now().Add(followPause)
		}
		if err := f.SetReadDeadline(wake); err != nil && !errors.Is(err, os.ErrNoDeadline) {
			return err
		}
		if ctx.Err() != nil { // done between the two
			break
		}
		n, err := f.Read(buf)
		w.take(buf[:n])
		if n > 0 && since.IsZero() {
			since = time.Now()
		}
		quiet := errors.Is(err, os.ErrDeadlineExceeded)
		if !since.IsZero() && (quiet || time.Since(since) > followLimit) {
			w.show()
			since = time.Time{}
		}
		switch {
		case err == nil, quiet, errors.Is(err, syscall.EPIPE): // EPIPE: lines were overwritten before they were read
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
	return nil
}

// take gives the lines in b to the parser.
func (w *follower) take(b []byte) {
	for len(b) > 0 {
		line, rest, ended := strings.Cut(string(b), "\n")
		b = b[len(b)-len(rest):]
		if !w.long {
			w.partly = append(w.partly, line...)
		}
		w.long = w.long || len(w.partly) > followLine
		if !ended {
			return
		}
		for _, l := range klog.Lines(string(w.partly)) {
			w.parser.Line(l)
		}
		w.partly, w.long = w.partly[:0], false
	}
}

// show prints the incidents that have changed.
func (w *follower) show() {
	events := append(w.gone, w.parser.Open()...)
	w.gone = nil
	var together []klog.Event
	for i, e := range events {
		together = append(together, e)
		if i+1 < len(events) && klog.Together(together, events[i+1]) {
			continue
		}
		if w.changed(together) {
			w.found = true
			w.p.incident(together, klog.Judge(together))
			w.flush()
		}
		together = nil
	}
}

func (w *follower) flush() {
	switch p := w.p.(type) {
	case *textPrinter:
		_ = p.out.Flush() // a write error stays and comes at the end
	case *jsonPrinter:
		_ = p.out.Flush()
	}
}

// changed reports whether something of events was not shown yet, and notes that it now is.
func (w *follower) changed(events []klog.Event) bool {
	if len(w.shown) > 1<<14 { // so that no log makes it large; some are then shown twice
		clear(w.shown)
	}
	changed := false
	for _, e := range events {
		key := fmt.Sprint(e.Kind, e.Flavor, e.GP, e.Task, e.PID, e.Device, e.CPUs, e.First, e.Boot)
		if w.shown[key] < e.Reports {
			w.shown[key] = e.Reports
			changed = true
		}
	}
	return changed
}
