//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

func examine(context.Context, time.Duration) (patient, error) {
	return patient{}, fmt.Errorf("read this machine: Linux is needed, this is %s; --root reads a snapshot: %w", runtime.GOOS, errors.ErrUnsupported)
}

func newDoctorHelper() *cobra.Command {
	return &cobra.Command{Use: "helper", Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.ErrUnsupported }}
}
