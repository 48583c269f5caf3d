package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/testenv"
	"github.com/napistall/napistall/klog"
)

const stallText = "[   41.200011] rcu: INFO: rcu_sched self-detected stall on CPU\n" +
	"[   41.200490] rcu: \t1-....: (2099 ticks this GP) idle=7a1c/1/0x40000002 softirq=410/410 fqs=1048\n" +
	"[   41.201002] rcu: \t(t=2100 jiffies g=733 q=41 ncpus=2)\n"

// caught keeps what a logPrinter was given.
type caught struct {
	events chan []klog.Event
	none   bool
}

func (c *caught) begin()                                  {}
func (c *caught) log(string)                              {}
func (c *caught) incident(e []klog.Event, _ klog.Verdict) { c.events <- append([]klog.Event{}, e...) }
func (c *caught) nothing()                                { c.none = true }
func (c *caught) end()                                    {}

func TestParseCompressed(t *testing.T) {
	pack := map[string]func(io.Writer) (io.WriteCloser, error){
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	}
	for name, packer := range pack {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			w, err := packer(&b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, stallText); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			c := caught{events: make(chan []klog.Event, 9)}
			found, err := parseLog(&c, "", strings.NewReader(b.String()))
			if err != nil || !found {
				t.Fatalf("parseLog = %v, %v; want true, nil", found, err)
			}
			if e := <-c.events; len(e) != 1 || e[0].GP != "g=733" {
				t.Errorf("events %+v; want one of g=733", e)
			}
		})
	}
}

// A log that does not end is shown when it pauses, and left when the context is done.
func TestFollowLog(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "kmsg")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		testenv.Lacks(t, "mkfifo", err.Error())
	}
	w, err := os.OpenFile(fifo, os.O_RDWR, 0) // both ends: neither side waits for the other
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if _, err := io.WriteString(w, strings.ReplaceAll(stallText, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := caught{events: make(chan []klog.Event, 9)}
	done := make(chan error)
	go func() {
		_, err := followLog(ctx, []string{fifo}, &c)
		done <- err
	}()
	if e := <-c.events; len(e) != 1 || e[0].Reports != 1 {
		t.Errorf("at the first pause: %+v; want one event", e)
	}
	more := strings.ReplaceAll(stallText, "[   41", "[  104")
	if _, err := io.WriteString(w, strings.ReplaceAll(more, "t=2100", "t=8403")); err != nil {
		t.Fatal(err)
	}
	if e := <-c.events; len(e) != 1 || e[0].Reports != 2 {
		t.Errorf("at the second pause: %+v; want the event with 2 reports", e)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("followLog = %v; want %v", err, context.Canceled)
	}
}

// node-problem-detector wants a match up to the end of the line.
func TestNPDRules(t *testing.T) {
	lines := map[string]string{
		"rcu: INFO: rcu_sched self-detected stall on CPU":                                                          "RCUStall",
		"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:":                                                    "RCUStall",
		"rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 0-.... } 6431 jiffies s: 565 root: 0x1/.": "RCUExpeditedStall",
		"INFO: rcu_tasks detected stalls on tasks:":                                                                "RCUTasksStall",
		"watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [napi/nt1-67:88]":                                       "NAPIThreadSoftLockup",
		"watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/0:1:121]":                                      "SoftLockup",
		"INFO: task ip:817 blocked for more than 122 seconds.":                                                     "TaskHung",
		"INFO: task ip:817 is blocked on a mutex likely owned by task kworker/u8:3:55.":                            "LockOwner",
		"eth0: link is up": "",
	}
	for line, want := range lines {
		got := ""
		for _, r := range npdRules() {
			if regexp.MustCompile(r.Pattern + `\z`).MatchString(line) {
				got += r.Reason
			}
		}
		if got != want {
			t.Errorf("%q matches %q; want %q", line, got, want)
		}
	}
}
