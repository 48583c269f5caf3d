package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/testenv"
)

// diskEnv tells the test binary, run again in a mount namespace of its own, where to mount.
const diskEnv = "RUNDIR_TEST_DISK"

// TestFullDisk lets a file system be full, or out of inodes, at every size from nothing to enough: an
// error says so with the path, nothing half-written stays, what was finished is intact, and once
// there is room the run goes on.
func TestFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root) // to mount
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestSmallDisks$", "-test.v")
	cmd.Env = append(os.Environ(), diskEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestSmallDisks is TestFullDisk inside its mount namespace.
func TestSmallDisks(t *testing.T) {
	dir := os.Getenv(diskEnv)
	if dir == "" {
		t.Skip("TestFullDisk starts it")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatalf("mount: %v", err)
	}
	for option, upto := range map[string]int{"nr_blocks": 120, "nr_inodes": 30} {
		stopped, whole := map[int]bool{}, 0
		for n := 2; n <= upto; n++ {
			done, ok := smallDisk(t, dir, fmt.Sprintf("%s=%d", option, n), option)
			stopped[done] = true
			if ok {
				whole++
			}
		}
		if whole == 0 || len(stopped) < 4 {
			t.Errorf("%s: %d disks were large enough, the others stopped after %v trials; want each number of trials", option, whole, stopped)
		}
	}
}

// smallDisk writes a run on a file system of its own and returns how many trials fitted, and whether
// that was all.
func smallDisk(t *testing.T, dir, size, option string) (done int, ok bool) {
	t.Helper()
	if err := unix.Mount("small", dir, "tmpfs", 0, size); err != nil {
		t.Fatalf("mount: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
	}()
	path := filepath.Join(dir, "run")
	err := fill(path)
	if err == nil {
		checkWhole(t, path)
		return 3, true
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("%s: %v; want no space left on device, and the path", size, err)
	}
	if left := partials(dir); len(left) > 0 {
		t.Errorf("%s: %v left after %v", size, left, err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, false
	}
	d, err := Open(path)
	if err != nil {
		t.Fatalf("%s: %v", size, err)
	}
	if p := d.Problems(); len(p) > 0 {
		t.Errorf("%s: problems %v", size, p)
	}
	if err := loadAll(d); err != nil {
		t.Errorf("%s: %v", size, err)
	}
	done = len(d.Done())
	if err := unix.Mount("small", dir, "tmpfs", unix.MS_REMOUNT, option+"=1000"); err != nil {
		t.Fatal(err)
	}
	if err := fill(path); err != nil {
		t.Errorf("%s: with room: %v", size, err)
	}
	checkWhole(t, path)
	return done, false
}

// fill creates a run of three trials, or goes on with one, with everything that a run can hold.
func fill(path string) (err error) {
	d, err := Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		d, err = Create(path, []byte(text), smallPlan(3))
	} else if err == nil {
		err = d.Lock()
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for i, tr := range d.Plan().Trials {
		if _, ok := d.Info(tr.ID()); ok {
			continue
		}
		if err := d.AddAborted(Aborted{Trial: tr.ID(), Error: "x"}); err != nil {
			return err
		}
		if err := fillTrial(d, i); err != nil {
			return err
		}
	}
	return d.Finish(Ending{State: Complete}, []byte("table"))
}

// fillTrial is put with enough console text to need several pages while it is written.
func fillTrial(d *Dir, i int) error {
	w, err := d.Begin(d.Plan().Trials[i])
	if err != nil {
		return err
	}
	more := experiment.Record{Console: &experiment.Console{Text: strings.Repeat("x", 100_000)}}
	for _, r := range append([]experiment.Record{more}, trialRecords(i)...) {
		if err := w.Write(r); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Commit()
}
