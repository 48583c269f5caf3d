package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/rcu"
)

// A job is what a consumer works.
type job struct {
	work        time.Duration // for each frame, or once per poll
	oncePerPoll bool          // of frames that are all number 0
}

func (j job) String() string {
	if j.oncePerPoll {
		return fmt.Sprintf("works %v in each poll, after it has emptied its ring, and up to %v until the next frame is there", j.work, maxWait)
	}
	return fmt.Sprintf("works %v for each frame after it has emptied its ring", j.work)
}

// A consumer is what takes the load's frames at the receiver: it counts each, works for it for a while, and
// drops it or sends it back. Its counts can be read without a system call.
type consumer struct {
	devmap, setting, counts *ebpf.Map
	work                    *ebpf.Program
	page                    []byte // the counts
	knobs                   []byte // the setting
}

// maxFrames is how many frames a consumer can tell apart: as many as veth's ring holds (VETH_RING_SIZE).
const maxFrames = 256

// consumeOn readies a consumer on c's receiver, on the load's thread. It needs programs in devmaps, which came
// with Linux 5.8.
func consumeOn(c *couple, j job) (err error) {
	n := &consumer{}
	c.consume = n
	n.counts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "counts", Type: ebpf.Array, KeySize: 4, ValueSize: countSize, MaxEntries: maxFrames, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		return fmt.Errorf("make the receiver's counts: %w", lacking(err))
	}
	n.page, err = unix.Mmap(n.counts.FD(), 0, countSize*maxFrames, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the receiver's counts: %w", lacking(err))
	}
	n.setting, err = ebpf.NewMap(&ebpf.MapSpec{Name: "setting", Type: ebpf.Array, KeySize: 4, ValueSize: settingSize, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE})
	if err != nil {
		return fmt.Errorf("make the receiver's setting: %w", lacking(err))
	}
	n.knobs, err = unix.Mmap(n.setting.FD(), 0, settingSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the receiver's setting: %w", lacking(err))
	}
	code, first := workProgram(n.setting.FD(), n.counts.FD(), j.work), asm.Instructions(nil)
	if j.oncePerPoll {
		code, first = pollProgram(n.setting.FD(), n.counts.FD(), j.work), countRung(n.setting.FD())
	}
	n.work, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "work", Type: ebpf.XDP, AttachType: ebpf.AttachXDPDevMap, License: license, Instructions: code,
	})
	if err != nil {
		return fmt.Errorf("load the receiver's program: %w", lacking(err))
	}
	n.devmap, err = ebpf.NewMap(&ebpf.MapSpec{Name: "target", Type: ebpf.DevMap, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return fmt.Errorf("make the receiver's devmap: %w", lacking(err))
	}
	if err := c.attach("consume", consumeProgram(n.devmap.FD(), first)); err != nil {
		return err
	}
	target := binary.NativeEndian.AppendUint32(nil, uint32(c.sender.Attrs().Index))
	target = binary.NativeEndian.AppendUint32(target, uint32(n.work.FD())) // struct bpf_devmap_val
	// The kernel looks the target up in the namespace of whoever names it.
	if err := c.peer.do(func() error { return n.devmap.Put(uint32(0), target) }); err != nil {
		return fmt.Errorf("give the receiver its program: %w", lacking(err))
	}
	return nil
}

// set lets frames whose number is below window go round until deadline.
func (n *consumer) set(window int, deadline rcu.Ktime) error {
	v := binary.NativeEndian.AppendUint64(nil, uint64(window))
	v = binary.NativeEndian.AppendUint64(v, uint64(deadline))
	v = append(v, make([]byte, settingSize-len(v))...) // nobody counts
	if err := n.setting.Put(uint32(0), v); err != nil {
		return fmt.Errorf("set the window: %w", err)
	}
	return nil
}

// read reads the counts into s, which has an item for each frame. It may be called from any goroutine.
func (n *consumer) read(s []sighting) {
	load := func(at int) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&n.page[at]))) }
	for i := range s {
		s[i] = sighting{taken: load(i*countSize + countTaken), gone: load(i*countSize + countGone)}
	}
}

// sent says that frames more frames are in the ring. It is for one goroutine.
func (n *consumer) sent(frames int) {
	atomic.AddUint64((*uint64)(unsafe.Pointer(&n.knobs[settingSent])), uint64(frames))
}

func (n *consumer) close() error {
	var errs []error
	if n.knobs != nil {
		errs = append(errs, unix.Munmap(n.knobs))
		n.knobs = nil
	}
	if n.page != nil {
		errs = append(errs, unix.Munmap(n.page))
		n.page = nil
	}
	for _, m := range []*ebpf.Map{n.devmap, n.setting, n.counts} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	if n.work != nil {
		errs = append(errs, n.work.Close())
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
