package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
)

// A notHereError says that this machine can't, whatever the source is.
type notHereError struct{ error }

func (e notHereError) Unwrap() error { return e.error }

// notHere marks an error that matches errors.ErrUnsupported.
func notHere(err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return notHereError{err}
	}
	return err
}

// An unsupportedError matches errors.ErrUnsupported without its text.
type unsupportedError string

func (e unsupportedError) Error() string        { return string(e) }
func (e unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// A guestArch is what a machine needs to boot kernels of an architecture.
type guestArch struct{ goarch, binary, pkg string }

func bootsOn(arm experiment.Arm) guestArch {
	switch {
	case arm.Config.Arch == "arm64":
		return guestArch{"arm64", "qemu-system-aarch64", "qemu-system-arm"}
	case arm.Config.Arch == "armhf" || arm.Kernel == mainlineKernel:
		return guestArch{"arm", "qemu-system-arm", "qemu-system-arm"}
	}
	return guestArch{"amd64", "qemu-system-x86_64", "qemu-system-x86"}
}

// missing returns an error if this machine can't boot such a kernel, whatever is in it.
func (g guestArch) missing(accel string) error {
	if _, err := exec.LookPath(g.binary); err != nil {
		return unsupportedError(fmt.Sprintf("no %s here: install Debian's package %s", g.binary, g.pkg))
	}
	if _, err := kimage.Agent(g.goarch); err != nil {
		return err
	}
	if accel != "kvm" {
		return nil
	}
	if g.goarch != runtime.GOARCH {
		return unsupportedError(fmt.Sprintf("run %s with KVM: this machine runs %s", g.goarch, runtime.GOARCH))
	}
	kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return unsupportedError(fmt.Sprintf("run %s with KVM: %v", g.goarch, err))
	}
	return kvm.Close()
}

// needQEMU returns an error if what boots the arms' kernels is missing: better now than after the builds, and only now
// is it certain that it is not the kernel's fault. The kernel that is only fetched is left out instead.
func (c proveCommand) needQEMU(p provePlan, backendName string) (provePlan, error) {
	if backendName != "qemu" {
		return p, nil
	}
	var shipped error
	for _, a := range p.e.Arms {
		err := bootsOn(a).missing(c.accel)
		switch {
		case err == nil:
		case a.Kernel == p.Mainline:
			shipped = err
		default:
			return p, notHere(fmt.Errorf("arm %s: %w", a.Name, err))
		}
	}
	if shipped != nil {
		return c.withoutShipped(p, shipped)
	}
	return p, nil
}

// canKeep returns an error if dir can't be made or nothing can be put there.
func canKeep(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".try-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
