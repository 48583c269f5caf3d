package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/doctor"
	"github.com/napistall/napistall/internal/machine"
)

// examine reads and watches the running machine.
func examine(ctx context.Context, watch time.Duration) (patient, error) {
	if err := machine.AvoidPollers(); err != nil {
		slog.Warn("this program may itself wait for a CPU that a poll thread holds", "why", err)
	}
	found, err := machine.Examination{
		For: watch, Helper: machine.Helper{Command: []string{"/proc/self/exe", "doctor", "helper"}}, Trace: watch > 0 && os.Geteuid() == 0,
	}.Run(ctx)
	return patient{Case: doctor.Case{Survey: found.Survey, Watch: found.Watch, Log: doctor.ReadLog(found.Kmsg)}, kmsg: found.Kmsg}, err
}

// newDoctorHelper is the process that asks what can hang.
func newDoctorHelper() *cobra.Command {
	return &cobra.Command{
		Use:    "helper",
		Short:  "Ask the kernel what can hang (doctor starts it)",
		Hidden: true,
		Args:   usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			context.AfterFunc(cmd.Context(), func() { _ = os.Stdin.Close() }) // that ends Serve
			return machine.Serve(os.Stdin, os.Stdout)
		},
	}
}
