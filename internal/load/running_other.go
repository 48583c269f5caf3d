//go:build !linux

package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
)

// A Running is a load that runs; there is none outside Linux.
type Running struct {
	Load            experiment.Load
	CPU             int
	Device          string
	Ifindex         int
	Thread          machine.Thread
	Begin, Deadline rcu.Ktime
	Receiver        string
}

// Prepare returns an error matching errors.ErrUnsupported: NAPI is Linux's.
func Prepare(context.Context, experiment.Load, int, Options) (*Running, error) {
	return nil, fmt.Errorf("prepare a load on %s: NAPI is Linux's: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Start is never reached: there is no Running outside Linux.
func (r *Running) Start(context.Context) error { return errors.ErrUnsupported }

// Packets is never reached: there is no Running outside Linux.
func (r *Running) Packets() (uint64, error) { return 0, errors.ErrUnsupported }

// Progress is never reached: there is no Running outside Linux.
func (r *Running) Progress() Progress { return Progress{} }

// Watch is never reached: there is no Running outside Linux.
func (r *Running) Watch(func() (Observation, error)) {}

// Stop is never reached: there is no Running outside Linux.
func (r *Running) Stop() error { return errors.ErrUnsupported }

// Send returns an error matching errors.ErrUnsupported.
func Send(context.Context, Stream) (Sent, error) {
	return Sent{}, fmt.Errorf("send packets on %s: it is done by Linux's packet sockets: %w", runtime.GOOS, errors.ErrUnsupported)
}
