package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/testenv"
)

// ownKnob is a knob that only this process has: its own name.
const ownKnob = "/proc/self/comm"

func comm(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(ownKnob)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// abandon leaves a journal as a killed process does: unlocked, with what it changed in force.
func abandon(t *testing.T, dir string) {
	t.Helper()
	j := &journal{dir: dir}
	if err := j.set(ownKnob, "changed"); err != nil {
		t.Fatal(err)
	}
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestJournalUndoes(t *testing.T) {
	dir, old := t.TempDir(), comm(t)
	j := &journal{dir: dir}
	for _, name := range []string{"one", "two"} {
		if err := j.set(ownKnob, name); err != nil || comm(t) != name {
			t.Fatalf("set: %v, now %q", err, comm(t))
		}
	}
	if err := j.set(ownKnob, "two"); err != nil || len(j.changes) != 2 {
		t.Errorf("setting what is set: %v, %d changes noted; want 2", err, len(j.changes))
	}
	if undone, err := sweep(t.Context(), dir, 0); err != nil || len(undone) > 0 || comm(t) != "two" {
		t.Errorf("sweep = %q, %v, now %q; want nothing while the process lives", undone, err, comm(t))
	}
	if err := j.undo(); err != nil || comm(t) != old {
		t.Errorf("undo: %v, now %q; want %q", err, comm(t), old)
	}
	empty(t, dir)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestSweepUndoesWhatTheDeadLeft(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir, old := t.TempDir(), comm(t)
	abandon(t, dir)
	undone, err := sweep(t.Context(), dir, 0)
	if err != nil || len(undone) != 1 || !strings.Contains(undone[0], ownKnob) || comm(t) != old {
		t.Errorf("sweep = %q, %v, now %q; want %q again", undone, err, comm(t), old)
	}
	empty(t, dir)
}

// A process that was killed can have let go of the machine's lock and not yet of its journal: it is waited for.
func TestSweepWaitsForTheDying(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir, old := t.TempDir(), comm(t)
	j := &journal{dir: dir}
	if err := j.set(ownKnob, "changed"); err != nil {
		t.Fatal(err)
	}
	if undone, err := sweep(t.Context(), dir, 0); err != nil || len(undone) > 0 {
		t.Errorf("sweep = %q, %v; want nothing while it lives", undone, err)
	}
	dead := time.AfterFunc(50*time.Millisecond, func() { _ = j.file.Close() }) // as the kernel does it
	defer dead.Stop()
	if undone, err := sweep(t.Context(), dir, time.Minute); err != nil || len(undone) != 1 || comm(t) != old {
		t.Errorf("sweep = %q, %v, now %q; want %q again", undone, err, comm(t), old)
	}
	empty(t, dir)
}

// What somebody else has set since is theirs.
func TestSweepLeavesForeignChanges(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir, old := t.TempDir(), comm(t)
	abandon(t, dir)
	if _, err := machine.Write(ownKnob, "theirs"); err != nil {
		t.Fatal(err)
	}
	undone, err := sweep(t.Context(), dir, 0)
	if err != nil || len(undone) > 0 || comm(t) != "theirs" {
		t.Errorf("sweep = %q, %v, now %q", undone, err, comm(t))
	}
	empty(t, dir)
	if _, err := machine.Write(ownKnob, old); err != nil {
		t.Fatal(err)
	}
}

// A journal that others could have written must not make root write anything.
func TestSweepTrustsOnlyRootsFiles(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir, old := t.TempDir(), comm(t)
	line, err := json.Marshal(change{Knob: &knob{Path: ownKnob, Old: "theirs", New: old}})
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(path string) error{
		"writable":  func(p string) error { return os.Chmod(p, 0o666) },
		"foreign":   func(p string) error { return os.Chown(p, 65534, 65534) },
		"linked":    func(p string) error { return os.Link(p, filepath.Join(dir, "other")) },
		"no change": func(p string) error { return os.WriteFile(p, append(line, []byte("\ngarbage\n")...), 0o600) },
		"unknown":   func(p string) error { return os.WriteFile(p, []byte(`{"tune":{"Old":"x"}}`+"\n"), 0o600) },
		"no knob": func(p string) error {
			return os.WriteFile(p, []byte(`{"knob":{"Path":"/sys/../etc/hostname","Old":"x","New":"y"}}`+"\n"), 0o600)
		},
	} {
		path := filepath.Join(dir, journalName+"1")
		if err := os.WriteFile(path, append(line, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		if undone, err := sweep(t.Context(), dir, 0); err == nil || len(undone) > 0 || comm(t) != old {
			t.Errorf("%s: sweep = %q, %v, now %q; want an error", name, undone, err, comm(t))
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) == 0 {
			t.Errorf("%s: the file has gone, %v", name, err)
		}
		for _, left := range journals(t, dir) {
			_, _ = os.Remove(left), os.Remove(filepath.Join(dir, "other")) // whichever is left
		}
	}
	link := filepath.Join(dir, journalName+"2")
	if err := os.Symlink("/etc/hostname", link); err != nil {
		t.Fatal(err)
	}
	if _, err := sweep(t.Context(), dir, 0); err == nil {
		t.Error("a symbolic link was followed")
	}
}

func journals(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, journalName+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// stubborn is a knob of this process alone, which the kernel won't give the value that it is to get back: 9999 is
// beyond what it may be (OOM_SCORE_ADJ_MAX).
func stubborn(t *testing.T) knob {
	t.Helper()
	k := knob{Path: "/proc/self/oom_score_adj", Old: "9999"}
	b, err := os.ReadFile(k.Path)
	if err != nil {
		t.Fatal(err)
	}
	k.New = strings.TrimSpace(string(b))
	return k
}

// What can't be undone stays in a journal, alone, and is named with what to do by hand, until it is undone, by hand or
// by the next that tries.
func TestJournalKeepsWhatItCouldNotUndo(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for who, undo := range map[string]func(*journal) error{
		"the trial": (*journal).undo,
		"the next": func(j *journal) error {
			if err := j.file.Close(); err != nil {
				return err
			}
			_, err := sweep(t.Context(), j.dir, 0)
			return err
		},
	} {
		dir, old, bad := t.TempDir(), comm(t), stubborn(t)
		j := &journal{dir: dir}
		if err := errors.Join(j.set(ownKnob, "one"), j.note(change{Knob: &bad}), j.set(ownKnob, "two")); err != nil {
			t.Fatal(err)
		}
		first := j.file.Name()
		err := undo(j)
		if err == nil || !strings.Contains(err.Error(), "by hand: echo 9999 > /proc/self/oom_score_adj") || comm(t) != old {
			t.Errorf("%s: undo: %v, now %q; want the knob named, and %q", who, err, comm(t), old)
		}
		for range 2 { // it stays so however often it is tried
			left := journals(t, dir)
			if len(left) != 1 || left[0] == first {
				t.Fatalf("%s: journals %q; want a new one", who, left)
			}
			b, err := os.ReadFile(left[0])
			if err != nil || strings.Count(string(b), "\n") != 1 || !strings.Contains(string(b), bad.Path) {
				t.Errorf("%s: the journal is %q, %v; want the knob alone", who, b, err)
			}
			if undone, err := sweep(t.Context(), dir, 0); err == nil || len(undone) > 0 || !strings.Contains(err.Error(), bad.Path) {
				t.Errorf("%s: sweep = %q, %v; want the knob named once more", who, undone, err)
			}
		}
		if _, err := machine.Write(bad.Path, "3"); err != nil { // somebody has put it right
			t.Fatal(err)
		}
		if undone, err := sweep(t.Context(), dir, 0); err != nil || len(undone) > 0 {
			t.Errorf("%s: sweep = %q, %v; want silence", who, undone, err)
		}
		empty(t, dir)
		if _, err := machine.Write(bad.Path, bad.New); err != nil {
			t.Fatal(err)
		}
	}
}

func TestByHand(t *testing.T) {
	for _, tt := range []struct {
		c    change
		want string
	}{
		{change{Knob: &knob{Path: "/sys/a", Old: "1"}}, "echo 1 > /sys/a"},
		{change{Affinity: &affinity{PID: 7, Old: []int{0, 2}}}, "taskset -pc 0,2 7"},
		{change{Coalesce: &coalesce{Device: "eth0", Old: 3, Adaptive: 1}}, "ethtool -C eth0 adaptive-rx on rx-usecs 3"},
		{change{Modules: []string{"veth", "dummy"}}, "rmmod veth dummy"},
	} {
		if got := tt.c.byHand(); got != tt.want {
			t.Errorf("%+v: %q; want %q", tt.c, got, tt.want)
		}
	}
}

// A change whose line was cut was not made.
func TestSweepOfACutJournal(t *testing.T) {
	testenv.Need(t, testenv.Root)
	dir, old := t.TempDir(), comm(t)
	abandon(t, dir)
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	f, err := os.OpenFile(names[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(f, `{"knob":{"Pa`); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if _, err := sweep(t.Context(), dir, 0); err != nil || comm(t) != old {
		t.Errorf("sweep: %v, now %q; want %q", err, comm(t), old)
	}
}

// A thread that was pinned goes back, unless it has ended or was moved since.
func TestJournalPins(t *testing.T) {
	cpus, err := machine.Affinity(0)
	if err != nil || len(cpus) < 2 {
		testenv.Lacks(t, testenv.Load, fmt.Sprintf("CPUs %v, %v; want 2", cpus, err))
	}
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	pid := sleeper.Process.Pid
	j := &journal{dir: t.TempDir()}
	if err := j.pin(pid, cpus[1]); err != nil {
		t.Fatal(err)
	}
	if now, err := machine.Affinity(pid); err != nil || !slices.Equal(now, cpus[1:2]) {
		t.Errorf("pinned to %v, %v", now, err)
	}
	changes := slices.Clone(j.changes)
	if err := j.undo(); err != nil {
		t.Error(err)
	}
	if now, err := machine.Affinity(pid); err != nil || !slices.Equal(now, cpus) {
		t.Errorf("it may run on %v, %v; want %v", now, err, cpus)
	}
	changes[0].Affinity.Start = "1"
	if undone, left, err := undo(changes); err != nil || len(undone) > 0 || len(left) > 0 {
		t.Errorf("undo of another process's: %q, %v", undone, err)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	_ = sleeper.Wait() // killed
	if undone, left, err := undo(changes); err != nil || len(undone) > 0 || len(left) > 0 {
		t.Errorf("undo of one that has ended: %q, %v", undone, err)
	}
}

func TestServed(t *testing.T) {
	const text = `           CPU0       CPU1       CPU2
 24:          5          9          1   PCI-MSI 1-edge      eth0-rx-0
 25:          0         30          0   PCI-MSI 2-edge      eth01
 26:          9          0          2   PCI-MSI 3-edge      virtio0-input.0, mlx5-eth0
NMI:          0          0        900   Non-maskable interrupts
`
	for device, want := range map[string]int{"eth0": 0, "eth01": 1, "wlan0": experiment.LastCPU} {
		if got := served(text, device, []int{0, 1, 2}); got != want {
			t.Errorf("served(%s) = %d; want %d", device, got, want)
		}
	}
}

func TestModulesGoBeforeWhatTheyNeed(t *testing.T) {
	names := []string{"llc", "garp", "veth", "stp", "8021q", "mrp"}
	newestFirst(names)
	if diff := cmp.Diff([]string{"veth", "8021q", "garp", "mrp", "stp", "llc"}, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
