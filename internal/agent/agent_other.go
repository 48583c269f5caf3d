//go:build !linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/napistall/napistall/internal/experiment"
)

// Run returns an error matching errors.ErrUnsupported: NAPI is Linux's.
func Run(context.Context, experiment.Trial, func(experiment.Record) error) error {
	return fmt.Errorf("run a trial on %s: NAPI is Linux's: %w", runtime.GOOS, errors.ErrUnsupported)
}

// IsGuest is false: guests run Linux.
func IsGuest() bool { return false }

// Guest is never called outside Linux.
func Guest() {}
