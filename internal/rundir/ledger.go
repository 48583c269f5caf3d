package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	abortedFile = "aborted.jsonl"
	notRunFile  = "not-run.json"
	endingFile  = "run.json"
	tableFile   = "table.txt"
)

// An Aborted is one try of a trial that is no data: it is shown and counted, never averaged in.
type Aborted struct {
	Trial string   `json:"trial"`
	Try   int      `json:"try"` // from 1, set by AddAborted
	Op    string   `json:"op,omitempty"`
	Error string   `json:"error"`
	Last  []string `json:"last,omitempty"` // the console's last lines
}

// A NotRun is an arm that could not run here, and why.
type NotRun struct {
	Arm    string `json:"arm"`
	Reason string `json:"reason"`
}

// A State is how far a run got.
type State string

// The states of a run. Unfinished is never written: it is what a run without an Ending is, either
// still going or killed.
const (
	Complete    State = "complete"    // every trial of the plan was run, aborted or its arm could not run
	Interrupted State = "interrupted" // somebody stopped it
	Failed      State = "failed"      // an error of ours ended it
	Unfinished  State = "unfinished"
)

// An Ending says how a run ended.
type Ending struct {
	State   State     `json:"state"`
	Ended   time.Time `json:"ended"`         // set by Finish
	Why     string    `json:"why,omitempty"` // the error, for Failed
	Planned int       `json:"planned"`       // trials, set by Finish
	Done    int       `json:"done"`          // whole trials, set by Finish
	Aborted int       `json:"aborted"`       // tries that are no data, set by Finish
	NotRun  int       `json:"not_run"`       // arms, set by Finish
}

// Finish writes the table and how the run ended. The run can still be gone on with.
func (d *Dir) Finish(e Ending, table []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.Ended = time.Now().Round(time.Second)
	e.Planned, e.Done = len(d.plan.Trials), len(d.done)
	e.Aborted, e.NotRun = len(d.aborted), len(d.notRun)
	err := d.put(tableFile, table)
	if err == nil {
		err = d.putJSON(endingFile, e)
	}
	if err != nil {
		return fmt.Errorf("end run: %w", err)
	}
	d.ending = &e
	return nil
}

// Ending returns how the run ended; its State is Unfinished if it did not.
func (d *Dir) Ending() Ending {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending != nil {
		return *d.ending
	}
	return Ending{State: Unfinished, Planned: len(d.plan.Trials), Done: len(d.done),
		Aborted: len(d.aborted), NotRun: len(d.notRun)}
}

// reopen takes back the run's end, because another trial begins.
func (d *Dir) reopen() error {
	for _, name := range []string{endingFile, tableFile} {
		if err := os.Remove(filepath.Join(d.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	d.ending = nil
	return nil
}

// AddAborted keeps a try that is no data, and numbers it.
func (d *Dir) AddAborted(a Aborted) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	a.Try = d.tries(a.Trial) + 1
	all := append(slices.Clone(d.aborted), a)
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for _, a := range all {
		if err := lines.Encode(a); err != nil {
			return fmt.Errorf("keep aborted try: %w", err)
		}
	}
	if err := d.put(abortedFile, text.Bytes()); err != nil {
		return fmt.Errorf("keep aborted try: %w", err)
	}
	d.aborted = all
	return nil
}

// Aborted lists the tries that are no data, oldest first.
func (d *Dir) Aborted() []Aborted {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.aborted)
}

// tries counts the aborted tries of a trial.
func (d *Dir) tries(id string) int {
	n := 0
	for _, a := range d.aborted {
		if a.Trial == id {
			n++
		}
	}
	return n
}

// SetNotRun keeps the arms that could not run, in place of those that were kept before.
func (d *Dir) SetNotRun(arms []NotRun) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(arms, d.notRun) {
		return nil
	}
	if err := d.putJSON(notRunFile, arms); err != nil {
		return fmt.Errorf("keep arms not run: %w", err)
	}
	d.notRun = slices.Clone(arms)
	return nil
}

// NotRun lists the arms that could not run.
func (d *Dir) NotRun() []NotRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.notRun)
}

func (d *Dir) putJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return d.put(name, append(data, '\n'))
}

func (d *Dir) put(name string, data []byte) error {
	if d.held == nil {
		return fmt.Errorf("%s is not locked", d.path)
	}
	return writeFile(filepath.Join(d.path, name), data)
}

// scanLedgers reads the files beside the trials.
func (d *Dir) scanLedgers() error {
	d.aborted, d.notRun, d.ending = nil, nil, nil
	data, err := d.ledger(abortedFile)
	if err != nil {
		return err
	}
	d.scanAborted(data)
	if data, err = d.ledger(notRunFile); err != nil {
		return err
	}
	if data != nil && json.Unmarshal(data, &d.notRun) != nil {
		d.notRun = nil
		d.problem("", "%s, %d bytes, is cut", notRunFile, len(data))
	}
	if data, err = d.ledger(endingFile); err != nil || data == nil {
		return err
	}
	var e Ending
	if json.Unmarshal(data, &e) != nil {
		d.problem("", "%s, %d bytes, is cut", endingFile, len(data))
		return nil
	}
	d.ending = &e
	return nil
}

// ledger returns a file's bytes, nil if it isn't there.
func (d *Dir) ledger(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	return data, nil
}

func (d *Dir) scanAborted(data []byte) {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		var a Aborted
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &a) != nil {
			d.problem("", "%s: line %d is cut", abortedFile, n)
			continue
		}
		d.aborted = append(d.aborted, a)
	}
}
