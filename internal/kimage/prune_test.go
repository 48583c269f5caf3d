package kimage

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/rcu"
)

func TestPrune(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	img := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None})
	if gone, err := s.Prune(t.Context(), time.Hour); err != nil || len(gone) > 0 {
		t.Errorf("pruned what was just built: %v %v", gone, err)
	}
	sources, err := filepath.Glob(filepath.Join(s.Dir, "sources", "*"))
	if err != nil || len(sources) != 1 {
		t.Fatalf("sources: %v %v", sources, err)
	}
	// Somebody builds there.
	unlock, err := s.lock(t.Context(), "source-"+filepath.Base(sources[0]))
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := s.Prune(t.Context(), 0); err != nil || len(gone) > 0 {
		t.Errorf("pruned what is locked: %v %v", gone, err)
	}
	unlock()
	gone, err := s.Prune(t.Context(), 0)
	if err != nil || len(gone) != 1 || gone[0].Dir != sources[0] || gone[0].Size == 0 || time.Since(gone[0].Used) > time.Minute {
		t.Errorf("Prune = %+v, %v", gone, err)
	}
	if _, err := os.Stat(sources[0]); !os.IsNotExist(err) {
		t.Errorf("the source is still there: %v", err)
	}
	f.made()
	if again := mustBuild(t, s, fakeSource, Build{Preempt: rcu.None}); again.Path != img.Path || f.made() != "" {
		t.Error("the kernel went with its source")
	}
	mustBuild(t, s, fakeSource, Build{Preempt: rcu.Full}) // the source comes back
}

// A lock that can't be taken is not one that somebody has.
func TestPruneLockError(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	writeFile(t, filepath.Join(s.Dir, "sources", "a", "tree", "Makefile"), nil)
	writeFile(t, filepath.Join(s.Dir, "locks"), nil) // no directory
	if gone, err := s.Prune(t.Context(), 0); err == nil || len(gone) > 0 {
		t.Errorf("Prune = %v, %v; want an error", gone, err)
	}
}

func TestSweepObjects(t *testing.T) {
	w := workTree{t.TempDir()}
	now := time.Now()
	for i := range keepObjects + 2 {
		log := filepath.Join(w.dir, "obj-"+strconv.Itoa(i), "build.log")
		writeFile(t, log, nil)
		at := now.Add(-time.Duration((i*5)%(keepObjects+2)) * time.Hour) // not in the order of names
		if err := os.Chtimes(log, at, at); err != nil {
			t.Fatal(err)
		}
	}
	w.sweepObjects()
	left, err := filepath.Glob(filepath.Join(w.dir, "obj-*"))
	if err != nil || len(left) != keepObjects {
		t.Fatalf("left %v, %v", left, err)
	}
	for i := range keepObjects + 2 {
		old := (i*5)%(keepObjects+2) >= keepObjects
		if slices.Contains(left, filepath.Join(w.dir, "obj-"+strconv.Itoa(i))) == old {
			t.Errorf("obj-%d, old: %v; left %v", i, old, left)
		}
	}
}
