package kimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Store is a cache of kernels in a directory. Its methods may be called concurrently, also by
// several processes on one directory.
type Store struct {
	Dir     string       // see DefaultDir
	Offline bool         // use only what is in the cache
	Log     func(string) // told what takes time and what went wrong on the way; may be nil
	// Progress is told of each file that a build compiles; nil has Log told now and then.
	Progress func(Progress)

	root  string        // where the machine's own files are; "" is /
	pause time.Duration // between tries of apt; 0 is 2 s
}

func (s Store) say(text string) {
	if s.Log != nil {
		s.Log(text)
	}
}

func (s Store) file(name string) string { return filepath.Join("/", s.root, name) }

// Fetch returns the kernel that spec names, from the cache if that has it. Its error is a *SpecError
// when spec names something that doesn't exist, and matches errors.ErrUnsupported when this machine
// or version can't get it. Source is built with all defaults; see Build.
func (s Store) Fetch(ctx context.Context, spec Spec) (*Image, error) {
	s.sweep()
	img, err := s.fetch(ctx, spec)
	if err != nil {
		return nil, err
	}
	img.Spec = spec.String()
	return img, nil
}

func (s Store) fetch(ctx context.Context, spec Spec) (*Image, error) {
	switch spec.Kind {
	case Debian:
		return s.fetchDebian(ctx, spec)
	case Deb:
		return s.fetchDebs(ctx, spec)
	case File:
		return s.fetchFile(ctx, spec)
	case Host:
		return s.fetchHost(ctx, spec)
	case Tree, DebianSource:
		return s.build(ctx, spec, Build{})
	}
	return nil, &SpecError{spec.String(), specForms}
}

// List returns the kernels that a suite has for an architecture in Debian's spelling (the machine's
// own if empty), oldest first.
func (s Store) List(ctx context.Context, suite, arch string) ([]Package, error) {
	spec := Spec{Kind: Debian, Suite: suite, Arch: arch}.complete()
	// What comes from here becomes a directory's name.
	if _, err := ParseSpec(spec.String()); err != nil {
		return nil, err
	}
	state, unlock, err := s.apt(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.refresh(ctx, state, spec, indexAge); err != nil {
		return nil, err
	}
	return state.kernels(ctx)
}

// apt returns apt's private state for spec's suite and architecture, locked.
func (s Store) apt(ctx context.Context, spec Spec) (aptState, func(), error) {
	name := spec.Suite + "_" + spec.Arch
	unlock, err := s.lock(ctx, "apt-"+name)
	if err != nil {
		return aptState{}, nil, err
	}
	pause := s.pause
	if pause == 0 {
		pause = 2 * time.Second
	}
	dir, err := filepath.Abs(filepath.Join(s.Dir, "apt", name)) // apt is run elsewhere
	if err != nil {
		unlock()
		return aptState{}, nil, fmt.Errorf("find the kernel cache: %w", err)
	}
	return aptState{dir: dir, suite: spec.Suite, arch: spec.Arch, pause: pause, say: s.say}, unlock, nil
}

// refresh sees to it that the index is younger than age, or under Offline that there is one.
func (s Store) refresh(ctx context.Context, a aptState, spec Spec, age time.Duration) error {
	at := a.updated()
	switch {
	case !at.IsZero() && time.Since(at) < age:
		return nil
	case s.Offline && at.IsZero():
		return unsupportedError(fmt.Sprintf("kernel %q: offline, and neither the kernel nor the package index of %s for %s is in %s",
			spec, spec.Suite, spec.Arch, s.Dir))
	case s.Offline:
		return nil
	}
	var err error
	if a.mirror, err = findMirror(s.file("")); err != nil {
		return err
	}
	err = a.update(ctx)
	var failed *aptError
	var wrong *SpecError
	noSuite := errors.As(err, &failed) && failed.noSuite()
	if noSuite || errors.As(err, &wrong) {
		_ = os.RemoveAll(a.dir) // nothing of use in it, and no harm
	}
	if noSuite {
		return &SpecError{spec.String(), fmt.Sprintf("the mirror %s has no suite %s; Debian's are sid, testing, stable, "+
			"their release names (trixie …), NAME-backports and experimental", a.mirror.uri, spec.Suite)}
	}
	return s.full(err)
}

// A ref remembers which entry a spec was resolved to.
type ref struct {
	Key     string    `json:"key"`
	Release string    `json:"release"`
	Index   time.Time `json:"index"` // of the package index that said so
}

func (s Store) refPath(spec Spec) string {
	return filepath.Join(s.Dir, "refs", strings.ReplaceAll(strings.TrimPrefix(spec.String(), "debian:"), "/", "_")+".json")
}

// known returns the kernel that spec was resolved to before; errNoEntry if it wasn't.
func (s Store) known(ctx context.Context, spec Spec) (ref, *Image, error) {
	text, err := os.ReadFile(s.refPath(spec))
	if err != nil {
		return ref{}, nil, errNoEntry
	}
	var r ref
	if err := json.Unmarshal(text, &r); err != nil || r.Key != filepath.Base(r.Key) {
		return ref{}, nil, errNoEntry
	}
	img, err := s.entry(ctx, r.Key, nil)
	return r, img, err
}

func (s Store) fetchDebian(ctx context.Context, spec Spec) (*Image, error) {
	img, err := s.debian(ctx, spec.complete())
	var wrong *SpecError
	if errors.As(err, &wrong) {
		wrong.Spec = spec.String() // without what was filled in
	}
	return img, err
}

func (s Store) debian(ctx context.Context, spec Spec) (*Image, error) {
	r, img, err := s.known(ctx, spec)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	cached := err == nil
	if cached && spec.pinned() {
		return img, nil
	}
	state, unlock, err := s.apt(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer unlock()
	before := state.updated()
	err = s.refresh(ctx, state, spec, indexAge)
	switch {
	case err != nil && cached && ctx.Err() == nil:
		s.say(fmt.Sprintf("%v; using %s, the newest known on %s", err, r.Release, r.Index.Format(time.DateOnly)))
		return img, nil
	case err != nil:
		return nil, err
	case cached && r.Index.Equal(state.updated()):
		return img, nil
	}
	img, err = s.fromIndex(ctx, state, spec)
	// A release that came, or a package that went, since the index was fetched needs a new index.
	if stale := state.updated().Equal(before); err != nil && stale && !s.Offline && ctx.Err() == nil && s.refresh(ctx, state, spec, 0) == nil {
		img, err = s.fromIndex(ctx, state, spec)
	}
	return img, err
}

// fromIndex resolves spec in the fetched index, and downloads and unpacks the kernel unless the
// cache has it.
func (s Store) fromIndex(ctx context.Context, a aptState, spec Spec) (*Image, error) {
	all, err := a.kernels(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := pick(all, spec)
	if err != nil {
		return nil, err
	}
	parts, err := a.newest(ctx, chosen)
	if err != nil {
		return nil, err
	}
	m := manifest{Version: chosen.Version, Arch: spec.Arch}
	inputs := []string{"debian", spec.Arch}
	var bytes int64
	for _, p := range parts {
		m.Packages = append(m.Packages, p.Name+"="+p.Version)
		inputs = append(inputs, p.sha256)
		bytes += p.Bytes
	}
	key := keyOf(inputs)
	img, err := s.entry(ctx, key, func(dir string) error {
		if s.Offline {
			return unsupportedError(fmt.Sprintf("kernel %q: offline, and %s is not in %s", spec, chosen.Name, s.Dir))
		}
		s.say(fmt.Sprintf("downloading %s %s (%.1f MB)", chosen.Name, chosen.Version, float64(bytes)/1e6))
		debs := filepath.Join(dir, "debs")
		if err := os.Mkdir(debs, 0o755); err != nil {
			return fmt.Errorf("make a work directory: %w", err)
		}
		if err := a.download(ctx, debs, m.Packages); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
		if err != nil {
			return fmt.Errorf("find what was downloaded: %w", err)
		}
		if err := unpackEntry(ctx, files, dir, m); err != nil {
			return err
		}
		return os.RemoveAll(debs)
	})
	if err != nil {
		return nil, err
	}
	r := ref{Key: key, Release: img.Release, Index: a.updated()}
	if err := os.MkdirAll(filepath.Dir(s.refPath(spec)), 0o755); err != nil {
		return nil, s.full(fmt.Errorf("remember what %s is: %w", spec, err))
	}
	if err := writeJSON(s.refPath(spec), r); err != nil {
		return nil, s.full(fmt.Errorf("remember what %s is: %w", spec, err))
	}
	return img, nil
}

// newest returns the packages that hold p's files, each at its newest version.
func (a aptState) newest(ctx context.Context, p Package) ([]Package, error) {
	all, err := a.show(ctx, p.parts())
	if err != nil {
		return nil, err
	}
	byName := make(map[string]Package)
	split := false
	for _, q := range all {
		split = split || strings.HasPrefix(q.Name, "linux-binary-")
		if q.Version == p.Version {
			byName[q.Name] = q
		}
	}
	if split {
		delete(byName, p.Name) // empty but for its dependencies
	}
	var parts []Package
	for _, name := range p.parts() {
		q, ok := byName[name]
		// The older layout's image provides its linux-base itself; the others are packages.
		if !ok && (strings.HasPrefix(name, "linux-binary-") || strings.HasPrefix(name, "linux-modules-")) {
			return nil, fmt.Errorf("find the packages of %s: %s has no %s %s", p.Name, a.suite, name, p.Version)
		}
		if ok {
			parts = append(parts, q)
		}
	}
	slices.SortFunc(parts, func(x, y Package) int { return strings.Compare(x.Name, y.Name) })
	return parts, nil
}

// unpackEntry makes a cache entry in dir out of packages.
func unpackEntry(ctx context.Context, debs []string, dir string, m manifest) error {
	p, err := openDebs(ctx, debs, filepath.Join(dir, "vmlinuz"), wantedModules())
	if err != nil {
		return err
	}
	return p.finish(dir, m)
}

// finish looks at what was found, makes the image bootable, and writes the entry.
func (p *parcel) finish(dir string, m manifest) error {
	head, err := identifyFile(p.image)
	if err != nil {
		return fmt.Errorf("%s: %w", p.imageFrom, err)
	}
	if m.Arch == "" {
		m.Arch = head.arch
	}
	if head.format == formatZboot {
		if err := unwrapZboot(p.image, head); err != nil {
			return fmt.Errorf("%s: %w", p.imageFrom, err)
		}
	}
	return p.writeEntry(dir, m)
}

// keyOf makes an entry's name out of the digests of what it is made from.
func keyOf(inputs []string) string {
	h := sha256.Sum256([]byte(fmt.Sprintf("%d %q %q", manifestFormat, wantedModules(), inputs)))
	return hex.EncodeToString(h[:16])
}

// fetchDebs takes a kernel out of package files.
func (s Store) fetchDebs(ctx context.Context, spec Spec) (*Image, error) {
	inputs := []string{"debs"}
	var files []string
	for _, name := range spec.Files {
		name, err := s.userFile(spec, name)
		if err != nil {
			return nil, err
		}
		sum, _, err := digestFile(name)
		if err != nil {
			return nil, fmt.Errorf("kernel %q: %w", spec, err)
		}
		files = append(files, name)
		inputs = append(inputs, sum)
	}
	img, err := s.entry(ctx, keyOf(inputs), func(dir string) error {
		return unpackEntry(ctx, files, dir, manifest{Packages: baseNames(files)})
	})
	if errors.Is(err, errNoDeb) || errors.Is(err, errNoImage) || errors.Is(err, errNoKernel) {
		return nil, &SpecError{spec.String(), err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w", spec, err)
	}
	return img, nil
}

func baseNames(files []string) []string {
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return names
}

// userFile returns a name that a user wrote, with ~/ made into the home directory, if it is there.
func (s Store) userFile(spec Spec, name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("kernel %q: %w", spec, err)
		}
		name = filepath.Join(home, rest)
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return "", &SpecError{spec.String(), fmt.Sprintf("there is no %s", name)}
	} else if err != nil {
		return "", fmt.Errorf("kernel %q: %w", spec, err)
	}
	return name, nil
}
