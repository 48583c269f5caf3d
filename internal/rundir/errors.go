package rundir

import (
	"fmt"
	"strings"
	"time"
)

// A NotRunDirError says that a path holds something else than a run, or nothing.
// Where there is nothing, it matches fs.ErrNotExist.
type NotRunDirError struct {
	Path, Why string
	Err       error // the cause, if there is one
}

// Unwrap returns the cause.
func (e *NotRunDirError) Unwrap() error { return e.Err }

func (e *NotRunDirError) Error() string {
	return fmt.Sprintf("%s is not a run directory: %s", e.Path, e.Why)
}

// A FormatError says that a run was written by a newer napistall than this one.
type FormatError struct {
	Path    string
	Format  int    // what the run is written in; Format is what can be read
	Version string // the napistall that wrote it, if it says so
}

func (e *FormatError) Error() string {
	by := "a newer napistall"
	if e.Version != "" {
		by = "napistall " + e.Version
	}
	return fmt.Sprintf("%s is in format %d, this napistall reads up to %d: use %s", e.Path, e.Format, Format, by)
}

// A BrokenError says that a run directory is half-written or damaged so that nothing of it can be
// used.
type BrokenError struct{ Path, What string }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s is a half-written run directory: %s", e.Path, e.What)
}

// A LockedError says that another process writes the run.
type LockedError struct {
	Path   string
	Holder Holder // zero where it could not be read
}

func (e *LockedError) Error() string {
	var by strings.Builder
	by.WriteString("another napistall")
	if e.Holder.PID > 0 {
		fmt.Fprintf(&by, ", pid %d on %s since %s", e.Holder.PID, e.Holder.Host, e.Holder.Since.Format(time.DateTime))
	}
	return fmt.Sprintf("%s is being written by %s: wait for it or stop it", e.Path, by.String())
}
