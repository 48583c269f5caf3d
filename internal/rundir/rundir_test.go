package rundir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/testenv"
	"github.com/napistall/napistall/internal/wire"
)

const text = "name: small # exactly these bytes\n"

// smallPlan plans n trials of two arms in turn.
func smallPlan(n int) Plan {
	arms := []experiment.Arm{{Name: "stock", Kernel: "host", VCPUs: 2}, {Name: "lazy", Kernel: "host", VCPUs: 2}}
	p := Plan{Version: "1.0", Backend: "fake", Experiment: experiment.Experiment{Name: "small", Reps: n, Arms: arms}}
	for i := range n {
		p.Trials = append(p.Trials, experiment.Trial{Index: i, Rep: i/2 + 1, Arm: arms[i%2]})
	}
	return p
}

// create makes a run of n trials in a directory of the test's.
func create(t *testing.T, n int) *Dir {
	t.Helper()
	d, err := Create(filepath.Join(t.TempDir(), "runs", "small"), []byte(text), smallPlan(n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // most tests close it themselves
	return d
}

// trialRecords are the records that the tests give to trial i.
func trialRecords(i int) []experiment.Record {
	return []experiment.Record{
		{Command: &experiment.Command{Argv: []string{"qemu", "-append", "a=b c='d'"}, Accel: "tcg"}},
		{Console: &experiment.Console{Text: "half a "}},
		{At: 1, Facts: &experiment.Facts{Release: "early"}},
		{At: 2, Facts: &experiment.Facts{Release: fmt.Sprintf("7.2.%d", i), CPUs: 2}},
		{Console: &experiment.Console{Text: "line\r\n\x00\xff"}},
		{At: 3, Sample: &experiment.Sample{Op: experiment.LinkDel, Start: 2, Took: time.Duration(i), Phase: experiment.Hold}},
		{End: &experiment.End{Outcome: experiment.Completed}},
	}
}

// put writes the plan's trial i whole.
func put(d *Dir, i int) error {
	w, err := d.Begin(d.Plan().Trials[i])
	if err != nil {
		return err
	}
	for _, r := range trialRecords(i) {
		if err := w.Write(r); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Commit()
}

func mustPut(t *testing.T, d *Dir, i int) {
	t.Helper()
	if err := put(d, i); err != nil {
		t.Fatal(err)
	}
}

// load reads a trial's records.
func load(d *Dir, id string) ([]experiment.Record, error) {
	var rs []experiment.Record
	for r, err := range d.Load(id) {
		if err != nil {
			return rs, err
		}
		rs = append(rs, r)
	}
	return rs, nil
}

// loadAll reads every whole trial, and fails unless each has what trialRecords says.
func loadAll(d *Dir) error {
	for _, id := range d.Done() {
		info, _ := d.Info(id)
		got, err := load(d, id)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(kept(info.Trial.Index), got); diff != "" {
			return fmt.Errorf("records of %s (-want +got):\n%s", id, diff)
		}
	}
	return nil
}

// kept is trialRecords as Load should return it: without the console, numbered.
func kept(i int) []experiment.Record {
	var want []experiment.Record
	for _, r := range trialRecords(i) {
		if r.Console != nil {
			continue
		}
		r.N = len(want)
		if r.End != nil {
			r.End.Records = r.N
		}
		want = append(want, r)
	}
	return want
}

// partials lists what is in the middle of being written under path.
func partials(path string) []string {
	var found []string
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error { // a vanished path has none
		if err == nil && strings.HasPrefix(e.Name(), partial) {
			found = append(found, p)
		}
		return nil
	})
	return found
}

func TestRunIsReadAsWritten(t *testing.T) {
	d := create(t, 3)
	mustPut(t, d, 0)
	mustPut(t, d, 2)
	abort := Aborted{Trial: "001-lazy-1", Op: "boot", Error: "qemu died", Last: []string{"VFS: panic"}}
	for range 2 {
		if err := d.AddAborted(abort); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.SetNotRun([]NotRun{{Arm: "lazy", Reason: "no BPF"}}); err != nil {
		t.Fatal(err)
	}
	if got := d.Ending().State; got != Unfinished {
		t.Errorf("state before the end = %q; want %q", got, Unfinished)
	}
	if err := d.Finish(Ending{State: Interrupted}, []byte("the table\n")); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	d, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	want := smallPlan(3)
	want.Format, want.TextSHA256 = Format, sum([]byte(text))
	if diff := cmp.Diff(want, d.Plan()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if got, err := d.Experiment(); string(got) != text || err != nil {
		t.Errorf("Experiment() = %q, %v; want %q", got, err, text)
	}
	if diff := cmp.Diff([]string{"000-stock-1", "002-stock-2"}, d.Done()); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	if err := loadAll(d); err != nil {
		t.Error(err)
	}
	second := abort
	abort.Try, second.Try = 1, 2
	if diff := cmp.Diff([]Aborted{abort, second}, d.Aborted()); diff != "" {
		t.Errorf("aborted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]NotRun{{Arm: "lazy", Reason: "no BPF"}}, d.NotRun()); diff != "" {
		t.Errorf("not run (-want +got):\n%s", diff)
	}
	if e := d.Ending(); e.State != Interrupted || e.Planned != 3 || e.Done != 2 || e.Aborted != 2 || e.NotRun != 1 {
		t.Errorf("ending = %+v", e)
	}
	if p := d.Problems(); len(p) > 0 {
		t.Errorf("problems in a whole run: %v", p)
	}
}

func TestTrialFolder(t *testing.T) {
	d := create(t, 2)
	mustPut(t, d, 0)
	console, err := d.Console("000-stock-1")
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	if got, err := io.ReadAll(console); string(got) != "half a line\r\n\x00\xff" || err != nil {
		t.Errorf("console = %q, %v", got, err)
	}
	if f, err := d.Facts("000-stock-1"); err != nil || f == nil || f.Release != "7.2.0" {
		t.Errorf("Facts() = %v, %v; want the last ones", f, err)
	}
	if got, err := d.Command("000-stock-1"); got != "qemu -append 'a=b c='\\''d'\\'''\n" || err != nil {
		t.Errorf("Command() = %q, %v", got, err)
	}
	info, ok := d.Info("000-stock-1")
	if !ok || info.Try != 1 || info.Outcome != experiment.Completed {
		t.Errorf("Info() = %+v, %v", info, ok)
	}
	if _, err := d.Facts("001-lazy-1"); err == nil {
		t.Error("facts of a trial that was not run")
	}
	if _, err := load(d, "../../etc"); err == nil {
		t.Error("records from outside the run")
	}
}

// TestCommandCanBePasted has the shell itself read what shellLine wrote.
func TestCommandCanBePasted(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		testenv.Lacks(t, "sh", err.Error())
	}
	argv := []string{"-x", "", "a b", "it's", `"$HOME"`, "`id`", "new\nline", `\`, "*", "~", "a=b", "é", "!x", "#", "-append", "console=ttyS0 a='b c'"}
	out, err := exec.Command(sh, "-c", "printf '%s\\0' "+shellLine(argv)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(argv, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")); diff != "" {
		t.Errorf("words after the shell (-want +got):\n%s", diff)
	}
}

func TestCreateNeverOverwrites(t *testing.T) {
	path := t.TempDir()
	mine := filepath.Join(path, "mine")
	if err := os.WriteFile(mine, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, []byte(text), smallPlan(1)); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("Create in a directory that exists: %v; want an error that names it and matches fs.ErrExist", err)
	}
	if got, err := os.ReadFile(mine); string(got) != "precious" || err != nil {
		t.Errorf("its file = %q, %v", got, err)
	}
}

// TestCreateByAnyName: however a user writes the name of a directory that isn't there yet.
func TestCreateByAnyName(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{"slash/", "deep/er//", "./none/../up", "a b\n", "-rf"} {
		d, err := Create(path, []byte(text), smallPlan(1))
		if err != nil {
			t.Errorf("Create(%q): %v", path, err)
			continue
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if _, err := Open(path); err != nil && path != "./none/../up" { // which has no none
			t.Error(err)
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	d := create(t, 2)
	mustPut(t, d, 0)
	other := d.Plan().Trials[1]
	other.Index = 7
	if _, err := d.Begin(other); err == nil {
		t.Error("began a trial that is not in the plan")
	}
	if _, err := d.Begin(d.Plan().Trials[0]); err == nil {
		t.Error("began a trial that is done")
	}
	reader, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Begin(d.Plan().Trials[1]); err == nil || !strings.Contains(err.Error(), "not locked") {
		t.Errorf("Begin without the lock: %v", err)
	}
	if err := reader.Finish(Ending{State: Complete}, nil); err == nil {
		t.Error("Finish without the lock")
	}
}

func TestTrialWithoutEndIsNotKept(t *testing.T) {
	end := experiment.Record{End: &experiment.End{Outcome: experiment.Completed}}
	long := experiment.Record{Kmsg: &experiment.Kmsg{Text: strings.Repeat("x", wire.MaxLine)}}
	for name, tt := range map[string]struct {
		records []experiment.Record
		want    string
	}{
		"nothing":       {nil, wire.ErrCut.Error()},
		"cut":           {trialRecords(0)[:3], wire.ErrCut.Error()},
		"after the end": {[]experiment.Record{end, trialRecords(0)[0]}, "after the end"},
		"two ends":      {[]experiment.Record{end, end}, "after the end"},
		"endless line":  {[]experiment.Record{long, end}, "at most"},
		"nameless end":  {[]experiment.Record{{End: &experiment.End{}}}, "without an outcome"},
	} {
		d := create(t, 1)
		w, err := d.Begin(d.Plan().Trials[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range tt.records {
			_ = w.Write(r) // Commit has to know by itself
		}
		if err := w.Commit(); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "000-stock-1") {
			t.Errorf("%s: Commit() = %v; want %q and the trial", name, err, tt.want)
		}
		if err := w.Commit(); err == nil {
			t.Errorf("%s: a second Commit worked", name)
		}
		if left := partials(d.Path()); len(left) > 0 || len(d.Done()) > 0 {
			t.Errorf("%s: left %v, done %v", name, left, d.Done())
		}
		mustPut(t, d, 0)
	}
}

// TestBeginTakesBackTheEnd: a run that goes on is no longer a run that has ended.
func TestBeginTakesBackTheEnd(t *testing.T) {
	d := create(t, 2)
	mustPut(t, d, 0)
	if err := d.Finish(Ending{State: Interrupted}, []byte("old table\n")); err != nil {
		t.Fatal(err)
	}
	mustPut(t, d, 1)
	reader, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if got := reader.Ending().State; got != Unfinished {
		t.Errorf("state = %q; want %q", got, Unfinished)
	}
	if _, err := os.Stat(filepath.Join(d.Path(), tableFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old table: %v; want it gone", err)
	}
}

func TestOpenSaysWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("file", "x")
	write("empty/notes.txt", "x")
	write("half/experiment.yaml", "x")
	write("newer/plan.json", `{"format": 9, "version": "3.1", "trials": "elsewhere"}`)
	write("zero/plan.json", `{}`)
	write("twice/plan.json", `{"format": 1, "trials": [{"arm":{"name":"a"}},{"arm":{"name":"a"}}]}`)
	write("escape/plan.json", `{"format": 1, "trials": [{"arm":{"name":"/../../etc"}}]}`)
	for _, tt := range []struct {
		path, want string
		is         func(error) bool
	}{
		{file, "not a run directory: it is a file", is[*NotRunDirError]},
		{filepath.Join(dir, "empty"), "not a run directory: it has no plan.json", is[*NotRunDirError]},
		{filepath.Join(dir, "none"), "not a run directory: there is nothing of that name", func(err error) bool { return is[*NotRunDirError](err) && errors.Is(err, fs.ErrNotExist) }},
		{filepath.Join(dir, "half"), "half-written run directory: plan.json is missing", is[*BrokenError]},
		{filepath.Join(dir, "newer"), "is in format 9, this napistall reads up to 1: use napistall 3.1", is[*FormatError]},
		{filepath.Join(dir, "zero"), "format 0", is[*BrokenError]},
		{filepath.Join(dir, "twice"), "trial 000-a-0 twice", is[*BrokenError]},
		{filepath.Join(dir, "escape"), "no folder can have this name", is[*BrokenError]},
	} {
		_, err := Open(tt.path)
		if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("Open(%s) = %v (%T); want the path and %q", tt.path, err, err, tt.want)
		}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// FuzzPlan: whatever plan.json holds, a plan that is accepted has trials whose folders are different
// and inside the run, and is the same after it was written again.
func FuzzPlan(f *testing.F) {
	p := smallPlan(2)
	p.Format = Format
	whole, err := encodePlan(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"format":2,"trials":7}`))
	f.Add([]byte(`{"format":1,"trials":[{"index":-1,"arm":{"name":"../x"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePlan(data)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, tr := range p.Trials {
			place := filepath.Join("run", tr.ID())
			if seen[place] || filepath.Dir(place) != "run" || strings.HasPrefix(tr.ID(), partial) {
				t.Errorf("accepted the trial %q", tr.ID())
			}
			seen[place] = true
		}
		again, err := encodePlan(p)
		if err != nil {
			t.Fatalf("encode what was decoded: %v", err)
		}
		q, err := decodePlan(again)
		if err != nil {
			t.Fatalf("decode what was encoded: %v", err)
		}
		if third, err := encodePlan(q); err != nil || string(third) != string(again) {
			t.Errorf("encoded again: %s, %v; want %s", third, err, again)
		}
	})
}
