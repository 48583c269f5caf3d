package load

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
)

// A couple is a veth pair between two network namespaces: the receiver's, which is the load's own or the
// caller's, and the sender's, which goes with its thread. Device's NAPI, in the first, is under test.
type couple struct {
	pair
	peer *thread // in the sender's namespace
}

// newCouple makes the couple ready for its first frame, on the load's thread. What receives is set up by
// receive.
func newCouple(o Options, cpu int, l experiment.Load, receive func(*couple) error) (*couple, error) {
	c := &couple{pair: pair{socket: -1}, peer: newThread()}
	steps := []func() error{
		c.create,
		func() error { return setMTU(c.receiver, l.Size) },
		func() error { return c.peer.do(func() error { return setMTU(c.sender, l.Size) }) },
		func() error { return quiet(Device) },
		func() error { return c.peer.do(func() error { return quiet(sender) }) },
		func() error { return receive(c) },
		func() error { return c.up(c.receiver) },
		func() error { return c.thread(o.Threaded, cpu) },
		func() error { return c.peer.do(func() error { return c.up(c.sender) }) },
		c.openStats,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, errors.Join(err, c.remove())
		}
	}
	return c, nil
}

// create gives the peer its namespace, and makes the pair with one end in each.
func (c *couple) create() error {
	if err := c.peer.do(func() error { return unshareNet() }); err != nil {
		return err
	}
	var there *os.File
	err := c.peer.do(func() (err error) {
		there, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		return err
	})
	if err != nil {
		return fmt.Errorf("open the sender's network namespace: %w", err)
	}
	defer func() { _ = there.Close() }() // the thread keeps the namespace
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = Device, 1, 1
	v := netlink.NewVeth(attrs)
	v.PeerName, v.PeerNumTxQueues, v.PeerNumRxQueues = sender, 1, 1
	v.PeerNamespace = netlink.NsFd(int(there.Fd()))
	if err := addVeth(v); err != nil {
		return err
	}
	if c.receiver, err = netlink.LinkByName(Device); err != nil {
		return fmt.Errorf("find %s: %w", Device, err)
	}
	return c.peer.do(func() (err error) {
		if c.sender, err = netlink.LinkByName(sender); err != nil {
			return fmt.Errorf("find %s: %w", sender, err)
		}
		return nil
	})
}

// unshareNet moves the calling thread into a network namespace of its own.
func unshareNet() error {
	err := unix.Unshare(unix.CLONE_NEWNET)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("make the sender's network namespace: this kernel has none (CONFIG_NET_NS): %w", errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("make the sender's network namespace: %w", err)
	}
	return nil
}

// setMTU makes room for frames of size bytes, where a device has less. XDP in driver mode has a limit of its
// own, of less than a page.
func setMTU(l netlink.Link, size int) error {
	want := size - headerLen
	if want <= l.Attrs().MTU {
		return nil
	}
	if err := netlink.LinkSetMTU(l, want); err != nil {
		return fmt.Errorf("set the MTU of %s to %d for frames of %d bytes: %w", l.Attrs().Name, want, size, err)
	}
	return nil
}

// remove takes everything away again, whatever there is of it. The sender's namespace goes with its
// thread, and both ends with the first.
func (c *couple) remove() error {
	sender := c.sender
	c.sender = nil
	var errs []error
	if c.receiver != nil {
		if err := netlink.LinkDel(c.receiver); err != nil {
			errs = append(errs, fmt.Errorf("remove %s: %w", Device, err))
		}
	}
	if c.consume != nil {
		errs = append(errs, c.consume.close())
	}
	errs = append(errs, c.pair.remove())
	c.sender = sender
	c.peer.end()
	return errors.Join(errs...)
}
