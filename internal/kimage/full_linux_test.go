package kimage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/testenv"
)

// A disk that fills during a build leaves the cache whole: what was there is there, nothing is half, and with
// room the build goes on.
func TestBuildFullDisk(t *testing.T) {
	testenv.Need(t, testenv.Root)
	f := newFakeBuild(t)
	s, _ := f.store()
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", s.Dir, "tmpfs", 0, "size=1m"); err != nil {
		testenv.Lacks(t, testenv.Root, "mount a tmpfs: "+err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.Dir, 0); err != nil {
			t.Error(err)
		}
	})
	stock := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None})
	// The fake make copies this into its objects: more than there is room for.
	small := read(t, filepath.Join(f.dir, "bzImage"))
	f.write("bzImage", small+strings.Repeat("x", 2<<20))
	_, err := s.Build(t.Context(), mustParse(t, fakeSource), Build{Preempt: rcu.None, Patches: []string{"yield-on-exit.patch"}})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no free disk in "+s.Dir) || !strings.Contains(err.Error(), "what is there already is kept") {
		t.Fatalf("with a full disk: %v", err)
	}
	f.made()
	if again := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None}); again.Digest != stock.Digest || f.made() != "" {
		t.Error("the kernel that was there is built again")
	}
	left, err := filepath.Glob(filepath.Join(s.Dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if dir := filepath.Base(filepath.Dir(name)); dir == "work" || dir == "locks" {
			t.Errorf("left behind: %s", name)
		}
	}
	if err := syscall.Mount("tmpfs", s.Dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	f.calls()
	mustBuild(t, s, fakeSource, Build{Preempt: rcu.None, Patches: []string{"yield-on-exit.patch"}})
	if calls := f.calls(); calls != nil {
		t.Errorf("the source is fetched again: %v", calls)
	}
}
