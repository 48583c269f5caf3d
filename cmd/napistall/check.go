package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/check"
)

// errUndecided says that check ran out of memory or states before it had seen all.
var errUndecided = errors.New("not decided")

// A checkCommand holds check's flags.
type checkCommand struct {
	check.Variant
	load         string
	properties   []string
	ticksOutside bool
	bound        bool
	fine         bool
	all          bool
	json         bool
	memory       string
	states       int
	trace        string
	replay       string
}

func newCheck() *cobra.Command {
	var c checkCommand
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Prove that a loop variant lets every wait end, or show how it doesn't",
		Long: `Look at every order in which the poll loop, the interrupts, RCU and whoever waits can take their steps, under a
loop variant and a preemption model, and say whether each wait ends. Time is left out: ticks, timers and arrivals happen
whenever they may. What has to happen does: each CPU goes on, ticks recur on a busy CPU, timers run out,
interrupts arrive; packets may arrive for ever, or not at all. A property that is violated comes with a run that shows
it, as a numbered story of kernel functions, and with --trace as a file. docs/checker.md says all of it.

Exit status: 0 every property holds (with --all: every cell is what the kernel's source lets one expect), 3 one is
violated, 4 not decided: memory or --states ran out, and no violation was found in what was seen; 2 and 69 as
elsewhere, 69 being a variant that the kernel can't have.`,
		Example: `  napistall check --all
  napistall check --loop stock --preempt none
  napistall check --loop yield-on-exit --preempt none --bound
  napistall check --preempt lazy --generation 7.3 --property kworker
  napistall check --preempt none --property kworker --trace kworker.jsonl
  napistall check --replay kworker.jsonl`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.flags(cmd)
	return cmd
}

func (c *checkCommand) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&c.all, "all", false, "compute the whole matrix of loops and models, and compare it with what is expected")
	f.StringVar(&c.Loop, "loop", "stock", "variant of the poll loop: "+strings.Join(check.Loops(), ", "))
	f.StringVar(&c.Preempt, "preempt", "none", "preemption model: none, voluntary, full, lazy")
	f.BoolVar(&c.Dynamic, "dynamic", false, "a PREEMPT_DYNAMIC kernel told preempt=MODEL, instead of one built with MODEL")
	f.StringVar(&c.Generation, "generation", "", "kernel: 6.12, 6.18, 7.3 (default: 6.12, with --preempt lazy 7.3)")
	f.StringVar(&c.Arch, "arch", "", "amd64 (default), arm64, armhf or mips: decides which models the kernel can be built with")
	f.BoolVar(&c.PreemptCount, "preempt-count", false, "a build with DEBUG_ATOMIC_SLEEP, which has PREEMPT_COUNT")
	f.StringVar(&c.load, "load", "any", "any: packets arrive whenever they like; filling: every poll finds its whole weight")
	f.StringVar(&c.Device, "device", "nic", "nic, or a veth that reschedules itself from inside its poll")
	f.BoolVar(&c.NoLatch, "no-latch", false, "the NIC forgets what came while masked, if it was polled meanwhile")
	f.BoolVar(&c.AllQueues, "all-queues", false, "the NIC's mask is shared with other queues")
	f.BoolVar(&c.Backlog, "backlog", false, "the NAPI's CPU has backlog packets, which a deletion's flush_work waits for")
	f.BoolVar(&c.User, "user", false, "a CPU-bound user task shares the NAPI's CPU")
	f.IntVar(&c.Weight, "weight", 0, "packets that a poll takes at most (default 2)")
	f.IntVar(&c.Ring, "ring", 0, "descriptors of the NIC's ring (default 3)")
	f.StringSliceVar(&c.properties, "property", nil, "ask only for this, may be repeated: "+words(check.Properties()))
	f.BoolVar(&c.ticksOutside, "ticks-outside", false, "assume that ticks land outside the thread's BH-off part again and again")
	f.BoolVar(&c.bound, "bound", false, "say how many poll-loop entries a waiter is passed over at most")
	f.BoolVar(&c.fine, "fine", false, "keep orders that make no difference: many more states, the same verdicts")
	f.BoolVar(&c.json, "json", false, "print one JSON document")
	f.StringVar(&c.memory, "memory", "4GiB", "give up when the states take more, such as 512MiB")
	f.IntVar(&c.states, "states", 0, "give up after this many states (default: no limit)")
	f.StringVar(&c.trace, "trace", "", "write the first counterexample to this file, for the simulator and --replay")
	f.StringVar(&c.replay, "replay", "", "read a trace, let its events happen and say whether it shows what it claims")
}

func words[T ~string](from []T) string {
	var out []string
	for _, w := range from {
		out = append(out, string(w))
	}
	return strings.Join(out, ", ")
}

func (c *checkCommand) run(cmd *cobra.Command) error {
	lim, err := c.limits(cmd)
	if err != nil {
		return err
	}
	if err := c.conflicts(cmd); err != nil {
		return err
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	switch {
	case c.replay != "":
		err = c.replayTrace(out)
	case c.all:
		err = c.matrix(cmd.Context(), out, lim)
	default:
		err = c.questions(cmd.Context(), out, lim)
	}
	if ferr := out.Flush(); err == nil && ferr != nil {
		err = fmt.Errorf("write the result: %w", ferr)
	}
	return err
}

// conflicts refuses flags that would be ignored.
func (c *checkCommand) conflicts(cmd *cobra.Command) error {
	whole := map[string][]string{"all": {"json", "memory", "states"}, "replay": nil}
	for mode, may := range whole {
		if !cmd.Flags().Changed(mode) {
			continue
		}
		var other []string
		for _, name := range changed(cmd) {
			if name != mode && !strings.Contains(" "+strings.Join(may, " ")+" ", " "+name+" ") {
				other = append(other, "--"+name)
			}
		}
		if len(other) > 0 {
			return usagef("--%s doesn't go with %s", mode, strings.Join(other, ", "))
		}
	}
	return nil
}

// limits reads --memory and --states.
func (c *checkCommand) limits(cmd *cobra.Command) (check.Limits, error) {
	lim := check.Limits{States: c.states}
	digits := strings.TrimRight(c.memory, "KMGiB")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := map[string]int{"KiB": 10, "MiB": 20, "GiB": 30}[c.memory[len(digits):]]
	if err != nil || !ok || n <= 0 || n > 1<<50>>shift {
		return lim, usagef("--memory %s: want an amount with its unit, such as 512MiB or 4GiB", c.memory)
	}
	lim.Memory = n << shift
	if lim.Memory < check.LeastMemory {
		return lim, usagef("--memory %s: want at least %dMiB", c.memory, check.LeastMemory>>20)
	}
	if cmd.Flags().Changed("states") && c.states < 1 {
		return lim, usagef("--states %d: want 1 or more", c.states)
	}
	for name, n := range map[string]int{"weight": c.Weight, "ring": c.Ring} {
		if cmd.Flags().Changed(name) && (n < 1 || n > 1<<16-1) {
			return lim, usagef("--%s %d: want 1 to %d", name, n, 1<<16-1)
		}
	}
	return lim, nil
}

// questions asks for each property of one variant.
func (c *checkCommand) questions(ctx context.Context, out io.Writer, lim check.Limits) error {
	if c.Generation == "" && c.Preempt == "lazy" {
		c.Generation = "7.3"
	}
	if c.load != "any" {
		c.Load = check.Load(c.load)
	}
	var answers []check.Answer
	for _, p := range c.asked() {
		q := check.Question{Variant: c.Variant, Property: p, TicksOutside: c.ticksOutside, Bound: c.bound, Fine: c.fine, Limits: lim}
		if err := q.Validate(); err != nil {
			if !errors.Is(err, errors.ErrUnsupported) {
				err = usageError{err}
			}
			return err
		}
		a, err := check.Ask(ctx, q)
		if err != nil {
			return err
		}
		if !c.json {
			if err := printAnswer(out, &a, len(answers) == 0); err != nil {
				return err
			}
		}
		answers = append(answers, a)
	}
	if c.json {
		if err := printAnswersJSON(out, answers); err != nil {
			return err
		}
	}
	if err := c.writeTrace(answers); err != nil {
		return err
	}
	return verdictOf(answers)
}

// asked returns the properties that --property names, or all but the one that needs its own reason.
func (c *checkCommand) asked() []check.Property {
	var out []check.Property
	for _, p := range c.properties {
		out = append(out, check.Property(p))
	}
	if len(out) > 0 {
		return out
	}
	for _, p := range check.Properties() {
		if p != check.LinkDel {
			out = append(out, p)
		}
	}
	return out
}

// verdictOf turns answers into the program's: the worst of them.
func verdictOf(answers []check.Answer) error {
	var err error
	for _, a := range answers {
		switch a.Verdict {
		case check.Violated:
			return errFound
		case check.NotDecided:
			err = fmt.Errorf("%w: %s: %s", errUndecided, a.Property, a.Why)
		}
	}
	return err
}

func (c *checkCommand) writeTrace(answers []check.Answer) error {
	if c.trace == "" {
		return nil
	}
	for _, a := range answers {
		if a.Run == nil {
			continue
		}
		t, err := a.Trace()
		if err != nil {
			return err
		}
		var text strings.Builder
		if _, err := t.WriteTo(&text); err != nil {
			return err
		}
		// Not by renaming: what is there may be a pipe or a device.
		return os.WriteFile(c.trace, []byte(text.String()), 0o644)
	}
	slog.Warn("no trace written: there is no counterexample")
	return nil
}

func (c *checkCommand) replayTrace(out io.Writer) error {
	f, err := os.Open(c.replay)
	if err != nil {
		return named(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	t, err := check.ReadTrace(f)
	if err == nil {
		err = t.Replay()
	}
	if te, ok := errors.AsType[*check.TraceError](err); ok {
		return usagef("%s:%d: %w", c.replay, te.Line, te.Err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.replay, err)
	}
	what := fmt.Sprintf("a stem of %d events and a cycle of %d in which not: %s", t.Stem, t.Cycle, t.Property.Text())
	if t.Invariant != "" {
		what = fmt.Sprintf("%d events after which not: %s", t.Stem, t.Invariant)
	}
	_, err = fmt.Fprintf(out, "%s: %s\n", t.Variant, what)
	return err
}
