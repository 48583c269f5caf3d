package kimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A treeFile is one file of a user's tree, as it was when its digest was taken.
type treeFile struct {
	Size   int64       `json:"size"`
	Time   int64       `json:"time"` // nanoseconds since 1970
	Mode   fs.FileMode `json:"mode"`
	Digest string      `json:"digest"` // of the content, or of where a link points
}

// same reports whether a file is certainly the one that f's digest was taken of.
func (f treeFile) same(info fs.FileInfo) bool {
	return f.Size == info.Size() && f.Time == info.ModTime().UnixNano() && f.Mode == info.Mode()
}

// A treeState is what is known of a user's tree and of our copy of it.
type treeState struct {
	There  map[string]treeFile `json:"there"`
	Copied map[string]string   `json:"copied"` // what the copy has, as in line; empty where, or while, that isn't known
}

// line is what of a file makes a difference to a build.
func (f treeFile) line() string { return fmt.Sprintf("%s %v", f.Digest, f.Mode&0o111 != 0) }

// treeSource reads a user's source tree. Its digest is that of its files' contents, whatever git says, so that
// a tree that isn't committed is built as it stands.
func (s Store) treeSource(ctx context.Context, spec Spec) (source, error) {
	path, rev, err := s.treeAt(spec)
	if err != nil {
		return source{}, err
	}
	if rev != "" {
		return s.revSource(ctx, spec, path, rev)
	}
	if err := isKernel(path); err != nil {
		return source{}, &SpecError{spec.String(), err.Error()}
	}
	work := workTree{filepath.Join(s.Dir, "sources", "tree_"+shortSum(path))}
	state, err := s.scanTree(ctx, path, work)
	if err != nil {
		return source{}, fmt.Errorf("kernel %q: read the tree: %w", spec, err)
	}
	src := source{name: spec.Path, digest: state.digest(), work: work}
	src.version = gitVersion(ctx, path)
	if src.version != "" {
		src.name += " at " + src.version
	}
	src.fill = func(ctx context.Context) error {
		if strings.HasSuffix(src.version, "-dirty") {
			s.say(fmt.Sprintf("%s has changes that aren't committed: they are built too", spec.Path))
		}
		if _, err := os.Stat(work.tree()); err != nil {
			s.say(fmt.Sprintf("copying the %d files of %s, which is left as it is", len(state.There), spec.Path))
		}
		if err := copyTree(ctx, work, state, fileOf(path)); err != nil {
			return fmt.Errorf("kernel %q: copy the tree: %w", spec, err)
		}
		return nil
	}
	return src, nil
}

// gitVersion describes what is checked out in dir; empty if git doesn't know.
func gitVersion(ctx context.Context, dir string) string {
	out, err := git(ctx, dir, "describe", "--always", "--dirty")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// git runs git so that it changes nothing, not even its index.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	return gitCommand(ctx, dir, args...).Output()
}

// gitCommand is git in dir, whatever repository the environment names, as it does below a hook. It refreshes no index and
// fetches no objects.
func gitCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	env := slices.DeleteFunc(buildEnv(), func(v string) bool { return strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "GIT_CONFIG") })
	cmd.Env = append(env, "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1")
	return cmd
}

// What builds leave in a tree that isn't git's: files, and whole directories.
var (
	builtFile = regexp.MustCompile(`(^|/)(\.config(\.old)?|\.tmp_[^/]*|\.[^/]*\.cmd|[^/]*\.(o|a|ko|mod)|vmlinux(\.(bin|bin\.gz|map|unstripped))?|modules\.order|Module\.symvers)$`)
	builtDir  = regexp.MustCompile(`(^|/)\.git$|^include/(config|generated)$|^arch/[^/]+/include/generated$`)
)

// treeNames lists the files of a tree: those that git tracks or would, else all that no build has made.
func treeNames(ctx context.Context, dir string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
		out, err := git(ctx, dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		if err == nil {
			names := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	var names []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		rel, err := filepath.Rel(dir, p)
		switch {
		case err != nil:
			return err
		case d.IsDir() && builtDir.MatchString(filepath.ToSlash(rel)):
			return fs.SkipDir
		case !d.IsDir() && !builtFile.MatchString(filepath.ToSlash(rel)):
			names = append(names, rel)
		}
		return nil
	})
	return names, err
}

// scanTree takes the digest of every file that may have changed since the last time.
func (s Store) scanTree(ctx context.Context, dir string, work workTree) (treeState, error) {
	names, err := treeNames(ctx, dir)
	if err != nil {
		return treeState{}, err
	}
	old := work.state()
	now := treeState{There: make(map[string]treeFile, len(names))}
	// What changed a moment ago can change again without a new time.
	settled := time.Now().Add(-2 * time.Second)
	for _, name := range names {
		if ctx.Err() != nil {
			return treeState{}, ctx.Err()
		}
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // git tracks it, and it was taken away
		}
		if err != nil {
			return treeState{}, err
		}
		f, ok := old.There[name]
		if !ok || !f.same(info) || info.ModTime().After(settled) {
			if f, err = digestTreeFile(path, info); err != nil {
				return treeState{}, err
			}
		}
		if f.Digest != "" {
			now.There[name] = f
		}
	}
	return now, nil
}

// digestTreeFile looks at a file or link; the digest of anything else is empty.
func digestTreeFile(path string, info fs.FileInfo) (treeFile, error) {
	f := treeFile{Size: info.Size(), Time: info.ModTime().UnixNano(), Mode: info.Mode()}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		f.Digest = "-> " + to
		return f, err
	case info.Mode().IsRegular():
		sum, _, err := digestFile(path)
		f.Digest = sum
		return f, err
	}
	return f, nil
}

// digest is that of all names and what of each makes a difference.
func (t treeState) digest() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(t.There)) {
		fmt.Fprintf(h, "%q %s\n", name, t.There[name].line())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// state returns what was known; nothing if that can't be read: it is found out anew.
func (w workTree) state() treeState {
	var t treeState
	if text, err := os.ReadFile(filepath.Join(w.dir, "tree.json")); err == nil {
		_ = json.Unmarshal(text, &t) // half of it is none of it
	}
	return t
}

// fileOf returns what reads a file below dir. It is an error if that has changed since it was scanned.
func fileOf(dir string) func(name string, f treeFile) (content, error) {
	return func(name string, f treeFile) (content, error) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != f.Digest {
			return nil, fmt.Errorf("%s changed while the tree was read: try again", filepath.Join(dir, name))
		}
		return text, nil
	}
}

// copyTree makes work's tree a copy of what want lists and read reads. Only files that differ are
// written; those under a patch get a new original.
func copyTree(ctx context.Context, work workTree, want treeState, read func(string, treeFile) (content, error)) error {
	journal, err := work.journal()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work.tree(), 0o755); err != nil {
		return err
	}
	copied, err := work.copied(ctx, journal)
	if err != nil {
		return err
	}
	// While files are written nothing stands there as copied: after a kill all are compared again. On any other
	// way out what was copied is written down, so that the next time goes on from there.
	list := filepath.Join(work.dir, "tree.json")
	if err := writeJSON(list, treeState{There: want.There}); err != nil {
		return err
	}
	defer func() {
		_ = writeJSON(list, treeState{want.There, copied}) // lost, it costs time
	}()
	for name := range copied {
		if _, ok := want.There[name]; !ok {
			copied[name] = ""
			if err := work.place(journal, name, nil); err != nil {
				return err
			}
			delete(copied, name)
		}
	}
	for name, f := range want.There {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if copied[name] == f.line() {
			continue
		}
		copied[name] = ""
		if err := work.copyFile(journal, name, f, read); err != nil {
			return err
		}
		copied[name] = f.line()
	}
	return nil
}

// copied returns what the copy has of every file, as in line; empty where that isn't known. After a copy that was
// killed it is known of none: they are those that are there, and those that a patch may have taken away.
func (w workTree) copied(ctx context.Context, journal map[string]bool) (map[string]string, error) {
	if known := w.state().Copied; len(known) > 0 {
		return known, nil
	}
	found := make(map[string]string)
	for name := range journal {
		found[name] = ""
	}
	err := filepath.WalkDir(w.tree(), func(p string, d fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(w.tree(), p)
		found[rel] = ""
		return err
	})
	return found, err
}

// copyFile takes one file over.
func (w workTree) copyFile(journal map[string]bool, name string, f treeFile, read func(string, treeFile) (content, error)) error {
	to := filepath.Join(w.tree(), name)
	if f.Mode&fs.ModeSymlink != 0 {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		return os.Symlink(strings.TrimPrefix(f.Digest, "-> "), to)
	}
	text, err := read(name, f)
	if err != nil {
		return err
	}
	if text == nil {
		text = content{}
	}
	// What was a link or a directory is none any more; writing would follow the link.
	if info, err := os.Lstat(to); err == nil && !info.Mode().IsRegular() {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	if err := w.place(journal, name, text); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Mode&0o111 != 0 {
		mode = 0o755
	}
	if err := os.Chmod(to, mode); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// place makes c the original of a file: in the tree, unless a patch has changed it there.
func (w workTree) place(journal map[string]bool, name string, c content) error {
	dir := w.tree()
	if _, patched := journal[name]; patched {
		dir = filepath.Join(w.dir, "pristine")
		journal[name] = c != nil
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := writeBelow(dir, name, c); err != nil {
			return err
		}
		return writeJSON(filepath.Join(w.dir, "patched.json"), journal)
	}
	if c != nil {
		if now, err := readBelow(dir, name); err == nil && now != nil && bytes.Equal(now, c) {
			return nil
		}
	}
	return writeBelow(dir, name, c)
}
