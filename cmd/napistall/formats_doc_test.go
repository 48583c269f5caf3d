package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/testenv"
)

// formatsPage describes each format of a report.
const formatsPage = "../../docs/formats.md"

// TestFormatsPage runs the commands that docs/formats.md shows, and holds the page to what they print.
// UPDATE_SCRIPTS=1 rewrites it. benchstat is the one of the module that go.mod names.
func TestFormatsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	testenv.Need(t, testenv.Go)
	page, err := os.ReadFile(formatsPage)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, pkg := range map[string]string{"napistall": ".", "benchstat": "golang.org/x/perf/cmd/benchstat"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", name), pkg)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build, err, out)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	parts := consoles(string(page))
	got := printed(t, dir, parts)
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(formatsPage, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(page), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s, -as it stands +as printed now:\n%s", formatsPage, diff)
	}
}

// Each format has a part of the page, and a line in its table that gives its version.
func TestFormatsPageNamesEachFormat(t *testing.T) {
	page, err := os.ReadFile(formatsPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range (reportCommand{}).formats() {
		if !strings.Contains(string(page), "\n## "+f.name+"\n") {
			t.Errorf("%s has no part about %s", formatsPage, f.name)
		}
	}
}
