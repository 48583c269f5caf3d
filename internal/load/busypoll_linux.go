package load

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The netdev family's commands and attributes that busy polling takes (include/uapi/linux/netdev.h).
const (
	netdevNAPIGet = 11 // 6.8
	netdevNAPISet = 14 // 6.13

	napiIfindex  = 1
	napiID       = 2
	napiThreaded = 8 // 6.17; its value 2 came after 6.18

	threadedBusyPoll = 2
)

// busyPoll has the threads of a device's NAPIs poll without ever sleeping, in the calling thread's network
// namespace. The error matches errors.ErrUnsupported on a kernel that can't.
func busyPoll(ifindex int) error {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return fmt.Errorf("find the netdev family (6.8): %w", unable(err))
	}
	messages, err := ask(family, unix.NLM_F_DUMP, netdevNAPIGet)
	if err != nil {
		return fmt.Errorf("list NAPI instances: %w", err)
	}
	set := 0
	for _, m := range messages {
		id, of, err := napiOf(m)
		if err != nil {
			return err
		}
		if of != ifindex {
			continue
		}
		if _, err := ask(family, 0, netdevNAPISet,
			nl.NewRtAttr(napiID, binary.NativeEndian.AppendUint32(nil, uint32(id))),
			nl.NewRtAttr(napiThreaded, binary.NativeEndian.AppendUint32(nil, threadedBusyPoll))); err != nil {
			return fmt.Errorf("have NAPI %d polled busily by its thread (after 6.18): %w", id, err)
		}
		set++
	}
	if set == 0 {
		return fmt.Errorf("the netdev family shows no NAPI of device %d: %w", ifindex, errors.ErrUnsupported)
	}
	return nil
}

func ask(family *netlink.GenlFamily, flags int, command uint8, attributes ...*nl.RtAttr) ([][]byte, error) {
	req := nl.NewNetlinkRequest(int(family.ID), flags)
	if flags == 0 {
		req.Flags |= unix.NLM_F_ACK
	}
	req.AddData(&nl.Genlmsg{Command: command, Version: 1})
	for _, a := range attributes {
		req.AddData(a)
	}
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return messages, unable(err)
}

// napiOf reads an instance's id and its device.
func napiOf(message []byte) (id, ifindex int, err error) {
	if len(message) < nl.SizeofGenlmsg {
		return 0, 0, errors.New("napi-get: an answer without a header")
	}
	attributes, err := nl.ParseRouteAttr(message[nl.SizeofGenlmsg:])
	if err != nil {
		return 0, 0, fmt.Errorf("napi-get: %w", err)
	}
	for _, a := range attributes {
		if len(a.Value) != 4 {
			continue
		}
		switch n := int(binary.NativeEndian.Uint32(a.Value)); a.Attr.Type {
		case napiIfindex:
			ifindex = n
		case napiID:
			id = n
		}
	}
	return id, ifindex, nil
}

// unable marks what a kernel answers that has no such family, command or value.
func unable(err error) error {
	for _, e := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL, unix.ERANGE, unix.EPROTONOSUPPORT} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
		}
	}
	return err
}
