package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/backend/sim"
	"github.com/napistall/napistall/internal/experiment"
)

// A traced is one event of the simulator's trace.
type traced struct {
	Name  string  `json:"name"`
	TS    float64 `json:"ts"` // microseconds since the load began
	CPU   int     `json:"tid"`
	Scope string  `json:"s"` // p for what a step brought about
}

// A grace is what a trace says of the first grace periods that don't end, in jiffies since each began.
type grace struct {
	scans                    []int64 // of the normal one, by its kthread
	urgent, heavy, resched   int64   // at the first scan that asked for help so
	selfReports, expStallAge []int64
}

// TestEscalationTimes holds the simulator's trace of a stall to the times of rcu_watching_snap_recheck and check_cpu_stall
// (kernel/rcu/tree.c, tree_stall.h): a CPU is urgent at the first scan more than HZ/10 jiffies after the grace period began,
// heavy after twice that, sent an interrupt past half the stall timeout T, and reported at T and at 4·T + 3 jiffies, all
// to the jiffy.
func TestEscalationTimes(t *testing.T) {
	for _, c := range []struct{ hz, sec int64 }{{100, 60}, {250, 3}, {250, 21}, {1000, 3}} {
		t.Run(fmt.Sprintf("%d HZ, %d s", c.hz, c.sec), func(t *testing.T) { checkEscalation(t, c.hz, c.sec) })
	}
}

func checkEscalation(t *testing.T, hz, sec int64) {
	g := graceOf(t, hz, sec)
	if len(g.scans) < 2 {
		t.Fatalf("scans at the jiffies %d; want many", g.scans)
	}
	after := func(n int64) int64 {
		i := slices.IndexFunc(g.scans, func(j int64) bool { return j > n })
		return g.scans[max(i, 0)]
	}
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"urgent", g.urgent, after(hz / 10)}, {"heavy", g.heavy, after(2 * (hz / 10))}, {"resched_cpu", g.resched, after(sec * hz / 2)},
	} {
		if c.got != c.want {
			t.Errorf("%s at jiffy %d; want the first scan beyond, at %d", c.what, c.got, c.want)
		}
	}
	if period := g.scans[1] - g.scans[0]; g.urgent <= hz/10 || g.urgent > hz/10+period {
		t.Errorf("urgent at jiffy %d; want it beyond jiffy %d by at most a period of %d", g.urgent, hz/10, period)
	}
	if want := []int64{sec * hz, 4*sec*hz + 3}; !slices.Equal(g.selfReports, want) {
		t.Errorf("reports at jiffies %d; want %d", g.selfReports, want)
	}
	if late := lateReports(conduct{hz: int(hz), stallSec: int(sec), classic: g.selfReports, expedited: g.expStallAge}, 0); late != nil {
		t.Error(late)
	}
}

// graceOf runs a bounce on a NONE kernel for as long as two reports take, and reads the trace.
func graceOf(t *testing.T, hz, sec int64) grace {
	t.Helper()
	hold := 4*sec + sec/10 + 7
	e, err := experiment.Parse("times", fmt.Appendf(nil, `
name: times
kernel: model:6.12
stall-timeout: %ds
load: {kind: bounce, inflight: 1, hold: %ds}
model: {costs: {poll: 5ms}} # few events
arms:
- {name: none, config: {preempt: none, hz: %d}}
`, sec, hold, hz))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	b := sim.Backend{Trace: func(experiment.Trial) (*sim.Trace, error) {
		tr := sim.NewTrace(&text)
		tr.To = hold * 1e9
		tr.Max = math.MaxInt
		return tr, nil
	}}
	target, err := b.Acquire(t.Context(), e.Arms[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Run(t.Context(), experiment.Plan(e)[0], func(experiment.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		TraceEvents []traced `json:"traceEvents"`
	}
	if err := json.Unmarshal([]byte(text.String()), &doc); err != nil {
		t.Fatal(err)
	}
	return readGrace(doc.TraceEvents, hz)
}

// readGrace finds the jiffies by CPU 0's ticks, each of which comes up to 2 us after its jiffy begins.
func readGrace(events []traced, hz int64) grace {
	jiffy, phase := 1e6/float64(hz), math.Inf(1)
	for _, e := range events {
		if e.CPU == 0 && e.Name == "update_process_times" {
			phase = min(phase, math.Mod(e.TS, jiffy))
		}
	}
	of := func(ts float64) int64 { return int64(math.Floor((ts - phase + 2) / jiffy)) }
	g := grace{urgent: -1, heavy: -1, resched: -1}
	var began, expBegan int64
	first := func(at *int64, j int64) {
		if *at < 0 {
			*at = j
		}
	}
	for _, e := range events {
		if e.Scope != "p" {
			continue
		}
		j := of(e.TS)
		for _, effect := range strings.Fields(e.Name) {
			switch effect {
			case "gp-start":
				began, g.scans = j, nil
			case "exp-start":
				expBegan = j
			case "fqs-timer":
				if j > began {
					g.scans = append(g.scans, j-began)
				}
			case "urgent":
				first(&g.urgent, j-began)
			case "heavy":
				first(&g.heavy, j-began)
			case "resched":
				first(&g.resched, j-began)
			case "stall-self":
				g.selfReports = append(g.selfReports, j-began)
			case "stall-exp":
				g.expStallAge = append(g.expStallAge, j-expBegan)
			}
		}
	}
	return g
}
