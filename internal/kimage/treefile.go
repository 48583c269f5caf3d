package kimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A TreeAt is a user's source tree as it stands, or at a revision of it.
type TreeAt struct {
	Dir string // absolute
	Rev string // empty for the tree as it stands
}

// FindTree splits what stands behind tree: in a spec of that kind, as Build does. Its error is a *SpecError where there
// is no such directory.
func FindTree(spec Spec) (TreeAt, error) {
	dir, rev, err := Store{}.treeAt(spec)
	return TreeAt{dir, rev}, err
}

// String is the spec of t, which holds in any directory.
func (t TreeAt) String() string {
	if t.Rev == "" {
		return string(Tree) + ":" + t.Dir
	}
	return string(Tree) + ":" + t.Dir + "@" + t.Rev
}

// ReadFile returns a file of a kernel's source. Its error is a *SpecError where there is no such file or revision, and
// matches errors.ErrUnsupported where git is missing. It changes nothing.
func (t TreeAt) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if t.Rev != "" {
		return t.readBlob(ctx, name)
	}
	text, err := os.ReadFile(filepath.Join(t.Dir, name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, &SpecError{t.String(), "that is no kernel source: it has no " + name}
	}
	return text, err
}

func (t TreeAt) readBlob(ctx context.Context, name string) ([]byte, error) {
	r, err := openRevision(ctx, t.Dir, t.Rev)
	if none, ok := errors.AsType[*noRevisionError](err); ok {
		return nil, &SpecError{t.String(), none.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w", t, err)
	}
	blob, err := git(ctx, t.Dir, "rev-parse", "--verify", "--quiet", r.tree+":"+name)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &SpecError{t.String(), fmt.Sprintf("that is no kernel source: revision %s has no %s", t.Rev, name)}
	}
	text, err := git(ctx, t.Dir, "cat-file", "blob", strings.TrimSpace(string(blob)))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %q: read %s: %s", t, name, gitWords(err))
	}
	return text, nil
}
