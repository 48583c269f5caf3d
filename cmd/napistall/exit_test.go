package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
)

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("disk full"), 1},
		{&backend.MachineError{Op: "boot", Err: errors.New("QEMU died")}, 1},
		{fmt.Errorf("every trial was aborted: %w", &backend.MachineError{Op: "boot", Err: syscall.ENOSYS}), 1},
		{usagef("--format x"), 2},
		{fmt.Errorf("read: %w", errors.Join(&experiment.ParseError{Msg: "unknown key"})), 2},
		{&kimage.SpecError{Spec: "solaris", Msg: "no"}, 2},
		{fmt.Errorf("%w: 1 of 2", errUnmet), 3},
		{fmt.Errorf("run guests: %w", errors.ErrUnsupported), 69},
		{fmt.Errorf("stopped: %w", context.Canceled), 130},
		{errors.Join(fmt.Errorf("stopped: %w", context.Canceled), errors.New("also this")), 130},
	} {
		if got := status(tt.err); got != tt.want {
			t.Errorf("status(%v) = %d; want %d", tt.err, got, tt.want)
		}
	}
}
