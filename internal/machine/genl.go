package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Attributes of the netdev family (include/uapi/linux/netdev.h; the last four since 6.13 to 6.19).
const (
	napiIfindex    = 1
	napiID         = 2
	napiIRQ        = 3
	napiPID        = 4
	napiDefer      = 5
	napiGROFlush   = 6
	napiIRQSuspend = 7
	napiThreaded   = 8

	busyPollMode = 2 // a value of napiThreaded, after 6.18
)

// Attributes of ETHTOOL_MSG_COALESCE_GET's answer (include/uapi/linux/ethtool_netlink.h, 5.7).
const (
	coalesceRxUsecs  = 2
	coalesceRxFrames = 3
	coalesceTxUsecs  = 6
	coalesceTxFrames = 7
	coalesceAdaptive = 11
)

// genlHeader is the size of struct genlmsghdr, which every message of generic netlink begins with.
const genlHeader = 4

// attributes returns a generic netlink message's attributes by type. A malformed one is an error.
func attributes(message []byte) (map[int][]byte, error) {
	const header, typeMask = 4, 0x3fff // NLA_F_NESTED and NLA_F_NET_BYTEORDER are above it
	if len(message) < genlHeader {
		return nil, errors.New("message is shorter than its header")
	}
	found := map[int][]byte{}
	for b := message[genlHeader:]; len(b) > 0; {
		if len(b) < header {
			return nil, fmt.Errorf("%d bytes after the last attribute", len(b))
		}
		size := int(binary.NativeEndian.Uint16(b))
		if size < header || size > len(b) {
			return nil, fmt.Errorf("attribute of %d bytes in %d", size, len(b))
		}
		found[int(binary.NativeEndian.Uint16(b[2:]))&typeMask] = b[header:size]
		b = b[min((size+3)&^3, len(b)):]
	}
	return found, nil
}

// number reads an unsigned integer of the width that the kernel chose (nla_put_uint).
func number(b []byte) *int64 {
	var n int64
	switch len(b) {
	case 1:
		n = int64(b[0])
	case 4:
		n = int64(binary.NativeEndian.Uint32(b))
	case 8:
		n = int64(min(binary.NativeEndian.Uint64(b), 1<<63-1))
	default:
		return nil
	}
	return &n
}

func small(b []byte) *int {
	n := number(b)
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// parseNAPI reads one answer to NETDEV_CMD_NAPI_GET.
func parseNAPI(message []byte) (NAPI, error) {
	a, err := attributes(message)
	if err != nil {
		return NAPI{}, fmt.Errorf("napi-get: %w", err)
	}
	id, index := small(a[napiID]), small(a[napiIfindex])
	if id == nil || index == nil {
		return NAPI{}, errors.New("napi-get: an instance without id or ifindex")
	}
	n := NAPI{ID: *id, Index: *index, IRQ: small(a[napiIRQ]), PID: small(a[napiPID]),
		DeferIRQs: number(a[napiDefer]), GROFlush: number(a[napiGROFlush]), IRQSuspend: number(a[napiIRQSuspend])}
	if mode := number(a[napiThreaded]); mode != nil {
		n.Mode = modeName(*mode)
	}
	return n, nil
}

func modeName(n int64) string {
	switch n {
	case 0:
		return ModeSoftirq
	case 1:
		return ModeThreaded
	case busyPollMode:
		return ModeBusyPoll
	}
	return fmt.Sprintf("mode %d", n)
}

// parseCoalescing reads an answer to ETHTOOL_MSG_COALESCE_GET.
func parseCoalescing(message []byte) (Coalescing, error) {
	a, err := attributes(message)
	if err != nil {
		return Coalescing{}, fmt.Errorf("coalesce-get: %w", err)
	}
	c := Coalescing{RxUsecs: number(a[coalesceRxUsecs]), RxFrames: number(a[coalesceRxFrames]),
		TxUsecs: number(a[coalesceTxUsecs]), TxFrames: number(a[coalesceTxFrames])}
	if on := number(a[coalesceAdaptive]); on != nil {
		c.Adaptive = new(*on != 0)
	}
	return c, nil
}
