package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/doctor"
	"github.com/napistall/napistall/internal/machine"
)

// What a helper can be asked.
const (
	askSurvey = "survey"
	askGPs    = "grace-periods"
	askTurns  = "turns"
	askPolls  = "polls"
)

// examine reads and watches the running machine.
func examine(ctx context.Context, watch time.Duration) (patient, error) {
	if err := machine.AvoidPollers(); err != nil {
		slog.Warn("this program may itself wait for a CPU that a poll thread holds", "why", err)
	}
	helper := machine.Helper{Command: []string{"/proc/self/exe", "doctor", "helper"}}
	var watched machine.Watch
	var watching sync.WaitGroup
	watching.Go(func() { // beside the survey: a helper's start is most of the time on a small board
		watched = machine.Watching{For: watch, Helper: helper, GracePeriods: askGPs, Turns: askTurns, Polls: askPolls,
			Trace: watch > 0 && os.Geteuid() == 0}.Run(ctx)
	})
	survey, kmsg, err := helper.Survey(ctx, askSurvey)
	watching.Wait()
	return patient{Case: doctor.Case{Survey: survey, Watch: watched, Log: doctor.ReadLog(kmsg)}, kmsg: kmsg}, err
}

// newDoctorHelper is the process that asks what can hang.
func newDoctorHelper() *cobra.Command {
	return &cobra.Command{
		Use:    "helper QUESTION [CPU,...]",
		Short:  "Ask the kernel what can hang (doctor starts it)",
		Hidden: true,
		Args:   usageArgs(cobra.RangeArgs(1, 2)),
		RunE:   func(cmd *cobra.Command, args []string) error { return answer(cmd.Context(), args) },
	}
}

// answer goes on until ctx ends, or until nobody reads any more.
func answer(ctx context.Context, args []string) error {
	lines := json.NewEncoder(os.Stdout)
	beat := func(b machine.Beat) error { return errors.Join(ctx.Err(), lines.Encode(b)) }
	switch args[0] {
	case askSurvey:
		return machine.Tell(func(p machine.Part) error { return lines.Encode(p) })
	case askGPs:
		return machine.TellGracePeriods(beat)
	case askPolls:
		return machine.TellPolls(beat)
	case askTurns:
		var cpus []int
		for word := range strings.SplitSeq(strings.Join(args[1:], ","), ",") {
			cpu, err := strconv.ParseUint(word, 10, 16)
			if err != nil {
				return usagef("helper turns: %w", err)
			}
			cpus = append(cpus, int(cpu))
		}
		return machine.TellTurns(cpus, beat)
	}
	return usagef("helper %s: want %s, %s, %s or %s", args[0], askSurvey, askGPs, askTurns, askPolls)
}
