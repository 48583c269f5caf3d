package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
)

func TestSchedule(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for _, tt := range []struct {
		hold, duration time.Duration
		want           []mark
	}{
		{2 * s, 3500 * ms, []mark{{at: 0}, {at: s}, {at: 1980 * ms}, {at: 2 * s}, {at: 2 * s, tail: true}, {at: 3 * s}, {at: 3500 * ms}}},
		{1500 * ms, 1500 * ms, []mark{{at: 0}, {at: s}, {at: 1480 * ms}, {at: 1500 * ms}, {at: 1500 * ms, tail: true}}},
		{0, s, []mark{{at: 0}, {at: s}}},
	} {
		if d := cmp.Diff(tt.want, schedule(tt.hold, tt.duration), cmp.AllowUnexported(mark{})); d != "" {
			t.Errorf("schedule(%v, %v) (-want +got):\n%s", tt.hold, tt.duration, d)
		}
	}
}

func TestQueueKeepsOrderAndDrains(t *testing.T) {
	var got []int
	q := newQueue(func(r experiment.Record) error {
		got = append(got, r.Loss.Count)
		return nil
	}, func(err error) { t.Error(err) })
	for i := range 1000 {
		q.put(experiment.Record{Loss: &experiment.Loss{Count: i}})
	}
	q.close()
	q.put(experiment.Record{Loss: &experiment.Loss{Count: -1}})
	if len(got) != 1000 {
		t.Fatalf("%d records; want 1000", len(got))
	}
	for i, n := range got {
		if n != i {
			t.Fatalf("record %d is %d", i, n)
		}
	}
}

func TestQueueStopsAtAnError(t *testing.T) {
	full := errors.New("full")
	calls := 0
	var told error
	q := newQueue(func(experiment.Record) error { calls++; return full }, func(err error) { told = err })
	for range 3 {
		q.put(experiment.Record{})
	}
	q.close()
	if calls != 1 || !errors.Is(told, full) {
		t.Errorf("%d calls of emit, told %v; want 1 and its error", calls, told)
	}
}

func TestVersion(t *testing.T) {
	if Version() == "" {
		t.Error("no version")
	}
}
