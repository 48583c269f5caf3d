package machine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Thread is a process or kernel thread, by pid and by the name the kernel gives it.
type Thread struct {
	PID  int
	Comm string // up to 15 bytes for a process; a kthread's whole name where the kernel shows it
}

// Threads returns the processes and kernel threads whose comm begins with prefix, by pid. One that
// ends while the list is read is left out.
func (s Source) Threads(prefix string) ([]Thread, error) { return s.threads(prefix) }

// threads returns those whose comm begins with any of prefixes, in one pass.
func (s Source) threads(prefixes ...string) ([]Thread, error) {
	dirs, err := s.list("proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []Thread
	for _, d := range dirs {
		pid, err := strconv.Atoi(d)
		if err != nil {
			continue
		}
		comm := s.text(path.Join("proc", d, "comm"))
		if comm != "" && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(comm, p) }) {
			found = append(found, Thread{pid, comm})
		}
	}
	slices.SortFunc(found, func(a, b Thread) int { return cmp.Compare(a.PID, b.PID) })
	return found, nil
}

// Usage is how a thread has used its CPU since it began.
type Usage struct {
	Voluntary, Nonvoluntary uint64        // switches, /proc/PID/status
	RunTime                 time.Duration // /proc/PID/schedstat; 0 without CONFIG_SCHED_INFO
}

// Usage returns the usage of thread pid.
func (s Source) Usage(pid int) (Usage, error) {
	status, err := s.read(fmt.Sprintf("proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("read a thread's switches: %w", err)
	}
	u, err := parseStatus(string(status))
	if err != nil {
		return Usage{}, fmt.Errorf("read the switches of thread %d: %w", pid, err)
	}
	sched, err := s.read(fmt.Sprintf("proc/%d/schedstat", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return u, fmt.Errorf("read a thread's run time: %w", err)
	}
	first, _, _ := strings.Cut(string(sched), " ")
	ns, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return u, fmt.Errorf("read the run time of thread %d: %w", pid, err)
	}
	u.RunTime = time.Duration(ns)
	return u, nil
}

func parseStatus(status string) (Usage, error) {
	var u Usage
	seen := 0
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		var to *uint64
		switch name {
		case "voluntary_ctxt_switches":
			to = &u.Voluntary
		case "nonvoluntary_ctxt_switches":
			to = &u.Nonvoluntary
		default:
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if err != nil {
			return u, fmt.Errorf("%s: %w", name, err)
		}
		*to = n
		seen++
	}
	if seen != 2 {
		return u, errors.New("no count of context switches")
	}
	return u, nil
}

// Busiest returns the thread that has run longest of those whose comm begins with prefix, or a zero one.
func (s Source) Busiest(prefix string) (Thread, error) {
	threads, err := s.Threads(prefix)
	if err != nil {
		return Thread{}, err
	}
	var best Thread
	most := time.Duration(-1)
	for _, t := range threads {
		if u, err := s.Usage(t.PID); err == nil && u.RunTime > most { // it may have ended
			best, most = t, u.RunTime
		}
	}
	return best, nil
}

// Write sets the knob at path to value and returns the function that puts the old value back. The
// knob must be readable; a value in a list of choices, "none (full) lazy", is put back as its word.
func Write(path, value string) (undo func() error, err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s before changing it: %w", path, err)
	}
	if err := writeKnob(path, value); err != nil {
		return nil, err
	}
	return func() error { return writeKnob(path, chosen(string(old))) }, nil
}

func chosen(text string) string {
	if _, rest, ok := strings.Cut(text, "("); ok {
		if word, _, ok := strings.Cut(rest, ")"); ok {
			return word
		}
	}
	return strings.TrimSpace(text)
}

// writeKnob writes without creating: a knob that is not there is an error, not a new file.
func writeKnob(path, value string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s to %q: %w", path, value, err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("set %s to %q: %w", path, value, e)
		}
	}()
	if _, err := f.WriteString(value); err != nil {
		return fmt.Errorf("set %s to %q: %w", path, value, err)
	}
	return nil
}
