// Package qemu runs trials in virtual machines of QEMU: it boots the arm's kernel with this program
// as /init, under KVM where that has shown that it works, else under TCG's emulation. A guest has no
// network device and no disk, and nothing of it is ever in the file system: its initramfs is a file
// in memory, its console and records are pipes, and QEMU dies with the process that started it.
//
// An error says that the machine broke; what the kernel under test does is in the records. The line
// between the two is the start of the load: see watch.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
)

// A Backend boots guests. Its zero value works; its fields are not changed once it is in use.
type Backend struct {
	// Accel is auto (the default), kvm or tcg. With auto, KVM is used once a guest has come up under
	// it; the answer is remembered for a week.
	Accel string
	// Store is where kernels come from.
	Store kimage.Store
	// CacheDir is where the answer about KVM is kept. Default: napistall in the user's cache directory.
	CacheDir string
	// Log takes what a user should know and no record says, a line a call. Default: nobody.
	Log func(string)
	// Binary is the QEMU to run. Default: the one for the kernel's architecture, from PATH.
	Binary string

	fetch     func(context.Context, experiment.Arm) (kernel, error) // default: from Store
	limits    limits                                                // default: wideLimits
	proof     proofLimits                                           // default: shortProof
	kvmDevice string                                                // default: /dev/kvm
}

// vcpusPerSlot is what a guest keeps busy: one CPU under load, one that probes.
const vcpusPerSlot = 2

// Slots returns how many guests of 2 CPUs run without taking each other's CPUs.
func (b Backend) Slots() int { return max(1, runtime.NumCPU()/vcpusPerSlot) }

func (b Backend) log(text string) {
	if b.Log != nil {
		b.Log(text)
	}
}

// Acquire fetches arm's kernel, looks at it, and finds out how its guest can be run, which may boot
// it once. It refuses what can't work: an error that matches errors.ErrUnsupported names what would be needed.
func (b Backend) Acquire(ctx context.Context, arm experiment.Arm) (backend.Target, error) {
	if err := experiment.NeedsModel(arm); err != nil {
		return nil, err
	}
	k, err := b.kernel(ctx, arm)
	if err != nil {
		return nil, err
	}
	if err := k.refuse(arm); err != nil {
		return nil, err
	}
	m, err := machineFor(k.goarch)
	if err != nil {
		return nil, err
	}
	binary := b.Binary
	if binary == "" {
		if binary, err = m.find(); err != nil {
			return nil, err
		}
	}
	accel, err := b.chooseAccel(ctx, m, binary, k, arm)
	if err != nil {
		return nil, err
	}
	return &target{b: b, m: m, k: k, binary: binary, accel: accel}, nil
}

// A target boots a fresh guest for each trial.
type target struct {
	b      Backend
	m      machine
	k      kernel
	binary string
	accel  string
}

// Close has nothing to free: between trials nothing runs.
func (t *target) Close() error { return nil }

// Run boots a guest, follows it to the end of trial, and ends it.
func (t *target) Run(ctx context.Context, trial experiment.Trial, emit func(experiment.Record) error) error {
	alive, err := t.run(ctx, trial, emit)
	var broke *backend.MachineError
	if t.accel == kvm && t.b.Accel != kvm && !alive && errors.As(err, &broke) {
		// KVM has worked here before and no longer does: the next try emulates.
		t.b.settle(t.b.memory(t.m, t.binary), err)
		t.accel = tcg
	}
	return err
}

// run also reports whether the guest has shown life and QEMU has no complaint: then KVM is not to
// blame for whatever went wrong.
func (t *target) run(ctx context.Context, trial experiment.Trial, emit func(experiment.Record) error) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	initrd, err := t.k.initramfs(trial)
	if err != nil {
		return false, fmt.Errorf("make the initramfs: %w", err)
	}
	argv := t.m.argv(t.binary, t.accel, t.k, trial.Arm)
	p, err := start(argv, initrd)
	_ = initrd.Close() // QEMU has its own descriptor of it
	if err != nil {
		return false, &backend.MachineError{Op: "boot the guest", Err: err}
	}
	defer p.stop()
	s := newSession(t.b, p, t.accel, t.k, trial.Arm, emit)
	if err := s.put(experiment.Record{Command: &experiment.Command{Argv: argv, Accel: t.accel}}); err != nil {
		return false, err
	}
	if err := s.put(experiment.Record{Phase: &experiment.Phase{Name: experiment.Boot}}); err != nil {
		return false, err
	}
	err = s.follow(ctx)
	return !s.watch.line.IsZero() && complaint(p.stderr.last(maxTailLines)) == "", err
}
