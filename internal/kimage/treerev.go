package kimage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
)

// treeAt splits what stands behind tree: into a directory and a revision, empty for the tree as it stands. Both
// may have an @ in them: the shortest part before one that is a directory is it.
func (s Store) treeAt(spec Spec) (path, rev string, err error) {
	if path, err = s.userFile(spec, spec.Path); err == nil {
		path, err = filepath.Abs(path)
		return path, "", err
	}
	first := err
	for i, c := range spec.Path {
		if c != '@' || i == 0 {
			continue
		}
		dir, err := s.userFile(spec, spec.Path[:i])
		if err != nil {
			first = err
			continue
		}
		if rev = spec.Path[i+1:]; rev == "" {
			return "", "", &SpecError{spec.String(), "want a revision after the @, as git names it"}
		}
		dir, err = filepath.Abs(dir)
		return dir, rev, err
	}
	return "", "", first
}

// revSource finds a revision of a user's tree. It is read out of the repository's objects into a copy of ours: no
// worktree, index, branch or anything else of the user's is made or changed, and nothing is checked out. All revisions
// of a tree have one copy, in which only files that differ are written.
func (s Store) revSource(ctx context.Context, spec Spec, path, rev string) (source, error) {
	r, err := openRevision(ctx, path, rev)
	var none *noRevisionError
	if errors.As(err, &none) {
		return source{}, &SpecError{spec.String(), none.Error()}
	}
	if err != nil {
		return source{}, fmt.Errorf("kernel %q: %w", spec, err)
	}
	state, err := r.state(ctx)
	if err != nil {
		return source{}, fmt.Errorf("kernel %q: read the revision: %w", spec, err)
	}
	for _, name := range kernelFiles() {
		if _, ok := state.There[name]; !ok {
			return source{}, &SpecError{spec.String(), fmt.Sprintf("that is no kernel source: revision %s has no %s", rev, name)}
		}
	}
	work := workTree{filepath.Join(s.Dir, "sources", "rev_"+shortSum(path))}
	src := source{version: r.describe(ctx), digest: state.digest(), work: work}
	src.name = strings.TrimSuffix(spec.Path, "@"+rev) + " at " + src.version
	src.fill = func(ctx context.Context) error {
		if _, err := os.Stat(work.tree()); err != nil {
			s.say(fmt.Sprintf("taking the %d files of %s from its repository, which is left as it is", len(state.There), src.name))
		}
		blobs, err := r.blobs(ctx)
		if err != nil {
			return fmt.Errorf("kernel %q: %w", spec, err)
		}
		err = copyTree(ctx, work, state, func(_ string, f treeFile) (content, error) { return blobs.read(f.Digest) })
		if err = errors.Join(err, blobs.close()); err != nil && ctx.Err() == nil {
			return fmt.Errorf("kernel %q: take the files of revision %s: %w", spec, rev, err)
		}
		return errors.Join(err, ctx.Err())
	}
	return src, nil
}

// A noRevisionError says that a repository doesn't have a revision, or that there is no repository.
type noRevisionError struct{ text string }

func (e *noRevisionError) Error() string { return e.text }

// A revision is what a repository has in one commit.
type revision struct {
	dir    string
	commit string
	tree   string // the object of the directory that the user named
}

// openRevision finds a revision. Its error is a *noRevisionError where there is none.
func openRevision(ctx context.Context, dir, rev string) (revision, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return revision{}, unsupportedError("a revision of a tree needs git: apt-get install git")
	}
	prefix, err := git(ctx, dir, "rev-parse", "--show-prefix")
	if ctx.Err() != nil {
		return revision{}, ctx.Err()
	}
	if err != nil {
		return revision{}, &noRevisionError{fmt.Sprintf("%s has no revisions: %v", dir, gitWords(err))}
	}
	commit, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if err != nil {
		if ctx.Err() != nil {
			return revision{}, ctx.Err()
		}
		return revision{}, &noRevisionError{fmt.Sprintf("%s has no revision %s%s", dir, rev, nearRefs(ctx, dir, rev))}
	}
	r := revision{dir: dir, commit: strings.TrimSpace(string(commit))}
	below := strings.TrimSuffix(strings.TrimSuffix(string(prefix), "\n"), "/")
	tree, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", r.commit+":"+below)
	if err != nil {
		return revision{}, &noRevisionError{fmt.Sprintf("revision %s has no directory %s", rev, below)}
	}
	r.tree = strings.TrimSpace(string(tree))
	return r, nil
}

// gitWords returns what git said went wrong.
func gitWords(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		first, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n")
		if first != "" {
			return strings.TrimPrefix(first, "fatal: ")
		}
	}
	return err.Error()
}

// nearRefs names the tags and branches that rev may have been meant to be, or how to list them.
func nearRefs(ctx context.Context, dir, rev string) string {
	out, err := git(ctx, dir, "for-each-ref", "--format=%(refname:short)")
	if err != nil {
		return ""
	}
	names := strings.Fields(string(out))
	if near := experiment.Nearest(rev, names); len(near) > 0 {
		return "; did you mean " + strings.Join(near[:min(len(near), 3)], ", ") + "?"
	}
	if len(names) == 0 {
		return "; it has no branches or tags"
	}
	// The newest tags of a kernel are last in version's order, which is not git's; a few names show how they look.
	few := names[max(0, len(names)-5):]
	return fmt.Sprintf("; of its %d tags and branches the last are %s", len(names), strings.Join(few, ", "))
}

// describe names the commit by the tag before it, as git does.
func (r revision) describe(ctx context.Context) string {
	if out, err := git(ctx, r.dir, "describe", "--always", r.commit); err == nil {
		return strings.TrimSpace(string(out))
	}
	return r.commit[:12]
}

// state lists the revision's files. Of a link it has the target, of another file the object's name.
func (r revision) state(ctx context.Context) (treeState, error) {
	out, err := git(ctx, r.dir, "ls-tree", "-r", "-z", "--full-tree", r.tree)
	if err != nil {
		return treeState{}, fmt.Errorf("list it: %s", gitWords(err))
	}
	t := treeState{There: make(map[string]treeFile)}
	var links []string
	for _, line := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		head, name, ok := strings.Cut(line, "\t")
		words := strings.Fields(head)
		if !ok || len(words) != 3 || !filepath.IsLocal(name) {
			return treeState{}, fmt.Errorf("git lists %q: want a mode, a type, an object and a name", clipped(line))
		}
		switch words[0] {
		case "100644":
			t.There[name] = treeFile{Mode: 0o644, Digest: words[2]}
		case "100755":
			t.There[name] = treeFile{Mode: 0o755, Digest: words[2]}
		case "120000":
			t.There[name] = treeFile{Mode: fs.ModeSymlink, Digest: words[2]}
			links = append(links, name)
		}
	}
	if len(links) == 0 {
		return t, nil
	}
	blobs, err := r.blobs(ctx)
	if err != nil {
		return treeState{}, err
	}
	for _, name := range links {
		f := t.There[name]
		to, err := blobs.read(f.Digest)
		if err != nil {
			return treeState{}, errors.Join(err, blobs.close())
		}
		f.Digest = "-> " + string(to)
		t.There[name] = f
	}
	return t, blobs.close()
}

// A blobReader reads objects of a repository.
type blobReader struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// blobs starts a reader, which the caller closes. It ends by itself when this process does.
func (r revision) blobs(ctx context.Context) (*blobReader, error) {
	cmd := gitCommand(ctx, r.dir, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("read the repository: %w", err)
	}
	return &blobReader{cmd, in, bufio.NewReaderSize(out, 1<<20)}, nil
}

// maxBlob is more than the largest file of a kernel.
const maxBlob = 64 << 20

// read returns what an object holds.
func (b *blobReader) read(object string) (content, error) {
	if _, err := fmt.Fprintln(b.in, object); err != nil {
		return nil, fmt.Errorf("ask for object %s: %w", object, err)
	}
	head, err := b.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", object, err)
	}
	words := strings.Fields(head) // NAME TYPE SIZE, or NAME missing
	if len(words) != 3 || words[1] != "blob" {
		return nil, fmt.Errorf("read object %s: the repository says %q", object, strings.TrimSpace(head))
	}
	size, err := strconv.Atoi(words[2])
	if err != nil || size < 0 || size > maxBlob {
		return nil, fmt.Errorf("read object %s: its size is %s", object, words[2])
	}
	c := make(content, size)
	if _, err := io.ReadFull(b.out, c); err != nil {
		return nil, fmt.Errorf("read object %s: %w", object, err)
	}
	if _, err := b.out.Discard(1); err != nil {
		return nil, fmt.Errorf("read object %s: %w", object, err)
	}
	return c, nil
}

func (b *blobReader) close() error {
	_ = b.in.Close() // that is how it ends
	_, _ = io.Copy(io.Discard, b.out)
	return b.cmd.Wait()
}
