package klog

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// addSeeds gives the fuzzer the test texts.
func addSeeds(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
}

// isHead is a loose test for lines that can begin a report. A head may be wrapped over two lines.
func isHead(l Line) bool { return telling(l.Text) || strings.Contains(l.Text, "Comm: ") }

func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		lines := Lines(text)
		for _, l := range lines {
			if l.Stamp < 0 || strings.ContainsAny(l.Text, "\r\n") || strings.TrimSpace(l.Text) == "" {
				t.Fatalf("Lines: %+v", l)
			}
		}
		events := Parse(lines)
		checkEvents(t, lines, events)
		if diff := cmp.Diff(lines, Merge(lines, lines)); diff != "" && len(lines) > 0 {
			t.Errorf("Merge(x, x) (-x +got):\n%s", diff)
		}
		if diff := cmp.Diff(events, Parse(Merge(nil, lines))); diff != "" {
			t.Errorf("Parse(Merge(nil, x)) (-Parse(x) +got):\n%s", diff)
		}
		half := lines[:len(lines)/2] // a kmsg that was lost from here on adds nothing that the console hasn't
		if diff := cmp.Diff(events, Parse(Merge(half, lines))); diff != "" {
			t.Errorf("Parse(Merge(half of x, x)) (-Parse(x) +got):\n%s", diff)
		}
	})
}

func checkEvents(t *testing.T, lines []Line, events []Event) {
	t.Helper()
	heads, reports := 0, 0
	for i, l := range lines {
		if isHead(l) || i > 0 && isHead(Line{Text: lines[i-1].Text + " " + l.Text}) {
			heads++
		}
	}
	for _, e := range events {
		reports += e.Reports
		switch {
		case !slices.Contains(Kinds(), e.Kind):
			t.Errorf("kind %q is none of Kinds", e.Kind)
		case e.Reports < 1, len(e.Lines) < 1, len(e.Lines) > maxLines, len(e.CPUs) > maxCPUs:
			t.Errorf("out of bounds: %+v", e)
		case e.First > e.Last, e.First < 0, !e.HasTime && e.Last != 0:
			t.Errorf("times: %+v", e)
		case (e.Kind == Classic || e.Kind == Expedited) && strings.HasPrefix(e.Flavor, "rcu_tasks"):
			t.Errorf("Tasks RCU counted as %v", e.Kind)
		case !slices.IsSorted(e.CPUs), !slices.IsSorted(e.Readers):
			t.Errorf("not in order: %+v", e)
		}
	}
	if reports > heads {
		t.Errorf("%d reports in %d events from %d lines that can be heads", reports, len(events), heads)
	}
}

func FuzzMerge(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for i := range files {
		a, err := os.ReadFile(files[i])
		if err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(files[(i+1)%len(files)])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(a), string(b))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		kmsg, console := Lines(a), Lines(b)
		got := Merge(kmsg, console)
		if len(got) < len(kmsg) || len(got) > len(kmsg)+len(console) {
			t.Fatalf("%d lines from %d and %d", len(got), len(kmsg), len(console))
		}
		i := 0
		for _, l := range got { // all of kmsg, in its order
			if i < len(kmsg) && l == kmsg[i] {
				i++
			}
		}
		if i != len(kmsg) {
			t.Errorf("line %d of kmsg is missing or out of order", i)
		}
		checkEvents(t, got, Parse(got))
	})
}

func FuzzParseKmsg(f *testing.F) {
	f.Add("6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n")
	f.Add(`3,9,7,c,caller=C1;rcu: \x091-....: \xzz`)
	f.Fuzz(func(t *testing.T, record string) {
		_, level, l, err := ParseKmsg(record)
		if err != nil {
			if l.HasStamp || l.Text != "" {
				t.Errorf("ParseKmsg(%q) = %+v beside error %v", record, l, err)
			}
			return
		}
		if level < 0 || level > 7 || l.Stamp < 0 || len(l.Text) > len(record) {
			t.Errorf("ParseKmsg(%q) = level %d, %+v", record, level, l)
		}
		Parse([]Line{l})
	})
}

// oneByOne reads in pieces of size bytes.
type oneByOne struct {
	text string
	size int
}

func (r *oneByOne) Read(b []byte) (int, error) {
	n := copy(b, r.text[:min(len(r.text), r.size)])
	r.text = r.text[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func FuzzEvents(f *testing.F) {
	addSeeds(f)
	f.Add("__CURSOR=s=1;i=2\n_TRANSPORT=kernel\n_SOURCE_MONOTONIC_TIMESTAMP=41200011\nMESSAGE\n\x04\x00\x00\x00\x00\x00\x00\x00a\nbc\n\n")
	f.Add(`{"MESSAGE":"INFO: rcu_sched self-detected stall on CPU","_TRANSPORT":"kernel","__MONOTONIC_TIMESTAMP":"7"}` + "\n" + `{"MESSAGE":[9,1],"_BOOT_ID":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		events := collect(t, strings.NewReader(text))
		for _, size := range []int{1, 7, 4096} { // however the stream comes in
			if diff := cmp.Diff(events, collect(t, &oneByOne{text, size})); diff != "" {
				t.Fatalf("in pieces of %d (-whole +pieces):\n%s", size, diff)
			}
		}
		for i, e := range events {
			if e.Reports < 1 || len(e.Lines) > maxLines || len(e.Traces) > maxTraces || len(e.States) > maxStates || e.First > e.Last || e.Boot < 0 {
				t.Errorf("out of bounds: %+v", e)
			}
			if i > 0 && e.Boot < events[i-1].Boot {
				t.Errorf("boot %d after boot %d", e.Boot, events[i-1].Boot)
			}
			for _, tr := range e.Traces {
				if len(tr.Frames) > maxFrames || len(tr.Task) > maxName {
					t.Errorf("trace out of bounds: %+v", tr)
				}
			}
			if age, ok := e.Age(); ok && age < 0 {
				t.Errorf("age %v of %+v", age, e)
			}
		}
		if first := collect(t, strings.NewReader(text+"\n\n")); len(first) != len(events) {
			t.Errorf("%d events; %d with empty lines behind", len(events), len(first))
		}
		checkVerdict(t, events, Judge(events))
	})
}

// checkVerdict holds Judge to its promises, whatever the events.
func checkVerdict(t *testing.T, events []Event, v Verdict) {
	t.Helper()
	accuse := 0
	for _, e := range events {
		switch e.Kind {
		case Classic, Expedited, TasksRCU, SoftLockup, HardLockup, CPUDump:
			accuse++
		case Fragment:
			accuse += len(e.States)
		}
	}
	switch {
	case !slices.Contains(precedence(), v.Class):
		t.Errorf("class %q", v.Class)
	case v.Class == ThreadedNAPI && (len(v.Signs) < 2 || accuse == 0 || v.Hog == nil):
		t.Errorf("threaded NAPI from too little: %+v", v)
	case (v.Class == Unknown || v.Class == Fragmentary) != (v.Confidence == None):
		t.Errorf("confidence %q in %q", v.Confidence, v.Class)
	case v.Summary == "", len(v.Victims) > maxVictims:
		t.Errorf("verdict %+v", v)
	}
}
