package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
)

// An operation is what a probe times. prepare is not timed, run is; both are called in turn on the
// probe's thread, where open was called before.
type operation interface {
	open() error
	prepare() error
	run() error
	close() error
}

func newOperation(o Options) (operation, error) {
	switch o.Op {
	case experiment.LinkDel:
		return newLinkDel(o.Device, o.Isolate)
	case experiment.Membarrier:
		return membarrier{}, nil
	case experiment.RCUBarrier:
		return &rcuBarrier{}, nil
	}
	return nil, fmt.Errorf("probe %q: want %s, %s or %s", o.Op, experiment.LinkDel, experiment.Membarrier, experiment.RCUBarrier)
}

// membarrier waits for one normal grace period: MEMBARRIER_CMD_GLOBAL is synchronize_rcu.
type membarrier struct{}

// Commands of membarrier(2).
const (
	membarrierQuery  = 0
	membarrierGlobal = 1
)

func (membarrier) open() error {
	commands, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierQuery, 0, 0)
	switch {
	case errno == unix.ENOSYS:
		return fmt.Errorf("membarrier: this kernel has none (CONFIG_MEMBARRIER, since 4.3): %w", errors.ErrUnsupported)
	case errno != 0:
		return fmt.Errorf("membarrier: %w", errno)
	case commands&membarrierGlobal == 0:
		return fmt.Errorf("membarrier: this kernel has no MEMBARRIER_CMD_GLOBAL (it runs with nohz_full): %w", errors.ErrUnsupported)
	}
	return nil
}

func (membarrier) prepare() error { return nil }
func (membarrier) close() error   { return nil }

func (membarrier) run() error {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		return fmt.Errorf("membarrier: %w", errno)
	}
	return nil
}

// barrierKnob runs one rcu_barrier when 1 is written to it.
const barrierKnob = "/sys/module/rcutree/parameters/do_rcu_barrier"

type rcuBarrier struct{ knob *os.File }

func (b *rcuBarrier) open() error {
	f, err := os.OpenFile(barrierKnob, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rcu_barrier: this kernel has no %s: %w", barrierKnob, errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("rcu_barrier: %w", err)
	}
	b.knob = f
	return nil
}

func (b *rcuBarrier) prepare() error { return nil }
func (b *rcuBarrier) close() error   { return b.knob.Close() }

func (b *rcuBarrier) run() error {
	if _, err := unix.Pwrite(int(b.knob.Fd()), []byte("1"), 0); err != nil {
		return fmt.Errorf("rcu_barrier: %w", err)
	}
	return nil
}

// The devices that linkDel makes.
const (
	probeDevice = "napistall0"
	probePeer   = "napistall1" // a veth's other end
	probeParent = "napistallp" // what a vlan is on
	probeVlan   = 7
)

// linkDel deletes a network device over rtnetlink. The request is built beforehand, and sent and
// acknowledged on a socket of its own, so that the deletion alone is timed.
type linkDel struct {
	kind    string
	isolate bool
	socket  int
	request []byte
	reply   []byte
}

func newLinkDel(kind string, isolate bool) (*linkDel, error) {
	switch kind {
	case "dummy", "veth", "vlan":
		return &linkDel{kind: kind, isolate: isolate, socket: -1, reply: make([]byte, 64<<10)}, nil
	}
	return nil, fmt.Errorf("probe device %q: want dummy, veth or vlan", kind)
}

func (d *linkDel) open() (err error) {
	if d.isolate {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a new network namespace: %w", err)
		}
	}
	d.socket, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open an rtnetlink socket: %w", err)
	}
	if d.kind == "vlan" {
		return d.makeUp(&netlink.Dummy{LinkAttrs: d.attrs(probeParent)})
	}
	return nil
}

func (d *linkDel) attrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

// prepare makes the device, sets it up and builds the request that deletes it.
func (d *linkDel) prepare() error {
	l, err := d.link()
	if err != nil {
		return err
	}
	if err := d.makeUp(l); err != nil {
		return err
	}
	made, err := netlink.LinkByName(probeDevice)
	if err != nil {
		return fmt.Errorf("find %s: %w", probeDevice, err)
	}
	req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(made.Attrs().Index)
	req.AddData(msg)
	d.request = req.Serialize()
	return nil
}

func (d *linkDel) link() (netlink.Link, error) {
	attrs := d.attrs(probeDevice)
	switch d.kind {
	case "veth":
		v := netlink.NewVeth(attrs)
		v.PeerName = probePeer
		return v, nil
	case "vlan":
		parent, err := netlink.LinkByName(probeParent)
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", probeParent, err)
		}
		attrs.ParentIndex = parent.Attrs().Index
		return &netlink.Vlan{LinkAttrs: attrs, VlanId: probeVlan, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}, nil
	}
	return &netlink.Dummy{LinkAttrs: attrs}, nil
}

func (d *linkDel) makeUp(l netlink.Link) error {
	name := l.Attrs().Name
	err := netlink.LinkAdd(l)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("create %s %s: this kernel has none, or its module is not loaded: %w", l.Type(), name, errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("create %s %s: %w", l.Type(), name, err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// run sends the request and reads its acknowledgement: the kernel does the whole deletion inside
// the system call that sends it.
func (d *linkDel) run() error {
	if err := unix.Sendto(d.socket, d.request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("delete %s: %w", probeDevice, err)
	}
	n, _, err := unix.Recvfrom(d.socket, d.reply, 0)
	if err != nil {
		return fmt.Errorf("delete %s: %w", probeDevice, err)
	}
	if err := acknowledged(d.reply[:n]); err != nil {
		return fmt.Errorf("delete %s: %w", probeDevice, err)
	}
	return nil
}

// acknowledged returns the error that an rtnetlink answer holds.
func acknowledged(reply []byte) error {
	if len(reply) < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("an rtnetlink answer of %d bytes", len(reply))
	}
	if kind := binary.NativeEndian.Uint16(reply[4:]); kind != unix.NLMSG_ERROR {
		return fmt.Errorf("an rtnetlink answer of type %d, want %d", kind, unix.NLMSG_ERROR)
	}
	if code := int32(binary.NativeEndian.Uint32(reply[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// close removes what a broken-off turn left, and the vlan's parent.
func (d *linkDel) close() error {
	var errs []error
	for _, name := range []string{probeDevice, probeParent} {
		if l, err := netlink.LinkByName(name); err == nil {
			errs = append(errs, netlink.LinkDel(l))
		}
	}
	if d.socket >= 0 {
		errs = append(errs, unix.Close(d.socket))
		d.socket = -1
	}
	return errors.Join(errs...)
}
