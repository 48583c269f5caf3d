package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/testenv"
)

// block returns what stands in README.md between the first line that is fence and the next ```.
func block(t *testing.T, fence string) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return blockOf(t, string(readme), fence)
}

func blockOf(t *testing.T, page, fence string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+fence+"\n")
	text, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatalf("no block %s", fence)
	}
	return text
}

func TestReadmeExperiment(t *testing.T) {
	e, err := experiment.Parse("README.md", []byte(block(t, "```yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(experiment.Plan(e)); n != 9 || len(e.Expect) != 2 {
		t.Errorf("the README's experiment plans %d trials and has %d expectations; want 9 and 2", n, len(e.Expect))
	}
	for _, a := range e.Arms {
		if _, err := kimage.ParseSpec(a.Kernel); err != nil {
			t.Error(err)
		}
	}
}

// TestReadmeCommands runs make repro and every command of the everyday use, as they stand there, in a
// copy of nothing but what they made before. make test is what runs this.
func TestReadmeCommands(t *testing.T) {
	testenv.Need(t, testenv.QEMUx86, testenv.QEMUArm, testenv.Apt)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"\n    make repro ", "\n    make test "} {
		if !strings.Contains(string(readme), command) {
			t.Errorf("README.md does not name %q", strings.TrimSpace(command))
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(root, "runs", "readme")) }) // only there if make repro got so far
	study(t, root, root, "make repro RUN='--dir runs/readme'", "runs/readme")
	dir := t.TempDir()
	for line := range strings.Lines(block(t, "```sh")) {
		command, _, _ := strings.Cut(line, "#")
		command = strings.TrimSpace(command)
		if name, ok := strings.CutPrefix(command, "napistall run "); ok {
			name = name[strings.LastIndex(name, " ")+1:]
			study(t, dir, root, command, "runs/"+strings.TrimSuffix(name, ".yaml")+"-*")
		} else {
			shell(t, dir, root, command)
		}
		if strings.Contains(command, "--print") {
			shorten(t, filepath.Join(dir, "mine.yaml"))
		}
	}
}

// shorten edits an experiment as a user would: shorter holds, and stalls reported within them.
func shorten(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), "hold: 30s", "hold: 8s", 1)
	edited = strings.Replace(edited, "\nname: mainline\n", "\nname: mine\nstall-timeout: 3s\n", 1)
	if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
}

// study runs a command that keeps a run in runs, a pattern. A host that is busy for a moment makes a guest
// miss a limit on how long something may take, and a user who sees that runs the experiment again: so
// does this, as often as a trial on a broken machine is tried. What no busy host explains fails at once.
func study(t *testing.T, dir, root, command, runs string) {
	t.Helper()
	for try := 1; ; try++ {
		out, err := output(t, dir, root, command)
		if err == nil {
			return
		}
		if !onlyLate(out) || try > backend.Retries {
			t.Fatalf("%s: %v", command, err)
		}
		t.Logf("try %d of %d missed limits on times only", try, 1+backend.Retries)
		old, err := filepath.Glob(filepath.Join(dir, runs))
		if err != nil || len(old) != 1 {
			t.Fatalf("%s kept the runs %q, %v; want one", command, old, err)
		}
		if err := os.RemoveAll(old[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// onlyLate reports whether a run's output tells of expectations that were missed, each of them an upper
// limit on a time.
func onlyLate(out string) bool {
	limit := regexp.MustCompile(`^\S+\.(worst|median) <=? `)
	missed := 0
	for _, m := range regexp.MustCompile(`(?m)^expect (.+): (met|not met|unknown)\b`).FindAllStringSubmatch(out, -1) {
		if m[2] == "met" {
			continue
		}
		if m[2] == "unknown" || !limit.MatchString(m[1]) {
			return false
		}
		missed++
	}
	return missed > 0
}

func TestOnlyLate(t *testing.T) {
	for out, want := range map[string]bool{
		"":                                      false,
		"napistall: boot the guest: it broke":   false,
		"expect stock.worst >= 10s: met (30 s)": false,
		"x\nexpect above-band.worst < 1.5s: not met (1.82 s of 60 deletes)\n":                   true,
		"expect a.worst < hold/3: not met (12 s)\nexpect b.worst >= 10s: met (30 s)":            true,
		"expect a.worst < 1.5s: not met (1.8 s)\nexpect b.median <= 1s: not met (2 s)":          true,
		"expect a.worst < 1.5s: not met (1.8 s)\nexpect stock.classic >= 1: not met (0)":        false,
		"expect a.worst < 1.5s: not met (1.8 s)\nexpect stock.worst >= 0.9*hold: not met (1 s)": false,
		"expect a.worst < 1.5s: not met (1.8 s)\nexpect a vs b: worst lower: not met (p = 0.3)": false,
		"expect a.worst < 1.5s: unknown (no trial of a)":                                        false,
		"expect a.stalls == 0: not met (1)":                                                     false,
	} {
		if got := onlyLate(out); got != want {
			t.Errorf("onlyLate(%q) = %v; want %v", out, got, want)
		}
	}
}

// shell runs command in dir with the napistall that root's make has built, and with a real QEMU.
func shell(t *testing.T, dir, root, command string) {
	t.Helper()
	if _, err := output(t, dir, root, command); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}

func output(t *testing.T, dir, root, command string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", command)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv(realPath))
	out, err := cmd.CombinedOutput()
	t.Logf("$ %s\n%s", command, out)
	return string(out), err
}

// TestExperimentsPage holds docs/experiments.md to the format: its example is one, and it names every
// key that there is.
func TestExperimentsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := experiment.Parse("experiments.md", []byte(blockOf(t, string(page), "```yaml"))); err != nil {
		t.Error(err)
	}
	every, err := os.ReadFile("../../internal/experiment/testdata/ok/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`(?m)(?:^|[ {])([a-z][a-z-]*): `).FindAllStringSubmatch(string(every), -1)
	if len(keys) < 20 {
		t.Fatalf("found %d keys in everything.yaml", len(keys))
	}
	for _, k := range keys {
		if named := regexp.MustCompile("`[^`]*\\b" + k[1] + "\\b[^`]*`"); k[1] != "plain" && k[1] != "x" && k[1] != "two" && !named.Match(page) {
			t.Errorf("docs/experiments.md does not name the key %s", k[1])
		}
	}
}
