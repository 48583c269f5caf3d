//go:build !linux

package machine

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/napistall/napistall/internal/rcu"
)

func unsupported(what string) error {
	return fmt.Errorf("%s on %s: Linux is needed: %w", what, runtime.GOOS, errors.ErrUnsupported)
}

func sysUname() kernelNames { return kernelNames{} }

// Now is Linux's CLOCK_MONOTONIC; elsewhere it returns an error matching errors.ErrUnsupported.
func Now() (rcu.Ktime, error) { return 0, unsupported("read a kernel's clock") }

// Pin binds a thread to CPUs; elsewhere than on Linux it returns an error matching errors.ErrUnsupported.
func Pin(int, ...int) error { return unsupported("pin a thread") }

// Affinity returns a thread's CPUs; elsewhere than on Linux it returns an error matching errors.ErrUnsupported.
func Affinity(int) ([]int, error) { return nil, unsupported("read a thread's CPUs") }

// PinProcess binds this process; elsewhere than on Linux it returns an error matching errors.ErrUnsupported.
func PinProcess(...int) error { return unsupported("pin a process") }
