// Package rundir keeps a run on disk so that whatever stops napistall, what it had finished is
// there: a trial's folder appears only when it is whole, a run has one writer at a time, and a
// run that was stopped can be gone on with.
//
//	experiment.yaml       the experiment's exact bytes
//	plan.json             Plan: who ran what where, and the trials
//	trials/ID/            one folder for each finished trial
//	    records.jsonl     its records, in package wire's lines, without the console's text
//	    console.log       the console's text as it came
//	    command           the command that started the target, as lines for a shell
//	    facts.json        the target's last Facts
//	    trial.json        Info: when, how long, and the sizes of the other files
//	aborted.jsonl         Aborted: tries that are no data
//	not-run.json          NotRun: arms that could not run
//	table.txt, run.json   the table and the Ending, once the run has ended
//	lock                  only while somebody writes the run
package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gofrs/flock"

	"github.com/napistall/napistall/internal/experiment"
)

const (
	experimentFile = "experiment.yaml"
	planFile       = "plan.json"
	trialsFolder   = "trials"
)

// A Dir is a run directory. Its methods may be called concurrently.
type Dir struct {
	path string
	plan Plan

	mu       sync.Mutex
	held     *flock.Flock    // nil while this Dir may only read
	done     map[string]Info // whole trials by their ID
	problems []Problem
	aborted  []Aborted
	notRun   []NotRun
	ending   *Ending // nil while the run has not ended
}

// A Problem is something in a run directory that can't be used; the rest of the run can.
type Problem struct {
	Trial string // the trial's ID; empty if it is no trial's
	What  string // the file and what is wrong with it
}

func (p Problem) String() string {
	if p.Trial == "" {
		return p.What
	}
	return "trial " + p.Trial + ": " + p.What
}

// Create makes the run directory path, with its parents, for the experiment whose file holds
// text, and locks it. It never touches a path that exists: the error then matches fs.ErrExist.
// After an error nothing of the run directory is left.
func Create(path string, text []byte, plan Plan) (*Dir, error) {
	path = filepath.Clean(path) // the parent of "run/" is not "run"
	plan.Format = Format
	plan.TextSHA256 = sum(text)
	data, err := encodePlan(plan)
	if err != nil {
		return nil, fmt.Errorf("plan of %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	if err := os.Mkdir(path, 0o777); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	d := &Dir{path: path, plan: plan, done: map[string]Info{}}
	if err := d.fill(text, data); err != nil {
		err = fmt.Errorf("create run directory %s: %w", path, err)
		return nil, errors.Join(err, d.Close(), os.RemoveAll(path))
	}
	return d, nil
}

// fill writes what a run starts with; the plan comes last, so that a directory with one is whole.
func (d *Dir) fill(text, plan []byte) error {
	if err := d.takeLock(); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(d.path, experimentFile), text); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(d.path, trialsFolder), 0o777); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(d.path, planFile), plan); err != nil {
		return err
	}
	return syncDir(filepath.Dir(d.path))
}

// Open returns the run directory path for reading; Lock makes it writable. The error is a
// *NotRunDirError, a *FormatError or a *BrokenError where path is there but no run that can be read.
// Damage to a part of the run is no error: see Problems.
func Open(path string) (*Dir, error) {
	data, err := os.ReadFile(filepath.Join(path, planFile))
	if err != nil {
		return nil, noPlan(path, err)
	}
	plan, err := decodePlan(data)
	if err != nil {
		if newer, ok := errors.AsType[*FormatError](err); ok {
			newer.Path = path
			return nil, newer
		}
		return nil, &BrokenError{Path: path, What: fmt.Sprintf("%s, %d bytes: %v", planFile, len(data), err)}
	}
	d := &Dir{path: path, plan: plan}
	if err := d.scan(); err != nil {
		return nil, err
	}
	return d, nil
}

// noPlan says what path is, given why its plan could not be read.
func noPlan(path string, err error) error {
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return &NotRunDirError{Path: path, Why: "there is nothing of that name", Err: statErr}
	case statErr != nil:
		return fmt.Errorf("open run directory: %w", statErr)
	case !info.IsDir():
		return &NotRunDirError{Path: path, Why: "it is a file"}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open run directory: %w", err)
	}
	for _, name := range []string{experimentFile, trialsFolder, lockFile} {
		if _, err := os.Lstat(filepath.Join(path, name)); err == nil {
			return &BrokenError{Path: path, What: planFile + " is missing: the run was stopped before its first trial, or the file was lost"}
		}
	}
	return &NotRunDirError{Path: path, Why: "it has no " + planFile}
}

// Path is where the run directory is, as it was given.
func (d *Dir) Path() string { return d.path }

// Plan is the run's plan.
func (d *Dir) Plan() Plan { return d.plan }

// Experiment returns the exact bytes of the experiment's file.
func (d *Dir) Experiment() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(d.path, experimentFile))
	if err != nil {
		return nil, fmt.Errorf("read experiment of run: %w", err)
	}
	return text, nil
}

// Problems lists what in the directory can't be used, trials first.
func (d *Dir) Problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.problems)
}

// Done lists the IDs of the trials that are whole, in the plan's order.
func (d *Dir) Done() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for _, t := range d.plan.Trials {
		if _, ok := d.done[t.ID()]; ok {
			ids = append(ids, t.ID())
		}
	}
	return ids
}

// Info returns what is kept about the trial id beside its records, and whether it is whole.
func (d *Dir) Info(id string) (Info, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, ok := d.done[id]
	return info, ok
}

// planned returns the plan's trial with this ID.
func (d *Dir) planned(id string) (experiment.Trial, bool) {
	for _, t := range d.plan.Trials {
		if t.ID() == id {
			return t, true
		}
	}
	return experiment.Trial{}, false
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
