package agent

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/machine"
)

// A journal lists the changes to a live machine that don't vanish with our process, so that whoever
// comes after it can undo them: the process that waits for it, or the next agent on this machine. It is a
// file that is there only while something is changed, locked while its process lives, and lost with the
// changes themselves when the machine is switched off. It is not for concurrent use.
type journal struct {
	dir     string
	file    *os.File
	changes []change
}

// A change is noted before it is made. Exactly one of its parts is set.
type change struct {
	Knob     *knob     `json:"knob,omitempty"`
	Affinity *affinity `json:"affinity,omitempty"`
	Coalesce *coalesce `json:"coalesce,omitempty"`
	Modules  []string  `json:"modules,omitempty"` // that were not loaded before us
}

// A knob is a file of /proc or /sys in which New replaces Old.
type knob struct{ Path, Old, New string }

// journalName is what a journal's name begins with.
const journalName = "napistall-undo-"

// journalDir is where journals lie: a place that is empty after a boot.
func journalDir() string {
	for _, dir := range []string{"/run", "/var/run"} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			return dir
		}
	}
	return "/tmp"
}

// note writes c down. It returns only when another process can read it.
func (j *journal) note(c change) error {
	if j.file == nil {
		f, err := os.CreateTemp(j.dir, journalName)
		if err != nil {
			return fmt.Errorf("note what is to be undone: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close(), os.Remove(f.Name()))
		}
		j.file = f
	}
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("note what is to be undone: %w", err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("note what is to be undone: %w", err)
	}
	j.changes = append(j.changes, c)
	return nil
}

// undo undoes all changes, the newest first, and removes the file.
func (j *journal) undo() error {
	if j.file == nil {
		return nil
	}
	_, err := undo(j.changes)
	err = errors.Join(err, os.Remove(j.file.Name()), j.file.Close())
	j.file, j.changes = nil, nil
	return err
}

// Sweep waits until no trial runs on this machine, or one that was killed is really gone, undoes what
// such ones have left, and says what that was.
func Sweep(ctx context.Context) (undone []string, err error) {
	lock, err := lockMachine(ctx)
	if err != nil {
		return nil, err
	}
	undone, err = sweep(journalDir())
	return undone, errors.Join(err, lock.Close())
}

// sweep undoes what agents that are no more have left in dir, and says what that was.
func sweep(dir string) (undone []string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, journalName+"*"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		done, err := sweepOne(name)
		undone = append(undone, done...)
		if err != nil {
			errs = append(errs, fmt.Errorf("undo what %s lists: %w", name, err))
		}
	}
	return undone, errors.Join(errs...)
}

// sweepOne undoes the journal called name, unless its process lives.
func sweepOne(name string) (undone []string, err error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // its process has ended well
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { err = errors.Join(err, f.Close()) }()
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil // it lives
	}
	if err != nil {
		return nil, fmt.Errorf("lock it: %w", err)
	}
	// What stands in a directory that others may write to is ours only with root's name on it.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Nlink == 0 {
		return nil, nil // somebody else has undone it just now
	}
	if st.Uid != 0 || st.Mode&(unix.S_IFMT|0o077) != unix.S_IFREG || st.Nlink != 1 {
		return nil, fmt.Errorf("it is not root's alone: left as it is")
	}
	changes, err := readChanges(f)
	undone, undoErr := undo(changes)
	return undone, errors.Join(err, undoErr, os.Remove(name))
}

// readChanges reads a journal. A last line that was cut is of a change that was not made.
func readChanges(f *os.File) ([]change, error) {
	var changes []change
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return changes, nil
		}
		var c change
		if err := json.Unmarshal(line, &c); err != nil {
			return changes, err
		}
		changes = append(changes, c)
	}
}

// undo undoes changes, the newest first.
func undo(changes []change) (undone []string, err error) {
	var errs []error
	for _, c := range slices.Backward(changes) {
		what, err := c.undo()
		if what != "" {
			undone = append(undone, what)
		}
		errs = append(errs, err)
	}
	return undone, errors.Join(errs...)
}

// undo undoes c where it is still in force: what somebody else has changed since is theirs. It says what it
// did, or nothing.
func (c change) undo() (string, error) {
	switch {
	case c.Knob != nil:
		return c.Knob.undo()
	case c.Affinity != nil:
		return c.Affinity.undo()
	case c.Coalesce != nil:
		return c.Coalesce.undo()
	}
	return unloadModules(c.Modules)
}

func (k knob) undo() (string, error) {
	if path := filepath.Clean(k.Path); !strings.HasPrefix(path, "/proc/") && !strings.HasPrefix(path, "/sys/") {
		return "", fmt.Errorf("%s is no knob", k.Path)
	}
	now, err := os.ReadFile(k.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // a device that has gone
	}
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(now)) != k.New || k.New == k.Old {
		return "", nil
	}
	if _, err := machine.Write(k.Path, k.Old); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s back from %s to %s", k.Path, k.New, k.Old), nil
}

// set gives the knob at path a value and notes what it was. One that has it already is left alone.
func (j *journal) set(path, value string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s before changing it: %w", path, err)
	}
	k := knob{Path: path, Old: strings.TrimSpace(string(old)), New: value}
	if k.Old == k.New {
		return nil
	}
	if err := j.note(change{Knob: &k}); err != nil {
		return err
	}
	_, err = machine.Write(path, value) // undone by the journal
	return err
}

// An affinity is a thread that was moved from the CPUs Old to New. Start tells it from a later one with
// its pid.
type affinity struct {
	PID      int
	Start    string // /proc/PID/stat's starttime
	Old, New []int
}

func (a affinity) undo() (string, error) {
	if s, err := machine.ReadStat(a.PID); err != nil || s.Start != a.Start {
		return "", nil // it has ended
	}
	now, err := machine.Affinity(a.PID)
	if err != nil || !slices.Equal(now, a.New) {
		return "", err
	}
	if err := machine.Pin(a.PID, a.Old...); err != nil {
		return "", err
	}
	return fmt.Sprintf("thread %d back from CPUs %v to %v", a.PID, a.New, a.Old), nil
}

// pin moves thread pid to cpu and notes where it was allowed to run.
func (j *journal) pin(pid, cpu int) error {
	s, err := machine.ReadStat(pid)
	if err != nil {
		return err
	}
	old, err := machine.Affinity(pid)
	if err != nil {
		return err
	}
	a := affinity{PID: pid, Start: s.Start, Old: old, New: []int{cpu}}
	if slices.Equal(a.Old, a.New) {
		return nil
	}
	if err := j.note(change{Affinity: &a}); err != nil {
		return err
	}
	return machine.Pin(pid, cpu)
}

// newestFirst sorts what is to be unloaded: a module before those that it needs.
func newestFirst(names []string) {
	order := removable()
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
}
