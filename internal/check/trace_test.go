package check

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/model"
)

var update = flag.Bool("update", false, "rewrite golden files")

func ask(t testing.TB, q Question) Answer {
	t.Helper()
	a, err := Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func traceOf(t testing.TB, q Question) (*Trace, string) {
	t.Helper()
	a := ask(t, q)
	tr, err := a.Trace()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := tr.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return tr, text.String()
}

func violated() []Question {
	return []Question{
		{Property: Kworker},
		{Property: ExpeditedGP},
		{Property: NormalGP},
		{Variant: Variant{Dynamic: true}, Property: Kworker, TicksOutside: true},
		{Variant: Variant{Device: "veth"}, Property: Kworker},
		{Variant: Variant{Loop: "backlog-thread"}, Property: Kworker},
		{Variant: Variant{Loop: "qs-only-local-stamp", AllQueues: true}, Property: ExpeditedGP},
		{Variant: Variant{Loop: "busy-poll-reset-stamp", Preempt: "lazy", Generation: "7.3"}, Property: TasksGP},
	}
}

// A trace that is written and read shows what it claims.
func TestTracesReplay(t *testing.T) {
	for _, q := range violated() {
		want, text := traceOf(t, q)
		got, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			t.Errorf("%v, %s: %v", q.Variant, q.Property, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Variant{})); diff != "" {
			t.Errorf("%v, %s: read back (-want +got):\n%s", q.Variant, q.Property, diff)
		}
		if err := got.Replay(); err != nil {
			t.Errorf("%v, %s: %v", q.Variant, q.Property, err)
		}
		if got.Cycle == 0 {
			t.Errorf("%v, %s: no cycle", q.Variant, q.Property)
		}
	}
}

// The run that breaks an invariant ends with the event that does.
func TestBrokenInvariant(t *testing.T) {
	q := Question{Variant: Variant{brk: model.BreakUnmask}, Property: Packets}
	a := ask(t, q)
	if a.Verdict != Violated || a.Invariant != wakeLost.String() || len(a.Run.Cycle) != 0 {
		t.Fatalf("Ask() = %s, %q; want violated, %q", a.Verdict, a.Invariant, wakeLost)
	}
	tr, _ := traceOf(t, q)
	if err := tr.Replay(); err != nil {
		t.Error(err)
	}
	tr.Events, tr.Stem = tr.Events[:tr.Stem-1], tr.Stem-1
	if err := tr.Replay(); err == nil {
		t.Error("the run without its last event breaks the invariant, too")
	}
}

func TestReplayRefuses(t *testing.T) {
	tr, _ := traceOf(t, Question{Property: Kworker})
	change := func(f func(*Trace)) *Trace {
		c := *tr
		c.Events = append([]TraceEvent(nil), tr.Events...)
		f(&c)
		return &c
	}
	find := func(c *Trace, event string, from int) int {
		for i := from; i < len(c.Events); i++ {
			if c.Events[i].Event == event {
				return i
			}
		}
		t.Fatalf("no %s", event)
		return 0
	}
	for _, tt := range []struct {
		name string
		c    *Trace
		want string
	}{
		{"an event that can't happen", change(func(c *Trace) { c.Events[0] = TraceEvent{Event: "exp ipi"} }), "line 2: exp ipi can't happen here"},
		{"no event of the model", change(func(c *Trace) { c.Events[0] = TraceEvent{Event: "nap"} }), `line 2: event "nap" with 0 packets: want an event`},
		{"what it does differs", change(func(c *Trace) { c.Events[0].Does = "nothing" }), `line 2: arrive does "line" in arrival; the trace says "nothing"`},
		{"no tick in the cycle", change(func(c *Trace) {
			i := find(c, "tick 0", c.Stem)
			c.Events = append(c.Events[:i], c.Events[i+1:]...)
			c.Cycle--
		}), "the cycle isn't fair: tick 0 could happen all along and never does"},
		{"the cycle doesn't close", change(func(c *Trace) { c.Events, c.Cycle = c.Events[:len(c.Events)-1], c.Cycle-1 }), "the cycle doesn't return"},
		{"another property", change(func(c *Trace) { c.Property = ExpeditedGP }), "nobody waits where the cycle starts"},
		{"another variant", change(func(c *Trace) { c.Loop = "nap" }), `line 1: unknown loop "nap": want stock, yield-on-exit`},
	} {
		err := tt.c.Replay()
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: Replay() = %v; want %s", tt.name, err, tt.want)
		}
	}
}

func TestReadTraceRefuses(t *testing.T) {
	_, good := traceOf(t, Question{Property: Kworker})
	lines := strings.SplitAfter(good, "\n")
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "line 1: no header"},
		{"no JSON", "stem", "line 1: invalid character"},
		{"unknown key", `{"napistallTrace":1,"stems":3}`, `line 1: json: unknown field "stems"`},
		{"another version", `{"napistallTrace":2}`, "line 1: trace version 2; want 1"},
		{"negative", `{"napistallTrace":1,"stem":-1}`, "line 1: a stem of -1"},
		{"a cycle after the end", `{"napistallTrace":1,"invariant":"x","cycle":1}`, "line 1: an invariant is broken by the last event"},
		{"two values", `{"napistallTrace":1}{}`, "line 1: more than one value"},
		{"cut", strings.Join(lines[:5], ""), "line 5: ends after 4 events"},
		{"too long", good + lines[1], "line "},
	} {
		_, err := ReadTrace(strings.NewReader(tt.text))
		if _, ok := errors.AsType[*TraceError](err); !ok || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: ReadTrace() = %v; want %s", tt.name, err, tt.want)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	for _, q := range violated()[:2] {
		_, text := traceOf(f, q)
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"napistallTrace":1,"property":"packets","load":"filling","loop":"softirq","stem":1}` + "\n" + `{"event":"arrive","arrive":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tr, err := ReadTrace(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if _, err := tr.WriteTo(&again); err != nil {
			t.Fatal(err)
		}
		back, err := ReadTrace(&again)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if diff := cmp.Diff(tr, back, cmp.AllowUnexported(Variant{})); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
		if len(tr.Events) < 1000 {
			_ = tr.Replay() // mostly an error; never a panic
		}
	})
}

// The story of how a stock loop under NONE starves the kworker: read the difference before it is committed.
func TestStory(t *testing.T) {
	for _, tt := range []struct {
		file string
		q    Question
	}{
		{"testdata/kworker.txt", Question{Property: Kworker}},
		{"testdata/normal-gp.txt", Question{Property: NormalGP}},
		{"testdata/wake-lost.txt", Question{Variant: Variant{brk: model.BreakUnmask}, Property: Packets}},
	} {
		a := ask(t, tt.q)
		story, err := a.Tell()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		story.Print(&text)
		if *update {
			if err := os.WriteFile(tt.file, text.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(tt.file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), text.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.file, diff)
		}
	}
}
