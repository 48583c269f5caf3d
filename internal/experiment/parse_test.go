package experiment

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with the file at path, which -update rewrites.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// eachFile calls f with every experiment file in dir.
func eachFile(t *testing.T, dir string, f func(t *testing.T, name string, src []byte)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) { f(t, name, src) })
	}
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestParseOK(t *testing.T) {
	eachFile(t, "testdata/ok", func(t *testing.T, name string, src []byte) {
		e, err := Parse(name+".yaml", src)
		if err != nil {
			t.Fatal(err)
		}
		invariants(t, e)
		text := indented(t, e)
		golden(t, "testdata/ok/"+name+".json", text)

		var again Experiment // as it comes back from a run directory, or on its way to a guest
		if err := json.Unmarshal([]byte(text), &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, &again); diff != "" {
			t.Errorf("JSON there and back (-there +back):\n%s", diff)
		}
	})
}

func TestParseBad(t *testing.T) {
	eachFile(t, "testdata/bad", func(t *testing.T, name string, src []byte) {
		e, err := Parse(name+".yaml", src)
		if err == nil {
			t.Fatalf("Parse = %+v; want an error", e)
		}
		if e != nil {
			t.Error("Parse returns an experiment beside its error")
		}
		wellPlaced(t, name+".yaml", err)
		golden(t, "testdata/bad/"+name+".txt", err.Error()+"\n")
	})
}

// A file that is large in one way or another is refused or read within a moment.
func TestParseLarge(t *testing.T) {
	head := "name: t\narms:\n"
	for name, src := range map[string]string{
		"too large":    head + strings.Repeat("#\n", 1<<20),
		"flow depth":   strings.Repeat("[", maxBytes),
		"block depth":  strings.Repeat("- ", maxBytes/2),
		"key depth":    strings.Repeat("{a: ", maxBytes/4),
		"many arms":    head + strings.Repeat("  - {name: a, kernel: host}\n", 1000),
		"many quotes":  strings.Repeat("'", maxBytes),
		"stair":        stair(400),
		"many unknown": strings.Repeat("a: 1\n", maxBytes/5),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("large.yaml", []byte(src))
			if err == nil {
				t.Fatal("Parse accepts it")
			}
			wellPlaced(t, "large.yaml", err)
			if n := len(err.Error()); n > 4000 {
				t.Errorf("the error has %d bytes", n)
			}
		})
	}
}

func stair(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestNearest(t *testing.T) {
	names := []string{"name", "reps", "stall-timeout", "exp-stall-timeout"}
	for _, tc := range []struct{ word, want string }{
		{"naem", "name"}, {"nme", "name"}, {"NAME", "name"}, {"rep", "reps"},
		{"stall_timeout", "stall-timeout"}, {"stalltimout", "stall-timeout"}, {"x", ""}, {"", ""}, {"quartz", ""},
	} {
		if got := nearest(tc.word, names); got != tc.want {
			t.Errorf("nearest(%q) = %q; want %q", tc.word, got, tc.want)
		}
	}
}
