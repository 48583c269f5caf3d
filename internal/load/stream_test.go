package load

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestDatagram(t *testing.T) {
	from, to := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	source, target := netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.18.0.2")
	for _, size := range []int{60, 61, 1514} {
		f, err := datagram(size, from, to, source, target, 9)
		if err != nil {
			t.Fatal(err)
		}
		ip := f[14:]
		if len(f) != size || string(f[:6]) != string(to) || string(f[6:12]) != string(from) || binary.BigEndian.Uint16(f[12:]) != 0x0800 {
			t.Errorf("size %d: % x", size, f[:14])
		}
		var sum uint32
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		if sum = sum>>16 + sum&0xffff; sum != 0xffff {
			t.Errorf("size %d: the header's sum is %#x; want 0xffff", size, sum)
		}
		if total, udp := binary.BigEndian.Uint16(ip[2:]), binary.BigEndian.Uint16(ip[24:]); int(total) != size-14 || int(udp) != size-34 {
			t.Errorf("size %d: lengths %d and %d", size, total, udp)
		}
		if got, _ := netip.AddrFromSlice(ip[16:20]); got != target || binary.BigEndian.Uint16(ip[22:]) != 9 {
			t.Errorf("size %d: to %v port %d", size, got, binary.BigEndian.Uint16(ip[22:]))
		}
	}
	if _, err := datagram(60, from, to, source, netip.MustParseAddr("2001:db8::1"), 9); err == nil {
		t.Error("a datagram to an IPv6 address")
	}
}

func TestRawFrame(t *testing.T) {
	f := rawFrame(64, net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2})
	if len(f) != 64 || f[5] != 2 || f[11] != 1 || f[12] != 0x88 || f[13] != 0xb5 {
		t.Errorf("% x", f)
	}
}

func TestWorkProgramIsLongEnough(t *testing.T) {
	for _, rounds := range []int{burnRounds, pollRounds} {
		for _, work := range []time.Duration{0, 1, windowedWork, 39_999, 40_000, 79_999, 80_000, sureWait} {
			// At 20 ns a reading, the rounds must last as long as the work.
			if have := time.Duration(rounds*burnReads(work, rounds)) * 20; have < work || work == 0 && have != time.Duration(rounds)*20 {
				t.Errorf("work of %v: the rounds end after %v", work, have)
			}
		}
	}
}
