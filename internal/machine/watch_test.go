package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// looks makes one look each 50 ms.
func looks(usages ...Usage) Watched {
	var t tally
	for i, u := range usages {
		t.add(look{time.Duration(i) * 50 * time.Millisecond, u, 1})
	}
	return t.watched
}

func TestTally(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		looks   []Usage
		longest time.Duration
		busy    float64
	}{
		{"holds its CPU", []Usage{{9, 1, 0}, {9, 1, 50 * ms}, {9, 1, 100 * ms}, {9, 1, 150 * ms}}, 150 * ms, 1},
		{"sleeps all the time", []Usage{{9, 1, 0}, {9, 1, 0}, {9, 1, 0}}, 0, 0},
		{"busy, and switched each time", []Usage{{9, 1, 0}, {9, 2, 49 * ms}, {9, 3, 99 * ms}}, 0, 0.99},
		{"sleeps between batches", []Usage{{10, 1, 0}, {500, 1, 25 * ms}, {990, 1, 50 * ms}}, 0, 0.5},
		{"a stall in the middle", []Usage{{1, 0, 0}, {2, 0, 10 * ms}, {2, 0, 60 * ms}, {2, 0, 109 * ms}, {3, 0, 120 * ms}}, 100 * ms, 0.6},
		{"its CPU is taken away now and then", []Usage{{1, 0, 0}, {1, 0, 30 * ms}, {1, 0, 60 * ms}}, 100 * ms, 0.6},
		{"its CPU is taken away for two steps", []Usage{{1, 0, 0}, {1, 0, 50 * ms}, {1, 0, 55 * ms}, {1, 0, 55 * ms}, {1, 0, 105 * ms}}, 200 * ms, 0.52},
		{"it sleeps after a run", []Usage{{1, 0, 0}, {1, 0, 50 * ms}, {2, 0, 60 * ms}, {2, 0, 60 * ms}, {2, 0, 60 * ms}}, 50 * ms, 0.3},
		{"idle, with a switch-less sleep", []Usage{{1, 0, 5 * ms}, {1, 0, 5 * ms}, {1, 0, 55 * ms}}, 50 * ms, 0.5},
	} {
		w := looks(tt.looks...)
		if w.Longest != tt.longest || w.Busy() < tt.busy-0.011 || w.Busy() > tt.busy+0.011 {
			t.Errorf("%s: longest %v, busy %.2f; want %v, %.2f", tt.name, w.Longest, w.Busy(), tt.longest, tt.busy)
		}
	}
}

func TestParseSoftnet(t *testing.T) {
	const new610 = "000004d2 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 0000000a 00000000 00000003 00000001 00000000 00000000\n"
	got, err := ParseSoftnet(new610, nil)
	if d := cmp.Diff([]Softnet{{CPU: 1, Processed: 1234, Squeezed: 1, RPS: 10, Backlog: 3}}, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	const old = "00000001 00000002 00000003 0 0 0 0 0 0 0 0\n00000005 0 0 0 0 0 0 0 0 0 0\n"
	got, err = ParseSoftnet(old, []int{0, 3})
	if d := cmp.Diff([]Softnet{{CPU: 0, Processed: 1, Dropped: 2, Squeezed: 3}, {CPU: 3, Processed: 5}}, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for _, bad := range []string{"x", "1 2 3", "1 2 3 4 5 6 7 8 g"} {
		if got, err := ParseSoftnet(bad, nil); err == nil {
			t.Errorf("ParseSoftnet(%q) = %v; want an error", bad, got)
		}
	}
}

func TestParseInterrupts(t *testing.T) {
	got := ParseInterrupts("            CPU0       CPU1       \n  1:          9          3   IO-APIC   1-edge      i8042\n 27:  2000000000 3000000000   PCI-MSI 49152-edge virtio0\nNMI:  5  6  x\nERR:  7\nIPI0: 3 4\n 28: bad\n")
	if d := cmp.Diff(map[int]uint64{1: 12, 27: 5000000000}, got); d != "" {
		t.Errorf("ParseInterrupts (-want +got):\n%s", d)
	}
}

func FuzzCounters(f *testing.F) {
	f.Add("1 2 3 4 5 6 7 8 9 a b c d\n", " CPU0\n 1: 3 x\n")
	f.Fuzz(func(t *testing.T, softnet, interrupts string) {
		all, err := ParseSoftnet(softnet, []int{0, 1})
		for _, s := range all {
			if err == nil && (s.CPU < -1 || s.CPU > maxCPU) {
				t.Errorf("ParseSoftnet(%q) has CPU %d", softnet, s.CPU)
			}
		}
		for irq := range ParseInterrupts(interrupts) {
			if irq < 0 {
				t.Errorf("ParseInterrupts(%q) has number %d", interrupts, irq)
			}
		}
	})
}
