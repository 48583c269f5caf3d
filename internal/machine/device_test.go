package machine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDevices(t *testing.T) {
	s := tree(t, map[string]string{
		"sys/class/net/bonding_masters":                 "\n",
		"sys/class/net/lan1/ifindex":                    "4\n",
		"sys/class/net/lan1/flags":                      "0x1003\n",
		"sys/class/net/lan1/uevent":                     "DEVTYPE=dsa\nINTERFACE=lan1\nIFINDEX=4\n",
		"sys/class/net/lan1/threaded":                   "1\n",
		"sys/class/net/lan1/napi_defer_hard_irqs":       "2\n",
		"sys/class/net/lan1/gro_flush_timeout":          "200000\n",
		"sys/class/net/lan1/statistics/rx_packets":      "77\n",
		"sys/class/net/lan1/queues/rx-0/rps_cpus":       "00000000,0000000c\n",
		"sys/class/net/lan1/queues/rx-1/rps_cpus":       "00000000,00000000\n",
		"sys/class/net/lan1/queues/tx-0/byte_queue":     "x",
		"sys/class/net/old0/ifindex":                    "2\n",
		"sys/class/net/old0/flags":                      "0x1002\n",
		"sys/devices/platform/soc/drivers/mt76/placeme": "",
	})
	if err := os.MkdirAll(filepath.Join(s.Root, "sys/class/net/lan1/device"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../../devices/platform/soc/drivers/mt76", filepath.Join(s.Root, "sys/class/net/lan1/device/driver")); err != nil {
		t.Fatal(err)
	}
	got, err := s.Devices()
	if err != nil {
		t.Fatal(err)
	}
	want := []Device{
		{Name: "lan1", Index: 4, Driver: "mt76", Kind: "dsa", Up: true, Threaded: new(1), DeferHardIRQs: new(int64(2)), GROFlush: new(int64(200000)),
			RxPackets: new(uint64(77)), RPS: map[string]string{"rx-0": "00000000,0000000c"}},
		{Name: "old0", Index: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Devices (-want +got):\n%s", d)
	}
}

// attr is one netlink attribute.
func attr(kind int, value ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, uint16(kind))
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func u32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
func u64(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }

func message(attrs ...[]byte) []byte {
	m := make([]byte, genlHeader)
	for _, a := range attrs {
		m = append(m, a...)
	}
	return m
}

func TestParseNAPI(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message []byte
		want    NAPI
	}{
		{"6.12", message(attr(2, u32(513)...), attr(1, u32(3)...), attr(3, u32(27)...), attr(4, u32(88)...)), NAPI{ID: 513, Index: 3, IRQ: new(27), PID: new(88)}},
		{"7.3", message(attr(2, u32(8193)...), attr(1, u32(2)...), attr(5, u32(0)...), attr(6, u32(20000)...), attr(7, u64(1<<40)...), attr(8, u32(2)...)),
			NAPI{ID: 8193, Index: 2, Mode: ModeBusyPoll, DeferIRQs: new(int64(0)), GROFlush: new(int64(20000)), IRQSuspend: new(int64(1 << 40))}},
		{"a mode to come, and flags in the types", message(attr(0x8002, u32(1)...), attr(1, u32(2)...), attr(8, u32(7)...), attr(99, 1, 2, 3)), NAPI{ID: 1, Index: 2, Mode: "mode 7"}},
	} {
		got, err := parseNAPI(tt.message)
		if d := cmp.Diff(tt.want, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, d)
		}
	}
	for name, bad := range map[string][]byte{
		"empty": nil, "no attributes": message(), "no ifindex": message(attr(2, u32(1)...)), "cut": message(attr(2, u32(1)...))[:9],
		"length beyond": message([]byte{200, 0, 2, 0}), "length below": message([]byte{2, 0, 2, 0}), "odd width": message(attr(2, 1, 2), attr(1, u32(1)...)),
	} {
		if got, err := parseNAPI(bad); err == nil {
			t.Errorf("%s: %+v; want an error", name, got)
		}
	}
}

func TestParseCoalescing(t *testing.T) {
	got, err := parseCoalescing(message(attr(1), attr(2, u32(50)...), attr(3, u32(0)...), attr(11, 1)))
	want := Coalescing{RxUsecs: new(int64(50)), RxFrames: new(int64(0)), Adaptive: new(true)}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func FuzzAttributes(f *testing.F) {
	f.Add(message(attr(2, u32(513)...), attr(1, u32(3)...), attr(8, u64(1)...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := attributes(b)
		total := 0
		for _, v := range a {
			total += len(v)
		}
		if err == nil && total > len(b) {
			t.Errorf("%d bytes of attributes in %d", total, len(b))
		}
		_, _ = parseNAPI(b)
		_, _ = parseCoalescing(b)
	})
}
