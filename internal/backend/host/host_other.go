//go:build !linux

package host

import (
	"context"
	"runtime"

	"github.com/napistall/napistall/internal/experiment"
)

func (b Backend) refuseMachine(experiment.Arm) error {
	return unsupported("NAPI is Linux's, and this is %s", runtime.GOOS)
}

// Run is never reached: Acquire refuses.
func (t *target) Run(context.Context, experiment.Trial, func(experiment.Record) error) error {
	return t.b.refuseMachine(t.arm)
}
