package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/machine"
)

// A pair is the veth pair that a load runs through, with one queue each way. All its methods run
// on the load's thread.
type pair struct {
	sender, receiver netlink.Link
	program          *ebpf.Program // attached to the receiver
	socket           int           // AF_PACKET, sends into sender; -1 before it is open
	stats            *os.File      // the receiver's rx_packets
	kthread          machine.Thread
	consume          *consumer // what receives, where it counts and works; nil for others
}

// newPair makes the pair ready for its first frame: program attached to the receiver, which makes
// its NAPI, NAPI thread bound to cpu, both ends up. No frame can have passed before that: IPv6 is off.
func newPair(first asm.Instructions, threaded bool, cpu int) (*pair, error) {
	p := &pair{socket: -1}
	steps := []func() error{
		p.create, p.silence,
		func() error { return p.attach("first", first) },
		func() error { return p.up(p.receiver) },
		func() error { return p.thread(threaded, cpu) },
		func() error { return p.up(p.sender) },
		p.open,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, errors.Join(err, p.remove())
		}
	}
	return p, nil
}

func (p *pair) create() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = sender, 1, 1
	v := netlink.NewVeth(attrs)
	v.PeerName, v.PeerNumTxQueues, v.PeerNumRxQueues = Device, 1, 1
	err := addVeth(v)
	if err != nil {
		return err
	}
	if p.sender, err = netlink.LinkByName(sender); err != nil {
		return fmt.Errorf("find %s: %w", sender, err)
	}
	if p.receiver, err = netlink.LinkByName(Device); err != nil {
		return fmt.Errorf("find %s: %w", Device, err)
	}
	return nil
}

func addVeth(v *netlink.Veth) error {
	err := netlink.LinkAdd(v)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("create a veth pair: this kernel has no veth (CONFIG_VETH, or its module is not loaded): %w", errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("create the veth pair %s/%s: %w", v.Name, v.PeerName, err)
	}
	return nil
}

func (p *pair) silence() error { return errors.Join(quiet(sender), quiet(Device)) }

// quiet switches IPv6 off on a device, where the kernel has it: a frame of neighbour discovery would be
// in the ring before the kthread is bound.
func quiet(dev string) error {
	_, err := machine.Write("/proc/sys/net/ipv6/conf/"+dev+"/disable_ipv6", "1") // goes with the device: no undo
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// attach puts a program on the receiver in driver mode, in the place of the one before it: veth
// exchanges them without waiting for anything.
func (p *pair) attach(name string, code asm.Instructions) error {
	if err := rlimit.RemoveMemlock(); err != nil { // needed before 5.11
		return fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.XDP, Instructions: code, License: license})
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("load an XDP program: this kernel has no BPF (CONFIG_BPF_SYSCALL): %w", errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("load the XDP program %s: %w", name, err)
	}
	err = netlink.LinkSetXdpFdWithFlags(p.receiver, prog.FD(), nl.XDP_FLAGS_DRV_MODE)
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = fmt.Errorf("veth has XDP in driver mode since 4.19: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("attach the XDP program %s to %s: %w", name, Device, err), prog.Close())
	}
	old := p.program
	p.program = prog
	if old != nil {
		return old.Close()
	}
	return nil
}

func (p *pair) up(l netlink.Link) error {
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("set %s up: %w", l.Attrs().Name, err)
	}
	return nil
}

// thread gives the receiver's NAPI its kthread and binds it to cpu.
func (p *pair) thread(threaded bool, cpu int) error {
	if !threaded {
		return nil
	}
	prefix := "napi/" + Device + "-"
	before, err := machine.Source{}.Threads(prefix)
	if err != nil {
		return err
	}
	_, err = machine.Write("/sys/class/net/"+Device+"/threaded", "1") // goes with the device: no undo
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("give %s's NAPI a thread: threaded NAPI came with Linux 5.12: %w", Device, errors.ErrUnsupported)
	}
	if err != nil {
		return err
	}
	after, err := machine.Source{}.Threads(prefix)
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(after, func(t machine.Thread) bool { return slices.Contains(before, t) })
	if len(fresh) != 1 {
		return fmt.Errorf("find the NAPI thread of %s: %d new threads called %s*, want 1", Device, len(fresh), prefix)
	}
	p.kthread = fresh[0]
	return machine.Pin(p.kthread.PID, cpu)
}

// open opens the socket that sends into the pair, and the receiver's count of packets.
func (p *pair) open() error {
	fd, err := bindPacketSocket(p.sender.Attrs().Index)
	if err != nil {
		return err
	}
	p.socket = fd
	// Room for more frames than the receiver's ring holds (256): a sender that waits for room in its own
	// buffer is paced by the receiver, and the ring runs empty meanwhile.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer); err != nil {
		return fmt.Errorf("enlarge the packet socket's buffer: %w", err)
	}
	return p.openStats()
}

// openStats opens the receiver's count of packets. It is read later from any thread: the file stays with the
// namespace in which it was opened.
func (p *pair) openStats() (err error) {
	p.stats, err = os.Open("/sys/class/net/" + Device + "/statistics/rx_packets")
	if err != nil {
		return fmt.Errorf("open the count of packets: %w", err)
	}
	return nil
}

// sendBuffer is in bytes; a short frame counts for less than 1 KiB of it.
const sendBuffer = 1 << 20

// send sends one frame into the pair. A full queue is no error: the frame is dropped, as on a wire.
func (p *pair) send(frame []byte) error {
	_, err := unix.Write(p.socket, frame)
	if err != nil && !errors.Is(err, unix.ENOBUFS) {
		return fmt.Errorf("send a frame into %s: %w", sender, err)
	}
	return nil
}

// remove takes everything away again; a pair that is half made too. It waits for grace periods.
func (p *pair) remove() error {
	var errs []error
	if p.socket >= 0 {
		errs = append(errs, unix.Close(p.socket))
		p.socket = -1
	}
	if p.stats != nil {
		errs = append(errs, p.stats.Close())
	}
	if p.sender != nil {
		errs = append(errs, netlink.LinkDel(p.sender))
	}
	if p.program != nil {
		errs = append(errs, p.program.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the load's devices: %w", err)
	}
	return nil
}
