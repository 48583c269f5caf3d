package kimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// manifestFormat changes when entries made by older versions can't be used any more.
const manifestFormat = 1

// A manifest describes one entry of the cache and is its last file to be written.
type manifest struct {
	Format   int      `json:"format"`
	Release  string   `json:"release"`
	Version  string   `json:"version,omitempty"`
	Arch     string   `json:"arch"`
	Packages []string `json:"packages,omitempty"`
	// Of a kernel that was built here: see Image.
	Source      string      `json:"source,omitempty"`
	KconfigDiff string      `json:"kconfig_diff,omitempty"`
	Image       entryFile   `json:"image"`
	Config      *entryFile  `json:"config,omitempty"`
	ConfigFrom  string      `json:"config_from,omitempty"`
	Modules     []entryFile `json:"modules"`
}

// An entryFile is one file of an entry.
type entryFile struct {
	Name   string `json:"name"` // in the entry's directory; a module's is NN-name.ko
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// errNoEntry says that the cache doesn't have what was asked for.
var errNoEntry = errors.New("not in the cache")

// digestFile returns the SHA-256 of a file in hex, and its size.
func digestFile(name string) (string, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// describe returns the manifest's line about a file in dir.
func describe(dir, name string) (entryFile, error) {
	sum, size, err := digestFile(filepath.Join(dir, name))
	return entryFile{Name: name, Size: size, SHA256: sum}, err
}

// verify compares a file with what the manifest says of it.
func (f entryFile) verify(dir string) error {
	if f.Name != filepath.Base(f.Name) {
		return fmt.Errorf("%q is no file name", f.Name)
	}
	got, err := describe(dir, f.Name)
	if err != nil {
		return err
	}
	if got != f {
		return fmt.Errorf("the digest of %s is wrong", f.Name)
	}
	return nil
}

// openEntry returns the kernel in an entry's directory after it has compared every file with the
// manifest. The error is errNoEntry when there is none.
func openEntry(dir string) (*Image, error) {
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoEntry
	}
	if err != nil {
		return nil, err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("read its manifest: %w", err)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("its format is %d, not %d", m.Format, manifestFormat)
	}
	if err := m.Image.verify(dir); err != nil {
		return nil, err
	}
	a, _ := archOf(m.Arch)
	img := &Image{
		Release: m.Release, Version: m.Version, Packages: m.Packages, Arch: m.Arch, GOARCH: a.goarch,
		Path: filepath.Join(dir, m.Image.Name), Digest: m.Image.SHA256, ConfigFrom: m.ConfigFrom,
		Source: m.Source, KconfigDiff: m.KconfigDiff,
	}
	if m.Config != nil {
		if err := m.Config.verify(dir); err != nil {
			return nil, err
		}
		config, err := os.ReadFile(filepath.Join(dir, m.Config.Name))
		if err != nil {
			return nil, err
		}
		img.Config = configLines(config)
	}
	for _, f := range m.Modules {
		if err := f.verify(dir); err != nil {
			return nil, err
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(f.Name, ".ko"), "-")
		img.Modules = append(img.Modules, Module{Name: name, Path: filepath.Join(dir, f.Name), Size: f.Size})
	}
	return img, nil
}

// configLines keeps the lines that set something or say that it is not set.
func configLines(config []byte) []string {
	var lines []string
	for line := range strings.Lines(string(config)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "CONFIG_") || strings.HasPrefix(line, "# CONFIG_") {
			lines = append(lines, line)
		}
	}
	return lines
}

// writeEntry puts p's config, modules and manifest beside its image in dir.
func (p *parcel) writeEntry(dir string, m manifest) error {
	order, err := loadOrder(p.modules, wantedModules())
	if err != nil {
		return err
	}
	m.Format, m.Release = manifestFormat, p.release
	if m.Image, err = describe(dir, filepath.Base(p.image)); err != nil {
		return err
	}
	if p.config != nil {
		if err := os.WriteFile(filepath.Join(dir, "config"), p.config, 0o644); err != nil {
			return err
		}
		c, err := describe(dir, "config")
		if err != nil {
			return err
		}
		m.Config, m.ConfigFrom = &c, p.configFrom
	}
	m.Modules = []entryFile{}
	for i, name := range order {
		file := fmt.Sprintf("%02d-%s.ko", i, name)
		if err := os.WriteFile(filepath.Join(dir, file), p.modules[name], 0o644); err != nil {
			return err
		}
		d, err := describe(dir, file)
		if err != nil {
			return err
		}
		m.Modules = append(m.Modules, d)
	}
	return writeJSON(filepath.Join(dir, "manifest.json"), m)
}

// writeJSON replaces a file atomically and durably. What a kill leaves is beside it, for sweep.
func writeJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return renameio.WriteFile(name, append(text, '\n'), 0o644, renameio.WithTempDir(filepath.Dir(name)))
}

// entry returns the kernel under key, making it with fill when the cache doesn't have it or has it
// with a wrong digest. fill works in a directory of its own, which becomes the entry when it is
// complete; on any error nothing is left. Two callers with one key make it once.
func (s Store) entry(ctx context.Context, key string, fill func(dir string) error) (*Image, error) {
	unlock, err := s.lock(ctx, "entry-"+key)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(s.Dir, "images", key)
	img, err := openEntry(dir)
	if err == nil || fill == nil {
		return img, err
	}
	if !errors.Is(err, errNoEntry) {
		s.say(fmt.Sprintf("throwing away %s: %v; fetching it again", dir, err))
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("throw away a broken cache entry: %w", err)
	}
	work := filepath.Join(s.Dir, "work", key)
	// What a killed run left there is taken away first, what this one leaves in any case.
	if err := os.RemoveAll(work); err != nil {
		return nil, fmt.Errorf("clear a work directory: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, s.full(fmt.Errorf("make a work directory: %w", err))
	}
	if err := fill(work); err != nil {
		return nil, s.full(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, s.full(fmt.Errorf("keep a kernel: %w", err))
	}
	if err := os.Rename(work, dir); err != nil {
		return nil, s.full(fmt.Errorf("keep a kernel: %w", err))
	}
	return openEntry(dir)
}

// full says where the disk is full, if that is what err is about. Apt's own words about it are long
// and name one file of many.
func (s Store) full(err error) error {
	if _, said := errors.AsType[diskError](err); errors.Is(err, syscall.ENOSPC) && !said {
		return fmt.Errorf("no free disk in %s, fetching a kernel takes up to 300 MB there: %w", s.Dir, syscall.ENOSPC)
	}
	return err
}

// sweep removes what runs that were killed left: work directories and lock files that nobody holds, and
// half-written refs.
func (s Store) sweep() {
	refs, _ := filepath.Glob(filepath.Join(s.Dir, "refs", ".*")) // a bad pattern finds nothing
	for _, name := range refs {
		// Writing one takes an instant: an old one is nobody's.
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(name) // the next sweep tries again
		}
	}
	work, _ := os.ReadDir(filepath.Join(s.Dir, "work")) // none is as good as unreadable
	locks, _ := os.ReadDir(filepath.Join(s.Dir, "locks"))
	names := make(map[string]bool)
	for _, d := range work {
		names["entry-"+d.Name()] = true
	}
	for _, l := range locks {
		names[strings.TrimSuffix(l.Name(), ".lock")] = true
	}
	for name := range names {
		l := flock.New(s.lockPath(name))
		if ok, err := l.TryLock(); err != nil || !ok {
			continue
		}
		if !current(l) {
			_ = l.Unlock() // a lock on a file that has no name any more
			continue
		}
		if key, ok := strings.CutPrefix(name, "entry-"); ok {
			_ = os.RemoveAll(filepath.Join(s.Dir, "work", key)) // the next sweep tries again
		}
		s.release(l)
	}
}

func (s Store) lockPath(name string) string { return filepath.Join(s.Dir, "locks", name+".lock") }

// lock takes the lock called name and returns what gives it back. The kernel gives it back if this
// process dies; the file is gone after its use, so nothing is left either way that stands in a way.
func (s Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	path := s.lockPath(name)
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, s.full(fmt.Errorf("lock the kernel cache: %w", err))
		}
		l := flock.New(path)
		if err := s.await(ctx, l); err != nil {
			return nil, s.full(fmt.Errorf("lock the kernel cache: %w", err))
		}
		if current(l) {
			return func() { s.release(l) }, nil
		}
		_ = l.Unlock() // a lock on a file that has no name any more
	}
}

// await takes the lock l, and says so if that takes long: a build by somebody else may.
func (s Store) await(ctx context.Context, l *flock.Flock) error {
	soon, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := l.TryLockContext(soon, 50*time.Millisecond)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		s.say("waiting for another napistall, which has " + l.Path())
		_, err = l.TryLockContext(ctx, 50*time.Millisecond)
	}
	return err
}

// current reports whether the file that l has locked is still the one under its name. Whoever held
// the lock before removed the file, and somebody else can hold a lock on its successor.
func current(l *flock.Flock) bool {
	mine, err := l.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.Path())
	return err == nil && os.SameFile(mine, there)
}

// release removes a lock's file while it is still held, then gives the lock back.
func (s Store) release(l *flock.Flock) {
	_ = os.Remove(l.Path()) // a file that stays is no obstacle
	_ = l.Unlock()          // closing the file is all there is to it
}
