package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/napistall/napistall/internal/testenv"
)

// TestBenchIsRead has benchstat's own reader read it.
func TestBenchIsRead(t *testing.T) {
	for name, r := range runs() {
		results, arms := 0, map[string]bool{}
		reader := benchfmt.NewReader(strings.NewReader(written(t, Bench, r)), name)
		for reader.Scan() {
			switch x := reader.Result().(type) {
			case *benchfmt.SyntaxError:
				t.Errorf("%s: %v", name, x)
			case *benchfmt.Result:
				results++
				_, parts := x.Name.Parts()
				arms[string(parts[0])] = true
				if len(parts) != 2 || !strings.HasPrefix(string(parts[0]), "/arm=") || parts[1][0] != '-' {
					t.Errorf("%s: the name %s has the parts %q; want an arm and a number of CPUs", name, x.Name, parts)
				}
				if got := x.GetConfig("experiment"); got != r.title()[:len(got)] {
					t.Errorf("%s: experiment %q", name, got)
				}
			}
		}
		if err := reader.Err(); err != nil {
			t.Error(err)
		}
		want, withTrials := 0, 0
		for _, a := range r.Arms {
			if len(a.Trials) > 0 {
				withTrials++
			}
			for _, trial := range a.Trials {
				want++
				for _, op := range trial.Ops {
					want += len(op.Hold)
				}
			}
		}
		if results != want || len(arms) != withTrials {
			t.Errorf("%s: %d results of %d arms; want %d of %d", name, results, len(arms), want, withTrials)
		}
	}
}

func TestBenchKeepsCutOnesApart(t *testing.T) {
	text := written(t, Bench, runs()["censored"])
	for _, want := range []string{"BenchmarkLinkDel/arm=stock-2 1 32000000000 cut-ns/op\n", " 32000000000 worst-cut-ns "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "LinkDel/arm=stock-2 1 32000000000 ns/op") {
		t.Error("what was cut is an ordinary value")
	}
}

// TestBenchstat runs benchstat itself, as built from the module that go.mod names.
func TestBenchstat(t *testing.T) {
	testenv.Need(t, testenv.Go)
	file := filepath.Join(t.TempDir(), "run.bench")
	patched, stock := patched(), stock()
	stock.deletes = some(12, 3100*1e6)
	r := run("patch", "", stock, patched)
	if err := os.WriteFile(file, []byte(written(t, Bench, r)), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "golang.org/x/perf/cmd/benchstat", "-col", "/arm", "-filter", ".name:LinkDel", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "LinkDel-2" {
			// The median of 3.100 to 3.111 s against that of 0.120 to 0.179 s.
			if !slices.Contains(fields, "3105.5m") || !slices.Contains(fields, "149.5m") || !slices.Contains(fields, "n=12+60)") {
				t.Errorf("benchstat prints %q", line)
			}
			return
		}
	}
	t.Errorf("benchstat prints nothing of LinkDel:\n%s", out)
}

func TestBenchWords(t *testing.T) {
	for in, want := range map[string]string{"stock": "stock", "a b/c": "a%20b%2Fc", "in-40": "in-40", "é\n": "%C3%A9%0A", "%20": "%2520", "x=y": "x%3Dy"} {
		if got := benchWord(in); got != want {
			t.Errorf("benchWord(%q) = %q; want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"link-del": "LinkDel", "rcu-barrier": "RCUBarrier", "membarrier": "Membarrier", "": "Op", "9\x1b[ x": "Op9X", "é": "Op"} {
		if got := benchOp(in); got != want {
			t.Errorf("benchOp(%q) = %q; want %q", in, got, want)
		}
	}
}
