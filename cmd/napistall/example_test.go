package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
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

// What the pages about building show can be typed: there is such a command, and it takes these flags and arguments.
func TestShownKernelCommands(t *testing.T) {
	for _, page := range []string{"../../examples/yield-on-exit/README.md", "../../docs/kernels.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile(`napistall ((?:kernel|prove|run|report) [^\n"$`+"`"+`)]+)`).FindAllStringSubmatch(string(text), -1)
		if len(shown) < 2 {
			t.Errorf("%s shows %d commands; want several", page, len(shown))
		}
		for _, m := range shown {
			args := strings.Fields(m[1])
			cmd, rest, err := newRoot().Find(args)
			if err != nil {
				t.Errorf("%s: napistall %s: %v", page, m[1], err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: napistall %s: %v", page, m[1], err)
			}
			for _, a := range cmd.Flags().Args() {
				if _, err := kimage.ParseSpec(a); cmd.Name() == "build" && a != "SPEC" && err != nil {
					t.Errorf("%s: napistall %s: %v", page, m[1], err)
				}
			}
		}
	}
}
