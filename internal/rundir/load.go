package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/wire"
)

// scan looks at what the directory holds. What is damaged becomes a Problem.
func (d *Dir) scan() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done, d.problems = map[string]Info{}, nil
	entries, err := os.ReadDir(filepath.Join(d.path, trialsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the trials: %w", err)
	}
	if err != nil {
		d.problem("", "%s/ is missing", trialsFolder)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partial) {
			continue
		}
		d.scanTrial(e.Name())
	}
	if err := d.scanLedgers(); err != nil {
		return err
	}
	d.scanExperiment()
	return nil
}

func (d *Dir) problem(trial, format string, args ...any) {
	d.problems = append(d.problems, Problem{Trial: trial, What: fmt.Sprintf(format, args...)})
}

// forget drops the problems of a trial that has been run again.
func (d *Dir) forget(id string) {
	d.problems = slices.DeleteFunc(d.problems, func(p Problem) bool { return p.Trial == id })
}

// Reject takes the trial id out of the whole ones because of why, an error of Load or Console: its
// files have their sizes but not their content. It becomes a Problem, and Begin takes it again.
func (d *Dir) Reject(id string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.done, id)
	d.problem(id, "%s", strings.TrimPrefix(why.Error(), "trial "+id+": "))
}

// rejectUnreadable reads every whole trial to its end, and rejects those where that fails.
func (d *Dir) rejectUnreadable() {
	for _, id := range d.Done() {
		for _, err := range d.Load(id) {
			if err != nil {
				d.Reject(id, err)
			}
		}
	}
}

func (d *Dir) scanTrial(name string) {
	t, ok := d.planned(name)
	if !ok {
		d.problem("", "%s/%s is not of this run", trialsFolder, name)
		return
	}
	info, err := readInfo(filepath.Join(d.path, trialsFolder, name))
	switch {
	case err != nil:
		d.problem(name, "%v", err)
	case info.Trial.ID() != t.ID():
		d.problem(name, "%s is of trial %s", infoFile, info.Trial.ID())
	case !same(info.Trial, t):
		d.problem(name, "%s is of another experiment: its arm %s is not the plan's", infoFile, t.Arm.Name)
	default:
		d.done[name] = info
	}
}

// same reports whether two trials are one as far as a file can tell.
func same(a, b experiment.Trial) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// readInfo returns the Info of the trial in folder, and an error unless all of its files have the
// size that they were written with.
func readInfo(folder string) (Info, error) {
	var info Info
	data, err := os.ReadFile(filepath.Join(folder, infoFile))
	if err != nil {
		return info, missing(infoFile, err)
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return info, fmt.Errorf("%s, %d bytes: %w", infoFile, len(data), err)
	}
	for _, name := range []string{recordsFile, consoleFile, commandFile, factsFile} {
		want, ok := info.Files[name]
		if !ok {
			return info, fmt.Errorf("%s has no size for %s", infoFile, name)
		}
		st, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			return info, missing(name, err)
		}
		if st.Size() != want {
			return info, fmt.Errorf("%s has %d bytes, was written with %d", name, st.Size(), want)
		}
	}
	return info, nil
}

func missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing", name)
	}
	return err
}

func (d *Dir) scanExperiment() {
	text, err := os.ReadFile(filepath.Join(d.path, experimentFile))
	switch {
	case err != nil:
		d.problem("", "%v", missing(experimentFile, err))
	case sum(text) != d.plan.TextSHA256:
		d.problem("", "%s, %d bytes, is not what the run was started with", experimentFile, len(text))
	}
}

// Load returns the records of the trial id as they are read, so that a long trial takes no memory.
// Console text is not among them: see Console. An error is the last of the pairs.
func (d *Dir) Load(id string) iter.Seq2[experiment.Record, error] {
	return func(yield func(experiment.Record, error) bool) {
		f, err := d.openFile(id, recordsFile)
		if err != nil {
			yield(experiment.Record{}, err)
			return
		}
		defer f.Close() // only read
		records := wire.NewReader(f)
		for {
			r, err := records.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(experiment.Record{}, fmt.Errorf("trial %s: %s: %w", id, f.Name(), err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Console opens the console's text of the trial id. The caller closes it.
func (d *Dir) Console(id string) (io.ReadCloser, error) {
	f, err := d.openFile(id, consoleFile)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Command returns the lines that started the target of the trial id, quoted for a shell.
func (d *Dir) Command(id string) (string, error) {
	f, err := d.openFile(id, commandFile)
	if err != nil {
		return "", err
	}
	defer f.Close() // only read
	text, err := io.ReadAll(f)
	if err != nil {
		return "", fmt.Errorf("trial %s: %w", id, err)
	}
	return string(text), nil
}

// Facts returns the last Facts of the trial id; nil if its target sent none.
func (d *Dir) Facts(id string) (*experiment.Facts, error) {
	f, err := d.openFile(id, factsFile)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	var facts *experiment.Facts
	if err := json.NewDecoder(f).Decode(&facts); err != nil {
		return nil, fmt.Errorf("trial %s: %s: %w", id, f.Name(), err)
	}
	return facts, nil
}

// openFile opens a file of a whole trial.
func (d *Dir) openFile(id, name string) (*os.File, error) {
	if _, ok := d.Info(id); !ok {
		return nil, fmt.Errorf("trial %s: it is not among the whole trials of %s", id, d.path)
	}
	f, err := os.Open(filepath.Join(d.path, trialsFolder, id, name))
	if err != nil {
		return nil, fmt.Errorf("trial %s: %w", id, err)
	}
	return f, nil
}
