// Command napistall reproduces, measures, explains and proves fixed the stalls of Linux threaded
// NAPI. Started as process 1 of a guest it is the agent that runs one trial there.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/napistall/napistall/internal/agent"
)

func main() {
	if agent.IsGuest() {
		agent.Guest()
		return
	}
	os.Exit(run(os.Args[1:]))
}

// run is the whole program below os.Exit. The second Ctrl-C kills at once.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if isGate(args) {
		err = gateStatus(err)
	}
	if err != nil {
		complain(err)
	}
	return status(err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "napistall",
		Short: "Reproduce, measure, explain and prove fixed the stalls of Linux threaded NAPI",
		Long: `napistall reproduces, measures, explains and proves fixed the stalls of Linux threaded NAPI
(Linux's, not Node.js's), on any kernel, with no special hardware.

Exit status: 0 done, 1 napistall failed, 2 wrong usage or experiment text, 3 an expectation was not
met or parse, doctor or check found something, 4 check could not decide, 69 not possible on this machine, 130 interrupted (what was measured so far is kept).
prove --gate has statuses of its own, for git bisect run.`,
		Version:       agent.Version(),
		Args:          usageArgs(cobra.NoArgs),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		slog.SetDefault(slog.New(newPlainHandler(os.Stderr)))
		return noEmptyFlag(cmd)
	}
	root.AddCommand(newRun(), newProve(), newSim(), newLoad(), newCheck(), newReport(), newCompare(), newView(), newExplain(), newParse(), newDoctor(), newKernel(), newAgent(), newMan())
	return root
}

// noEmptyFlag refuses an empty word: it comes from a script's unset variable, and does not mean the default.
func noEmptyFlag(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		words := f.Value.Type() == "string" || f.Value.Type() == "stringSlice" || f.Value.Type() == "stringArray"
		if v := f.Value.String(); err == nil && words && (v == "" || v == "[]") {
			err = usagef("--%s is empty", f.Name)
		}
	})
	return err
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into DIR",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			if err := manPages(cmd.Root(), args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}

func manPages(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true // the same source gives the same pages
	return doc.GenManTree(root, &doc.GenManHeader{Title: "NAPISTALL", Section: "1", Source: "napistall"}, dir)
}
