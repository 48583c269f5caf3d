package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/report"
)

// What git bisect run makes of an exit status: 0 is good, 125 skips the revision, any other up to 127 is bad, and
// what is above ends the bisection (git-bisect(1)).
const (
	gateBad   = 1
	gateSkip  = 125
	gateStop  = 128
	gateUsage = 129
)

// A gateError ends prove --gate with a status of its own.
type gateError struct {
	status int
	error
}

func (e gateError) Unwrap() error { return e.error }

// errStalls says that the gate's arm stalled: no failure of ours.
var errStalls = errors.New("the revision stalls")

// gateResult says on w what the one arm showed, and returns its error.
func gateResult(w io.Writer, run report.Run) error {
	word, why := explain.Gate(run.Arms)
	if _, err := fmt.Fprintf(w, "%s: %s\n", word, why); err != nil {
		return err
	}
	switch word {
	case explain.Good:
		return nil
	case explain.Bad:
		return gateError{gateBad, errStalls}
	}
	return gateError{gateSkip, errors.New("undecided: git bisect skips this revision")}
}

// isGate reports whether a command line is one of prove --gate, even if it can't be understood: what is wrong with
// its flags and arguments is found before the command itself is run.
func isGate(args []string) bool {
	command := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	return command >= 0 && args[command] == "prove" && slices.ContainsFunc(args, func(a string) bool {
		name, value, given := strings.Cut(a, "=")
		on, err := strconv.ParseBool(value)
		return name == "--gate" && (!given || on || err != nil)
	})
}

// gateStatus gives an error of prove --gate the status by which git bisect does the right thing. Whatever would be the
// same for the next revision ends the bisection; what lies in the revision, or may be chance, skips it.
func gateStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[gateError](err); ok {
		return err
	}
	_, here := errors.AsType[notHereError](err)
	_, noTree := errors.AsType[*kimage.SpecError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return err // 130
	case noTree || isUsage(err):
		return gateError{gateUsage, err}
	case here:
		return gateError{gateStop, err}
	}
	return gateError{gateSkip, err}
}
