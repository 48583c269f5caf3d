package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe is waited for, whether or not somebody writes to it, until Ctrl-C; what it brought until then is printed.
func TestParseWaitsForAPipe(t *testing.T) {
	const stall = "[ 1.0] rcu: INFO: rcu_sched self-detected stall on CPU\n[ 1.1] rcu: \t1-....: (5 ticks this GP) idle=1/1/0 softirq=1/1 fqs=1\n" +
		"[ 1.2] rcu: \t(t=5250 jiffies g=9 q=1 ncpus=2)\n"
	// More than a pipe holds: once it is written, the stall has been read.
	filled := stall + strings.Repeat("[ 9.0] nothing\n", 1<<15)
	for _, tt := range []struct {
		name, text string
		flags      []string
		stdin      bool
	}{
		{name: "nobody writes"},
		{name: "nobody writes, followed", flags: []string{"--follow"}},
		{name: "it stays open", text: filled},
		{name: "it stays open, followed", text: filled, flags: []string{"--follow"}},
		{name: "standard input", text: filled, stdin: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := unix.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			root, out := newRoot(), new(bytes.Buffer)
			root.SetOut(out)
			args := append([]string{"parse"}, tt.flags...)
			var w io.WriteCloser
			if tt.stdin {
				r, give, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = r.Close() }() // only read
				root.SetIn(r)
				w = give
			} else {
				args = append(args, pipe)
			}
			root.SetArgs(args)
			done := make(chan int, 1)
			go func() { done <- status(root.ExecuteContext(ctx)) }()
			if tt.text != "" {
				if w == nil {
					var err error
					if w, err = os.OpenFile(pipe, os.O_WRONLY, 0); err != nil {
						t.Fatal(err)
					}
				}
				defer func() { _ = w.Close() }() // what matters has been read
				if _, err := io.WriteString(w, tt.text); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			select {
			case got := <-done:
				if got != exitInterrupted {
					t.Errorf("exit status %d; want %d", got, exitInterrupted)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it goes on")
			}
			if found := strings.Contains(out.String(), "g=9"); found != (tt.text != "") {
				t.Errorf("it printed %q; want the stall: %v", out, tt.text != "")
			}
		})
	}
}
