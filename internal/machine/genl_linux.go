package machine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	cmdNAPIGet     = 11 // NETDEV_CMD_NAPI_GET, 6.8
	cmdNAPISet     = 14 // NETDEV_CMD_NAPI_SET, 6.13
	cmdCoalesceGet = 19 // ETHTOOL_MSG_COALESCE_GET, 5.7
	// ethtoolHeader is ETHTOOL_A_COALESCE_HEADER, and its attribute ETHTOOL_A_HEADER_DEV_INDEX.
	ethtoolHeader = 1
	headerIndex   = 1
)

// NAPIs asks the netdev family for every instance in the calling thread's network namespace: those of devices that are up
// and registered. The kernel takes RTNL for it, or each device's lock, and the calling thread sleeps
// without being killable until that is free. The error matches errors.ErrUnsupported where the kernel has no such family.
func NAPIs() ([]NAPI, error) {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return nil, fmt.Errorf("ask for the netdev family (6.8): %w", lackingFamily(err))
	}
	// A dump that was interrupted by a change is still every instance that stayed.
	messages, err := ask(family, unix.NLM_F_DUMP, cmdNAPIGet)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("ask for NAPI instances: %w", err)
	}
	var all []NAPI
	for _, m := range messages {
		n, err := parseNAPI(m)
		if err != nil {
			return all, err
		}
		all = append(all, n)
	}
	return all, nil
}

// SetBusyPoll has the instance id polled busily by its thread, which then never sleeps. The error matches
// errors.ErrUnsupported on a kernel that can't: the mode came after 6.18.
func SetBusyPoll(id int) error {
	family, err := netlink.GenlFamilyGet("netdev")
	if err != nil {
		return fmt.Errorf("ask for the netdev family (6.8): %w", lackingFamily(err))
	}
	if _, err := ask(family, unix.NLM_F_ACK, cmdNAPISet,
		nl.NewRtAttr(napiID, binary.NativeEndian.AppendUint32(nil, uint32(id))),
		nl.NewRtAttr(napiThreaded, binary.NativeEndian.AppendUint32(nil, busyPollMode))); err != nil {
		return fmt.Errorf("have NAPI %d polled busily by its thread (after 6.18): %w", id, err)
	}
	return nil
}

// ask sends command to family and returns the answers. An error is marked by lackingFamily.
func ask(family *netlink.GenlFamily, flags int, command uint8, attributes ...*nl.RtAttr) ([][]byte, error) {
	req := nl.NewNetlinkRequest(int(family.ID), flags)
	req.AddData(&nl.Genlmsg{Command: command, Version: 1})
	for _, a := range attributes {
		req.AddData(a)
	}
	messages, err := req.Execute(unix.NETLINK_GENERIC, 0)
	return messages, lackingFamily(err)
}

// lackingFamily marks what a kernel says that has no such family, command or value.
func lackingFamily(err error) error {
	for _, e := range []error{unix.ENOENT, unix.EOPNOTSUPP, unix.EINVAL, unix.ERANGE, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
		}
	}
	return err
}

// coalescing asks for the setting of the device with index. The kernel takes RTNL for it. A driver without any
// is an error that matches errors.ErrUnsupported.
func coalescing(family *netlink.GenlFamily, index int) (Coalescing, error) {
	header := nl.NewRtAttr(ethtoolHeader|unix.NLA_F_NESTED, nil)
	header.AddRtAttr(headerIndex, binary.NativeEndian.AppendUint32(nil, uint32(index)))
	messages, err := ask(family, 0, cmdCoalesceGet, header)
	if err != nil {
		return Coalescing{}, err
	}
	if len(messages) != 1 {
		return Coalescing{}, fmt.Errorf("coalesce-get: %d answers; want 1", len(messages))
	}
	return parseCoalescing(messages[0])
}

// driverName asks what sysfs does not show for devices without hardware, like veth. The kernel takes RTNL.
func driverName(device string) (name string, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written to it
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, device)
	if err != nil {
		return "", err
	}
	return unix.ByteSliceToString(info.Driver[:]), nil
}

// askDevices adds what only questions under RTNL tell: instances first, then, for devices that poll in a
// thread or have hardware, driver and coalescing. Emit gets each device as soon as it is whole.
func askDevices(devices []Device, emit func(Device)) error {
	all, err := NAPIs()
	for i := range devices {
		for _, n := range all {
			if n.Index == devices[i].Index {
				devices[i].NAPIs = append(devices[i].NAPIs, n)
			}
		}
		emit(devices[i])
	}
	family, ferr := netlink.GenlFamilyGet("ethtool")
	for i := range devices {
		d := &devices[i]
		if len(d.NAPIs) == 0 && d.Driver == "" && (d.Threaded == nil || *d.Threaded == 0) {
			continue
		}
		if d.Driver == "" {
			d.Driver, _ = driverName(d.Name) // without a driver's name, it is shown without
		}
		if ferr != nil {
			d.NoCoalescing = "no ethtool netlink (5.6)"
		} else if c, err := coalescing(family, d.Index); err == nil {
			d.Coalescing = &c
		} else {
			d.NoCoalescing = reason(err)
		}
		emit(*d)
	}
	return err
}

func reason(err error) string {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return "the driver has no such setting"
	}
	return err.Error()
}
