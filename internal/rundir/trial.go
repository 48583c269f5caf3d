package rundir

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/wire"
)

const (
	recordsFile = "records.jsonl"
	consoleFile = "console.log"
	commandFile = "command"
	factsFile   = "facts.json"
	infoFile    = "trial.json"
)

// An Info is what is kept about a whole trial beside its records.
type Info struct {
	Trial   experiment.Trial `json:"trial"`
	Try     int              `json:"try"` // 1 unless earlier tries were aborted
	Started time.Time        `json:"started"`
	Took    time.Duration    `json:"took"`    // on the host's clock, boot and teardown included
	Outcome string           `json:"outcome"` // of the End
	// Files holds the sizes in bytes of the trial's other files: a shorter one was truncated.
	Files map[string]int64 `json:"files"`
}

// A TrialWriter writes one trial's folder, record by record. It ends with Commit or Abort. It is
// not for concurrent use.
type TrialWriter struct {
	dir     *Dir
	info    Info
	folder  string // where it is written; empty once it is committed or aborted
	records *sink
	console *sink
	lines   *wire.Writer
	command strings.Builder
	facts   *experiment.Facts
	err     error // the first failure: the folder is not whole
}

// Begin starts the folder of a planned trial that is not yet done. The run is then no longer one
// that has ended: its table and Ending go.
func (d *Dir) Begin(t experiment.Trial) (*TrialWriter, error) {
	id := t.ID()
	w, err := d.begin(t)
	if err != nil {
		return nil, fmt.Errorf("begin trial %s: %w", id, err)
	}
	return w, nil
}

func (d *Dir) begin(t experiment.Trial) (*TrialWriter, error) {
	id := t.ID()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		return nil, fmt.Errorf("%s is not locked", d.path)
	}
	if _, ok := d.planned(id); !ok {
		return nil, errors.New("it is not in the plan")
	}
	if _, ok := d.done[id]; ok {
		return nil, errors.New("it is done")
	}
	if err := d.reopen(); err != nil {
		return nil, err
	}
	folder := filepath.Join(d.path, trialsFolder, partial+id)
	if err := os.Mkdir(folder, 0o777); err != nil {
		return nil, err
	}
	w := &TrialWriter{dir: d, folder: folder,
		info: Info{Trial: t, Try: d.tries(id) + 1, Started: time.Now(), Files: map[string]int64{}}}
	if err := w.open(); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

func (w *TrialWriter) open() (err error) {
	if w.records, err = newSink(filepath.Join(w.folder, recordsFile)); err != nil {
		return err
	}
	w.lines = wire.NewWriter(w.records)
	w.console, err = newSink(filepath.Join(w.folder, consoleFile))
	return err
}

// Write adds r to the trial. Console text goes to its own file, everything else to the records,
// which are numbered anew. After an error the trial can only be aborted.
func (w *TrialWriter) Write(r experiment.Record) error {
	if w.err != nil {
		return w.err
	}
	if err := w.write(r); err != nil {
		w.err = fmt.Errorf("keep trial %s: %w", w.info.Trial.ID(), err)
	}
	return w.err
}

func (w *TrialWriter) write(r experiment.Record) error {
	switch {
	case w.folder == "":
		return errors.New("a record after the trial was closed")
	case w.info.Outcome != "":
		return errors.New("a record after the end")
	case r.Console != nil:
		_, err := w.console.Write([]byte(r.Console.Text))
		return err
	case r.Command != nil:
		fmt.Fprintln(&w.command, shellLine(r.Command.Argv))
	case r.Facts != nil:
		w.facts = r.Facts
	case r.End != nil && r.End.Outcome == "":
		return errors.New("an end without an outcome")
	case r.End != nil:
		w.info.Outcome = r.End.Outcome
	}
	return w.lines.Write(r)
}

// Commit puts the trial's folder in its place, once everything in it is on the disk. A trial whose
// records have no End is not kept: the error matches wire.ErrCut. After an error nothing of the
// folder is left.
func (w *TrialWriter) Commit() error {
	err := w.err
	if err == nil {
		err = w.commit()
		if err != nil {
			err = fmt.Errorf("keep trial %s: %w", w.info.Trial.ID(), err)
		}
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return nil
}

func (w *TrialWriter) commit() error {
	if w.folder == "" {
		return errors.New("it is closed")
	}
	if w.info.Outcome == "" {
		return wire.ErrCut
	}
	if err := w.finishFiles(); err != nil {
		return err
	}
	d := w.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	trials, id := filepath.Join(d.path, trialsFolder), w.info.Trial.ID()
	place := filepath.Join(trials, id)
	// What is there is a damaged folder, else Begin had refused.
	if err := os.RemoveAll(place); err != nil {
		return err
	}
	if err := os.Rename(w.folder, place); err != nil {
		return err
	}
	w.folder = ""
	d.done[id] = w.info
	d.forget(id)
	return syncDir(trials)
}

// finishFiles completes the folder's files; trial.json, with the sizes of the others, is the last.
func (w *TrialWriter) finishFiles() error {
	w.info.Took = time.Since(w.info.Started)
	facts, err := json.MarshalIndent(w.facts, "", "\t")
	if err != nil {
		return err
	}
	for name, s := range map[string]*sink{recordsFile: w.records, consoleFile: w.console} {
		if err := s.finish(); err != nil {
			return err
		}
		w.info.Files[name] = s.size
	}
	for name, data := range map[string][]byte{factsFile: append(facts, '\n'), commandFile: []byte(w.command.String())} {
		if err := writeSynced(filepath.Join(w.folder, name), data); err != nil {
			return err
		}
		w.info.Files[name] = int64(len(data))
	}
	info, err := json.MarshalIndent(w.info, "", "\t")
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(w.folder, infoFile), append(info, '\n')); err != nil {
		return err
	}
	return syncDir(w.folder)
}

// Abort removes what was written. It does nothing after a Commit or another Abort.
func (w *TrialWriter) Abort() error {
	if w.folder == "" {
		return nil
	}
	w.records.discard()
	w.console.discard()
	err := os.RemoveAll(w.folder)
	w.folder = ""
	if err != nil {
		return fmt.Errorf("remove trial %s: %w", w.info.Trial.ID(), err)
	}
	return nil
}

// A sink is a buffered file that knows its size.
type sink struct {
	f    *os.File
	b    *bufio.Writer
	size int64
}

func newSink(path string) (*sink, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &sink{f: f, b: bufio.NewWriterSize(f, 64<<10)}, nil
}

// Write refuses more than wire.MaxLine at once: a record that long could not be read again.
func (s *sink) Write(p []byte) (int, error) {
	if len(p) > wire.MaxLine {
		return 0, fmt.Errorf("%d bytes at once, at most %d", len(p), wire.MaxLine)
	}
	n, err := s.b.Write(p)
	s.size += int64(n)
	return n, err
}

// finish returns once everything is on the disk.
func (s *sink) finish() error {
	err := s.b.Flush()
	if err == nil {
		err = s.f.Sync()
	}
	return errors.Join(err, s.f.Close())
}

func (s *sink) discard() {
	if s != nil {
		_ = s.f.Close() // the file is about to be removed, and may be closed already
	}
}

// shellLine returns argv as a line that a POSIX shell reads back as the same words.
func shellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = shellWord(w)
	}
	return strings.Join(words, " ")
}

func shellWord(w string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if w != "" && strings.Trim(w, plain) == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
