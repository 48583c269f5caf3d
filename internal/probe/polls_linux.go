package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/machine"
)

// polls counts a device's polls at the tracepoint napi:napi_poll, from when it was made.
type polls struct {
	counts  *ebpf.Map
	program *ebpf.Program
	link    link.Link
}

// newPolls attaches the count for device, in whichever network namespace. The error matches
// errors.ErrUnsupported where the kernel has no tracepoints for BPF (CONFIG_BPF_EVENTS).
func newPolls(device string) (*polls, error) {
	fields, err := machine.NAPIPollFields()
	if err != nil {
		return nil, err
	}
	p, err := loadPolls(device, fields)
	if err != nil {
		return nil, err
	}
	p.link, err = link.Tracepoint("napi", "napi_poll", p.program, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach the count of polls: %w", lacking(err)), p.close())
	}
	return p, nil
}

// loadPolls loads the program that counts, without attaching it.
func loadPolls(device string, fields machine.PollFields) (p *polls, err error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	p = &polls{}
	p.counts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "polls", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: machine.PollCountSize, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("make the count of polls: %w", lacking(err))
	}
	p.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "polls", Type: ebpf.TracePoint, License: license, Instructions: pollProgram(device, fields, p.counts.FD()),
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load the count of polls: %w", lacking(err)), p.close())
	}
	return p, nil
}

// lacking marks what a kernel without CONFIG_BPF_SYSCALL (ENOSYS) or CONFIG_BPF_EVENTS (EINVAL: no such
// type of program) answers, and what it answers to somebody without the right.
func lacking(err error) error {
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("BPF at tracepoints needs CONFIG_BPF_EVENTS and root: %w: %w", err, errors.ErrUnsupported)
	}
	return err
}

// read adds up what the CPUs have counted.
func (p *polls) read() (machine.PollCount, error) {
	var each []machine.PollCount
	if err := p.counts.Lookup(uint32(0), &each); err != nil {
		return machine.PollCount{}, fmt.Errorf("read the count of polls: %w", err)
	}
	return machine.SumPolls(each), nil
}

// close detaches the count. It waits for grace periods.
func (p *polls) close() error {
	var errs []error
	if p.link != nil {
		errs = append(errs, p.link.Close())
	}
	if p.program != nil {
		errs = append(errs, p.program.Close())
	}
	return errors.Join(append(errs, p.counts.Close())...)
}
