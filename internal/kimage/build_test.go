package kimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/testenv"
)

const fakeSource = "debian-source:trixie/linux-source-6.12"

func TestBuild(t *testing.T) {
	f := newFakeBuild(t)
	s, log := f.store()
	stock := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None})
	if made := f.made(); made != "allnoconfig bzImage" {
		t.Errorf("make was called for %q", made)
	}
	if !strings.Contains(log(), "building linux-source-6.12 6.12.117-1 (preempt none, HZ 250): takes about ") {
		t.Errorf("before it starts, nobody is told how long it takes:\n%s", log())
	}
	got := *stock
	got.Path, got.Digest, got.Config = "", "", nil
	want := Image{Spec: fakeSource, Release: "6.12.117", Version: "6.12.117-1", Packages: []string{"linux-source-6.12=6.12.117-1"},
		Arch: "amd64", GOARCH: "amd64", ConfigFrom: "the build's .config", Source: "linux-source-6.12 6.12.117-1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Build (-want +got):\n%s", d)
	}
	in, err := Inspect(t.Context(), stock)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Check("dummy", "vlan"); err != nil || in.Preempt != rcu.None || in.Dynamic != No || !in.Tracing.Has() || !in.Stacks.Has() {
		t.Errorf("the configuration asked for isn't enough for a guest: %v; %+v", err, in)
	}

	patched := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, Patches: []string{"yield-on-exit.patch"}})
	if text := read(t, patched.Path); !strings.Contains(text, "cond_resched();\n\n\t\tif (!repoll)") || patched.Path == stock.Path {
		t.Errorf("the patched kernel in %s is built from %q", patched.Path, text)
	}
	if !strings.Contains(log(), "patched with yield-on-exit-6.12.patch") || !strings.Contains(log(), "most of it is built already") {
		t.Errorf("the log of a patched build:\n%s", log())
	}
	f.made()
	f.calls()
	again := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None})
	if d := cmp.Diff(stock, again); d != "" || f.made() != "" || f.calls() != nil {
		t.Errorf("what was built is built or looked up again; (-first +again):\n%s", d)
	}

	// An entry that is lost is built from the source as it was, whatever has been patched since.
	if err := os.RemoveAll(filepath.Dir(stock.Path)); err != nil {
		t.Fatal(err)
	}
	if again = mustBuild(t, s, fakeSource, Build{Preempt: rcu.None}); again.Digest != stock.Digest {
		t.Errorf("after a patched build the stock kernel is another one:\n%s", read(t, again.Path))
	}
	s.Offline = true
	mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, HZ: 1000})
}

// A kernel is another one if anything is that it comes of.
func TestBuildKey(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	mine := filepath.Join(t.TempDir(), "mine.patch")
	writeFile(t, mine, []byte("--- a/Makefile\n+++ b/Makefile\n@@ -1 +1,2 @@\n all:\n+\ttrue\n"))
	paths := make(map[string]string)
	build := func(name string, b Build) {
		path := mustBuild(t, s, fakeSource, b).Path
		if other, ok := paths[path]; ok {
			t.Errorf("%s gets the kernel of %s", name, other)
		}
		paths[path] = name
	}
	build("dynamic", Build{})
	build("none", Build{Preempt: rcu.None})
	build("HZ 100", Build{Preempt: rcu.None, HZ: 100})
	build("patch", Build{Preempt: rcu.None, Patches: []string{mine}})
	build("two patches", Build{Preempt: rcu.None, Patches: []string{mine, "yield-on-exit.patch"}})
	f.write("version", "gcc (Fake) 2.0\n")
	build("compiler", Build{Preempt: rcu.None})
	if mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, HZ: 250}); f.made() == "" {
		t.Error("nothing was made at all")
	}
	if got := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, HZ: 250}); paths[got.Path] != "compiler" {
		t.Errorf("HZ 250 is the default, and gets the kernel %q", paths[got.Path])
	}
}

func TestBuildErrors(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.patch")
	writeFile(t, bad, []byte("--- a/net/core/dev.c\n+++ b/net/core/dev.c\n@@ -2,2 +2,2 @@\n \tfor (;;) {\n-\t\tlocal_bh_disable();\n+\t\tnothing();\n"))
	writeFile(t, filepath.Join(dir, "prose.patch"), []byte("Dear all,\n"))
	tests := []struct {
		name, spec, file, text string
		b                      Build
		offline                bool
		is                     error
		wrong                  bool
		want                   string
	}{
		{name: "no option", file: "refuse", text: "CONFIG_PREEMPT_NONE=\n", b: Build{Preempt: rcu.None}, is: errors.ErrUnsupported,
			want: "CONFIG_PREEMPT_NONE=y doesn't hold: it depends on !PREEMPT_RT and ARCH_NO_PREEMPT (kernel/Kconfig.preempt:1); not set: ARCH_NO_PREEMPT; debian-source:trixie/linux-source-6.12 can have it, or --allow-kconfig"},
		{name: "unknown option", file: "refuse", text: "CONFIG_VETH=\n", is: errors.ErrUnsupported, want: "CONFIG_VETH=y doesn't hold: this source has no such option"},
		{name: "compiler", file: "fails", text: "x\nnet/core/dev.c:3:9: error: expected ';'\nmake[3]: *** [x] Error 1\n", want: "make: net/core/dev.c:3:9: error: expected ';' (its whole output is in "},
		{name: "make", file: "fails", text: "make[3]: *** No rule to make target 'x'\n", want: "make[3]: *** No rule"},
		{name: "silent", file: "fails", text: "x\n", want: "make: exit status 2 (its output is in "},
		{name: "disk", file: "fails", text: "as: dev.o: No space left on device\n", is: syscall.ENOSPC, want: "no free disk in "},
		{name: "headers", file: "no-gelf.h", text: "x", is: errors.ErrUnsupported, want: "building it needs libelf-dev: apt-get install libelf-dev"},
		{name: "patch", b: Build{Patches: []string{bad}}, wrong: true,
			want: "the patch bad.patch doesn't apply to linux-source-6.12 6.12.117-1: bad.patch: net/core/dev.c: hunk 1 (line 2) doesn't apply: line 3 should be \"\\t\\tlocal_bh_disable();\"; there stands\n     2: \tfor (;;) {\n     3: \t\tlocal_bh_enable();"},
		{name: "prose", b: Build{Patches: []string{filepath.Join(dir, "prose.patch")}}, wrong: true, want: "no diff in it"},
		{name: "no patch", b: Build{Patches: []string{"no.patch"}}, wrong: true, want: "there is no such patch; yield-on-exit.patch comes with napistall"},
		{name: "hz", b: Build{HZ: 7}, wrong: true, want: "HZ 7: a kernel for amd64 takes 100, 250, 300 or 1000"},
		{name: "model", b: Build{Preempt: "eager"}, wrong: true, want: "preemption model \"eager\""},
		{name: "package", spec: "debian-source:trixie/linux-source-1.0", wrong: true, want: "trixie has no package linux-source-1.0; of kernel sources it has linux-source-6.12"},
		{name: "binary", spec: "host", wrong: true, want: "only tree:PATH[@REV] and debian-source:SUITE/PACKAGE are built"},
		{name: "tree", spec: "tree:" + dir, wrong: true, want: "no kernel source: it has no Makefile"},
		{name: "offline", offline: true, is: errors.ErrUnsupported, want: "offline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := s
			if s.Offline = tt.offline; tt.offline {
				s.Dir = filepath.Join(t.TempDir(), "fresh")
			}
			if tt.file != "" {
				old, err := os.ReadFile(filepath.Join(f.dir, tt.file))
				f.write(tt.file, tt.text)
				defer func() {
					if err != nil {
						_ = os.Remove(filepath.Join(f.dir, tt.file)) // the next test fails if it stays
					} else {
						f.write(tt.file, string(old))
					}
				}()
			}
			if tt.spec == "" {
				tt.spec = fakeSource
			}
			_, err := s.Build(t.Context(), mustParse(t, tt.spec), tt.b)
			var wrong *SpecError
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.As(err, &wrong) != tt.wrong || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("Build = %v (SpecError %v); want %q", err, wrong != nil, tt.want)
			}
			if left, err := filepath.Glob(filepath.Join(s.Dir, "work", "*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
	mustBuild(t, s, fakeSource, Build{Preempt: rcu.None}) // none of this is in the way
}

// Every missing package is named at once.
func TestBuildNeedsTools(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	t.Setenv("PATH", t.TempDir())
	_, err := s.Build(t.Context(), mustParse(t, fakeSource), Build{})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "apt-get install bc binutils") ||
		!strings.Contains(err.Error(), " flex gcc") || !strings.Contains(err.Error(), " libelf-dev make perl tar xz-utils") {
		t.Errorf("Build without tools = %v", err)
	}
}

func TestBuildStopped(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	f.write("hang", "")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Build(ctx, mustParse(t, fakeSource), Build{})
		done <- err
	}()
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		if _, err := os.Stat(filepath.Join(f.dir, "hanging")); err == nil {
			break
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("a stopped build = %v", err)
	}
	f.calls()
	mustBuild(t, s, fakeSource, Build{})
	if calls := f.calls(); calls != nil {
		t.Errorf("the source is fetched again: %v", calls)
	}
}

func TestBuildTree(t *testing.T) {
	f := newFakeBuild(t)
	s, log := f.store()
	dir := filepath.Join(t.TempDir(), "linux")
	for name, text := range fakeTree() {
		writeFile(t, filepath.Join(dir, name), []byte(text))
	}
	writeFile(t, filepath.Join(dir, "net/core/dev.o"), []byte("object"))
	writeFile(t, filepath.Join(dir, "include/config/auto.conf"), []byte("object"))
	writeFile(t, filepath.Join(dir, "vmlinux"), []byte("object"))
	writeFile(t, filepath.Join(dir, "arch/x86/kernel/vmlinux.lds.S"), nil)
	writeFile(t, filepath.Join(dir, "net/gone.c"), nil)
	spec := "tree:" + dir
	before := listing(t, dir)
	stock := mustBuild(t, s, spec, Build{})
	patched := mustBuild(t, s, spec, Build{Patches: []string{"yield-on-exit.patch"}})
	if d := cmp.Diff(before, listing(t, dir)); d != "" {
		t.Errorf("a build changed the user's tree:\n%s", d)
	}
	if stock.Digest == patched.Digest {
		t.Error("the patch makes no difference")
	}
	trees, err := filepath.Glob(filepath.Join(s.Dir, "sources", "*", "tree"))
	if err != nil || len(trees) != 1 {
		t.Fatalf("copies of one tree: %v %v", trees, err)
	}
	want := fakeTree()
	want["net/core/dev.c"], want["net/gone.c"] = strings.Replace(fakeDev, "\t\tif (!repoll)\n\t\t\tbreak;\n\n", "", 1), ""
	want["arch/x86/kernel/vmlinux.lds.S"] = ""
	want["net/core/dev.c"] = strings.Replace(want["net/core/dev.c"], "resched();\n", "resched();\n\n\t\tif (!repoll)\n\t\t\tbreak;\n", 1)
	if d := cmp.Diff(want, texts(t, trees[0])); d != "" {
		t.Errorf("the copy (-want +got):\n%s", d)
	}

	// The patched file and another one change, and one goes.
	f.made()
	changed := strings.Replace(fakeDev, "not the", "no longer the", 1)
	writeFile(t, filepath.Join(dir, "net/core/dev.c"), []byte(changed))
	writeFile(t, filepath.Join(dir, "Makefile"), []byte("all: it\n"))
	if err := os.Remove(filepath.Join(dir, "net/gone.c")); err != nil {
		t.Fatal(err)
	}
	if next := mustBuild(t, s, spec, Build{}); next.Digest == stock.Digest || f.made() == "" {
		t.Error("a changed tree gives the kernel of the old one")
	}
	want = fakeTree()
	want["net/core/dev.c"], want["Makefile"], want["arch/x86/kernel/vmlinux.lds.S"] = changed, "all: it\n", ""
	if d := cmp.Diff(want, texts(t, trees[0])); d != "" {
		t.Errorf("the copy after changes (-want +got):\n%s", d)
	}
	if strings.Contains(log(), "committed") {
		t.Errorf("without git, something is said of commits:\n%s", log())
	}
}

func TestBuildDirtyTree(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Lacks(t, "git", err.Error())
	}
	f := newFakeBuild(t)
	s, log := f.store()
	dir := t.TempDir()
	for name, text := range fakeTree() {
		writeFile(t, filepath.Join(dir, name), []byte(text))
	}
	writeFile(t, filepath.Join(dir, ".gitignore"), []byte("*.o\n"))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	clean := mustBuild(t, s, "tree:"+dir, Build{})
	if strings.Contains(log(), "committed") || clean.Version == "" || strings.HasSuffix(clean.Version, "-dirty") {
		t.Errorf("a clean tree's version is %q and the log\n%s", clean.Version, log())
	}
	writeFile(t, filepath.Join(dir, "net/core/dev.c"), []byte(fakeDev+"\n"))
	writeFile(t, filepath.Join(dir, "new.o"), nil)
	dirty := mustBuild(t, s, "tree:"+dir, Build{})
	if !strings.Contains(log(), "changes that aren't committed") || !strings.HasSuffix(dirty.Version, "-dirty") || dirty.Digest == clean.Digest {
		t.Errorf("a dirty tree's version is %q and the log\n%s", dirty.Version, log())
	}
}

// listing returns names, times and sizes below dir.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		all[path] = fmt.Sprint(info.ModTime(), info.Size(), info.Mode())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// texts returns the files below dir with what is in them.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for path, what := range listing(t, dir) {
		if rel, err := filepath.Rel(dir, path); err != nil {
			t.Fatal(err)
		} else if !strings.Contains(what, " d") && !strings.HasSuffix(what, "drwxr-xr-x") {
			all[rel] = read(t, path)
		}
	}
	return all
}
