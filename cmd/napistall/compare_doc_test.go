package main

import "testing"

// TestComparePage runs the commands that docs/compare.md shows. UPDATE_SCRIPTS=1 rewrites what they print.
func TestComparePage(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	holdPage(t, "../../docs/compare.md", 7)
}
