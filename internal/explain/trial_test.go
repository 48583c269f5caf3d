package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/klog"
)

func containsFold(s, sub string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(sub))
}

func TestTrialSummary(t *testing.T) {
	s := stock()
	s.losses = []experiment.Loss{{What: "kmsg lines", Count: 3}}
	sum := s.summary()
	if sum.Outcome != experiment.Completed || sum.ID != "000-stock-1" || sum.Command.Accel != "tcg" {
		t.Errorf("outcome %q, id %q, accel %q", sum.Outcome, sum.ID, sum.Command.Accel)
	}
	if h, tail := len(sum.Main().Hold), len(sum.Main().Tail); h != 1 || tail != 10 {
		t.Errorf("%d samples in the hold and %d after it; want 1 and 10", h, tail)
	}
	if c, e := sum.Stalls(klog.Classic), sum.Stalls(klog.Expedited); c != 1 || e != 1 {
		t.Errorf("stalls %d+%d; want 1+1", c, e)
	}
	if sum.Band.Band != In || sum.Band.In != 30 {
		t.Errorf("band %+v; want in, 30 s", sum.Band)
	}
	if x, ok := sum.Rates.PerSecond(sum.Rates.Polls); !ok || x != 340_000 {
		t.Errorf("polls/s %v %v; want 340000", x, ok)
	}
	if x, ok := sum.Rates.RunShare(); !ok || x != 1 {
		t.Errorf("run share %v %v; want 1", x, ok)
	}
	if d := cmp.Diff(s.losses, sum.Losses); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
}

func TestTrialConsoleInPieces(t *testing.T) {
	tr := NewTrial(experiment.Trial{Rep: 1, Arm: arm("a")})
	tr.Add(experiment.Record{Phase: &experiment.Phase{Name: experiment.Hold}})
	// The first stall is in both views, the second only on the console, the last line without its end.
	for i, l := range classicStall(7) {
		tr.Add(experiment.Record{Kmsg: &experiment.Kmsg{Stamp: 26*time.Second + time.Duration(i)*time.Millisecond, Level: 3, Text: l}})
	}
	var console strings.Builder
	for i, l := range classicStall(7) {
		fmt.Fprintf(&console, "[   26.%06d] %s\r\n", i*1000, l)
	}
	for i, l := range classicStall(8) {
		fmt.Fprintf(&console, "[   90.%06d] %s\r\n", i*1000, l)
	}
	text := strings.TrimRight(console.String(), "\r\n")
	for len(text) > 0 {
		n := min(7, len(text))
		tr.Add(experiment.Record{Console: &experiment.Console{Text: text[:n]}})
		text = text[n:]
	}
	sum := tr.Summary()
	if n := sum.Stalls(klog.Classic); n != 2 {
		t.Errorf("%d classic stalls; want 2: %+v", n, sum.Events)
	}
	if sum.Outcome != Cut {
		t.Errorf("outcome %q of records without End; want %q", sum.Outcome, Cut)
	}
	if again := tr.Summary(); len(again.Events) != len(sum.Events) {
		t.Errorf("a second Summary has %d events; want %d", len(again.Events), len(sum.Events))
	}
}

func TestTrialReportsFromBeforeTheLoadAreApart(t *testing.T) {
	s := stock()
	s.early = classicStall(3)
	sum := s.summary()
	if len(sum.Early) != 1 || sum.Stalls(klog.Classic) != 1 {
		t.Errorf("%d early, %d counted; want 1 and 1", len(sum.Early), sum.Stalls(klog.Classic))
	}
	contains(t, NotMeasured([]ArmSummary{Summarize(s.arm, []TrialSummary{sum})}), "stock: 1 report of the kernel from before the load")
}

func TestTrialRefusedOperationsAreInNoList(t *testing.T) {
	tr := NewTrial(experiment.Trial{Rep: 1, Arm: arm("a")})
	for _, s := range []experiment.Sample{
		{Op: experiment.LinkDel, Err: "operation not permitted", Phase: experiment.Hold},
		{Op: experiment.LinkDel, Err: "again", Phase: experiment.Hold},
		{Op: experiment.RCUBarrier, Took: 3, Start: 2, Phase: experiment.Hold},
		{Op: experiment.Membarrier, Took: 2, Start: 9, Phase: experiment.Tail},
		{Op: experiment.Membarrier, Took: 1, Start: 1, Phase: experiment.Hold},
	} {
		tr.Add(experiment.Record{Sample: &s})
	}
	sum := tr.Summary()
	var ops []string
	for _, o := range sum.Ops {
		ops = append(ops, fmt.Sprintf("%s %d %d %d %s", o.Op, len(o.Hold), len(o.Tail), o.Refused, o.Refusal))
	}
	want := []string{"link-del 0 0 2 operation not permitted", "membarrier 1 1 0 ", "rcu-barrier 1 0 0 "}
	if d := cmp.Diff(want, ops); d != "" {
		t.Errorf("ops (-want +got):\n%s", d)
	}
}

func TestTrialLogIsBounded(t *testing.T) {
	tr := NewTrial(experiment.Trial{Rep: 1, Arm: arm("a")})
	for range maxLogLines + 5 {
		tr.Add(experiment.Record{Kmsg: &experiment.Kmsg{Stamp: time.Second, Text: "x"}})
	}
	tr.Add(experiment.Record{Console: &experiment.Console{Text: strings.Repeat("y", 3*maxLine)}})
	if len(tr.part) > maxLine {
		t.Errorf("a console line of %d bytes is kept; want at most %d", len(tr.part), maxLine)
	}
	want := []experiment.Loss{{What: "kernel log lines", Count: 5, Why: "more than 20000"}}
	if d := cmp.Diff(want, tr.Summary().Losses); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
}

func TestCountersThatGoDownAreALoss(t *testing.T) {
	tr := NewTrial(experiment.Trial{Rep: 1, Arm: arm("a")})
	for i, polls := range []uint64{100, 5100, 10100, 3, 5003} {
		tr.Add(experiment.Record{At: holdStart.Add(time.Duration(i) * time.Second),
			Counters: &experiment.Counters{Traced: true, Polls: polls, InHold: true}})
	}
	sum := tr.Summary()
	if sum.Rates.Windows != 3 || sum.Rates.Polls != 15_000 || len(sum.Losses) != 1 {
		t.Errorf("%d windows, %d polls, losses %v; want 3, 15000, one", sum.Rates.Windows, sum.Rates.Polls, sum.Losses)
	}
}

// FuzzTrial feeds arbitrary console text: nothing panics, and how it is cut into pieces changes nothing.
func FuzzTrial(f *testing.F) {
	f.Add("[   26.000000] "+strings.Join(classicStall(7), "\n[   26.000001] ")+"\n", uint8(3))
	f.Add("\n\r\n\x00\xff"+strings.Join(softLockup(), "\n"), uint8(1))
	f.Fuzz(func(t *testing.T, text string, step uint8) {
		whole, pieces := NewTrial(experiment.Trial{Arm: arm("a")}), NewTrial(experiment.Trial{Arm: arm("a")})
		whole.Add(experiment.Record{Console: &experiment.Console{Text: text}})
		for n := int(step%16) + 1; text != ""; text = text[min(n, len(text)):] {
			pieces.Add(experiment.Record{Console: &experiment.Console{Text: text[:min(n, len(text))]}})
		}
		if d := cmp.Diff(whole.Summary().Events, pieces.Summary().Events); d != "" {
			t.Errorf("events by pieces (-whole +pieces):\n%s", d)
		}
	})
}
