//go:build !linux

package probe

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/napistall/napistall/internal/experiment"
)

func unsupported(what string) error {
	return fmt.Errorf("%s on %s: Linux is needed: %w", what, runtime.GOOS, errors.ErrUnsupported)
}

// A Prober runs one operation again and again; there is none outside Linux.
type Prober struct{}

// A Result is what Stop has to say about a prober beside its samples.
type Result struct {
	Blocked *experiment.Sample
	Losses  []experiment.Loss
}

// Open returns an error matching errors.ErrUnsupported.
func Open(context.Context, Options, func(experiment.Sample)) (*Prober, error) {
	return nil, unsupported("probe a kernel")
}

// Begin is never reached: there is no Prober outside Linux.
func (p *Prober) Begin() {}

// Stop is never reached: there is no Prober outside Linux.
func (p *Prober) Stop() (Result, error) { return Result{}, errors.ErrUnsupported }

// Wait is never reached: there is no Prober outside Linux.
func (p *Prober) Wait(context.Context) error { return errors.ErrUnsupported }
