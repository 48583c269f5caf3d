package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rcu"
)

func TestMakefileRelease(t *testing.T) {
	for text, want := range map[string]experiment.Release{
		"# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n": {Major: 6, Minor: 12},
		"VERSION=7\nPATCHLEVEL\t=\t3\nPATCHLEVEL = 4\n":                          {Major: 7, Minor: 3},
		"VERSION = 6\nPATCHLEVEL = 12 # no\n":                                    {},
		"export VERSION = 6\nPATCHLEVEL = 12\n":                                  {},
		"all:\n":                                                                 {},
		"":                                                                       {},
		"VERSION = 99999999999999999999999999\nPATCHLEVEL = 1\n": {},
	} {
		got, err := makefileRelease(text)
		if got != want || (err == nil) != (want != experiment.Release{}) {
			t.Errorf("makefileRelease(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func FuzzMakefileRelease(f *testing.F) {
	f.Add("VERSION = 6\nPATCHLEVEL = 12\n")
	f.Add("VERSION = 9223372036854775808\nPATCHLEVEL = 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := makefileRelease(text)
		if err == nil && (r.Major < 0 || r.Minor < 0 || !strings.Contains(text, "VERSION")) {
			t.Errorf("makefileRelease(%q) = %v", text, r)
		}
	})
}

func TestReadTree(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for _, name := range []string{"linux", "a@b", "top/linux"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "Makefile"), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "top", "Makefile"), []byte("not this\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"linux", "a@b", "top"} {
		gitIn(t, filepath.Join(dir, name), "init", "-q")
		gitIn(t, filepath.Join(dir, name), "add", ".")
		gitIn(t, filepath.Join(dir, name), "commit", "-qm", "one")
	}
	t.Setenv("GIT_DIR", filepath.Join(dir, "gone")) // as below a hook
	for tree, want := range map[string]kimage.TreeAt{
		"~/linux":           {Dir: filepath.Join(dir, "linux")},
		"~/linux@HEAD@{0}":  {Dir: filepath.Join(dir, "linux"), Rev: "HEAD@{0}"},
		"~/a@b":             {Dir: filepath.Join(dir, "a@b")},
		"~/a@b@HEAD":        {Dir: filepath.Join(dir, "a@b"), Rev: "HEAD"},
		"~/top/linux@HEAD":  {Dir: filepath.Join(dir, "top/linux"), Rev: "HEAD"},
		"~/gone@HEAD":       {},
		"~/linux@--all":     {},
		"~/linux@HEAD:":     {},
		"~/linux/Makefile":  {},
		"~/linux@v6.12@{1}": {},
	} {
		got, makefile, err := readTree(t.Context(), "tree:"+tree)
		if want == (kimage.TreeAt{}) {
			if _, ok := errors.AsType[*kimage.SpecError](err); !ok {
				t.Errorf("readTree(%q) = %v, %v; want a SpecError", tree, got, err)
			}
			continue
		}
		name, _ := filepath.Rel(dir, want.Dir) // both are absolute
		if got != want || string(makefile) != name+"\n" || err != nil {
			t.Errorf("readTree(%q) = %v, %q, %v; want %v", tree, got, makefile, err, want)
		}
	}
}

func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.org"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestIsGate(t *testing.T) {
	for line, want := range map[string]bool{
		"prove --gate":               true,
		"prove --tree --gate":        true, // an unset variable
		"--gate prove":               true,
		"prove --gate=true --nosuch": true,
		"prove --gate=perhaps":       true,
		"prove --gate=false":         false,
		"prove --gates":              false,
		"prove":                      false,
		"run --gate":                 false,
		"":                           false,
	} {
		if got := isGate(strings.Fields(line)); got != want {
			t.Errorf("isGate(%q) = %v; want %v", line, got, want)
		}
	}
}

// A build after one with the same objects takes what a patch changes, and one that is in the cache nothing.
func TestBuildTime(t *testing.T) {
	of := func(objects string, cached, again bool) proveBuild {
		return proveBuild{what: kimage.Build{Preempt: rcu.None}, Outlook: kimage.Outlook{Cached: cached, Again: again, Objects: objects}}
	}
	got := buildTime([]proveBuild{of("a", false, false), of("a", false, false), of("b", true, true), of("b", false, true), of("c", true, false), of("c", false, false)}, 4)
	want := []time.Duration{wholeBuild / 4, againBuild, 0, againBuild, 0, wholeBuild / 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
