package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/machine"
)

// A journal lists the changes to a live machine that don't vanish with our process, so that whoever
// comes after it can undo them: the process that waits for it, or the next agent on this machine. It is a
// file that is there only while something is changed, locked while its process lives, and lost with the
// changes themselves when the machine is switched off. A change that could not be undone stays in it, for the next
// one to try again and to name. It is not for concurrent use.
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

// undo undoes all changes, the newest first, and removes the file, or leaves one that lists what could not be
// undone.
func (j *journal) undo() error {
	if j.file == nil {
		return nil
	}
	_, left, err := undo(j.changes)
	if err = errors.Join(err, replace(j.file.Name(), left), j.file.Close()); err != nil {
		err = fmt.Errorf("undo what the trial has changed: %w", err)
	}
	j.file, j.changes = nil, nil
	return err
}

// replace removes the journal called name and leaves one of the changes left in its place, if there are any. That
// is a new file, there before the old one goes: a process that is killed in between leaves both, and what is
// undone already is not done twice (see change.undo).
func replace(name string, left []change) error {
	if len(left) > 0 {
		rest := &journal{dir: filepath.Dir(name)}
		for _, c := range left {
			if err := rest.note(c); err != nil { // the old one stays
				return errors.Join(err, rest.drop())
			}
		}
		if err := rest.file.Close(); err != nil {
			return fmt.Errorf("note what is to be undone: %w", err)
		}
	}
	return os.Remove(name)
}

// drop removes a journal that was not finished.
func (j *journal) drop() error {
	if j.file == nil {
		return nil
	}
	return errors.Join(os.Remove(j.file.Name()), j.file.Close())
}

// Sweep waits until no trial runs on this machine, or one that was killed is really gone, undoes what
// such ones have left, and says what that was.
func Sweep(ctx context.Context) (undone []string, err error) {
	lock, err := lockMachine(ctx)
	if err != nil {
		return nil, err
	}
	undone, err = sweep(ctx, journalDir(), dyingTime)
	return undone, errors.Join(err, lock.Close())
}

// dyingTime is how long a process that was killed, and has let go of the machine's lock, may take to let go of its
// journal: the kernel closes its files one by one, and on a busy machine others run in between.
const dyingTime = 5 * time.Second

// sweep undoes what agents that are no more have left in dir, and says what that was. One whose process is about to
// end is waited for, for as long as patience and ctx last.
func sweep(ctx context.Context, dir string, patience time.Duration) (undone []string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, journalName+"*"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		done, err := sweepOne(ctx, name, patience)
		undone = append(undone, done...)
		if err != nil {
			errs = append(errs, fmt.Errorf("undo what a run before this one has left, by %s/%s*: %w", dir, journalName, err))
		}
	}
	return undone, errors.Join(errs...)
}

// sweepOne undoes the journal called name, unless its process lives for longer than patience. One with a line that can't be
// read stays as it is, for whoever can.
func sweepOne(ctx context.Context, name string, patience time.Duration) (undone []string, err error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // its process has ended well
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { err = errors.Join(err, f.Close()) }()
	err = lockWithin(ctx, fd, patience)
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
		return nil, fmt.Errorf("%s is not root's alone, and was left as it is: remove it if it is none of napistall's", name)
	}
	changes, err := readChanges(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove the file once what it lists is as it should be", name, err)
	}
	undone, left, err := undo(changes)
	return undone, errors.Join(err, replace(name, left))
}

// lockWithin locks fd as soon as nobody else has it locked, or returns EWOULDBLOCK after patience.
func lockWithin(ctx context.Context, fd int, patience time.Duration) error {
	limit := time.Now().Add(patience)
	for {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || !time.Now().Before(limit) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(portPoll):
		}
	}
}

// readChanges reads a journal. A last line that was cut is of a change that was not made.
func readChanges(r io.Reader) ([]change, error) {
	var changes []change
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return changes, nil
		}
		if err != nil {
			return nil, err
		}
		var c change
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("line %d is no change: %w", n, err)
		}
		if c.Knob == nil && c.Affinity == nil && c.Coalesce == nil && len(c.Modules) == 0 {
			return nil, fmt.Errorf("line %d is a change that this napistall does not know: %s", n, bytes.TrimSpace(line))
		}
		changes = append(changes, c)
	}
}

// undo undoes changes, the newest first. It says what it has undone, and returns the changes that it could not, in
// their order, with an error that says how to do it by hand.
func undo(changes []change) (undone []string, left []change, err error) {
	var errs []error
	for _, c := range slices.Backward(changes) {
		what, err := c.undo()
		if what != "" {
			undone = append(undone, what)
		}
		if err != nil {
			left = append(left, c)
			errs = append(errs, fmt.Errorf("%w; it will be tried again before the next trial; by hand: %s", err, c.byHand()))
		}
	}
	slices.Reverse(left)
	return undone, left, errors.Join(errs...)
}

// byHand is the command that undoes c.
func (c change) byHand() string {
	switch {
	case c.Knob != nil:
		return fmt.Sprintf("echo %s > %s", c.Knob.Old, c.Knob.Path)
	case c.Affinity != nil:
		cpus := make([]string, len(c.Affinity.Old))
		for i, n := range c.Affinity.Old {
			cpus[i] = strconv.Itoa(n)
		}
		return fmt.Sprintf("taskset -pc %s %d", strings.Join(cpus, ","), c.Affinity.PID)
	case c.Coalesce != nil:
		adaptive := "off"
		if c.Coalesce.Adaptive != 0 {
			adaptive = "on"
		}
		return fmt.Sprintf("ethtool -C %s adaptive-rx %s rx-usecs %d", c.Coalesce.Device, adaptive, c.Coalesce.Old)
	}
	return "rmmod " + strings.Join(c.Modules, " ")
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
