package klog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// collect reads all events of r.
func collect(t testing.TB, r io.Reader) []Event {
	t.Helper()
	events := []Event{}
	for e, err := range Events(r) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// A stream gives what the text in one piece gives, however it comes.
func TestEventsAsParse(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text := read(t, filepath.Base(file))
		want := Parse(Lines(text))
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
			"CRLF": strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")), "error with data": iotest.DataErrReader(strings.NewReader(text)),
		} {
			if diff := cmp.Diff(want, collect(t, r)); diff != "" {
				t.Errorf("%s, %s (-Parse +Events):\n%s", file, name, diff)
			}
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	line := "[ 1234.567890] mtk_soc_eth 1e100000.ethernet eth0: port 2 link up at 1000Mbps, full duplex\n"
	text := []byte(strings.Repeat(line, 100_000))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		for e := range Events(bytes.NewReader(text)) {
			b.Fatalf("event %v", e)
		}
	}
}

// stallLine is a whole report in one line.
const stallLine = "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { P392 } 21382 jiffies s: 117 root: 0x0/T"

func TestEventsJournal(t *testing.T) {
	binary := "line one\nINFO: task ip:7 blocked for more than 122 seconds."
	size := make([]byte, 8)
	size[0] = byte(len(binary))
	texts := map[string]string{
		"json": `{"_TRANSPORT":"kernel","_BOOT_ID":"a","__MONOTONIC_TIMESTAMP":"2000000","_SOURCE_MONOTONIC_TIMESTAMP":"1000000","MESSAGE":"` + stallLine + `"}` + "\n" +
			`{"_TRANSPORT":"syslog","MESSAGE":"INFO: rcu_sched self-detected stall on CPU"}` + "\n" +
			`{"_TRANSPORT":"kernel","_BOOT_ID":"a","__MONOTONIC_TIMESTAMP":"3000000","MESSAGE":[73,78,70,79,58,32,116,97,115,107,32,105,112,58,55,32,98,108,111,99,107,101,100,32,102,111,114,32,109,111,114,101,32,116,104,97,110,32,49,50,50,32,115,101,99,111,110,100,115,46,1]}` + "\n",
		"export": "__CURSOR=s=1;i=1\n_TRANSPORT=kernel\n_BOOT_ID=a\n__MONOTONIC_TIMESTAMP=2000000\n_SOURCE_MONOTONIC_TIMESTAMP=1000000\nMESSAGE=" + stallLine + "\n\n" +
			"__CURSOR=s=1;i=2\n_TRANSPORT=stdout\nMESSAGE=INFO: rcu_sched self-detected stall on CPU\n\n" +
			"__CURSOR=s=1;i=3\n_TRANSPORT=kernel\n_BOOT_ID=a\n__MONOTONIC_TIMESTAMP=3000000\nMESSAGE\n" + string(size) + binary + "\n\n",
		"kmsg": "3,41,1000000,-;" + stallLine + "\n SUBSYSTEM=cpu\n3,42,3000000,-,caller=T9;INFO: task ip:7 blocked for more than 122 seconds.\\x01\n",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
				events := collect(t, r)
				if len(events) != 2 || events[0].GP != "s=117" || events[1].Task != "ip" {
					t.Fatalf("events %+v; want s=117 and a hung ip", events)
				}
				if events[0].First != time.Second || events[1].First != 3*time.Second {
					t.Errorf("at %v and %v; want 1s and 3s", events[0].First, events[1].First)
				}
			}
		})
	}
}

func TestEventsBoots(t *testing.T) {
	entry := func(boot string) string {
		return `{"_TRANSPORT":"kernel","_BOOT_ID":"` + boot + `","MESSAGE":"` + stallLine + `"}` + "\n"
	}
	lines := strings.Repeat("{\"_TRANSPORT\":\"kernel\",\"_BOOT_ID\":\"a\",\"MESSAGE\":\"lan0: link is up\"}\n", 20)
	events := collect(t, strings.NewReader(lines+entry("a")+entry("a")+entry("b")))
	if len(events) != 2 || events[0].Reports != 2 || events[1].Boot != 1 {
		t.Errorf("events %+v; want one with 2 reports, and one of the next boot", events)
	}
}

// A stall is found behind whatever is no log.
func TestEventsHostile(t *testing.T) {
	stall := "\n[   41.200011] " + stallLine + "\n"
	tests := map[string]string{
		"1 MB line":       strings.Repeat("x", 1<<20),
		"1 MB of heads":   strings.Repeat("INFO: task ", 1<<17),
		"1 MB of stamps":  strings.Repeat("[    1.000000] ", 1<<16),
		"NULs":            strings.Repeat("\x00", 1<<18),
		"NULs in a line":  "INFO: rcu_sched\x00 self-detected\x00",
		"invalid UTF-8":   strings.Repeat("\xff\xfe\xc0", 1<<16),
		"only CR":         strings.Repeat("[    2.000000] lan0: link is up\r", 1<<13),
		"braces":          "{" + strings.Repeat(`{"MESSAGE":`, 1<<14) + "}",
		"export, no end":  "MESSAGE\n\xff\xff\xff\xff\xff\xff\xff\x7f",
		"wrapped forever": strings.Repeat("INFO: rcu_sched detected\n", 1<<12),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			found := false
			for _, e := range collect(t, strings.NewReader(text+stall)) {
				found = found || e.GP == "s=117"
			}
			if !found {
				t.Error("the stall behind it is missing")
			}
		})
	}
}

// endless is a log without an end, full of stalls.
type endless struct{ left, n int }

func (r *endless) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	r.n++
	text := stamped(fmt.Sprintf("%5d.000000", r.n*7), selfHead, busyCPU, strings.Replace(selfEnd, "g=411", fmt.Sprintf("g=%d", r.n*4), 1), napiTask) +
		stamped(fmt.Sprintf("%5d.000100", r.n*7), napiStack...)
	r.left -= len(text)
	return copy(b, text), nil
}

// Memory does not grow with the log: 40 MB of nothing but stalls are read in less than half of that.
func TestEventsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 40 MB")
	}
	var m runtime.MemStats
	most, n := uint64(0), 0
	for range Events(&endless{left: 40 << 20}) {
		if n++; n%500 == 0 {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
	}
	if n < 20_000 || most > 20<<20 {
		t.Errorf("%d events with %d MB in use; want more than 20000, and less than 20 MB", n, most>>20)
	}
}

func TestEventsReadError(t *testing.T) {
	r := io.MultiReader(strings.NewReader(stallLine+"\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	n := 0
	var last error
	for _, err := range Events(r) {
		n++
		last = err
	}
	if n != 2 || !errors.Is(last, io.ErrUnexpectedEOF) {
		t.Errorf("%d values, the last error %v; want the event and %v", n, last, io.ErrUnexpectedEOF)
	}
}

func TestEventsStopped(t *testing.T) {
	n := 0
	for range Events(&endless{left: 1 << 30}) {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d events after the break", n)
	}
}
