package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// partial starts the name of whatever is being written. It gets its real name once it is whole and
// on the disk; what still has this name when nobody holds the lock was left by a crash.
const partial = ".partial-"

// writeFile puts a file with data at path, or leaves what was there.
func writeFile(path string, data []byte) error {
	dir, name := filepath.Split(path)
	tmp := filepath.Join(dir, partial+name)
	if err := writeSynced(tmp, data); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return syncDir(filepath.Dir(path))
}

// writeSynced writes a file and returns once it is on the disk.
func writeSynced(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir returns once the names in the directory path are on the disk, where the file system can
// promise that.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // some network and FUSE file systems have no fsync for directories
	}
	return errors.Join(err, d.Close())
}

// removePartials removes what a crash left in the directory path.
func removePartials(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), partial) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return fmt.Errorf("remove what a crash left: %w", err)
		}
	}
	return nil
}
