package kimage

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"pault.ag/go/debian/version"
)

// A source is kernel source in our cache, to be built from.
type source struct {
	name     string // as messages call it
	digest   string // of all that is in it
	version  string // Debian's, or git's description
	packages []string
	work     workTree // below Store.Dir/sources
	// fill makes work's tree hold the source, wherever it comes from, apart from patches. It does what
	// is left to do: nothing if all is there.
	fill func(ctx context.Context) error
}

// source finds spec's source. Its error is a *SpecError when there is none.
func (s Store) source(ctx context.Context, spec Spec) (source, error) {
	switch spec.Kind {
	case DebianSource:
		return s.debianSource(ctx, spec)
	case Tree:
		return s.treeSource(ctx, spec)
	}
	return source{}, &SpecError{spec.String(), "only tree:PATH[@REV] and debian-source:SUITE/PACKAGE are built from source"}
}

// debianSource resolves a source package. Like a kernel's, its newest version is looked up in an
// index that is at most indexAge old.
func (s Store) debianSource(ctx context.Context, spec Spec) (source, error) {
	r, known := s.knownSource(spec)
	state, unlock, err := s.apt(ctx, spec)
	if err != nil {
		return source{}, err
	}
	defer unlock()
	err = s.refresh(ctx, state, spec, indexAge)
	switch {
	case err != nil && known && ctx.Err() == nil:
		s.say(fmt.Sprintf("%v; using %s %s, the newest known on %s", err, spec.Package, r.Release, r.Index.Format(time.DateOnly)))
	case err != nil:
		return source{}, err
	case !known || !r.Index.Equal(state.updated()):
		p, err := state.sourcePackage(ctx, spec)
		if err != nil {
			return source{}, err
		}
		r = ref{Key: p.sha256, Release: p.Version, Index: state.updated()}
		if err := os.MkdirAll(filepath.Dir(s.refPath(spec)), 0o755); err != nil {
			return source{}, s.full(fmt.Errorf("remember what %s is: %w", spec, err))
		}
		if err := writeJSON(s.refPath(spec), r); err != nil {
			return source{}, s.full(fmt.Errorf("remember what %s is: %w", spec, err))
		}
	}
	name := spec.Suite + "_" + spec.Package + "_"
	src := source{
		name: spec.Package + " " + r.Release, digest: r.Key, version: r.Release, packages: []string{spec.Package + "=" + r.Release},
		work: workTree{filepath.Join(s.Dir, "sources", name+r.Key[:16])},
	}
	src.fill = func(ctx context.Context) error {
		if _, err := os.Stat(src.work.tree()); err == nil {
			return nil
		}
		s.sweepSources(name, src.work.dir)
		return s.unpackSource(ctx, spec, src)
	}
	return src, nil
}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (s Store) knownSource(spec Spec) (ref, bool) {
	text, err := os.ReadFile(s.refPath(spec))
	if err != nil {
		return ref{}, false
	}
	var r ref
	err = json.Unmarshal(text, &r)
	return r, err == nil && sha256Form.MatchString(r.Key)
}

// sourcePackage returns the newest version of spec's package.
func (a aptState) sourcePackage(ctx context.Context, spec Spec) (Package, error) {
	all, err := a.show(ctx, []string{spec.Package})
	if err != nil {
		return Package{}, err
	}
	var best Package
	for _, p := range all {
		if best.Name == "" || version.Compare(p.version, best.version) > 0 {
			best = p
		}
	}
	if best.Name != "" {
		if !sha256Form.MatchString(best.sha256) {
			return Package{}, fmt.Errorf("find %s: the index of %s has no digest for it", spec.Package, a.suite)
		}
		return best, nil
	}
	out, err := a.run(ctx, a.dir, "apt-cache", "-c", a.conf(), "pkgnames", "linux-source-")
	if err != nil {
		return Package{}, fmt.Errorf("list sources of %s: %w", a.suite, err)
	}
	return Package{}, &SpecError{spec.String(), fmt.Sprintf("%s has no package %s; of kernel sources it has %s",
		a.suite, spec.Package, strings.Join(strings.Fields(string(out)), ", "))}
}

// sweepSources takes away older versions of a package's source and what was built in them, unless
// somebody is building there.
func (s Store) sweepSources(prefix, keep string) {
	left, _ := filepath.Glob(filepath.Join(s.Dir, "sources", prefix+"*")) // the pattern is a good one
	for _, dir := range left {
		if dir == keep {
			continue
		}
		if unlock, err := s.tryLock("source-" + filepath.Base(dir)); err == nil && unlock != nil {
			_ = s.discard(dir) // the next sweep tries again
			unlock()
		}
	}
}

// unpackSource downloads the package and unpacks the archive in it. The tree appears when it is whole.
func (s Store) unpackSource(ctx context.Context, spec Spec, src source) error {
	if s.Offline {
		return unsupportedError(fmt.Sprintf("kernel %q: offline, and its source is not in %s", spec, s.Dir))
	}
	state, unlock, err := s.apt(ctx, spec)
	if err != nil {
		return err
	}
	defer unlock()
	half := filepath.Join(src.work.dir, "unpacking")
	_ = os.RemoveAll(half) // what a killed run left; MkdirAll's files would show it
	defer os.RemoveAll(half)
	if err := os.MkdirAll(filepath.Join(half, "tree"), 0o755); err != nil {
		return err
	}
	s.say(fmt.Sprintf("downloading %s (150 MB) and unpacking it (1.5 GB)", src.name))
	if err := state.download(ctx, half, src.packages); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(half, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("find what was downloaded: %d packages (%v)", len(debs), err)
	}
	if sum, _, err := digestFile(debs[0]); err != nil {
		return err
	} else if sum != src.digest {
		return fmt.Errorf("%s was downloaded with another digest than the index has", src.name)
	}
	if err := untarSource(ctx, debs[0], filepath.Join(half, "tree")); err != nil {
		return fmt.Errorf("unpack %s: %w", src.name, err)
	}
	if err := isKernel(filepath.Join(half, "tree")); err != nil {
		return &SpecError{spec.String(), err.Error()}
	}
	return os.Rename(filepath.Join(half, "tree"), src.work.tree())
}

// kernelFiles are files by which a kernel's source is known.
func kernelFiles() []string { return []string{"Makefile", "Kconfig", "net/core/dev.c"} }

// isKernel says what keeps a directory from being a kernel's source.
func isKernel(dir string) error {
	for _, name := range kernelFiles() {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("that is no kernel source: it has no %s", name)
		} else if err != nil {
			return err
		}
	}
	return nil
}

var sourceArchive = regexp.MustCompile(`^\.?/?usr/src/[^/]+\.tar\.xz$`)

// untarSource unpacks the archive that a package of Debian's consists of. Tar and xz do it several
// times faster than Go's libraries, and no kernel is built without them.
func untarSource(ctx context.Context, deb, dir string) error {
	found := false
	err := eachFile(ctx, deb, func(h *tar.Header, files io.Reader) error {
		if !sourceArchive.MatchString(h.Name) {
			return nil
		}
		found = true
		if err := untar(ctx, files, dir); err != nil {
			return err
		}
		return errEnough
	})
	if err == nil && !found {
		return errors.New("no usr/src/….tar.xz in it")
	}
	return err
}

// untar unpacks a tar.xz without its first directory. One driver's register descriptions, a quarter
// of the whole, stay out: nothing that a guest has includes them.
func untar(ctx context.Context, r io.Reader, dir string) error {
	cmd := exec.CommandContext(ctx, "tar", "--extract", "--xz", "--no-same-owner", "--strip-components=1", "--exclude=*/drivers/gpu/drm/amd/include/asic_reg",
		"--directory", dir)
	cmd.Env = buildEnv()
	cmd.Stdin = r
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var errs strings.Builder
	cmd.Stderr = &errs
	err := runTied(cmd)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case strings.Contains(errs.String(), "No space left on device"):
		return syscall.ENOSPC
	case err != nil:
		first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return fmt.Errorf("tar: %w: %s", err, first)
	}
	return nil
}
