package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// TestProgressTellsWhatIsLeft: three trials of ten seconds on one slot. Before the first is over, boot is
// guessed at; from then on it is known.
func TestProgressTellsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{run: tenSeconds}
		var got []Progress
		r := &Runner{Backend: f, Dir: create(t, planOf(3, "stock")), Progress: func(p Progress) { got = append(got, p) }}
		if _, err := r.Run(t.Context(), planOf(3, "stock")); err != nil {
			t.Fatal(err)
		}
		began, took := false, time.Duration(0)
		for _, p := range got {
			if p.Trial == "" {
				if p.Planned != 0 || p.Left != 0 {
					t.Errorf("while arms are looked at: %+v", p)
				}
				continue
			}
			if !began && p.Left < 3*planOf(3, "stock")[0].Arm.Duration {
				t.Errorf("at first %v are left; want all three trials at least", p.Left)
			}
			began = true
			if p.Planned != 3 || p.Whole > 3 || p.Whole < p.Index-1 {
				t.Errorf("%d of %d trials are whole in trial %d", p.Whole, p.Planned, p.Index)
			}
			if p.Done && p.Index == 1 {
				took = p.Elapsed
			}
			if p.Index == 2 && p.Elapsed == 0 && p.Phase == Prepare && p.Left != 2*took {
				t.Errorf("%v are left after a trial of %v; want twice as long", p.Left, took)
			}
			if p.Done && p.Index == 3 && p.Left != 0 {
				t.Errorf("%v are left at the end", p.Left)
			}
		}
		if took == 0 {
			t.Error("no trial was seen to end")
		}
	})
}

func TestProgressKeepsTheLatest(t *testing.T) {
	p := &tracker{arm: experiment.Arm{Probe: experiment.Probe{Op: experiment.LinkDel}}}
	for i := range MaxLatest + 5 {
		p.sample(experiment.Sample{Took: time.Duration(i)})
	}
	if len(p.latest) != MaxLatest || p.latest[0] != 5 || p.latest[MaxLatest-1] != MaxLatest+4 {
		t.Errorf("%d are kept, from %d to %d", len(p.latest), p.latest[0], p.latest[len(p.latest)-1])
	}
}
