package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/testenv"
)

// longSource is what the long tests build.
const longSource = "debian-source:trixie/linux-source-6.12"

// TestLong builds a real kernel and the same with the patch, and boots both: the one stalls, the other doesn't. It needs a
// network, a compiler, 2.5 GB and, the first time, a quarter of an hour of two CPUs; make test-long runs it.
func TestLong(t *testing.T) {
	if os.Getenv("NAPISTALL_LONG") == "" {
		t.Skip("it takes long; make test-long runs it")
	}
	testenv.Need(t, testenv.QEMUx86, testenv.Apt, testenv.Go)
	dir := t.TempDir()
	// A file that nothing is compiled from makes another kernel of it each time, so that something is built.
	stamp := filepath.Join(dir, "stamp.patch")
	text := fmt.Sprintf("--- /dev/null\n+++ b/napistall-stamp\n@@ -0,0 +1 @@\n+%s\n", time.Now().Format(time.RFC3339Nano))
	if err := os.WriteFile(stamp, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	stock := longBuild(t, stamp)
	patched := longBuild(t, stamp, "yield-on-exit.patch")
	if patched.files == 0 || patched.files > 100 || patched.took > 10*time.Minute {
		t.Errorf("a patch of one file compiled %d and took %v", patched.files, patched.took)
	}
	t.Logf("stock: %d files in %v; patched: %d files in %v", stock.files, stock.took, patched.files, patched.took)

	file := filepath.Join(dir, "long.yaml")
	text = fmt.Sprintf(`name: long
load: {kind: bounce, hold: 30s}
arms:
  - {name: stock, kernel: "file:%s", stall-timeout: 10s}
  - {name: patched, kernel: "file:%s", stall-timeout: 10s}
expect:
  - stock.worst >= 0.9*hold
  - stock.stalls >= 1
  - patched.worst < 1.5s
  - patched.stalls == 0
`, stock.path, patched.path)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "napistall")
	for _, args := range [][]string{{"go", "build", "-o", program, "."}, {program, "run", file, "--accel", "tcg", "--dir", filepath.Join(dir, "run")}} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		t.Logf("%s", out)
	}
}

// A longBuilt is a kernel that was built, and what that took.
type longBuilt struct {
	path  string
	files int
	took  time.Duration
}

// longBuild builds longSource for none with patches, in the user's own cache, and leaves sources and objects there.
func longBuild(t *testing.T, patches ...string) longBuilt {
	t.Helper()
	store, err := newStore("", false)
	if err != nil {
		t.Fatal(err)
	}
	store.Log = func(line string) { t.Log(line) }
	var b longBuilt
	from := 0
	store.Progress = func(p kimage.Progress) {
		if b.files++; b.files == 1 {
			from = p.Files
		}
	}
	spec, err := kimage.ParseSpec(longSource)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	img, err := store.Build(t.Context(), spec, kimage.Build{Preempt: rcu.None, Patches: patches})
	if err != nil {
		t.Fatal(err)
	}
	if from > 1 {
		t.Logf("it went on from %d files of a build that was stopped", from-1)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(filepath.Dir(img.Path)); err != nil {
			t.Error(err)
		}
	})
	b.path, b.took = img.Path, time.Since(began).Round(time.Second)
	return b
}
