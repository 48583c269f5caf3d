package experiment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fiveArms(seed uint64, reps int) *Experiment {
	e := &Experiment{Name: "t", Reps: reps, Seed: seed}
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		e.Arms = append(e.Arms, Arm{Name: n})
	}
	return e
}

// The plan of a seed must never change, on any machine: a run that is resumed makes it again.
func TestPlanGolden(t *testing.T) {
	var b strings.Builder
	for _, seed := range []uint64{0, 1, 1<<64 - 1} {
		for _, tr := range Plan(fiveArms(seed, 3)) {
			fmt.Fprintf(&b, "%d %s %016x\n", seed, tr.ID(), tr.Seed)
		}
	}
	golden(t, "testdata/plan.txt", b.String())
}

func TestPlanGoesOn(t *testing.T) {
	short, long := Plan(fiveArms(7, 2)), Plan(fiveArms(7, 5))
	if diff := cmp.Diff(short, long[:len(short)]); diff != "" {
		t.Errorf("more repetitions change the first ones:\n%s", diff)
	}
}

// Over many seeds each arm comes first, and last, about equally often, and seeds of trials differ.
func TestPlanIsFair(t *testing.T) {
	const runs = 2000
	first, last, seeds := map[string]int{}, map[string]int{}, map[uint64]bool{}
	for seed := range uint64(runs) {
		plan := Plan(fiveArms(seed, 1))
		first[plan[0].Arm.Name]++
		last[plan[4].Arm.Name]++
		for _, tr := range plan {
			seeds[tr.Seed] = true
		}
	}
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		// Five standard deviations of a binomial with p = 1/5 are 90.
		if d := first[n] - runs/5; d > 90 || d < -90 {
			t.Errorf("arm %s is first %d times of %d", n, first[n], runs)
		}
		if d := last[n] - runs/5; d > 90 || d < -90 {
			t.Errorf("arm %s is last %d times of %d", n, last[n], runs)
		}
	}
	if len(seeds) != 5*runs {
		t.Errorf("%d different trial seeds; want %d", len(seeds), 5*runs)
	}
}

func TestPlanWithoutTrials(t *testing.T) {
	for _, e := range []*Experiment{{Reps: 3}, fiveArms(1, 0), fiveArms(1, -1)} {
		if plan := Plan(e); len(plan) != 0 {
			t.Errorf("Plan of %d arms, %d reps = %v; want none", len(e.Arms), e.Reps, plan)
		}
	}
}

// An arm with a number of trials of its own is in as many blocks.
func TestPlanOwnReps(t *testing.T) {
	e := fiveArms(7, 1)
	e.Arms[1].Reps, e.Arms[3].Reps = 3, 2
	n := map[string]int{}
	for i, tr := range Plan(e) {
		n[tr.Arm.Name]++
		if tr.Index != i || tr.Rep != n[tr.Arm.Name] {
			t.Errorf("trial %d of arm %s is %s", i, tr.Arm.Name, tr.ID())
		}
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 3, "c": 1, "d": 2, "e": 1}, n); diff != "" {
		t.Error(diff)
	}
}
