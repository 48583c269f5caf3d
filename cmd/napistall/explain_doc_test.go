package main

import "testing"

// TestExplainPage runs the commands that docs/explain.md shows. UPDATE_SCRIPTS=1 rewrites what they print.
func TestExplainPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	holdPage(t, "../../docs/explain.md", 5)
}
