package kimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/testenv"
)

// A fakeRepo is a repository of a fake kernel.
type fakeRepo struct {
	t   *testing.T
	dir string
}

func newFakeRepo(t *testing.T) fakeRepo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Lacks(t, "git", err.Error())
	}
	r := fakeRepo{t, filepath.Join(t.TempDir(), "linux")}
	for name, text := range fakeTree() {
		writeFile(t, filepath.Join(r.dir, name), []byte(text))
	}
	r.git("init", "-q")
	return r
}

func (r fakeRepo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// commit commits everything and tags it.
func (r fakeRepo) commit(tag string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-qm", tag)
	r.git("tag", "-am", tag, tag)
}

// twoRevisions is a repository in which files change their kind between v1.0 and v1.1, with changes on top.
func twoRevisions(t *testing.T) fakeRepo {
	t.Helper()
	r := newFakeRepo(t)
	write := func(name, text string) { writeFile(t, filepath.Join(r.dir, name), []byte(text)) }
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("scripts/run.sh", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(r.dir, "scripts/run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("target.c", "target")
	link("target.c", "becomes-file.c")
	write("gone/a.c", "a")
	r.commit("v1.0")
	if err := os.Remove(filepath.Join(r.dir, "becomes-file.c")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "gone")); err != nil {
		t.Fatal(err)
	}
	write("becomes-file.c", "file")
	write("gone", "a file now")
	changed := strings.Replace(fakeDev, "not the", "no longer the", 1)
	write("net/core/dev.c", changed)
	r.commit("v1.1")
	write("net/core/dev.c", changed+"/* not committed */\n")
	write("untracked.c", "x")
	return r
}

func TestBuildRevision(t *testing.T) {
	f := newFakeBuild(t)
	s, log := f.store()
	r := twoRevisions(t)
	before, list := listing(t, r.dir), r.git("worktree", "list")

	first := mustBuild(t, s, "tree:"+r.dir+"@v1.0", Build{})
	second := mustBuild(t, s, "tree:"+r.dir+"@v1.1", Build{})
	patched := mustBuild(t, s, "tree:"+r.dir+"@v1.1", Build{Patches: []string{"yield-on-exit.patch"}})
	if first.Digest == second.Digest || second.Digest == patched.Digest {
		t.Error("two revisions, or one and its patched form, are the same kernel")
	}
	if first.Version != "v1.0" || first.Source != r.dir+" at v1.0" || !strings.HasSuffix(patched.Source, "linux at v1.1 with yield-on-exit-6.12.patch") {
		t.Errorf("Version %q, Source %q, patched %q", first.Version, first.Source, patched.Source)
	}
	if d := cmp.Diff(before, listing(t, r.dir)); d != "" {
		t.Errorf("a build changed the user's tree or repository:\n%s", d)
	}
	if now := r.git("worktree", "list"); now != list {
		t.Errorf("worktrees: %s; before: %s", now, list)
	}
	if strings.Contains(log(), "committed") {
		t.Errorf("a revision is called dirty:\n%s", log())
	}

	// There is one copy; it is what the revision is, whatever was there before.
	copies, err := filepath.Glob(filepath.Join(s.Dir, "sources", "rev_*", "tree"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("copies: %v %v", copies, err)
	}
	tree := func() map[string]string { return texts(t, copies[0]) }
	if got := tree(); got["becomes-file.c"] != "file" || got["target.c"] != "target" || got["gone"] != "a file now" || got["untracked.c"] != "" {
		t.Errorf("the copy of v1.1: %q", got)
	}
	f.made()
	if again := mustBuild(t, s, "tree:"+r.dir+"@v1.0~0", Build{}); again.Path != first.Path || f.made() != "" {
		t.Error("the same revision under another name is built again")
	}
	if err := os.RemoveAll(filepath.Dir(first.Path)); err != nil {
		t.Fatal(err)
	}
	if back := mustBuild(t, s, "tree:"+r.dir+"@v1.0", Build{}); back.Digest != first.Digest {
		t.Error("going back to a revision gives another kernel")
	}
	if to, err := os.Readlink(filepath.Join(copies[0], "becomes-file.c")); err != nil || to != "target.c" || tree()["gone/a.c"] != "a" {
		t.Errorf("the copy of v1.0: link to %q (%v), %q", to, err, tree())
	}
	if info, err := os.Stat(filepath.Join(copies[0], "scripts/run.sh")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("a script can't be run: %v %v", info, err)
	}

	// As it stands it is another kernel, and dirty.
	dirty := mustBuild(t, s, "tree:"+r.dir, Build{})
	if dirty.Digest == second.Digest || !strings.HasSuffix(dirty.Source, " at v1.1-dirty") {
		t.Errorf("the tree as it stands is called %q", dirty.Source)
	}
}

func TestRevisionErrors(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	r := newFakeRepo(t)
	r.commit("v6.12")
	r.git("branch", "net-next")
	r.git("rm", "-q", "net/core/dev.c")
	r.commit("v6.13-empty")
	plain := t.TempDir()
	for spec, want := range map[string]string{
		"tree:" + r.dir + "@v6.11":          "has no revision v6.11; did you mean v6.12?",
		"tree:" + r.dir + "@net-nxet":       "did you mean net-next?",
		"tree:" + r.dir + "@zzzzzzzzzzzz":   "has no revision zzzzzzzzzzzz; of its 4 tags and branches the last are ",
		"tree:" + r.dir + "@":               "want a revision after the @",
		"tree:" + r.dir + "@--help":         "has no revision --help",
		"tree:" + r.dir + "@v6.13-empty":    "revision v6.13-empty has no net/core/dev.c",
		"tree:" + r.dir + "@v6.12:Makefile": "has no revision v6.12:Makefile",
		"tree:" + plain + "@v6.12":          "has no revisions: not a git repository",
		"tree:" + r.dir + "x@v6.12":         "there is no " + r.dir + "x",
	} {
		_, err := s.Build(t.Context(), mustParse(t, spec), Build{Preempt: rcu.None})
		if _, wrong := errors.AsType[*SpecError](err); !wrong || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want a SpecError with %q", spec, err, want)
		}
	}
	// A directory with an @ in its name is one, and " at " in it is no version.
	at := filepath.Join(t.TempDir(), "me@work at night")
	if err := os.Rename(r.dir, at); err != nil {
		t.Fatal(err)
	}
	if img := mustBuild(t, s, "tree:"+at+"@v6.12", Build{}); img.Version != "v6.12" || img.Source != at+" at v6.12" {
		t.Errorf("Version %q, Source %q", img.Version, img.Source)
	}
	// A kernel below the root of its repository, and git's variables in the environment as below a hook.
	t.Setenv("GIT_DIR", plain)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(plain, "index"))
	mustBuild(t, s, "tree:"+at+"@net-next", Build{Preempt: rcu.None})
}

func TestRevisionBelow(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	r := newFakeRepo(t)
	for name, text := range fakeTree() {
		writeFile(t, filepath.Join(r.dir, "below/linux", name), []byte(strings.ReplaceAll(text, "real", "upper")))
	}
	r.commit("v1")
	img := mustBuild(t, s, "tree:"+filepath.Join(r.dir, "below/linux")+"@v1", Build{})
	if !strings.Contains(read(t, img.Path), "not the upper one") {
		t.Error("the kernel is not of the directory that was named")
	}
}

// A copyTest has two trees with files of every kind that come, go and change, and a patch.
type copyTest struct {
	t       *testing.T
	a, b    treeState
	dirs    [2]string // of a, b
	patches []patch
}

func newCopyTest(t *testing.T) *copyTest {
	t.Helper()
	a, b := fakeTree(), fakeTree()
	a["gone/a.c"], b["gone"] = "a", "a file now"
	b["added.c"], b["deep/er/added.c"] = "b", "b"
	b["Makefile"], b["Kconfig"] = "none:\n", "another\n"
	b["net/core/dev.c"] = strings.Replace(fakeDev, "not the", "no longer the", 1)
	c := &copyTest{t: t, dirs: [2]string{t.TempDir(), t.TempDir()}}
	for i, files := range []map[string]string{a, b} {
		for name, text := range files {
			writeFile(t, filepath.Join(c.dirs[i], name), []byte(text))
		}
		if err := os.Symlink("Kconfig", filepath.Join(c.dirs[i], fmt.Sprint("link", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(c.dirs[0], "Makefile"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.a, c.b = c.look(c.dirs[0]), c.look(c.dirs[1])
	var err error
	if c.patches, err = readPatches([]string{"yield-on-exit.patch"}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *copyTest) look(dir string) treeState {
	c.t.Helper()
	state, err := Store{}.scanTree(c.t.Context(), dir, workTree{c.t.TempDir()})
	if err != nil {
		c.t.Fatal(err)
	}
	return state
}

func (c *copyTest) patch(work workTree, patches []patch) {
	c.t.Helper()
	if _, _, err := work.patch(patches, func(text string) (string, string) { return text, "" }); err != nil {
		c.t.Fatal(err)
	}
}

// patched is a copy of a with the patch.
func (c *copyTest) patched() workTree {
	c.t.Helper()
	work := workTree{c.t.TempDir()}
	if err := copyTree(c.t.Context(), work, c.a, fileOf(c.dirs[0])); err != nil {
		c.t.Fatal(err)
	}
	c.patch(work, c.patches)
	return work
}

// becomes checks that a copy of a tree into work is that tree, whatever was there.
func (c *copyTest) becomes(what string, work workTree, want treeState, dir string) {
	c.t.Helper()
	if err := copyTree(c.t.Context(), work, want, fileOf(dir)); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	c.patch(work, nil)
	lines := func(s treeState) map[string]string {
		all := make(map[string]string)
		for name, f := range s.There {
			all[name] = f.line()
		}
		return all
	}
	if d := cmp.Diff(lines(want), lines(c.look(work.tree()))); d != "" {
		c.t.Errorf("%s: the tree is not what was copied:\n%s", what, d)
	}
}

// A copy that is killed leaves what is on disk at that moment. Any tree can be copied over it.
func TestCopyKilled(t *testing.T) {
	c := newCopyTest(t)
	work, read := c.patched(), fileOf(c.dirs[1])
	var left []string
	err := copyTree(t.Context(), work, c.b, func(name string, f treeFile) (content, error) {
		left = append(left, t.TempDir())
		text, err := read(name, f)
		return text, errors.Join(err, os.CopyFS(left[len(left)-1], os.DirFS(work.dir)))
	})
	if err != nil || len(left) < 6 {
		t.Fatalf("copied %d files: %v", len(left), err)
	}
	for i, dir := range left {
		again := t.TempDir()
		if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		c.becomes(fmt.Sprintf("back after a kill at file %d", i), workTree{dir}, c.a, c.dirs[0])
		c.becomes(fmt.Sprintf("on after a kill at file %d", i), workTree{again}, c.b, c.dirs[1])
	}
}

// So it can where a copy was interrupted or met an error, with all there that one before it, killed, had copied.
func TestCopyInterrupted(t *testing.T) {
	c := newCopyTest(t)
	read := fileOf(c.dirs[1])
	for at := range c.b.There {
		for _, want := range []error{context.Canceled, os.ErrPermission} {
			work := c.patched()
			if err := copyTree(t.Context(), work, c.b, read); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(work.dir, "tree.json")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := copyTree(ctx, work, c.b, func(name string, f treeFile) (content, error) {
				if name == at && want == os.ErrPermission {
					return nil, want
				}
				if name == at {
					cancel()
				}
				return read(name, f)
			})
			if err != nil && !errors.Is(err, want) {
				t.Fatalf("cut at %s: %v; want %v", at, err, want)
			}
			c.becomes(fmt.Sprintf("back after %v at %s", err, at), work, c.a, c.dirs[0])
		}
	}
}
