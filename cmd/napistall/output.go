package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// writeOutput lets write write to the file that -o names, or to stdout where it names none. A file is only there,
// or takes the place of an older one, once it is whole; a link is followed, and what is no
// file (a pipe, a device) is written as it is.
func writeOutput(path string, stdout io.Writer, write func(io.Writer) error) error {
	if path == "" {
		return write(stdout)
	}
	switch st, err := os.Stat(path); {
	case err == nil && st.IsDir():
		return usagef("-o %s: that is a directory, want a file", path)
	case err == nil && !st.Mode().IsRegular():
		return writeInto(path, write)
	case err == nil:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return replaceFile(path, write)
}

func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func replaceFile(path string, write func(io.Writer) error) (err error) {
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644),
		renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
