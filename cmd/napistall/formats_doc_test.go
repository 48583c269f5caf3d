package main

import (
	"os"
	"strings"
	"testing"
)

// formatsPage describes each format of a report.
const formatsPage = "../../docs/formats.md"

// TestFormatsPage runs the commands that docs/formats.md shows, and holds the page to what they print.
// UPDATE_SCRIPTS=1 rewrites it. benchstat is the one of the module that go.mod names.
func TestFormatsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	holdPage(t, formatsPage, 3, "golang.org/x/perf/cmd/benchstat")
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
