package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
)

// A modelStory is what the model's own steps say of one deletion.
type modelStory struct {
	start, end int64
	waits      []modelWait
	polls      int // entries of the poll loop while it lasted
	full       int
	urgent     []int64 // when RCU's scans set the flag for the CPU under test
	heavy      []int64
	resched    []int64
	reports    []int64
	sleeps     int
}

type modelWait struct {
	name     string
	from, to int64
}

// A modelTeller watches every step of an engine and tells of probe 0.
type modelTeller struct {
	e       *engine
	current *modelStory
	told    []modelStory
	entered map[model.Op]int
}

func (t *modelTeller) step(out model.Outcome) {
	f, now := out.Effects, t.e.now
	x := &t.e.rec.probing[0]
	if t.current == nil && x.running {
		t.current = &modelStory{start: x.start}
		t.entered = map[model.Op]int{}
	}
	if t.current == nil {
		return
	}
	c := t.current
	if f&model.EffPoll != 0 {
		c.polls++
	}
	if f&model.EffFullPoll != 0 {
		c.full++
	}
	if f&model.EffSwitchVol != 0 && out.Task == model.NAPIThread {
		c.sleeps++
	}
	note := func(at *[]int64, effect model.Effects) {
		if f&effect != 0 {
			*at = append(*at, now)
		}
	}
	note(&c.urgent, model.EffUrgent)
	note(&c.heavy, model.EffHeavy)
	note(&c.resched, model.EffResched)
	note(&c.reports, model.EffStallSelf|model.EffStallOther|model.EffStallExp)
	if f&(model.ProbeWait(0)|model.ProbeDone(0)) == 0 {
		return
	}
	if n := len(c.waits); n > 0 {
		c.waits[n-1].to = now
	}
	if f&model.ProbeDone(0) != 0 {
		c.end = now
		t.told, t.current = append(t.told, *c), nil
		return
	}
	op := t.e.m.ProbeOp(&t.e.s, 0)
	t.entered[op]++
	name := string(rcu.Waits()[waitOf(op)])
	if op == model.SyncNet {
		name = fmt.Sprintf("%s %d/%d", name, t.entered[op], calls(x.program, op))
	}
	c.waits = append(c.waits, modelWait{name: name, from: now})
}

// bothStories runs a trial of arm step by step and returns a teller of its records and what the model's steps say.
func bothStories(t *testing.T, text string, seed uint64) (*explain.Teller, []modelStory) {
	t.Helper()
	arm := armOf(t, text)
	trial := experiment.Trial{Rep: 1, Seed: seed, Arm: arm}
	target := &target{}
	if err := target.prepare(arm); err != nil {
		t.Fatal(err)
	}
	teller := explain.NewTeller(trial)
	s := target.session(trial, func(r experiment.Record) error { teller.Add(r); return nil })
	m := &modelTeller{e: s.engine}
	s.watch = m.step
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	return teller, m.told
}

// TestStoryIsTheModels: what explain makes of a trial's records is what the model did, within what looking each
// StackEvery and counting each second can tell. Polls are slow, so that stepping through them is not.
func TestStoryIsTheModels(t *testing.T) {
	for name, arm := range map[string]string{
		"stock":   "{name: a, kernel: model:6.12/amd64, config: {preempt: none}, stall-timeout: 3s, load: {inflight: 1, hold: 4s}, duration: 5s, model: {costs: {poll: 50us}}, probe: {every: 400ms}}",
		"flush":   "{name: a, kernel: model:6.18/amd64, config: {preempt: none}, stall-timeout: 3s, load: {inflight: 1, hold: 3500ms}, duration: 5s, model: {backlog: true, costs: {poll: 50us}}, probe: {every: 400ms}}",
		"yields":  "{name: a, kernel: model:6.12/amd64, config: {preempt: none}, loop: yield-on-exit, load: {inflight: 1, hold: 3s}, duration: 4s, model: {costs: {poll: 50us}}, probe: {every: 100ms}}",
		"board":   "{name: a, kernel: model:6.18/arm64, vcpus: 4, config: {preempt: none, hz: 100}, stall-timeout: 3s, load: {kind: paced, rate: 80862/s, size: 1514, hold: 4s}, duration: 5s, model: {report-cost: 30ms, costs: {poll: 20us, packet: 9us}}, probe: {device: veth}}",
		"softirq": "{name: a, kernel: model:6.12/amd64, config: {preempt: none}, threaded: false, load: {inflight: 1, hold: 3s}, duration: 4s, model: {costs: {poll: 50us}}}",
	} {
		t.Run(name, func(t *testing.T) {
			teller, told := bothStories(t, arm, 3)
			all := teller.Operations()
			if len(told) < 2 || len(all) < len(told) {
				t.Fatalf("%d stories of the model's, %d operations in the records", len(told), len(all))
			}
			held := 0
			for i, want := range told {
				got := teller.Tell(i + 1)
				if got.Held {
					held++
				}
				compareStories(t, got, want)
			}
			if (held > 0) != (name == "stock" || name == "flush" || name == "board") {
				t.Errorf("%d operations held", held)
			}
		})
	}
}

func compareStories(t *testing.T, got explain.Story, want modelStory) {
	t.Helper()
	if int64(got.Sample.Start) != want.start || int64(got.Sample.Took) != want.end-want.start {
		t.Fatalf("%s: began at %d and took %d; the model's at %d, %d", got.Name(), got.Sample.Start, got.Sample.Took, want.start, want.end-want.start)
	}
	seen, real := map[string]time.Duration{}, map[string]time.Duration{}
	var order, calls []string
	for _, x := range got.Spans {
		name := string(x.Wait)
		if x.Call > 0 {
			name = fmt.Sprintf("%s %d/%d", x.Wait, x.Call, x.Of)
		}
		seen[name] += x.Took()
		order = append(order, name)
	}
	for _, w := range want.waits {
		real[w.name] += time.Duration(w.to - w.from)
		calls = append(calls, w.name)
	}
	// Each end of a span is off by half a look at most, and a wait that no look fell into is missing whole.
	tolerance := 2*experiment.StackEvery + time.Millisecond
	for name, d := range real {
		if diff := (d - seen[name]).Abs(); diff > tolerance {
			t.Errorf("%s: %v in %s by the stack samples; the model's %v", got.Name(), seen[name], name, d)
		}
	}
	for _, name := range order {
		i := slices.Index(calls, name)
		if i < 0 {
			t.Fatalf("%s: spans %q; the model's waits were %q", got.Name(), order, calls)
		}
		calls = calls[i:]
	}
	comparePolls(t, got, want)
	if got.Held {
		compareEscalation(t, got, want)
	}
}

// comparePolls: the counters' windows around the operation hold no fewer polls and sleeps than the model took in it.
func comparePolls(t *testing.T, got explain.Story, want modelStory) {
	t.Helper()
	var polls, full, sleeps uint64
	for _, x := range got.Ticks {
		if x.To > 0 && x.From < got.Sample.Took {
			polls, full, sleeps = polls+x.Window.Polls, full+x.Window.Full, sleeps+x.Window.Sleeps
		}
	}
	if int(polls) < want.polls || int(full) < want.full || got.Arm.Threaded && int(sleeps) < want.sleeps {
		t.Errorf("%s: %d polls, %d full, %d sleeps in the windows around it; the model's %d, %d, %d", got.Name(), polls, full, sleeps, want.polls, want.full, want.sleeps)
	}
}

// compareEscalation: where explain says that RCU turned to more, the model did so within two of its scans, and each
// report that was due came. The model's normal grace period is another than the expedited one that a deletion sits
// in, so only the kinds that the prediction names are compared.
func compareEscalation(t *testing.T, got explain.Story, want modelStory) {
	t.Helper()
	near := func(what string, at time.Duration, all []int64, within time.Duration) {
		t.Helper()
		for _, x := range all {
			if (time.Duration(x-want.start) - at).Abs() <= within {
				return
			}
		}
		t.Errorf("%s: %s predicted at %v; the model's came at %v after %d", got.Name(), what, at, all, want.start)
	}
	jiffy := time.Second / time.Duration(got.Facts.HZ)
	for _, m := range got.Marks {
		switch {
		case !m.Predicted:
		case m.Kind == explain.Urgent:
			near("urgent", m.At, want.urgent, experiment.StackEvery+3*jiffy)
		case m.Kind == explain.Heavy:
			near("heavy", m.At, want.heavy, experiment.StackEvery+3*jiffy)
		case m.Kind == explain.Report:
			near("report", m.At, want.reports, 200*time.Millisecond)
		}
	}
}
