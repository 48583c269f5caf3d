package rundir

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// childEnv tells the test binary, run again, which run it shall write.
const childEnv = "RUNDIR_TEST_CHILD"

// TestChild is no test by itself: it is what TestKill kills. It goes on with a run, creating it if
// need be, and says a word on stdout before each step.
func TestChild(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		t.Skip("the other tests start it")
	}
	step := func(what string) { fmt.Println("step", what) }
	step("open")
	d, err := Open(path)
	if err != nil {
		step("create")
		d, err = Create(path, []byte(text), smallPlan(6))
	} else {
		err = d.Lock()
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, tr := range d.Plan().Trials {
		if slices.Contains(d.Done(), tr.ID()) {
			continue
		}
		w, err := d.Begin(tr)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range trialRecords(i) {
			step("write")
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		step("commit")
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		step("aborted")
		if err := d.AddAborted(Aborted{Trial: tr.ID(), Error: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	step("finish")
	if err := d.Finish(Ending{State: Complete}, []byte("table")); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// runChild runs TestChild on path and kills it after so many of its steps. It reports whether the
// child came to its end.
func runChild(t *testing.T, path string, steps int) bool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if strings.HasPrefix(lines.Text(), "step") {
			if steps--; steps == 0 {
				_ = cmd.Process.Kill() // it may have ended by itself just now
			}
		}
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signaled() {
		return false
	}
	if err != nil {
		t.Fatalf("child: %v\n%s", err, strings.Join(said, "\n"))
	}
	return true
}

// TestKill kills a writer with SIGKILL at random points, again and again: a reader always sees whole
// trials only, the next writer goes on without being told anything, and in the end each trial of
// the plan is there once.
func TestKill(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	kills := 0
	for round := range rounds {
		path := filepath.Join(t.TempDir(), "run")
		rnd := rand.New(rand.NewPCG(uint64(round), 1))
		done := 0
		for !runChild(t, path, 1+rnd.IntN(25)) {
			kills++
			d, err := Open(path)
			if err != nil {
				// Killed while it was created: what is left says so, and doesn't get in the way of another run.
				if !is[*BrokenError](err) && !is[*NotRunDirError](err) && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				path = filepath.Join(t.TempDir(), "run")
				continue
			}
			if err := loadAll(d); err != nil {
				t.Fatal(err)
			}
			if p := d.Problems(); len(p) > 0 {
				t.Fatalf("problems after a kill: %v", p)
			}
			if n := len(d.Done()); n < done {
				t.Fatalf("%d whole trials after there were %d", n, done)
			} else {
				done = n
			}
		}
		checkWhole(t, path)
	}
	t.Logf("%d kills", kills)
}

// checkWhole fails unless the run at path has all of its trials and nothing else.
func checkWhole(t *testing.T, path string) {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := loadAll(d); err != nil {
		t.Error(err)
	}
	if len(d.Done()) != len(d.Plan().Trials) || d.Ending().State != Complete {
		t.Errorf("done %v, ending %+v", d.Done(), d.Ending())
	}
	var names []string
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{abortedFile, experimentFile, planFile, endingFile, tableFile, trialsFolder}
	if diff := cmp.Diff(want, names); diff != "" || err != nil {
		t.Errorf("files (-want +got), %v:\n%s", err, diff)
	}
	if left := partials(path); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOneWriter(t *testing.T) {
	d := create(t, 2)
	mustPut(t, d, 0)
	w, err := d.Begin(d.Plan().Trials[1])
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	err = second.Lock()
	locked, ok := errors.AsType[*LockedError](err)
	if !ok || locked.Holder.PID != os.Getpid() {
		t.Fatalf("second Lock() = %v; want a *LockedError that says who", err)
	}
	if want := fmt.Sprintf("pid %d on ", os.Getpid()); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), d.Path()) {
		t.Errorf("message %q; want %q and the path", err, want)
	}
	if err := d.Lock(); err == nil {
		t.Error("locked twice by one Dir")
	}
	// The loser must not have cleaned up what the winner is writing.
	if err := w.Write(trialRecords(1)[6]); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Errorf("Commit after another's Lock: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Lock(); err != nil {
		t.Fatalf("Lock after the first was closed: %v", err)
	}
	if len(second.Done()) != 2 {
		t.Errorf("done as the second writer sees it: %v", second.Done())
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.Path(), lockFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock's file: %v; want it gone", err)
	}
}

// TestLockIsHeldByOne has many lock and unlock at once; the file's removal must not let two in.
func TestLockIsHeldByOne(t *testing.T) {
	path := t.TempDir()
	inside, errs := make(chan struct{}, 1), make(chan error)
	for range 4 {
		go func() { errs <- lockOften(path, inside) }()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func lockOften(path string, inside chan struct{}) error {
	for range 2000 {
		d := &Dir{path: path}
		if err := d.takeLock(); is[*LockedError](err) {
			continue
		} else if err != nil {
			return err
		}
		select {
		case inside <- struct{}{}:
			runtime.Gosched()
			<-inside
		default:
			return errors.New("two hold the lock")
		}
		if err := d.Close(); err != nil {
			return err
		}
	}
	return nil
}

// TestStaleLockIsNoObstacle: a lock file without a process behind it is like none.
func TestStaleLockIsNoObstacle(t *testing.T) {
	d := create(t, 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockFile, partial + planFile, trialsFolder + "/" + partial + "000-stock-1/x"} {
		path := filepath.Join(d.Path(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(`{"pid":1}`), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(d.Path()); err != nil {
		t.Fatal(err)
	}
	if left := partials(d.Path()); len(left) != 2 {
		t.Errorf("a reader left only %v", left)
	}
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	if left := partials(d.Path()); len(left) > 0 {
		t.Errorf("the writer left %v", left)
	}
	mustPut(t, d, 0)
}

// TestTruncated cuts each file of a run at every byte: whatever is left, Open says what is wrong, and
// every trial that was not touched is still there.
func TestTruncated(t *testing.T) {
	d := create(t, 2)
	mustPut(t, d, 0)
	mustPut(t, d, 1)
	err := errors.Join(d.AddAborted(Aborted{Trial: "000-stock-1", Error: "x"}),
		d.SetNotRun([]NotRun{{Arm: "x", Reason: "y"}}), d.Finish(Ending{State: Complete}, []byte("table\n")), d.Close())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(d.Path(), "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	trial, err := filepath.Glob(filepath.Join(d.Path(), trialsFolder, "001-lazy-1", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 6 || len(trial) != 5 {
		t.Fatalf("files %v, %v", files, trial)
	}
	step := 1
	if testing.Short() {
		step = 11
	}
	for _, path := range append(files, trial...) {
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(whole); n += step {
			if err := os.WriteFile(path, whole[:n], 0o666); err != nil {
				t.Fatal(err)
			}
			checkCut(t, d.Path(), path, whole, n)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		checkCut(t, d.Path(), path, whole, -1)
		if err := os.WriteFile(path, whole, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	checkCut(t, d.Path(), "", nil, 0)
}

// checkCut opens a run whose file at path has lost everything after n bytes, -1 for all of it.
func checkCut(t *testing.T, run, path string, whole []byte, n int) {
	t.Helper()
	name := filepath.Base(path)
	onlyNewline := n == len(whole)-1
	d, err := Open(run)
	if name == planFile && !onlyNewline {
		if !is[*BrokenError](err) || !strings.Contains(err.Error(), planFile) {
			t.Errorf("%s cut at %d: Open() = %v; want a *BrokenError that names it", name, n, err)
		}
		return
	}
	if err != nil {
		t.Errorf("%s cut at %d: %v", name, n, err)
		return
	}
	if err := loadAll(d); err != nil {
		t.Errorf("%s cut at %d: %v", name, n, err)
	}
	inTrial := filepath.Base(filepath.Dir(path)) == "001-lazy-1"
	want := []string{"000-stock-1", "001-lazy-1"}
	silent := path == "" || name == tableFile || onlyNewline && strings.HasSuffix(name, ".json") && name != factsFile ||
		(name == abortedFile || name == notRunFile || name == endingFile) && n <= 0 && (n < 0 || name == abortedFile)
	if inTrial && !silent {
		want = want[:1]
	}
	if diff := cmp.Diff(want, d.Done()); diff != "" {
		t.Errorf("%s cut at %d: done (-want +got):\n%s", name, n, diff)
	}
	p := d.Problems()
	if silent && len(p) > 0 || !silent && (len(p) != 1 || !strings.Contains(p[0].String(), name)) {
		t.Errorf("%s cut at %d: problems %v; want one that names it: %v", name, n, p, !silent)
	}
	if inTrial && !silent && !strings.Contains(p[0].String(), "trial 001-lazy-1") {
		t.Errorf("%s cut at %d: %v does not name the trial", name, n, p)
	}
}

// TestDamagedTrialIsRunAgain: going on with a run replaces a trial that can't be used.
func TestDamagedTrialIsRunAgain(t *testing.T) {
	d := create(t, 1)
	mustPut(t, d, 0)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(d.Path(), trialsFolder, "000-stock-1", recordsFile), 10); err != nil {
		t.Fatal(err)
	}
	if err := d.Lock(); err != nil {
		t.Fatal(err)
	}
	if len(d.Done()) != 0 || len(d.Problems()) != 1 {
		t.Fatalf("done %v, problems %v", d.Done(), d.Problems())
	}
	mustPut(t, d, 0)
	if len(d.Problems()) != 0 {
		t.Errorf("problems afterwards: %v", d.Problems())
	}
	if err := loadAll(d); err != nil {
		t.Error(err)
	}
}

// TestPlanOfAnotherRun: a trial is not taken for one of the same name in another experiment.
func TestPlanOfAnotherRun(t *testing.T) {
	d := create(t, 2)
	mustPut(t, d, 0)
	mustPut(t, d, 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	plan := smallPlan(2)
	plan.Trials[0].Arm.Kernel += "-other"
	other, err := Create(filepath.Join(t.TempDir(), "other"), []byte(text), plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Close(), os.Rename(filepath.Join(other.Path(), planFile), filepath.Join(d.Path(), planFile))); err != nil {
		t.Fatal(err)
	}
	mixed, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"001-lazy-1"}, mixed.Done()); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	if p := mixed.Problems(); len(p) != 1 || p[0].Trial != "000-stock-1" || !strings.Contains(p[0].What, "another experiment") {
		t.Errorf("problems %v; want one about 000-stock-1", p)
	}
}

// TestBrokenRecords: damage that leaves the size alone is found when the records are read.
func TestBrokenRecords(t *testing.T) {
	d := create(t, 1)
	mustPut(t, d, 0)
	path := filepath.Join(d.Path(), trialsFolder, "000-stock-1", recordsFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[len(data)/2:], "\x00\x00\x00\x00")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	rs, err := load(d, "000-stock-1")
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line ") {
		t.Errorf("load = %d records, %v; want an error with path and line", len(rs), err)
	}
	d.Reject("000-stock-1", err)
	checkRejected(t, d, path)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// Whoever goes on with the run does not take such a trial for done.
	again, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Lock(); err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	checkRejected(t, again, path)
	mustPut(t, again, 0)
	if len(again.Done()) != 1 || len(again.Problems()) != 0 {
		t.Errorf("run again: done %v, problems %v", again.Done(), again.Problems())
	}
}

func checkRejected(t *testing.T, d *Dir, path string) {
	t.Helper()
	p := d.Problems()
	if len(d.Done()) != 0 || len(p) != 1 || p[0].Trial != "000-stock-1" || !strings.Contains(p[0].What, path) {
		t.Errorf("done %v, problems %v; want none done and one about %s", d.Done(), p, path)
	}
	if n := strings.Count(p[0].String(), "trial 000-stock-1: "); n != 1 {
		t.Errorf("problem %q names its trial %d times", p[0], n)
	}
}
