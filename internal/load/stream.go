package load

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// A Stream is a load's sender by itself, for the peer of a board.
type Stream struct {
	Device string           // the device to send through
	To     net.HardwareAddr // the board's address on that link; not needed for TCP
	// IP is the board's address. The zero value sends frames of an experimental ethertype, which any kernel
	// drops right behind its NAPI; with one, Paced sends UDP.
	IP   netip.Addr
	Port uint16 // of UDP or TCP
	Load experiment.Load
}

// Sent is what became of a Stream.
type Sent struct {
	Progress
	Took time.Duration
	// Due is how many packets the schedule wanted in that time: more than Sent where the machine was too slow.
	Due  uint64
	Gaps Gaps          // of Paced
	RTT  time.Duration // of TCP, as it was at the end
}

// The lengths of the headers in a datagram.
const (
	ipLen  = 20
	udpLen = 8
)

// datagram returns a UDP datagram over IPv4 in an Ethernet frame of size bytes, of which the data is zero.
func datagram(size int, from, to net.HardwareAddr, source, target netip.Addr, port uint16) ([]byte, error) {
	if !source.Is4() || !target.Is4() {
		return nil, fmt.Errorf("send from %v to %v: want IPv4 addresses", source, target)
	}
	f := make([]byte, size)
	copy(f, to)
	copy(f[6:], from)
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	ip := f[headerLen:]
	ip[0] = 0x45 // version 4, 5 words
	binary.BigEndian.PutUint16(ip[2:], uint16(size-headerLen))
	ip[6] = 0x40 // don't fragment
	ip[8], ip[9] = 64, 17
	copy(ip[12:16], source.AsSlice())
	copy(ip[16:20], target.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:ipLen]))
	udp := ip[ipLen:]
	binary.BigEndian.PutUint16(udp[0:], port)
	binary.BigEndian.PutUint16(udp[2:], port)
	binary.BigEndian.PutUint16(udp[4:], uint16(size-headerLen-ipLen)) // its checksum stays 0: none (RFC 768)
	return f, nil
}

// checksum is the Internet's (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// rawFrame returns a frame of size bytes to a board, of the load's own ethertype.
func rawFrame(size int, from, to net.HardwareAddr) []byte {
	f := frame(size)
	copy(f, to)
	copy(f[6:], from)
	return f
}
