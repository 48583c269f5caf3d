package runner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
)

// lines runs plan on f and returns the progress of its trials as lines.
func lines(t *testing.T, f *fake, plan []experiment.Trial) []string {
	t.Helper()
	var got []string
	r := Runner{Backend: f, Dir: create(t, plan), Retries: 1, Progress: func(p Progress) { got = append(got, Line(p)) }}
	if _, err := r.Run(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestProgressOfATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := strings.Split(strings.TrimSpace(`
1/1  stock         prepare       0 s
1/1  stock         ready         0 s
1/1  stock         prepare    0/21 s
1/1  stock         prepare    1/21 s
1/1  stock         prepare    2/21 s
1/1  stock         prepare    3/21 s
1/1  stock         prepare    4/21 s
1/1  stock         hold       4/10 s
1/1  stock         hold       5/10 s
1/1  stock         hold       6/10 s    1 sample   worst 0.001 s
1/1  stock         hold       7/10 s    2 samples  worst 0.002 s
1/1  stock         hold       8/10 s    3 samples  worst 0.003 s
1/1  stock         hold       9/10 s    4 samples  worst 0.004 s
1/1  stock         hold      10/10 s    5 samples  worst 0.005 s
1/1  stock         done         10 s    6 samples  worst 0.006 s`), "\n")
		f := &fake{run: halfLater}
		if diff := cmp.Diff(want, lines(t, f, planOf(1, "stock"))); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// halfLater is tenSeconds between the runner's ticks, so that what it sees is certain.
func halfLater(ctx context.Context, t experiment.Trial, emit func(experiment.Record) error) error {
	if err := rest(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	return tenSeconds(ctx, t, emit)
}

// TestProgressOfAStall: while a delete is outstanding, the line says for how long by now.
func TestProgressOfAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{run: func(ctx context.Context, _ experiment.Trial, emit func(experiment.Record) error) error {
			err := emit(experiment.Record{At: second(10), Phase: &experiment.Phase{Name: experiment.Hold}})
			for i := range 4 {
				err = errors.Join(err, rest(ctx, 900*time.Millisecond),
					emit(experiment.Record{At: second(11 + i), Counters: &experiment.Counters{}}))
			}
			err = errors.Join(err, emit(experiment.Record{At: second(14), Kmsg: &experiment.Kmsg{Stamp: 14 * time.Second,
				Text: "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-.... } 2101 jiffies s: 89 root: 0x2/."}}))
			blocked := &experiment.Sample{Op: experiment.LinkDel, Start: second(10), Took: 4 * time.Second, Censored: true}
			other := &experiment.Sample{Op: experiment.Membarrier, Start: second(10), Took: 9 * time.Second}
			refused := &experiment.Sample{Op: experiment.LinkDel, Start: second(10), Took: 9 * time.Second, Err: "EPERM"}
			for _, s := range []*experiment.Sample{blocked, other, refused} {
				err = errors.Join(err, emit(experiment.Record{At: second(14), Sample: s}))
			}
			return errors.Join(err, emit(experiment.Record{End: &experiment.End{Outcome: experiment.Silent}}))
		}}
		want := strings.Split(strings.TrimSpace(`
1/1  stock         hold        0/6 s
1/1  stock         hold        1/6 s
1/1  stock         hold        2/6 s    0 samples  worst ≥ 1.75 s
1/1  stock         hold        3/6 s    0 samples  worst ≥ 2.75 s
1/1  stock         done          3 s    1 sample   worst ≥ 4.00 s  1 stall`), "\n")
		got := lines(t, f, planOf(1, "stock"))
		if diff := cmp.Diff(want, got[3:]); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

// TestProgressLearns: once a trial of an arm is finished, the next knows what boot costs; a try that
// gave no data says why.
func TestProgressLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		f := &fake{run: func(ctx context.Context, tr experiment.Trial, emit func(experiment.Record) error) error {
			if tries++; tries == 2 {
				return &backend.MachineError{Op: "boot", Err: errors.New("QEMU died\nof something\twith a long story that does not fit in the line")}
			}
			return tenSeconds(ctx, tr, emit)
		}}
		got := strings.Join(lines(t, f, planOf(2, "stock")), "\n")
		for _, want := range []string{
			"2/2  stock         prepare    0/10 s\n",
			"2/2  stock         no data: boot: QEMU died of something with a long story that…\n",
			"2/2  stock         prepare    0/10 s  try 2\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("lines:\n%s\nwant among them:\n%s", got, want)
			}
		}
	})
}

// FuzzLine: whatever is measured, a line has no more than 80 columns and is one line.
func FuzzLine(f *testing.F) {
	f.Add("above-band", "hold", 12, 345, 2, int64(time.Minute), int64(1e12), 12345, "")
	f.Add(strings.Repeat("é", 99), "prepare", 1000, 1000, 1, int64(-1), int64(0), -1, "a\r\nb\x1b[2J")
	f.Fuzz(func(t *testing.T, arm, phase string, index, total, try int, elapsed, worst int64, samples int, fail string) {
		p := Progress{Trial: "x", Arm: arm, Phase: phase, Index: index, Total: total, Try: try, Samples: samples,
			Elapsed: time.Duration(elapsed), Expect: time.Duration(elapsed), Worst: time.Duration(worst), OverWorst: true, Stalls: samples}
		if fail != "" {
			p.Err = errors.New(fail)
		}
		line := Line(p)
		if utf8.RuneCountInString(line) > 80 || strings.ContainsAny(line, "\n\r\x1b") {
			t.Errorf("Line(%+v) = %q", p, line)
		}
	})
}
