package experiment

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func builtin(t *testing.T, name string) *Experiment {
	t.Helper()
	src, ok := Builtin(name)
	if !ok {
		t.Fatalf("no built-in %s", name)
	}
	e, err := Parse(name, src)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestBuiltins(t *testing.T) {
	var listed []string
	for _, b := range Builtins() {
		e := builtin(t, b.Name)
		invariants(t, e)
		if e.Name != b.Name || b.About == "" || strings.HasPrefix(b.About, "#") {
			t.Errorf("built-in %s has the name %q and is about %q", b.Name, e.Name, b.About)
		}
		golden(t, "testdata/builtin/"+b.Name+".json", indented(t, e))
		listed = append(listed, b.Name+".yaml")

		e.Shorten()
		invariants(t, e)
		for _, a := range e.Arms {
			if !e.Quick || a.StallTimeout != 3*time.Second || a.Load.Hold > 32*time.Second || a.Duration != a.Load.Hold+3*time.Second {
				t.Errorf("%s shortened: %+v", b.Name, a)
			}
		}
	}
	files, err := os.ReadDir("builtin")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(listed) {
		t.Errorf("%d files in builtin, but %v are listed", len(files), listed)
	}
	for _, name := range []string{"", "nosuch", "../parse", "builtin/seed", "seed.yaml"} {
		if _, ok := Builtin(name); ok {
			t.Errorf("Builtin(%q) is one", name)
		}
	}
}

// What mainline expects is the product's claim.
func TestMainlineExpects(t *testing.T) {
	e := builtin(t, "mainline")
	bounds := func() string {
		var b strings.Builder
		for _, x := range e.Expect {
			if x.Quantity == "worst" {
				fmt.Fprintf(&b, "%s %s %s\n", x.Arm, x.Op, x.Duration)
			}
		}
		return b.String()
	}
	if got, want := bounds(), "stock >= 27s\nabove-band < 1.5s\nsoftirq < 10s\nlazy < 1.5s\n"; got != want {
		t.Errorf("worst: %s; want %s", got, want)
	}
	e.Shorten()
	if got, want := bounds(), "stock >= 13.5s\nabove-band < 1.5s\nsoftirq < 5s\nlazy < 1.5s\n"; got != want {
		t.Errorf("worst, shortened: %s; want %s", got, want)
	}
}

func TestModelsFallBack(t *testing.T) {
	want := map[string]string{ // the last resort of each arm
		"none": "debian:trixie/amd64/cloud-amd64", "voluntary": "debian:trixie/amd64/cloud-amd64",
		"full": "debian:trixie/amd64/cloud-amd64", "lazy": "debian:trixie-backports/amd64/cloud-amd64",
	}
	for _, a := range builtin(t, "models").Arms {
		if a.Name != string(a.Preempt) && a.Name != "full-newest" {
			t.Errorf("arm %s wishes for %s", a.Name, a.Preempt)
		}
		if w := want[a.Name]; w != "" && (len(a.KernelElse) != 2 || a.KernelElse[1] != w) {
			t.Errorf("arm %s: %s, else %v; want %s last", a.Name, a.Kernel, a.KernelElse, w)
		}
	}
}

func TestShorten(t *testing.T) {
	e, err := Parse("t", []byte(`
name: t
quick: {hold: 5s}
arms:
  - {name: long, kernel: host, load: {hold: 1m}, duration: 80s, stall-timeout: 4s, probe: {every: 6s}}
  - {name: brief, kernel: host, load: {hold: 2s}, probe: {every: 1s}}
  - {name: idle, kernel: host, load: {kind: none}}
expect: [long.worst > 0.5*hold, long.median < 7s, brief.worst > hold/4]
`))
	if err != nil {
		t.Fatal(err)
	}
	e.Shorten()
	var b strings.Builder
	for _, a := range e.Arms {
		fmt.Fprintln(&b, a.Name, a.Load.Hold, a.Duration, a.StallTimeout, a.Probe.Every)
	}
	for _, x := range e.Expect {
		fmt.Fprintln(&b, x.Text, "=", x.Duration)
	}
	want := `long 5s 25s 4s 1.25s
brief 2s 5s 3s 1s
idle 0s 10s 3s 250ms
long.worst > 0.5*hold = 2.5s
long.median < 7s = 7s
brief.worst > hold/4 = 500ms
`
	if got := b.String(); got != want {
		t.Errorf("shortened:\n%swant:\n%s", got, want)
	}
}
