package klog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const selfStall = `[   41.200011] rcu: INFO: rcu_sched self-detected stall on CPU
[   41.200490] rcu: 	1-....: (2099 ticks this GP) idle=7a1c/1/0x40000002 softirq=410/410 fqs=1048
[   41.201002] rcu: 	(t=2100 jiffies g=733 q=41 ncpus=2)
`

func TestMerge(t *testing.T) {
	tests := []struct {
		name, kmsg, console string
		want                string // lines as kmsg would have them
	}{
		{"same", selfStall, selfStall, selfStall},
		{"kmsg alone", selfStall, "", selfStall},
		{"console alone", "", selfStall, selfStall},
		{"console goes on", "[    1.000000] one\n", "[    1.000000] one\n" + selfStall, "[    1.000000] one\n" + selfStall},
		{"console begins earlier", "[    2.000000] two\n", "[    1.000000] one\n[    2.000000] two\n", "[    1.000000] one\n[    2.000000] two\n"},
		{"between", "[    1.000000] one\n[    3.000000] three\n", "[    2.000000] two\n", "[    1.000000] one\n[    2.000000] two\n[    3.000000] three\n"},
		{"a quiet console", "[    1.000000] one\n[    2.000000] debug\n[    3.000000] three\n",
			"[    1.000000] one\n[    3.000000] three\n", "[    1.000000] one\n[    2.000000] debug\n[    3.000000] three\n"},
		{"user's own line stays in place", "[    1.000000] one\n[    3.000000] three\n",
			"[    1.000000] one\nnapistall: agent up\n[    3.000000] three\n", "[    1.000000] one\nnapistall: agent up\n[    3.000000] three\n"},
		{"twice in a µs", "[    1.000000] one\n[    1.000000] one\n", "[    1.000000] one\n", "[    1.000000] one\n[    1.000000] one\n"},
		{"cut", selfStall, "[   41.200011] rcu: INFO: rcu_sched self-det\n", selfStall},
		{"stamp lost", selfStall, "200011] rcu: INFO: rcu_sched self-detected stall on CPU\n", selfStall},
		{"written into", selfStall, "[   41.200011] rcu: INFO: rcu_schnapistall: agent up\n", selfStall},
		{"no stamps on console", selfStall, "rcu: INFO: rcu_sched self-detected stall on CPU\n", selfStall},
		{"same stamp, something else", "[    1.000000] one\n", "[    1.000000] rcu: INFO: rcu_sched\n", "[    1.000000] one\n[    1.000000] rcu: INFO: rcu_sched\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Merge(Lines(tt.kmsg), Lines(tt.console))
			if diff := cmp.Diff(Lines(tt.want), got); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMergeSplitsTexts(t *testing.T) {
	_, _, l, err := ParseKmsg(`6,1,1000000,-;one\x0atwo`)
	if err != nil {
		t.Fatal(err)
	}
	got := Merge([]Line{l}, Lines("[    1.000000] one\n[    1.000000] two\n"))
	if diff := cmp.Diff(Lines("[    1.000000] one\n[    1.000000] two\n"), got); diff != "" {
		t.Errorf("Merge (-want +got):\n%s", diff)
	}
}

// What a guest says about one stall on both ways counts once, and a stall that only the console has,
// because the guest died before anybody read its kmsg, counts too.
func TestMergeStalls(t *testing.T) {
	console := "[    0.000000] Linux version 7.2.13\nagent: up\n" + selfStall +
		strings.NewReplacer("41.", "99.", "g=733", "g=801").Replace(selfStall)
	kmsg := "[    0.000000] Linux version 7.2.13\n[    1.000000] debug: the console hasn't this\n" + selfStall
	events := Parse(Merge(Lines(kmsg), Lines(console)))
	if len(events) != 2 || events[0].Reports != 1 || events[1].Reports != 1 || events[1].GP != "g=801" {
		t.Errorf("events %+v; want g=733 and g=801, each reported once", events)
	}
}

// However the console mangles its copy of a stall, kmsg's decides.
func TestMergeDamage(t *testing.T) {
	want := Parse(Lines(selfStall))
	for cut := range len(selfStall) {
		damaged := selfStall[:cut] + "napistall: hold\r\n" + selfStall[cut:]
		if diff := cmp.Diff(want, Parse(Merge(Lines(selfStall), Lines(damaged)))); diff != "" {
			t.Errorf("console broken at byte %d %q (-want +got):\n%s", cut, damaged, diff)
		}
		lost := selfStall[:cut]
		if diff := cmp.Diff(want, Parse(Merge(Lines(selfStall), Lines(lost)))); diff != "" {
			t.Errorf("console cut at byte %d %q (-want +got):\n%s", cut, lost, diff)
		}
	}
}

func TestMergeInOrder(t *testing.T) {
	a := Lines(read(t, "repeats.txt"))
	var even, odd []Line
	for i, l := range a {
		if i%2 == 0 {
			even = append(even, l)
		} else {
			odd = append(odd, l)
		}
	}
	got := Merge(even, odd)
	if !slices.IsSortedFunc(got, func(x, y Line) int { return int((x.Stamp - y.Stamp) / time.Microsecond) }) || len(got) != len(a) {
		t.Errorf("%d lines, not in order; want %d in order of their stamps", len(got), len(a))
	}
}
