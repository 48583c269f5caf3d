package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/backend/sim"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/testenv"
)

// compared is the experiment that the rates of compare's errors are measured on: a kernel that stalls, its patch, and a
// control, for a hold long enough for some twenty deletes of the last two.
const compared = `name: compared
kernel: model:6.18
reps: %d
seed: %d
load: {kind: bounce, hold: 4s}
probe: {every: 100ms}
arms:
  - {name: stock, config: {preempt: none}}
  - {name: patched, config: {preempt: none}, loop: yield-on-exit}
  - {name: lazy, config: {preempt: lazy}}
`

// simulate runs the experiment and returns its arms as sides.
func simulate(t *testing.T, run, reps, seed int) []explain.Side {
	t.Helper()
	e, err := experiment.Parse("compared.yaml", fmt.Appendf(nil, compared, reps, seed))
	if err != nil {
		t.Fatal(err)
	}
	trials := map[string][]explain.TrialSummary{}
	for _, trial := range experiment.Plan(e) {
		target, err := (sim.Backend{}).Acquire(t.Context(), trial.Arm)
		if err != nil {
			t.Fatal(err)
		}
		s := explain.NewTrial(trial)
		err = target.Run(t.Context(), trial, func(r experiment.Record) error { s.Add(r); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		trials[trial.Arm.Name] = append(trials[trial.Arm.Name], s.Summary())
	}
	var sides []explain.Side
	for _, a := range e.Arms {
		sides = append(sides, explain.Side{Label: fmt.Sprintf("%s@%d", a.Name, run), Run: run, Arm: explain.Summarize(a, trials[a.Name]),
			Origin: explain.Origin{Backend: "sim"}})
	}
	return sides
}

// Two runs of one experiment with different seeds differ in nothing but chance: in at least 95 of 100 such pairs of runs
// no arm may be said to differ from itself. Against that, patched differs from stock in every run.
func TestCompareErrors(t *testing.T) {
	race, err := condition("race")
	if err != nil {
		t.Fatal(err)
	}
	if race && !testing.Short() { // ten times as slow there
		testenv.Need(t, testenv.Go)
		out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^TestCompareErrors$", ".").CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Errorf("without the race detector: %v", err)
		}
		return
	}
	for reps, repetitions := range map[int]int{8: 100, 30: 20} {
		if testing.Short() {
			if repetitions = 2; reps == 30 {
				continue
			}
		}
		t.Run(fmt.Sprintf("%d trials", reps), func(t *testing.T) {
			alarms, missed, silent := 0, 0, 0
			for r := range repetitions {
				a, b := simulate(t, 1, reps, 2*r+1), simulate(t, 2, reps, 2*r+2)
				sides := append(a, b...)
				c := compareAll(t, sides, [][2]int{{0, 3}, {1, 4}, {2, 5}})
				alarmed := false
				for _, p := range c.Pairs {
					switch p.Outcome {
					case explain.Differs:
						alarmed = true
					case explain.NotDecided:
						t.Errorf("repetition %d: %s", r, p.Sentence)
					}
				}
				if alarmed {
					alarms++
				}
				if c := compareAll(t, a, [][2]int{{1, 0}}); c.Pairs[0].Outcome != explain.Differs || c.Arms[1].N < 30 {
					missed++
				}
				quiet := len(c.Warnings[0])+len(c.Warnings[1])+len(c.Warnings[2]) == 0
				for _, p := range c.Pairs {
					quiet = quiet && len(p.Warnings) == 0
				}
				if quiet {
					silent++
				}
			}
			t.Logf("%d repetitions: false alarms in %d, patched against stock missed in %d, no warning at all in %d", repetitions, alarms, missed, silent)
			if 20*alarms > repetitions {
				t.Errorf("false alarms in %d of %d; want at most 5 %%", alarms, repetitions)
			}
			if missed > 0 {
				t.Errorf("patched against stock missed in %d of %d; want none", missed, repetitions)
			}
			if 20*(repetitions-silent) > repetitions {
				t.Errorf("warnings in %d of %d; want at most 5 %%", repetitions-silent, repetitions)
			}
		})
	}
}

// An arm's name comes from a file, which may hold anything.
func TestCompareNamesAreHarmless(t *testing.T) {
	side := func(run int, name string) explain.Side {
		return explain.Side{Label: fmt.Sprintf("%s@%d", name, run), Run: run, Arm: explain.Summarize(experiment.Arm{Name: name}, nil)}
	}
	sides := []explain.Side{side(1, "red\x1b[31m"), side(2, "\u202eevil")}
	for _, matches := range [][]match{nil, {{"nope", "x"}}, {{"red\x1b[31m", "x"}}} {
		_, _, err := pairsOf(sides, []string{"a", "b"}, matches)
		if err == nil || status(err) != exitUsage || strings.ContainsAny(strings.ReplaceAll(err.Error(), "--match red\x1b[31m=x", ""), "\x1b\u202e") {
			t.Errorf("pairsOf with %v: %q", matches, err)
		}
	}
}

func compareAll(t *testing.T, sides []explain.Side, pairs [][2]int) explain.Comparisons {
	t.Helper()
	c, err := explain.CompareRuns(t.Context(), sides, pairs)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
