package kimage

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
)

// keepObjects is how many object directories of a source are kept: one for each preemption model, twice. Each takes
// 100 to 600 MB.
const keepObjects = 10

// sweepObjects takes away the object directories of a source that were built in longest ago. The source's lock is held.
func (w workTree) sweepObjects() {
	dirs, _ := filepath.Glob(filepath.Join(w.dir, "obj-*")) // the pattern is a good one
	slices.SortFunc(dirs, func(a, b string) int { return lastBuilt(b).Compare(lastBuilt(a)) })
	for _, dir := range dirs[min(len(dirs), keepObjects):] {
		_ = os.RemoveAll(dir) // the next sweep tries again
	}
}

// lastBuilt returns when make last ran in an object directory.
func lastBuilt(obj string) time.Time {
	info, err := os.Stat(filepath.Join(obj, "build.log"))
	if err != nil {
		if info, err = os.Stat(obj); err != nil {
			return time.Time{}
		}
	}
	return info.ModTime()
}

// A Pruned is a source with its objects that was taken out of the cache.
type Pruned struct {
	Dir  string    `json:"dir"`
	Size int64     `json:"size"` // bytes
	Used time.Time `json:"used"` // when it was last built in
}

// Prune takes sources, and the objects built of them, out of the cache that were last built in longer ago than age.
// Kernels stay, and so do sources that somebody is building in. What it removed before an error is returned too.
func (s Store) Prune(ctx context.Context, age time.Duration) ([]Pruned, error) {
	dirs, err := filepath.Glob(filepath.Join(s.Dir, "sources", "*"))
	if err != nil {
		return nil, err
	}
	var gone []Pruned
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return gone, ctx.Err()
		}
		p, err := s.prune(dir, age)
		if err != nil {
			return gone, fmt.Errorf("prune %s: %w", dir, err)
		}
		if p.Dir != "" {
			gone = append(gone, p)
		}
	}
	return gone, nil
}

func (s Store) prune(dir string, age time.Duration) (Pruned, error) {
	unlock, err := s.tryLock("source-" + filepath.Base(dir))
	if err != nil || unlock == nil {
		return Pruned{}, err // nil: somebody builds there
	}
	defer unlock()
	p := Pruned{Dir: dir}
	objects, _ := filepath.Glob(filepath.Join(dir, "obj-*")) // the pattern is a good one
	for _, d := range append(objects, filepath.Join(dir, "tree"), dir) {
		if at := lastBuilt(d); at.After(p.Used) {
			p.Used = at
		}
	}
	if time.Since(p.Used) < age {
		return Pruned{}, nil
	}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			p.Size += info.Size()
		}
		return err
	})
	if err != nil {
		return Pruned{}, err
	}
	return p, s.discard(dir)
}

// discard removes a source's directory. It goes to the work directories first, as one: half a source would be taken for a
// whole one, and what is left there the next sweep takes away.
func (s Store) discard(dir string) error {
	work := filepath.Join(s.Dir, "work", filepath.Base(dir))
	if err := os.MkdirAll(filepath.Dir(work), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	if err := os.Rename(dir, work); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// tryLock is lock in a single try: unlock is nil where somebody else has the lock, or had it a moment ago.
func (s Store) tryLock(name string) (unlock func(), err error) {
	l := flock.New(s.lockPath(name))
	if err := os.MkdirAll(filepath.Dir(l.Path()), 0o755); err != nil {
		return nil, fmt.Errorf("lock the kernel cache: %w", err)
	}
	ok, err := l.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock the kernel cache: %w", err)
	case !ok:
		return nil, nil
	case !current(l):
		_ = l.Unlock() // a lock on a file that has no name any more
		return nil, nil
	}
	return func() { s.release(l) }, nil
}
