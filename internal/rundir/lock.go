package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const lockFile = "lock"

// A Holder is the process that writes a run.
type Holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Lock makes d writable, removes what a crash left in it, and looks again at what is there, this
// time into the records too: a trial that can't be read is to be run again. It
// returns a *LockedError at once while another process, or another Dir of this one, has the lock.
// The kernel drops the lock of a process that dies, however it dies.
func (d *Dir) Lock() error {
	if err := d.takeLock(); err != nil {
		return fmt.Errorf("lock run directory: %w", err)
	}
	err := removePartials(d.path)
	if err == nil {
		err = os.Mkdir(filepath.Join(d.path, trialsFolder), 0o777)
		if errors.Is(err, fs.ErrExist) {
			err = removePartials(filepath.Join(d.path, trialsFolder))
		}
	}
	if err == nil {
		err = d.scan()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("lock run directory: %w", err), d.Close())
	}
	d.rejectUnreadable()
	return nil
}

func (d *Dir) takeLock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		return errors.New("this process has locked it already")
	}
	path := filepath.Join(d.path, lockFile)
	for {
		l := flock.New(path)
		switch ok, err := l.TryLock(); {
		case err != nil:
			return errors.Join(err, l.Close())
		case !ok:
			return errors.Join(&LockedError{Path: d.path, Holder: readHolder(path)}, l.Close())
		}
		if lockedIs(l, path) {
			d.held = l
			writeHolder(path)
			return nil
		}
		// Its last holder removed the file between our open and our lock: take the one that is there now.
		if err := l.Close(); err != nil {
			return err
		}
	}
}

// lockedIs reports whether the file that l has locked is the one at path.
func lockedIs(l *flock.Flock, path string) bool {
	locked, err := l.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(locked, there)
}

// Close gives back the lock, if d has it, and removes its file.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		return nil
	}
	l := d.held
	d.held = nil
	err := os.Remove(filepath.Join(d.path, lockFile)) // while we have the lock: it is ours
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody removed the whole run
	}
	return errors.Join(err, l.Close())
}

// readHolder returns who wrote the lock file, which may be in the middle of doing so.
func readHolder(path string) Holder {
	var h Holder
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}

// writeHolder tells others who has the lock. The lock holds without it.
func writeHolder(path string) {
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	data, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Since: time.Now().Round(time.Second)})
	if err != nil {
		return
	}
	_ = os.WriteFile(path, data, 0o600) // only for another's message
}
