package klog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	const stamp = 12345678 * time.Microsecond
	with := func(text string) []Line { return []Line{{stamp, true, text}} }
	without := func(text string) []Line { return []Line{{0, false, text}} }
	tests := []struct {
		name, text string
		want       []Line
	}{
		{"empty", "\n\r\n  \r\n\x00\x00\n", []Line{}},
		{"bare", "rcu: INFO: x\n", without("rcu: INFO: x")},
		{"stamp", "[   12.345678] rcu: \t1-....: x \n", with("rcu: \t1-....: x")},
		{"no text", "[   12.345678] \n", []Line{}},
		{"no space", "[   12.345678]rcu", with("rcu")},
		{"milliseconds", "[12.345] rcu", []Line{{12345 * time.Millisecond, true, "rcu"}}},
		{"nanoseconds", "[12.345678901] rcu", []Line{{12345678901, true, "rcu"}}},
		{"task", "[   12.345678][  T817] rcu", with("rcu")},
		{"cpu", "[   12.345678][   C1] rcu", with("rcu")},
		{"cpu apart", "[   12.345678] [C1] rcu", with("[C1] rcu")},
		{"level", "<4>[   12.345678] rcu\r\n", with("rcu")},
		{"level only", "<12>rcu\r\n", without("rcu")},
		{"no level", "<IRQ>\n", without("<IRQ>")},
		{"journal", "Apr 13 06:21:17 host1 kernel: [   12.345678] rcu", with("rcu")},
		{"journal without stamp", "Apr 13 06:21:17 host1 kernel: rcu", without("rcu")},
		{"syslog host", "Aug 30 05:34:55 198.51.100.1 [   12.345678][  T817] rcu", with("rcu")},
		{"rsyslog", "2026-01-01 host kernel: [   12.345678] rcu: #0119-...!: x", with("rcu: \t9-...!: x")},
		{"netconsole", "3,1200,12345678,-,caller=C0;rcu; more", with("rcu; more")},
		{"no netconsole", "3,1200;rcu", without("3,1200;rcu")},
		{"dmesg -T", "[Wed Feb  8 08:14:59 2023] rcu", without("rcu")},
		{"no date", "[  OK  ] Started at 1:2:3 1999] x", without("[  OK  ] Started at 1:2:3 1999] x")},
		{"mail", ">> [   12.345678] rcu", with("rcu")},
		{"two in one", "[   12.345678] rcu: self[   12.345679][   C1] eth0: up",
			[]Line{{stamp, true, "rcu: self"}, {stamp + time.Microsecond, true, "eth0: up"}}},
		{"stamp cut short", "[   12.34[   12.345678] rcu", []Line{{0, false, "[   12.34"}, {stamp, true, "rcu"}}},
		{"a number in brackets", "[   12.345678] took [1.5] s", with("took [1.5] s")},
		{"a stamp too large", "[9999999999.345678] rcu", without("[9999999999.345678] rcu")},
		{"bytes", "[   12.345678] \xff\xfe[", with("\xff\xfe[")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Lines(tt.text)); diff != "" {
				t.Errorf("Lines(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestParseKmsg(t *testing.T) {
	tests := []struct {
		name, record string
		seq          uint64
		level        int
		want         Line
	}{
		{"plain", "6,339,5140900,-;NET: Registered protocol family 10\n", 339, 6,
			Line{5140900 * time.Microsecond, true, "NET: Registered protocol family 10"}},
		{"facility and dictionary", "30,340,5690716,-;udevd[80]: starting\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n", 340, 6,
			Line{5690716 * time.Microsecond, true, "udevd[80]: starting"}},
		{"caller and tab", `3,9,7,c,caller=C1;rcu: \x091-....: (1 GPs behind) idle=\`, 9, 3,
			Line{7 * time.Microsecond, true, "rcu: \t1-....: (1 GPs behind) idle=\\"}},
		{"escapes", `0,1,0,-;\x5cx41 \xzz \x0atwo \x4`, 1, 0, Line{0, true, "\\x41 \\xzz \ntwo \\x4"}},
		{"semicolon in text", "0,1,0,-;a;b", 1, 0, Line{0, true, "a;b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seq, level, l, err := ParseKmsg(tt.record)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, l); diff != "" || seq != tt.seq || level != tt.level {
				t.Errorf("ParseKmsg(%q) = %d, %d, %+v; want %d, %d, %+v", tt.record, seq, level, l, tt.seq, tt.level, tt.want)
			}
		})
	}
}

func TestParseKmsgErrors(t *testing.T) {
	tests := []struct{ record, want string }{
		{"", `kmsg record "": no semicolon`},
		{"6,1,2;x", `kmsg record "6,1,2;x": 3 fields, want prio,seq,usec,flags`},
		{"-6,1,2,-;x", `kmsg record "-6,1,2,-;x": priority: strconv.ParseUint: parsing "-6": invalid syntax`},
		{"6,a,2,-;x", `kmsg record "6,a,2,-;x": sequence number: strconv.ParseUint: parsing "a": invalid syntax`},
		{"6,1,99999999999999999999,-;x", `kmsg record "6,1,99999999999999999999,-;x": time: strconv.ParseUint: parsing "99999999999999999999": value out of range`},
	}
	for _, tt := range tests {
		if _, _, _, err := ParseKmsg(tt.record); err == nil || err.Error() != tt.want {
			t.Errorf("ParseKmsg(%q) error = %v; want %s", tt.record, err, tt.want)
		}
	}
}
