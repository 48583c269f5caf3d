package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/agent"
	"github.com/napistall/napistall/internal/backend/sim"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rundir"
)

func newSim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Sweep, trace and calibrate the simulator",
		Long: `The simulator drives a model of the poll loop, the scheduler and RCU with a clock. It runs the same
experiments as the virtual machines do, in a fraction of their time, on any machine and without root:

  napistall run --backend sim mainline

The commands here are for what only a simulator can do. docs/simulator.md says what is modelled and what is not.`,
		Example: `  napistall sim sweep --vary load.rate=10k..120k:24 --vary nic.moderation=0s,20us,100us --svg map.svg
  napistall sim trace mainline --arm stock --for 5ms -o trace.json
  napistall sim fit runs/mainline-20261130-170000`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSimSweep(), newSimTrace(), newSimFit())
	return cmd
}

// newSimBackend returns the simulator.
func newSimBackend() sim.Backend {
	return sim.Backend{Agent: agent.Version(), Arrivals: readArrivals}
}

// readArrivals reads what a recorded load repeats: a file of instants, or the packets that a trial of a run received.
func readArrivals(from string) ([]int64, error) {
	info, err := os.Stat(from)
	switch {
	case err == nil && !info.IsDir():
		return readInstants(from)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, usageError{err}
	}
	// A trial's own folder may be named, too: RUN/trials/ID.
	run, id := filepath.Split(filepath.Clean(from))
	run = strings.TrimSuffix(filepath.Clean(run), string(filepath.Separator)+"trials")
	dir, err := rundir.Open(run)
	if err != nil {
		return nil, usagef("%s: want RUN/TRIAL or a file of instants: %w", from, err)
	}
	if _, whole := dir.Info(id); !whole {
		return nil, usagef("%s: %s has no whole trial %s", from, run, id)
	}
	return countedArrivals(dir, id)
}

// readInstants reads a file with one whole number of nanoseconds a line, not descending.
func readInstants(path string) ([]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usageError{err}
	}
	defer func() { _ = f.Close() }() // it was only read
	return scanInstants(path, f, maxArrivals)
}

// maxInstant bounds an instant: what is later is no time from the start of a load, but a clock's.
const maxInstant = 30 * 24 * time.Hour

// scanInstants reads r, which is called name, and has most instants at most.
func scanInstants(name string, r io.Reader, most int) ([]int64, error) {
	var list []int64
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		at, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || at < 0:
			return nil, usagef("%s:%d: %.40q is no whole number of nanoseconds", name, n, text)
		case at > int64(maxInstant):
			return nil, usagef("%s:%d: %d is after 30 days: want nanoseconds from the start of the load", name, n, at)
		case len(list) > 0 && at < list[len(list)-1]:
			return nil, usagef("%s:%d: %d comes after %d: want ascending instants", name, n, at, list[len(list)-1])
		case len(list) == most:
			return nil, usagef("%s: over %d instants", name, most)
		}
		list = append(list, at)
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return nil, usagef("%s: a line of over %d bytes: want one whole number of nanoseconds a line", name, bufio.MaxScanTokenSize)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, usagef("%s: no instants in it", name)
	}
	return list, nil
}

// maxArrivals bounds the arrivals that are repeated: half an hour of a full 1 Gbit/s line of large frames.
const maxArrivals = 150_000_000

// countedArrivals spreads the packets that a trial counted in each second evenly over it: all that a run's records
// tell of its arrivals.
func countedArrivals(dir *rundir.Dir, id string) ([]int64, error) {
	var list []int64
	var last *experiment.Counters
	var lastAt, begin int64
	for r, err := range dir.Load(id) {
		if err != nil {
			return nil, err
		}
		c := r.Counters
		if c == nil {
			continue
		}
		at := int64(r.At)
		if last == nil {
			begin = at
		} else if n := int64(c.Packets) - int64(last.Packets); n > 0 && last.InHold && at > lastAt {
			if int64(len(list))+n > maxArrivals {
				return nil, usagef("trial %s has over %d packets", id, maxArrivals)
			}
			for i := range n {
				list = append(list, lastAt-begin+(at-lastAt)/n*i+(at-lastAt)%n*i/n)
			}
		}
		last, lastAt = c, at
	}
	if len(list) == 0 {
		return nil, usagef("trial %s counted no packets", id)
	}
	return list, nil
}
