package main

import (
	"os"
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

func TestSplitTree(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a@b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for tree, want := range map[string][2]string{
		filepath.Join(dir, "a@b"):       {filepath.Join(dir, "a@b"), ""},
		filepath.Join(dir, "a@b@v6.1"):  {filepath.Join(dir, "a@b"), "v6.1"},
		filepath.Join(dir, "gone@v6.1"): {filepath.Join(dir, "gone"), "v6.1"},
		"linux":                         {"linux", ""},
	} {
		if path, rev := splitTree(tree); path != want[0] || rev != want[1] {
			t.Errorf("splitTree(%q) = %q, %q; want %q", tree, path, rev, want)
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
