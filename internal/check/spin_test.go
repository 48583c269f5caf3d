package check

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/napistall/napistall/internal/testenv"
)

// SPIN finds as many states in a Promela version of the loop as we do, and the same verdicts.
func TestSPINFindsTheSame(t *testing.T) {
	long(t)
	for _, name := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Lacks(t, name, err.Error())
		}
	}
	model, err := filepath.Abs("testdata/loop.pml")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		loop         string
		yield        string
		ring, weight int
		want         Verdict
	}{
		{"stock", "0", 2, 2, Violated},
		{"yield-on-exit", "1", 2, 2, Holds},
		{"stock", "0", 9, 4, Violated},
		{"yield-on-exit", "1", 9, 4, Holds},
	} {
		dir := t.TempDir()
		run := func(name string, args ...string) []byte {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), name, args...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s %v: %v\n%s", name, args, err, out)
			}
			return out
		}
		run("spin", "-a", "-DYIELD="+tt.yield, "-DRING="+strconv.Itoa(tt.ring), "-DWEIGHT="+strconv.Itoa(tt.weight), model)
		run("gcc", "-O1", "-DNOREDUCE", "-DNOCLAIM", "-DSAFETY", "-o", "states", "pan.c")
		run("gcc", "-O1", "-DNOREDUCE", "-DNFAIR=3", "-o", "claim", "pan.c")
		states := string(regexp.MustCompile(`(\d+) states, stored`).FindSubmatch(run("./states"))[1])
		verdict := Holds
		if !bytes.Contains(run("./claim", "-a", "-f"), []byte("errors: 0")) {
			verdict = Violated
		}
		a := ask(t, Question{Variant: Variant{Loop: tt.loop, Ring: tt.ring, Weight: tt.weight}, Property: ExpeditedGP, Fine: true})
		if strconv.Itoa(a.States) != states || a.Verdict != verdict || verdict != tt.want {
			t.Errorf("%s, ring %d: %s in %d states; SPIN: %s in %s states; want %s", tt.loop, tt.ring, a.Verdict, a.States, verdict, states, tt.want)
		}
	}
}
