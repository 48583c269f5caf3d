package sim

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func linesOf(recs []experiment.Record) []byte {
	var b bytes.Buffer
	for _, r := range recs {
		text, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		b.Write(append(text, '\n'))
	}
	return b.Bytes()
}

// TestGolden fixes all records of short trials: the same on every machine, and until somebody means to change them.
func TestGolden(t *testing.T) {
	for name, arm := range map[string]string{
		"bounce": "{name: a, kernel: debian:sid/armhf, preempt: voluntary, stall-timeout: 3s, load: {inflight: 4, hold: 4s}, duration: 5s}",
		"board":  "{name: a, kernel: model:6.18/arm64, vcpus: 4, config: {preempt: none, hz: 100}, stall-timeout: 3s, load: {kind: paced, rate: 80862/s, size: 1514, hold: 4s}, model: {report-cost: 30ms, costs: {poll: 20us, packet: 9us}}, probe: {device: veth}}",
		"tcp":    "{name: a, kernel: model:7.3, preempt: lazy, load: {kind: tcp, window: 200, hold: 1s}, nic: {moderation: 50us, ring: 128}, model: {backlog: true, user: true}, probe: {op: rcu-barrier}}",
	} {
		got := linesOf(records(t, armOf(t, arm), 7))
		path := filepath.Join("testdata", name+".jsonl")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestSameSeedSameBytes, and another seed gives others.
func TestSameSeedSameBytes(t *testing.T) {
	arm := armOf(t, "{name: a, kernel: model:6.18, preempt: none, load: {inflight: 16, hold: 2s}}")
	one, two, other := linesOf(records(t, arm, 5)), linesOf(records(t, arm, 5)), linesOf(records(t, arm, 6))
	if !bytes.Equal(one, two) {
		t.Error("two trials of one seed differ")
	}
	if bytes.Equal(one, other) {
		t.Error("trials of two seeds are equal")
	}
}

// eventsOf reads a trial's log as klog does.
func eventsOf(recs []experiment.Record) []klog.Event {
	var lines []klog.Line
	for _, r := range recs {
		if r.Kmsg != nil {
			lines = append(lines, klog.Line{Stamp: r.Kmsg.Stamp, HasStamp: true, Text: r.Kmsg.Text})
		}
	}
	return klog.Parse(lines)
}

// TestReportsAtTheirTimes: the first classic report is T after the grace period began, to the jiffy, the second 3T and 3
// jiffies later; klog reads them as one stall (kernel/rcu/tree_stall.h).
func TestReportsAtTheirTimes(t *testing.T) {
	for _, c := range []struct {
		arm, cpu string
		hz       int
	}{
		{"{name: a, kernel: debian:sid/armhf, stall-timeout: 3s, load: {hold: 14s}}", "1", 250},
		{"{name: a, kernel: model:6.18, config: {preempt: none, hz: 100}, vcpus: 4, stall-timeout: 3s, load: {hold: 14s, cpu: 2}}", "2", 100},
		{"{name: a, kernel: model:6.12, config: {preempt: voluntary, hz: 1000}, stall-timeout: 3s, load: {hold: 14s, inflight: 16}}", "1", 1000},
	} {
		var ages []string
		recs := records(t, armOf(t, c.arm), 3)
		for _, r := range recs {
			if r.Kmsg == nil {
				continue
			}
			if _, rest, ok := strings.Cut(r.Kmsg.Text, "t="); ok {
				jiffies, _, _ := strings.Cut(rest, " ")
				ages = append(ages, strings.TrimSuffix(jiffies, ","))
			}
			if strings.HasPrefix(r.Kmsg.Text, "rcu: \t"+c.cpu) == strings.Contains(r.Kmsg.Text, "(t=") && strings.Contains(r.Kmsg.Text, "-....:") {
				t.Errorf("%s: CPU line %q", c.arm, r.Kmsg.Text)
			}
		}
		want := []string{fmt.Sprint(3 * c.hz), fmt.Sprint(12*c.hz + 3)}
		if d := cmp.Diff(want, ages); d != "" {
			t.Errorf("%s: ages in jiffies (-want +got):\n%s", c.arm, d)
		}
		events := eventsOf(recs)
		if n := klog.Count(events, klog.Classic); n != 1 {
			t.Errorf("%s: klog counts %d classic stalls; want 1", c.arm, n)
		}
		if n := klog.Count(events, klog.Expedited); n != 1 {
			t.Errorf("%s: klog counts %d expedited stalls; want 1", c.arm, n)
		}
	}
}

// TestUrgentAfterTenthOfASecond: RCU asks a CPU for help in the first scan that is more than HZ/10 jiffies after the
// grace period began, and demands it in the first that is more than twice that; scans are as far apart as RCU and the timer
// wheel make them.
func TestUrgentAfterTenthOfASecond(t *testing.T) {
	for hz, scan := range map[int]int64{100: 2, 250: 2, 300: 3, 1000: 4} {
		arm := armOf(t, fmt.Sprintf("{name: a, kernel: model:6.18, config: {preempt: none, hz: %d}, load: {hold: 1s}, model: {costs: {neighbour: 0s}}}", hz))
		target, err := Backend{}.Acquire(t.Context(), arm)
		if err != nil {
			t.Fatal(err)
		}
		s := target.(interface {
			session(experiment.Trial, func(experiment.Record) error) *session
		}).session(experiment.Trial{Rep: 1, Seed: 2, Arm: arm}, func(experiment.Record) error { return nil })
		var began, urgent, heavy int64
		s.watch = func(out model.Outcome) {
			f, j := out.Effects, s.k.of(s.now)
			switch {
			case f&model.EffGPStart != 0 && began == 0:
				began = j
			case f&model.EffHeavy != 0 && heavy == 0:
				heavy = j
			case f&model.EffUrgent != 0 && urgent == 0:
				urgent = j
			}
		}
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		tenth := int64(hz) / 10
		if d := urgent - began; d <= tenth || d > tenth+scan {
			t.Errorf("HZ=%d: urgent %d jiffies after the start; want %d to %d", hz, d, tenth+1, tenth+scan)
		}
		if d := heavy - began; d <= 2*tenth || d > 2*tenth+scan {
			t.Errorf("HZ=%d: heavy %d jiffies after the start; want %d to %d", hz, d, 2*tenth+1, 2*tenth+scan)
		}
	}
}

// TestBandEdges: 16 in flight are in the band, 17 above it.
func TestBandEdges(t *testing.T) {
	for inflight, stalls := range map[int]bool{1: true, 16: true, 17: false, 40: false} {
		recs := records(t, armOf(t, fmt.Sprintf("{name: a, kernel: debian:sid/armhf, load: {inflight: %d, hold: 3s}}", inflight)), 1)
		var last experiment.Counters
		var worst time.Duration
		for _, r := range recs {
			if r.Counters != nil {
				last = *r.Counters
			}
			if r.Sample != nil && r.Sample.Op == experiment.LinkDel {
				worst = max(worst, r.Sample.Took)
			}
		}
		if full := last.FullPolls*2 > last.Polls; full == stalls {
			t.Errorf("%d in flight: %d of %d polls full", inflight, last.FullPolls, last.Polls)
		}
		if (worst > 2900*time.Millisecond) != stalls {
			t.Errorf("%d in flight: worst deletion %v", inflight, worst)
		}
	}
}

// TestWaitsAreWhatWasWaitedFor: a deletion that waits for the kworker of a hogged CPU says so, and so does its stack.
func TestWaitsAreWhatWasWaitedFor(t *testing.T) {
	recs := records(t, armOf(t, "{name: a, kernel: model:6.18, preempt: none, load: {hold: 3s}, model: {backlog: true}}"), 1)
	for _, r := range recs {
		if s := r.Sample; s != nil && s.Op == experiment.LinkDel && s.Took > 2*time.Second {
			if s.Waits[rcu.FlushWork] < 40 || len(s.Stack) == 0 || s.Stack[1] != "flush_all_backlogs" {
				t.Errorf("waits %v, stack %v; want flush_work", s.Waits, s.Stack)
			}
			return
		}
	}
	t.Error("no deletion was held")
}

// TestReportCostRescues: printing a report keeps the CPU from its ring for so long that the next poll is
// full and reaches cond_resched.
func TestReportCostRescues(t *testing.T) {
	worst := func(cost string) time.Duration {
		var w time.Duration
		for _, r := range records(t, armOf(t, "{name: a, kernel: model:6.18, config: {preempt: none}, stall-timeout: 3s, load: {kind: paced, rate: 80k/s, hold: 20s}, model: {report-cost: "+cost+", costs: {poll: 20us, packet: 9us, neighbour: 0s}}}"), 1) {
			if r.Sample != nil && r.Sample.Op == experiment.LinkDel {
				w = max(w, r.Sample.Took)
			}
		}
		return w
	}
	if w := worst("0s"); w < 19*time.Second {
		t.Errorf("without a cost: worst %v; want the whole hold", w)
	}
	if w := worst("30ms"); w < 3*time.Second || w > 7*time.Second {
		t.Errorf("with 30 ms: worst %v; want it to end with the first reports", w)
	}
}

// TestTraceSchema: a trace is JSON as ui.perfetto.dev takes it: events with name, ph, pid, tid and ts, slices with a length,
// not before the one before them on their track.
func TestTraceSchema(t *testing.T) {
	var b bytes.Buffer
	tr := NewTrace(&b)
	tr.To = 3 * millisecond
	arm := armOf(t, "{name: a, kernel: debian:sid/armhf, load: {hold: 1s}}")
	target, err := Backend{Trace: func(experiment.Trial) (*Trace, error) { return tr, nil }}.Acquire(t.Context(), arm)
	if err != nil {
		t.Fatal(err)
	}
	trial := experiment.Trial{Rep: 1, Seed: 1, Arm: arm}
	if err := target.Run(t.Context(), trial, func(experiment.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []struct {
			Name     string   `json:"name"`
			Ph       string   `json:"ph"`
			PID, TID *int     `json:"-"`
			P        *int     `json:"pid"`
			T        *int     `json:"tid"`
			Ts       *float64 `json:"ts"`
			Dur      float64  `json:"dur"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(b.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	end, seen := map[int]float64{}, map[string]bool{}
	for i, ev := range file.TraceEvents {
		seen[ev.Name] = true
		switch {
		case ev.Name == "" || ev.P == nil || ev.T == nil || ev.Ph != "M" && ev.Ts == nil:
			t.Fatalf("event %d lacks a field: %+v", i, ev)
		case ev.Ph == "X":
			if *ev.Ts < end[*ev.T]-0.001 || ev.Dur <= 0 {
				t.Fatalf("event %d begins at %v for %v, before the end of the one before at %v", i, *ev.Ts, ev.Dur, end[*ev.T])
			}
			end[*ev.T] = *ev.Ts + ev.Dur
		case ev.Ph != "i" && ev.Ph != "M":
			t.Fatalf("event %d of kind %q", i, ev.Ph)
		}
	}
	for _, name := range []string{"__napi_poll", "napi_complete_done", "update_process_times", "thread_name"} {
		if !seen[name] {
			t.Errorf("no %s in the trace", name)
		}
	}
	if len(file.TraceEvents) < 1000 {
		t.Errorf("%d events in 3 ms", len(file.TraceEvents))
	}
}

// TestTicksAreNotInStep: where a tick's period is a whole number of passes and one interrupt, ticks still find the thread
// with softirqs on as often as it is so, and end grace periods by it.
func TestTicksAreNotInStep(t *testing.T) {
	arm := armOf(t, "{name: a, kernel: model:6.18, preempt: none, load: {inflight: 1, hold: 40s}, model: {costs: {entry: 200ns, neighbour: 0s}}}")
	n := 0
	for _, r := range records(t, arm, 1) {
		if r.Sample == nil || r.Sample.Op != experiment.LinkDel || r.Sample.Phase != experiment.Hold {
			continue
		}
		if n++; r.Sample.Took > 3*time.Second {
			t.Errorf("a deletion took %v", r.Sample.Took)
		}
	}
	if n < 40 {
		t.Errorf("%d deletions in 40 s", n)
	}
}

// TestNeighbour: whoever else wants the CPU gets it, and counts as an involuntary switch, where there is a point to switch at.
func TestNeighbour(t *testing.T) {
	for _, c := range []struct {
		arm      string
		switches [2]uint64 // in 60 s
	}{
		{"kernel: model:6.18, preempt: lazy, model: {costs: {neighbour: 50ms}}", [2]uint64{1050, 1300}},
		{"kernel: model:6.12, preempt: full, model: {costs: {neighbour: 500ms}}", [2]uint64{85, 160}},
		{"kernel: model:6.12, config: {preempt: none}, loop: yield-on-exit, model: {costs: {neighbour: 50ms}}", [2]uint64{1050, 1300}},
		{"kernel: model:6.12, config: {preempt: none}, model: {costs: {neighbour: 50ms}}", [2]uint64{0, 0}},
		{"kernel: model:6.18, preempt: lazy, model: {costs: {neighbour: 0s}}", [2]uint64{0, 0}},
	} {
		var last experiment.Counters
		for _, r := range records(t, armOf(t, "{name: a, load: {inflight: 4, hold: 60s}, "+c.arm+"}"), 3) {
			if r.Counters != nil && r.Counters.InHold {
				last = *r.Counters
			}
		}
		if n := last.Nonvoluntary; n < c.switches[0] || n > c.switches[1] {
			t.Errorf("%s: %d involuntary switches; want %d to %d", c.arm, n, c.switches[0], c.switches[1])
		}
	}
}
