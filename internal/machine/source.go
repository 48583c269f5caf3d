package machine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Source says where a machine is found. Its zero value is the running one.
type Source struct {
	// Root is where the machine's /proc, /sys and /boot lie. Default "/". Nothing outside it is read,
	// whatever links it has.
	Root string
	// Kmsg is the boot log's text, without which no boot line is evidence.
	Kmsg string
}

// live reports whether s is the running machine.
func (s Source) live() bool { return s.Root == "" || s.Root == "/" }

// name is where a file of the machine lies, for messages.
func (s Source) name(p string) string {
	if s.live() {
		return "/" + p
	}
	return filepath.Join(s.Root, p)
}

// maxFile bounds what is read of one file: a kernel's uncompressed configuration has 300 kB, and
// /proc/interrupts 3 MB where there are 256 CPUs.
const maxFile = 8 << 20

// read returns the content of a regular file, up to maxFile.
func (s Source) read(p string) ([]byte, error) {
	f, err := s.open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func (s Source) open(p string) (*os.File, error) {
	if s.live() {
		return os.Open("/" + p)
	}
	root, err := os.OpenRoot(s.Root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // it was only read
	info, err := root.Stat(p)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() { // opening a pipe would wait for its other end
		return nil, fmt.Errorf("%s: %w", s.name(p), errors.ErrUnsupported)
	}
	return root.Open(p)
}

// list returns the names in a directory, sorted.
func (s Source) list(p string) ([]string, error) {
	f, err := s.open(p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// text returns the file's content without the white space around it, or "" when it can't be read.
func (s Source) text(p string) string {
	b, err := s.read(p)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (s Source) exists(p string) bool {
	f, err := s.open(p)
	if err != nil {
		// On the running machine, a file that only root may open is there.
		return s.live() && errors.Is(err, fs.ErrPermission)
	}
	return f.Close() == nil
}

// link returns the last part of where a symbolic link points, or "" when it is none.
func (s Source) link(p string) string {
	var to string
	var err error
	if s.live() {
		to, err = os.Readlink("/" + p)
	} else {
		var root *os.Root
		if root, err = os.OpenRoot(s.Root); err != nil {
			return ""
		}
		defer func() { _ = root.Close() }() // it was only read
		to, err = root.Readlink(p)
	}
	if err != nil {
		return ""
	}
	return path.Base(to)
}
