package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
)

// The experiment in examples/yield-on-exit can be run from anywhere: it parses, and its patches are beside it.
func TestYieldOnExitExample(t *testing.T) {
	const name = "../../examples/yield-on-exit/experiment.yaml"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiment.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := findPatches(filepath.Dir(name), e); err != nil {
		t.Fatal(err)
	}
	patched := 0
	for _, a := range e.Arms {
		for _, p := range a.Patch {
			if !filepath.IsAbs(p) {
				t.Errorf("arm %s takes the built-in %s, not the file", a.Name, p)
			}
			patched++
		}
	}
	if patched != 2 {
		t.Errorf("%d arms are patched; want 2", patched)
	}
}
