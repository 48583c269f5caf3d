//go:build !linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/wire"
)

// Run returns an error matching errors.ErrUnsupported: NAPI is Linux's.
func Run(context.Context, wire.Request, func(experiment.Record) error) error {
	return fmt.Errorf("run a trial on %s: NAPI is Linux's: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Serve returns an error matching errors.ErrUnsupported: NAPI is Linux's.
func Serve(io.Reader, io.Writer) error {
	return fmt.Errorf("serve trials on %s: NAPI is Linux's: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Sweep has nothing to undo: no trial runs here.
func Sweep(context.Context) ([]string, error) { return nil, nil }

// IsGuest is false: guests run Linux.
func IsGuest() bool { return false }

// Guest is never called outside Linux.
func Guest() {}
