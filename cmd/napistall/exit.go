package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rundir"
)

// Exit statuses; 4 is check's alone, 69 is sysexits' EX_UNAVAILABLE, 130 a shell's word for SIGINT. Those of prove --gate
// are in prove_gate.go.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnmet       = 3
	exitUndecided   = 4
	exitUnsupported = 69
	exitInterrupted = 130
)

// A usageError is about what somebody typed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef returns a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// named is for what went wrong with a path that somebody typed: where nothing has that name, or a directory where
// a file was wanted, what was typed is wrong. What is there and can't be read is another matter.
func named(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		return usageError{err}
	}
	return err
}

// usageArgs makes whatever check says about arguments a usageError.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("%w\nrun '%s --help' for usage", err, cmd.CommandPath())
		}
		return nil
	}
}

// errUnmet says that an expectation of the experiment was not met.
var errUnmet = errors.New("an expectation was not met")

// status turns what a command returned into an exit status: by whose fault it is.
func status(err error) int {
	gate, gated := errors.AsType[gateError](err)
	switch {
	case err == nil:
		return exitDone
	case gated:
		return gate.status
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errUnmet), errors.Is(err, errFound):
		return exitUnmet
	case errors.Is(err, errUndecided):
		return exitUndecided
	case isUsage(err):
		return exitUsage
	case isMachine(err): // its cause may be an errno that matches errors.ErrUnsupported
		return exitFailed
	case errors.Is(err, errors.ErrUnsupported):
		return exitUnsupported
	}
	return exitFailed
}

func isUsage(err error) bool {
	_, usage := errors.AsType[usageError](err)
	_, text := errors.AsType[*experiment.ParseError](err)
	_, spec := errors.AsType[*kimage.SpecError](err)
	_, run := errors.AsType[*rundir.NotRunDirError](err)
	return usage || text || spec || run
}

func isMachine(err error) bool {
	_, is := errors.AsType[*backend.MachineError](err)
	return is
}

// complain says on stderr why the program fails, with what a broken machine printed last.
func complain(err error) {
	if errors.Is(err, errFound) || errors.Is(err, errStalls) {
		return
	}
	// Go's own word for it means nothing to whoever pressed Ctrl-C.
	fmt.Fprintln(os.Stderr, "napistall:", strings.ReplaceAll(err.Error(), context.Canceled.Error(), "interrupted"))
	if m, ok := errors.AsType[*backend.MachineError](err); ok && len(m.Last) > 0 {
		fmt.Fprintln(os.Stderr, "the console's last lines:")
		for _, line := range m.Last {
			fmt.Fprintln(os.Stderr, "  "+line)
		}
	}
}
