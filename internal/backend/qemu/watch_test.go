package qemu

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// TestWatch plays what a guest shows, second by second, and looks after each.
func TestWatch(t *testing.T) {
	type show struct {
		at     int // seconds after the start
		line   string
		record *experiment.Record
	}
	facts := &experiment.Record{Facts: &experiment.Facts{}}
	hold := &experiment.Record{Phase: &experiment.Phase{Name: experiment.Hold}}
	counters := &experiment.Record{Counters: &experiment.Counters{}}
	for _, tt := range []struct {
		name  string
		shows []show
		want  string // "second: what", under TCG
	}{
		{"no line", nil, "61: error no line on the console"},
		{"hangs in boot", []show{{at: 5, line: "Linux"}}, "66: error the console fell silent for 1m0s"},
		{"prints, no agent", []show{{at: 50, line: "a"}, {at: 100, line: "b"}}, "121: error no record from the agent 2m0s"},
		{"no load", []show{{at: 5, line: "a"}, {at: 9, record: facts}}, "70: error the agent did not start the load"},
		{"a stall that silences everything", []show{{at: 5, line: "a"}, {at: 9, record: facts}, {at: 10, record: hold}},
			"131: silent no end 20s past the trial's 1m40s; last record 121.0 s ago, last console line 126.0 s ago"},
		{"a stall that silences user space", []show{{at: 9, record: facts}, {at: 10, record: hold}, {at: 20, record: counters}, {at: 130, line: "stall"}},
			"131: silent no end 20s past the trial's 1m40s; last record 111.0 s ago, last console line 1.0 s ago"},
		{"panic in boot", []show{{at: 5, line: "Kernel panic - not syncing: VFS"}}, "8: error the kernel panicked before the trial began"},
		{"panic, report cut", []show{{at: 9, record: facts}, {at: 10, line: "[ 1.2] Kernel panic - not syncing: x\r\n"}}, "13: panic Kernel panic - not syncing: x"},
		{"panic, report whole", []show{{at: 9, record: facts}, {at: 10, line: "Kernel panic - not syncing: x"}, {at: 11, line: "---[ end Kernel panic - not syncing: x ]---"}},
			"11: panic Kernel panic - not syncing: x"},
		{"stale code, and the kernel goes on", []show{{at: 9, record: facts}, {at: 10, record: hold}, {at: 20, line: "[    8.1] Oops: int3: 0000 [#1] SMP NOPTI"}},
			"23: error the emulator ran code that the kernel had changed by then (a bug of QEMU, work item 4669): [    8.1] Oops: int3: 0000 [#1] SMP NOPTI"},
		{"stale code, 6.1", []show{{at: 9, record: facts}, {at: 10, record: hold}, {at: 20, line: "int3: 0000 [#1] PREEMPT SMP"}},
			"23: error the emulator ran code"},
		{"stale code and a panic over it", []show{{at: 9, record: facts}, {at: 10, line: "Oops: int3: 0000 [#1]"}, {at: 11, line: "Kernel panic - not syncing: x"},
			{at: 11, line: "---[ end Kernel panic - not syncing: x ]---"}}, "11: error the emulator ran code"},
	} {
		start := time.Unix(0, 0)
		w := watch{limits: wideLimits(), duration: 100 * time.Second, emulated: true, start: start}
		got := "nothing"
		for s := 0; s < 1000 && got == "nothing"; s++ {
			now := start.Add(time.Duration(s) * time.Second)
			for _, show := range tt.shows {
				if show.at == s && show.record != nil {
					w.sawRecord(*show.record, now)
				} else if show.at == s {
					w.sawLine(show.line, now)
				}
			}
			if end, err := w.check(now); err != nil {
				got = fmt.Sprintf("%d: error %v", s, err)
			} else if end != nil {
				got = fmt.Sprintf("%d: %s %s", s, end.Outcome, end.Why)
			}
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q; want %q", tt.name, got, tt.want)
		}
	}
}

func TestOutstanding(t *testing.T) {
	const sec = rcu.Ktime(time.Second)
	at := func(s rcu.Ktime, r experiment.Record) experiment.Record { r.At = s * sec; return r }
	hold := experiment.Record{Phase: &experiment.Phase{Name: experiment.Hold}}
	tail := experiment.Record{Phase: &experiment.Phase{Name: experiment.Tail}}
	alive := experiment.Record{Counters: &experiment.Counters{}}
	sample := func(op string, start rcu.Ktime) experiment.Record {
		return experiment.Record{Sample: &experiment.Sample{Op: op, Start: start * sec, Took: time.Second}}
	}
	for _, tt := range []struct {
		name string
		recs []experiment.Record
		want string
	}{
		{"before the load", []experiment.Record{at(9, alive)}, "none"},
		{"one short gap", []experiment.Record{at(10, hold), sample(experiment.LinkDel, 11), at(13, alive)}, "none"},
		{"since the load began", []experiment.Record{at(10, hold), at(30, alive)}, "link-del from 12 for 18s in hold"},
		{"another probe's sample", []experiment.Record{at(10, hold), sample(experiment.Membarrier, 20), at(30, alive)}, "link-del from 12 for 18s in hold"},
		{"begun in the hold, cut in the tail", []experiment.Record{at(10, hold), sample(experiment.LinkDel, 11), at(40, tail), at(41, alive)}, "link-del from 14 for 27s in hold"},
		{"begun in the tail", []experiment.Record{at(10, hold), at(40, tail), sample(experiment.LinkDel, 41), at(50, alive)}, "link-del from 44 for 6s in tail"},
	} {
		o := outstanding{probe: experiment.Probe{Op: experiment.LinkDel, Every: time.Second}}
		for _, r := range tt.recs {
			o.saw(r)
		}
		got := "none"
		if s := o.sample(); s != nil {
			got = fmt.Sprintf("%s from %d for %v in %s", s.Op, s.Start/sec, s.Took, s.Phase)
			if !s.Censored {
				t.Errorf("%s: the sample is not censored", tt.name)
			}
		}
		if got != tt.want {
			t.Errorf("%s: got %s; want %s", tt.name, got, tt.want)
		}
	}
}

func TestTail(t *testing.T) {
	var tail tail
	for i := range 2 * maxTailLines {
		fmt.Fprintf(&tail, "line %d\r\n\n", i)
	}
	fmt.Fprint(&tail, strings.Repeat("x", 5000), "\n", "no end")
	got := tail.last(3)
	if len(got) != 3 || got[0] != fmt.Sprintf("line %d", 2*maxTailLines-1) || got[1] != strings.Repeat("x", maxTailLine) || got[2] != "no end" {
		t.Errorf("last(3) = %q", got)
	}
	if n := len(tail.last(1000)); n > maxTailLines+1 {
		t.Errorf("%d lines are kept; want at most %d", n, maxTailLines+1)
	}
	fmt.Fprint(&tail, "\n\x1b[2J\a\xffa\tb\n", "\x1b]0;title")
	if got := tail.last(2); got[0] != "\uFFFD[2J\uFFFD\uFFFDa\tb" || got[1] != "\uFFFD]0;title" {
		t.Errorf("last(2) = %q; want nothing that a terminal obeys", got)
	}
}

func TestTelling(t *testing.T) {
	boot := strings.Split(strings.Repeat("boot\n", 49)+"boot", "\n")
	registers := strings.Split(strings.Repeat("RAX: 0\n", 59)+"RAX: 0", "\n")
	for _, tt := range []struct {
		name        string
		lines       []string
		n           int
		first, last string
	}{
		{"nothing", nil, 0, "", ""},
		{"no report", append(boot, "end"), shownLines, "boot", "end"},
		{"a short panic", append(boot, "[ 1.0] Kernel panic - not syncing: VFS", "---[ end"), shownLines, "boot", "---[ end"},
		{"an oops", slices.Concat(boot, []string{"[ 1.0] Oops: int3: 0000 [#1]"}, registers, []string{"Kernel panic - not syncing: x"}), shownReport, "boot", "RAX: 0"},
		{"an oops whose beginning is lost", slices.Concat(registers, []string{"Kernel panic - not syncing: x", "---[ end"}), shownLines, "RAX: 0", "---[ end"},
		{"arm", slices.Concat([]string{"Internal error: Oops - undefined instruction: 0 [#1]"}, registers), shownReport, "Internal error: Oops - undefined instruction: 0 [#1]", "RAX: 0"},
	} {
		got := telling(tt.lines)
		if len(got) != tt.n || tt.n > 0 && (got[0] != tt.first || got[tt.n-1] != tt.last) {
			t.Errorf("%s: telling = %d lines %q; want %d from %q to %q", tt.name, len(got), got, tt.n, tt.first, tt.last)
		}
		if tt.name == "an oops" && got[shownBefore] != "[ 1.0] Oops: int3: 0000 [#1]" {
			t.Errorf("%s: its head is not shown: %q", tt.name, got)
		}
	}
}

// Under KVM the guest's breakpoints are its own affair.
func TestWatchBlamesTCGOnly(t *testing.T) {
	w := watch{limits: wideLimits()}
	now := time.Unix(0, 0)
	w.sawLine("Oops: int3: 0000 [#1] SMP NOPTI", now)
	w.sawRecord(experiment.Record{Facts: &experiment.Facts{}}, now)
	w.sawLine("Kernel panic - not syncing: Fatal exception in interrupt", now)
	if end, err := w.panicEnd(); err != nil || end.Outcome != experiment.Panicked {
		t.Errorf("panicEnd = %+v, %v; want a panic", end, err)
	}
}

func TestMemo(t *testing.T) {
	m := memo{t.TempDir() + "/accel/x.json"}
	now := time.Now()
	if _, ok := m.recall(now); ok {
		t.Error("a memo that was never written recalls something")
	}
	if err := m.keep(verdict{Works: true, At: now}); err != nil {
		t.Fatal(err)
	}
	if v, ok := m.recall(now.Add(remembered - time.Second)); !ok || v.accel() != kvm {
		t.Errorf("recall = %+v, %v; want kvm", v, ok)
	}
	for _, at := range []time.Time{now.Add(remembered), now.Add(-time.Hour)} {
		if v, ok := m.recall(at); ok {
			t.Errorf("recall at %v = %+v; want nothing", at.Sub(now), v)
		}
	}
	if err := (memo{}).keep(verdict{}); err == nil {
		t.Error("a memo without a path keeps something")
	}
}

func TestEnrich(t *testing.T) {
	k := kernel{preempt: rcu.Voluntary, hz: 250, config: []string{"CONFIG_HZ=250"}}
	unknown := []string{"preempt", "HZ", "clocksource"}
	f := experiment.Facts{Unknown: unknown}
	k.enrich(&f)
	want := experiment.Facts{Preempt: rcu.Voluntary, HZ: 250, Config: k.config, Unknown: []string{"clocksource"},
		Evidence: []string{"preempt: the kernel's configuration says voluntary", "hz: the kernel's configuration says 250"}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("enrich (-want +got):\n%s", diff)
	}
	// What the guest says itself stays, and the configuration says nothing of a model chosen at boot.
	k.dynamic = true
	said := experiment.Facts{HZ: 100, Config: []string{"CONFIG_HZ=100"}}
	got := said
	k.enrich(&got)
	if diff := cmp.Diff(said, got); diff != "" {
		t.Errorf("enrich (-want +got):\n%s", diff)
	}
}
