package experiment

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
)

func TestSampleSees(t *testing.T) {
	var s Sample
	s.See(50*time.Millisecond, rcu.SynchronizeNet, "a+0x1")
	s.See(100*time.Millisecond, rcu.SynchronizeNet, "a+0x1")
	s.See(150*time.Millisecond, rcu.SynchronizeNet, "a+0x9")
	s.SeeMany(WaitRun{Wait: rcu.Barrier, First: 200 * time.Millisecond, Last: 400 * time.Millisecond, N: 5})
	s.See(450*time.Millisecond, rcu.Barrier, "")
	want := Sample{
		Waits: map[rcu.Wait]int{rcu.SynchronizeNet: 3, rcu.Barrier: 6},
		Runs: []WaitRun{
			{Wait: rcu.SynchronizeNet, Site: "a+0x1", First: 50 * time.Millisecond, Last: 100 * time.Millisecond, N: 2},
			{Wait: rcu.SynchronizeNet, Site: "a+0x9", First: 150 * time.Millisecond, Last: 150 * time.Millisecond, N: 1},
			{Wait: rcu.Barrier, First: 200 * time.Millisecond, Last: 450 * time.Millisecond, N: 6},
		},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("runs, -want +got:\n%s", diff)
	}
}

func TestSampleKeepsNoMoreThanMaxRuns(t *testing.T) {
	var s Sample
	for i := range 3 * MaxRuns {
		s.See(time.Duration(i), []rcu.Wait{rcu.Refs, rcu.Barrier}[i%2], "")
	}
	if len(s.Runs) != MaxRuns || s.Waits[rcu.Refs]+s.Waits[rcu.Barrier] != 3*MaxRuns {
		t.Errorf("%d runs, waits %v; want %d runs and every sample in the waits", len(s.Runs), s.Waits, MaxRuns)
	}
}
