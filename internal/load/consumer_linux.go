package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A consumer is what takes the load's frames at the receiver: it counts each, works for it for a while, and
// drops it. Its count can be read without a system call.
type consumer struct {
	devmap, array *ebpf.Map
	work          *ebpf.Program
	end           *ebpf.Program // on the sender, which makes the receiver a legal target of redirection
	page          []byte
}

// consumeOn readies a consumer on c's receiver, on the load's thread. It needs programs in devmaps, which came
// with Linux 5.8.
func consumeOn(c *couple, work time.Duration) (err error) {
	n := &consumer{}
	c.consume = n
	n.array, err = ebpf.NewMap(&ebpf.MapSpec{Name: "taken", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		return fmt.Errorf("make the receiver's count: %w", lacking(err))
	}
	n.page, err = unix.Mmap(n.array.FD(), 0, unix.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the receiver's count: %w", lacking(err))
	}
	n.work, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "work", Type: ebpf.XDP, AttachType: ebpf.AttachXDPDevMap, Instructions: workProgram(n.array.FD(), work), License: license,
	})
	if err != nil {
		return fmt.Errorf("load the receiver's program: %w", lacking(err))
	}
	n.devmap, err = ebpf.NewMap(&ebpf.MapSpec{Name: "target", Type: ebpf.DevMap, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("make the receiver's devmap: %w", lacking(err))
	}
	if err := n.passOn(c); err != nil {
		return err
	}
	if err := c.attach("consume", consumeProgram(n.devmap.FD())); err != nil {
		return err
	}
	target := binary.NativeEndian.AppendUint32(nil, uint32(c.receiver.Attrs().Index))
	target = binary.NativeEndian.AppendUint32(target, uint32(n.work.FD())) // struct bpf_devmap_val
	if err := n.devmap.Put(uint32(0), target); err != nil {
		return fmt.Errorf("give the receiver its program: %w", lacking(err))
	}
	return nil
}

// passOn puts a program on the sender: since 6.3 a veth can be redirected to only if its peer has one.
func (n *consumer) passOn(c *couple) (err error) {
	n.end, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "pass", Type: ebpf.XDP, Instructions: passProgram(), License: license})
	if err != nil {
		return fmt.Errorf("load the sender's program: %w", lacking(err))
	}
	return c.peer.do(func() error {
		if err := netlink.LinkSetXdpFdWithFlags(c.sender, n.end.FD(), nl.XDP_FLAGS_DRV_MODE); err != nil {
			return fmt.Errorf("attach the sender's program: %w", err)
		}
		return nil
	})
}

// taken returns how many of the load's frames were consumed. It may be called from any goroutine.
func (n *consumer) taken() uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&n.page[0]))) }

func (n *consumer) close() error {
	var errs []error
	if n.page != nil {
		errs = append(errs, unix.Munmap(n.page))
		n.page = nil
	}
	for _, m := range []*ebpf.Map{n.devmap, n.array} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	for _, p := range []*ebpf.Program{n.work, n.end} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// lacking marks what a kernel answers that doesn't have a map or a program of that kind yet.
func lacking(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("XDP programs in devmaps need Linux 5.8 with CONFIG_BPF_SYSCALL: %w: %w", err, errors.ErrUnsupported)
	}
	return err
}
