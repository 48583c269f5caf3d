package klog

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestParseCounts(t *testing.T) {
	tests := []struct {
		file string
		want map[Kind]int
	}{
		{"repeats.txt", map[Kind]int{Classic: 2, Expedited: 2}},
		{"interleaved.txt", map[Kind]int{Classic: 1}},
		{"expedited-split.txt", map[Kind]int{Expedited: 2}},
		{"suppressed.txt", map[Kind]int{Classic: 1, Expedited: 1}},
		{"tasks.txt", map[Kind]int{GPAge: 1, TasksRCU: 2}},
		{"collateral.txt", map[Kind]int{SoftLockup: 2, HardLockup: 1, HungTask: 1, MutexOwner: 1, WorkqueueLockup: 1,
			Timer: 1, Starved: 1, Panic: 1}},
		{"old.txt", map[Kind]int{Classic: 6, SoftLockup: 1}},
		{"wrapped.txt", map[Kind]int{Classic: 4, Expedited: 2}},
		{"reboot.txt", map[Kind]int{Classic: 3}},
		{"harmless.txt", map[Kind]int{}},
		{"numberless.txt", map[Kind]int{Classic: 4}},
		{"fragment.txt", map[Kind]int{Fragment: 1}},
		{"network.txt", map[Kind]int{UnregisterWait: 1, RTThrottle: 1, TXTimeout: 2, NOHZ: 1, Warning: 1, Oops: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			text := read(t, tt.file)
			for _, end := range []string{"\n", "\r\n", "\r\r\n", "\r", "\n\n"} {
				events := Parse(Lines(strings.ReplaceAll(text, "\n", end)))
				got := map[Kind]int{}
				for _, k := range Kinds() {
					if n := Count(events, k); n > 0 {
						got[k] = n
					}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("counts with line end %q (-want +got):\n%s", end, diff)
				}
			}
		})
	}
}

// TestGolden holds every field of every event. Read the diff after -update.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v; want files", files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			got := golden(t, Parse(Lines(read(t, name))))
			file := strings.TrimSuffix(name, ".txt") + ".golden.json"
			if *update {
				if err := os.WriteFile(filepath.Join("testdata", file), got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(read(t, file), string(got)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// golden writes what is in v, without what is zero.
func golden(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	prune(tree)
	if b, err = json.MarshalIndent(tree, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func prune(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			prune(e)
		}
	case map[string]any:
		for k, e := range v {
			if e == nil || e == false || e == 0.0 || e == "" {
				delete(v, k)
				continue
			}
			prune(e)
		}
	}
}

func TestParseReports(t *testing.T) {
	events := Parse(Lines(read(t, "repeats.txt")))
	want := []Event{
		{Kind: Classic, Flavor: "rcu_sched", GP: "g=733", Self: true, Other: true, CPUs: []int{1}, Jiffies: 8405, HZ: 100,
			First: 41200011 * time.Microsecond, Last: 104231002 * time.Microsecond, HasTime: true, Reports: 2},
		{Kind: Expedited, Flavor: "rcu_sched", GP: "s=565", CPUs: []int{1}, Jiffies: 8410, HZ: 100,
			First: 42310 * time.Millisecond, Last: 105400 * time.Millisecond, HasTime: true, Reports: 2},
	}
	if len(events) != 4 {
		t.Fatalf("%d events; want 4", len(events))
	}
	for i, w := range want {
		got := events[i]
		got.Lines, got.States, got.Traces, got.Asked = nil, nil, nil, nil
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", i, diff)
		}
	}
}

// Two CPUs report T and 4T of one grace period at the same time, and the end of one report is missing.
func TestParseInterleaved(t *testing.T) {
	events := Parse(Lines(read(t, "interleaved.txt")))
	if len(events) != 1 {
		t.Fatalf("%d events; want 1", len(events))
	}
	e := events[0]
	if e.Reports != 2 || !e.Self || !e.Other || e.Jiffies != 21010 || e.GP != "g=-1127" {
		t.Errorf("event %+v; want 2 reports by self and other, 21010 jiffies, g=-1127", e)
	}
	if diff := cmp.Diff([]int{77, 812}, e.Readers); diff != "" {
		t.Errorf("readers (-want +got):\n%s", diff)
	}
}

func TestParseGrepped(t *testing.T) {
	// grep "INFO: rcu" leaves nothing to merge by: each head stands for itself, except a pair.
	events := Parse(Lines(`[   41.200011] rcu: INFO: rcu_sched self-detected stall on CPU
[  104.230011] rcu: INFO: rcu_sched self-detected stall on CPU
[  167.000000] rcu: INFO: rcu_sched self-detected stall on CPU
[  167.000020] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:
`))
	if len(events) != 3 {
		t.Errorf("%d events; want 3", len(events))
	}
}

func TestParseLateReports(t *testing.T) {
	// The 14th and 15th report of one grace period differ by little compared with its age.
	events := Parse(Lines(`rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
(detected by 1, t=3885982 jiffies, g=5, q=1 ncpus=12)
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
(detected by 7, t=3892287 jiffies, g=5, q=1 ncpus=12)
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
(detected by 7, t=3892287 jiffies, g=5, q=1 ncpus=12)
`))
	if len(events) != 1 || events[0].Reports != 2 {
		t.Errorf("events %+v; want one with 2 reports: the third is a copy", events)
	}
}

func TestParseHungAgain(t *testing.T) {
	// The same shell hangs, recovers, and hangs again hours later.
	events := Parse(Lines(`[ 1000.000000] INFO: task bash:77 blocked for more than 120 seconds.
[ 1120.000000] INFO: task bash:77 blocked for more than 120 seconds.
[ 9000.000000] INFO: task bash:77 blocked for more than 120 seconds.
[20000.000000] INFO: task bash:77 blocked for more than 250 seconds.
`))
	var reports []int
	for _, e := range events {
		reports = append(reports, e.Reports)
	}
	if diff := cmp.Diff([]int{2, 1, 1}, reports); diff != "" {
		t.Errorf("reports of each event (-want +got):\n%s", diff)
	}
}

func TestParseBounds(t *testing.T) {
	var b strings.Builder
	for range 500 {
		b.WriteString("rcu: INFO: rcu_sched detected stalls on CPUs/tasks:\n")
		b.WriteString("rcu: \t7-....: (1 GPs behind) idle=" + strings.Repeat("f", 9000) + "\n")
		b.WriteString("(detected by 1, t=99999999999999999999 jiffies, g=99999999999999999999, q=1)\n")
	}
	b.WriteString("BUG: workqueue lockup - pool cpus=0-999999999 node=0 stuck for 99999999999999999999s!\n")
	b.WriteString("BUG: workqueue lockup - pool cpus=0-8191 node=0 stuck for 31s!\n")
	events := Parse(Lines(b.String()))
	if len(events) != 3 {
		t.Fatalf("%d events; want 3", len(events))
	}
	for _, e := range events {
		if len(e.Lines) > maxLines || len(e.CPUs) > maxCPUs {
			t.Errorf("%v: %d lines, %d CPUs; want at most %d and %d", e.Kind, len(e.Lines), len(e.CPUs), maxLines, maxCPUs)
		}
		for _, l := range e.Lines {
			if len(l) > maxLineLen {
				t.Errorf("%v: a line of %d bytes; want at most %d", e.Kind, len(l), maxLineLen)
			}
		}
	}
}

// Texts made to be slow: were anything quadratic in them, this would take hours.
func TestParseLinear(t *testing.T) {
	const size = 1 << 20
	for _, s := range []string{"[", "[ ", "[    0.000000]", "[    0.000000] x", "INFO: ", "INFO: task ", "INFO: rcu_", " kthread ",
		"BUG: workqueue lockup - pool cpus=0-8191,", "0-1000,", "{ 0-.... ", "INFO: rcu_sched self-detected stall on CPU\n",
		"INFO: rcu_sched detected expedited stalls on CPUs/tasks: {\n", "1-....: (1 GPs behind)\n", `\x`, "#011", "> ", "\r", "7,1,1,-;"} {
		lines := Lines(strings.Repeat(s, size/len(s)))
		Parse(Merge(lines, lines))
		Parse(Merge(lines[:len(lines)/2], lines[len(lines)/3:]))
	}
}

func BenchmarkParse(b *testing.B) {
	line := "[ 1234.567890] mtk_soc_eth 1e100000.ethernet eth0: port 2 link up at 1000Mbps, full duplex\n"
	text := strings.Repeat(line, 100_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if n := len(Parse(Lines(text))); n != 0 {
			b.Fatalf("%d events; want 0", n)
		}
	}
}
