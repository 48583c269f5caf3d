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

// mechanismPage says what the simulator and the checker show of how stalls begin and end.
const mechanismPage = "../../docs/mechanism.md"

// TestMechanismPage runs the commands that docs/mechanism.md shows, in their order and in one directory, and holds
// the page to what they print. UPDATE_SCRIPTS=1 rewrites it.
func TestMechanismPage(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of simulated hours")
	}
	holdPage(t, mechanismPage, 7)
}

// holdPage runs the commands that the page at path shows, in at least so many parts of text and commands, and holds it
// to what they print. Beside napistall they have the programs that the packages of tools build.
func holdPage(t *testing.T, path string, least int, tools ...string) {
	t.Helper()
	testenv.Need(t, testenv.Go)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(examples, filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	for _, pkg := range append(tools, ".") { // without the race detector: ten times as fast
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin")+"/", pkg)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build, err, out)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	parts := consoles(string(page))
	if len(parts) < least {
		t.Fatalf("%s shows %d blocks of commands; want several", path, len(parts)/2)
	}
	got := printed(t, dir, parts)
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(page), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s, -as it stands +as printed now:\n%s", path, diff)
	}
}

// consoleBegin and consoleEnd enclose a block of commands, each behind "$ ", and what they print.
const consoleBegin, consoleEnd = "```console\n", "```\n"

// consoles splits page: text and blocks of commands in turn, without their fences.
func consoles(page string) []string {
	var parts []string
	for {
		text, rest, ok := strings.Cut(page, consoleBegin)
		parts = append(parts, text)
		if !ok {
			return parts
		}
		block, after, _ := strings.Cut(rest, consoleEnd)
		parts, page = append(parts, block), after
	}
}

// printed puts the page together again, with what the commands print now.
func printed(t *testing.T, dir string, parts []string) string {
	var b strings.Builder
	for i, part := range parts {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		b.WriteString(consoleBegin)
		for _, command := range commandsOf(part) {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "LC_ALL=C")
			var noise strings.Builder
			cmd.Stderr = &noise
			out, err := cmd.Output()
			if _, failed := err.(*exec.ExitError); err != nil && !failed {
				t.Fatal(err)
			}
			if len(out) == 0 && noise.Len() > 0 && err != nil {
				t.Errorf("%s: %v\n%s", command, err, &noise)
			}
			b.WriteString("$ " + strings.ReplaceAll(command, "\n", "\n> ") + "\n" + string(out))
		}
		b.WriteString(consoleEnd)
	}
	return b.String()
}

// commandsOf returns a block's commands. One goes on in lines that begin with "> ".
func commandsOf(block string) []string {
	var all []string
	inCommand := false
	for line := range strings.Lines(block) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all, inCommand = append(all, command), true
			continue
		}
		more, ok := strings.CutPrefix(line, "> ")
		if inCommand = inCommand && ok; inCommand {
			all[len(all)-1] += "\n" + more
		}
	}
	return all
}

func TestConsoles(t *testing.T) {
	page := "a\n" + consoleBegin + "$ one \\\n> two\nout\n> three\n$ four\n" + consoleEnd + "b\n"
	parts := consoles(page)
	if diff := cmp.Diff([]string{"a\n", "$ one \\\n> two\nout\n> three\n$ four\n", "b\n"}, parts); diff != "" {
		t.Errorf("consoles, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"one \\\ntwo", "four"}, commandsOf(parts[1])); diff != "" {
		t.Errorf("commandsOf, -want +got:\n%s", diff)
	}
}
