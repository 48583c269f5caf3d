// Package host runs trials on this very machine, under the kernel that runs it. A trial's devices live
// in network namespaces of its own, unless a real device is named, which is then only measured, in the
// mode and with the coalescing that the arm asks for.
//
// Nothing of a trial stays. It runs in an agent's process (package agent), and what it makes belongs to that
// process: namespaces without a name, and with them devices, programs and NAPI threads, vanish when it ends,
// however it ends; the load's own deadline, part of its BPF program, ends the load even before that. The few
// things that would outlive it (stall timeouts, modules, a real device's settings) are noted down before
// they are changed, and undone by the agent's other process, or by the next agent on this machine.
package host

import (
	"context"
	"fmt"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
)

// A Backend is this machine. Its zero value works; its fields are not changed once it is in use.
type Backend struct {
	// Live is what it may do.
	backend.Live
	// Log takes what a user should know and no record says, a line a call. Default: nobody.
	Log func(string)

	agent []string // the command that is an agent; default: this program's
}

// Slots returns 1: two trials on one machine would measure each other.
func (b Backend) Slots() int { return 1 }

func (b Backend) log(text string) {
	if b.Log != nil {
		b.Log(text)
	}
}

// A target is this machine for one arm.
type target struct {
	b   Backend
	arm experiment.Arm
}

// Close has nothing to free: between trials nothing runs.
func (t *target) Close() error { return nil }

// Acquire looks at what arm asks of this machine. An error that matches errors.ErrUnsupported says what
// it can't, or may not without being allowed to.
func (b Backend) Acquire(ctx context.Context, arm experiment.Arm) (backend.Target, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.Refuse(arm); err != nil {
		return nil, err
	}
	if err := b.refuseMachine(arm); err != nil {
		return nil, err
	}
	return &target{b: b, arm: arm}, nil
}

func unsupported(format string, args ...any) error {
	return backend.UnsupportedError(fmt.Sprintf(format, args...))
}
