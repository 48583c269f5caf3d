package check

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/model"
)

// quick leaves out what takes minutes under the race detector: of each row all but one variant, and what has most states.
func quick(rows []Row) []Row {
	if !testing.Short() {
		return rows
	}
	for i := range rows {
		r := &rows[i]
		r.Variants = r.Variants[:1]
		r.Cells[0].Asks = []Property{NormalGP, ExpeditedGP}
		if r.Variants[0].Loop == softirqLoop {
			r.Cells[0].Asks = []Property{ExpeditedGP}
		}
	}
	return rows
}

// long skips t with -short: under the race detector it takes minutes.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes under the race detector")
	}
}

func TestMatrix(t *testing.T) {
	rows := quick(Matrix())
	if err := Fill(t.Context(), rows, Limits{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for _, c := range r.Cells {
			if c.Computed != c.Expected {
				t.Errorf("%s, %s, %s: %s; want %s", r.Title, r.Models, c.Column, c.Computed, c.Expected)
			}
			for _, a := range c.Answers {
				if a.Pending == 0 {
					t.Errorf("%v, %v: nobody ever waits: a verdict about nothing", a.Variant, a.Property)
				}
				if a.Bytes == 0 || a.Depth == 0 || a.Transitions < int64(a.States)-1 {
					t.Errorf("%v, %v: %d bytes, depth %d, %d transitions of %d states", a.Variant, a.Property, a.Bytes, a.Depth, a.Transitions, a.States)
				}
			}
		}
	}
}

// A mutation is a broken rule that turns a property's yes into a no.
type mutation struct {
	property Property
	broken   model.Break
}

// mutations are, for each row of the matrix, what turns its cells.
func mutations() map[int][]mutation {
	// Whoever waits for a grace period loses by these, wherever the grace period has to be noticed and reported.
	always := []mutation{
		{NormalGP, model.BreakCoreReport}, {NormalGP, model.BreakNotice}, {Callbacks, model.BreakAdvance}, {ExpeditedGP, model.BreakExpReport},
	}
	with := func(more ...mutation) []mutation { return append(more, always...) }
	wakes := []mutation{{Packets, model.BreakUnmask}, {Packets, model.BreakWakeLost}, {Packets, model.BreakThreadWake}}
	points := []mutation{
		{NormalGP, model.BreakScheduleNote}, {NormalGP, model.BreakFQSUrgent}, {ExpeditedGP, model.BreakExpIPI},
		{ExpeditedGP, model.BreakBHCheck}, {NormalGP, model.BreakIRQExit}, {Kworker, model.BreakPromotion}, {Kworker, model.BreakFairFlag},
	}
	return map[int][]mutation{
		0: wakes,
		1: with(mutation{Kworker, model.BreakCondResched}, mutation{Kworker, model.BreakPickKworker}, mutation{Packets, model.BreakThreadWake}),
		2: with(append(wakes, mutation{NormalGP, model.BreakScheduleNote}, mutation{NormalGP, model.BreakFQSUrgent}, mutation{ExpeditedGP, model.BreakExpIPI},
			mutation{NormalGP, model.BreakCondResched}, mutation{Kworker, model.BreakCondResched}, mutation{Kworker, model.BreakPickKworker},
			mutation{Kworker, model.BreakFairFlag})...),
		3:  wakes,
		4:  with(append(wakes, mutation{NormalGP, model.BreakPeriodic}, mutation{NormalGP, model.BreakStamp})...),
		5:  with(wakes...),
		6:  with(append(wakes, points...)...),
		7:  with(mutation{Kworker, model.BreakCondResched}, mutation{Kworker, model.BreakPickKworker}),
		8:  with(mutation{Kworker, model.BreakPromotion}, mutation{TasksGP, model.BreakTasks}, mutation{TasksGP, model.BreakPeriodic}),
		9:  with(mutation{NormalGP, model.BreakScheduleNote}, mutation{Kworker, model.BreakPromotion}),
		10: {{ExpeditedGP, model.BreakScheduleNote}, {ExpeditedGP, model.BreakExpReport}, {Kworker, model.BreakCondResched}, {Packets, model.BreakUnmask}},
	}
}

// Every yes of the matrix hangs on a rule: broken, it turns the cell. At least a dozen different rules do.
func TestEveryYesHangsOnARule(t *testing.T) {
	long(t)
	rows := Matrix()
	turned := map[model.Break]bool{}
	for at, ms := range mutations() {
		covered := map[Property]bool{}
		for _, m := range ms {
			if testing.Short() && at != 2 && (m.property == NormalGP || m.property == Callbacks) {
				continue
			}
			v := rows[at].Variants[0]
			v.brk = m.broken
			a, err := Ask(t.Context(), Question{Variant: v, Property: m.property, TicksOutside: rows[at].Cells[0].Expected == YesIfTicks})
			if err != nil {
				t.Fatal(err)
			}
			if a.Verdict != Violated {
				t.Errorf("%v, %s with rule %#x broken: %s; want violated", v, m.property, uint32(m.broken), a.Verdict)
			}
			turned[m.broken], covered[m.property] = true, true
		}
		for _, c := range rows[at].Cells {
			if c.Expected == No {
				continue
			}
			any := false
			for _, p := range c.Asks {
				any = any || covered[p]
			}
			if !any {
				t.Errorf("%s, %s, %s: no rule turns this yes", rows[at].Title, rows[at].Models, c.Column)
			}
		}
	}
	if len(turned) < 12 || len(mutations()) != len(rows) {
		t.Errorf("%d rules turn a cell, %d of %d rows; want 12 or more, and all", len(turned), len(mutations()), len(rows))
	}
}

// A whole deletion, with backlog packets on the NAPI's CPU so that flush_work waits.
func TestLinkDel(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute under the race detector")
	}
	for loop, want := range map[string]Verdict{"stock": Violated, "yield-on-exit": Holds} {
		a := ask(t, Question{Variant: Variant{Loop: loop, Backlog: true}, Property: LinkDel})
		if a.Verdict != want {
			t.Errorf("%s: %s; want %s", loop, a.Verdict, want)
		}
	}
}

// An answer is the same on one core and on several, its counterexample included.
func TestAnswersDontDependOnCores(t *testing.T) {
	long(t)
	for _, q := range []Question{{Property: NormalGP, Bound: true}, {Property: Kworker}, {Variant: Variant{Loop: "yield-on-exit"}, Property: NormalGP}} {
		var answers [2]Answer
		for i, workers := range []int{1, 5} {
			q.Limits.Workers = workers
			answers[i] = ask(t, q)
			answers[i].Elapsed, answers[i].Limits = 0, Limits{}
		}
		if diff := cmp.Diff(answers[0], answers[1], cmp.AllowUnexported(Variant{})); diff != "" {
			t.Errorf("%s: one core and five (-one +five):\n%s", q.Property, diff)
		}
	}
}

// The bound is a number where a property holds, and none where it doesn't.
func TestEntriesThatAWaiterIsPassedOver(t *testing.T) {
	lazy := Variant{Preempt: "lazy", Generation: "7.3"}
	for _, tt := range []struct {
		q    Question
		want Entries
	}{
		{Question{Property: ExpeditedGP}, Entries{Endless: true}},
		{Question{Variant: Variant{Loop: "yield-on-exit"}, Property: ExpeditedGP}, Entries{Most: 3}},
		{Question{Variant: Variant{Loop: "yield-on-exit"}, Property: Kworker}, Entries{Most: 3}},
		{Question{Variant: lazy, Property: ExpeditedGP}, Entries{Most: 2}},
		{Question{Variant: lazy, Property: Kworker}, Entries{Most: 1}},
		{Question{Variant: Variant{Loop: softirqLoop}, Property: Kworker}, Entries{Most: 3}},
	} {
		tt.q.Bound = true
		a := ask(t, tt.q)
		if a.Entries == nil || *a.Entries != tt.want {
			t.Errorf("%v, %s: %+v; want %+v", a.Variant, a.Property, a.Entries, tt.want)
		}
	}
}
