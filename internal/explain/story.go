package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// A Sureness says how a statement of a Story is known.
type Sureness string

// How a statement can be known, surest first. What is Unseen no instrument of the trial looked at: it is said so that
// nobody takes silence for a finding.
const (
	Seen      Sureness = "seen"      // an instrument was there: a stack sample, a line of the kernel's log
	Counted   Sureness = "counted"   // running totals before and after leave no other reading
	Inferred  Sureness = "inferred"  // follows from what was seen or counted, by how the kernel works
	Predicted Sureness = "predicted" // computed from the kernel's parameters, by its rules
	Unseen    Sureness = "unseen"
)

// A Topic says what a statement is about.
type Topic string

// The topics, in the order of a story.
const (
	AboutBegin      Topic = "began"
	AboutWaits      Topic = "waited in"
	AboutCPU        Topic = "held up by"
	AboutThread     Topic = "thread"
	AboutLoop       Topic = "loop"
	AboutSleep      Topic = "gave way"
	AboutEscalation Topic = "RCU"
	AboutEnd        Topic = "ended by"
	AboutUnseen     Topic = "not seen"
)

// Evidence is one thing that a statement rests on.
type Evidence struct {
	By   string `json:"by"` // the instrument: stack samples, counters, kmsg, facts, records, rule
	Text string `json:"text"`
}

// A Statement is one sentence of a Story.
type Statement struct {
	About    Topic      `json:"about"`
	Text     string     `json:"text"`
	Sure     Sureness   `json:"sure"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// A Mark is an instant on a story's timeline.
type Mark struct {
	At        time.Duration `json:"at"` // since the operation began; negative for what came before
	Kind      MarkKind      `json:"kind"`
	Predicted bool          `json:"predicted,omitempty"` // computed, not seen
	Text      string        `json:"text"`
}

// A MarkKind says what a Mark stands for.
type MarkKind string

// The marks.
const (
	LoadBegins MarkKind = "load begins"
	LoadEnds   MarkKind = "load ends"
	Urgent     MarkKind = "urgent" // rcu_urgent_qs is set for the CPU
	Heavy      MarkKind = "heavy"  // rcu_need_heavy_qs as well
	Resched    MarkKind = "resched IPI"
	Report     MarkKind = "report" // the kernel reports a stall, a lockup or a hung task
)

// A Story tells what one operation of one trial went through.
type Story struct {
	Trial  string // its ID
	Arm    experiment.Arm
	Rep    int
	Number int // of the operation among the trial's, from 1, by when they began; 0: the trial has none
	Of     int
	Sample experiment.Sample
	// Held: for most of the time a thread kept the CPU under test that gave way to nobody. Slow: it took
	// over SlowLimit.
	Held, Slow bool
	Title      string
	Statements []Statement
	Spans      []Span
	// Ordered: Spans are in the order in which they were seen. Else they have the waits' usual order, and their
	// lengths are shares.
	Ordered bool
	// Named is the share of the operation's time that the stack samples give a wait to, 0…1.
	Named float64
	Marks []Mark
	Ticks []Tick
	Facts experiment.Facts
	// LoadBegin and LoadEnd count from the operation's begin.
	LoadBegin, LoadEnd time.Duration
	HasLoad            bool
	Losses             []experiment.Loss
}

// A Tick is what was counted between two readings, on a story's timeline.
type Tick struct {
	From, To time.Duration // since the operation began
	Window   Window
	Band     Band // In, Above or Below; NoBand where there is no threaded loop
}

// A Teller collects one trial's records, given one after another, and tells the stories of its operations. It is not for
// concurrent use.
type Teller struct {
	trial    *Trial
	arm      experiment.Arm
	hold     rcu.Ktime // when the phase began; 0: not yet
	tail     rcu.Ktime
	readings []reading
	lines    []logLine
	samples  []experiment.Sample // of the arm's own operation
	beside   []experiment.Sample // of the others
	sum      *TrialSummary
	lag      time.Duration // the least that a line of the log was read after its stamp, with hasLag
	hasLag   bool
	sites    map[string]bool // from where deletions entered synchronize_net
}

// maxReadings bounds what a Teller keeps: readings are one a second.
const maxReadings = 100_000

// NewTeller returns a Teller for t's records.
func NewTeller(t experiment.Trial) *Teller {
	return &Teller{trial: NewTrial(t), arm: t.Arm, sites: map[string]bool{}}
}

// Add takes the next record.
func (t *Teller) Add(r experiment.Record) {
	t.trial.Add(r)
	t.sum = nil
	switch {
	case r.Phase != nil && r.Phase.Name == experiment.Hold && t.hold == 0:
		t.hold = r.At
	case r.Phase != nil && r.Phase.Name == experiment.Tail && t.tail == 0:
		t.tail = r.At
	case r.Counters != nil && len(t.readings) < maxReadings:
		t.readings = append(t.readings, reading{r.At, *r.Counters})
	case r.Kmsg != nil:
		t.addLine(r.At, *r.Kmsg)
	case r.Sample != nil:
		t.addSample(*r.Sample)
	}
}

func (t *Teller) addSample(s experiment.Sample) {
	for _, r := range s.Runs {
		if r.Site != "" && r.Wait == rcu.SynchronizeNet && s.Op == experiment.LinkDel {
			t.sites[r.Site] = true
		}
	}
	switch {
	case s.Err != "":
	case s.Op == t.arm.Probe.Op:
		t.samples = append(t.samples, s)
	default:
		t.beside = append(t.beside, s)
	}
}

// Summary is what the records given so far show of the trial.
func (t *Teller) Summary() TrialSummary {
	if t.sum == nil {
		s := t.trial.Summary()
		t.sum = &s
	}
	return *t.sum
}

// Operations lists the trial's operations of the arm's own kind by when they began, those that were refused left out. A
// Story's Number is the place here, from 1.
func (t *Teller) Operations() []experiment.Sample { return sorted(t.samples) }

// Slowest is the number, from 1, of the operation that took longest, and 0 where there is none.
func (t *Teller) Slowest() int {
	number, longest := 0, time.Duration(-1)
	for i, s := range t.Operations() {
		if s.Took > longest {
			number, longest = i+1, s.Took
		}
	}
	return number
}

// Tell tells the story of operation number, from 1. Where the trial has no such operation it is one without a Number that
// says so.
func (t *Teller) Tell(number int) Story {
	sum := t.Summary()
	s := Story{Trial: sum.ID, Arm: t.arm, Rep: sum.Rep, Facts: sum.Facts, Losses: sum.Losses}
	all := t.Operations()
	s.Of = len(all)
	if number < 1 || number > len(all) {
		s.Title = fmt.Sprintf("nothing to tell: the trial has %s that ended or was cut", plural(s.Of, "operation"))
		s.say(AboutBegin, Unseen, fmt.Sprintf("none of %d asked for", number), Evidence{"records", s.outcomeWords(sum)})
		return s
	}
	s.Number, s.Sample = number, all[number-1]
	s.Slow = s.Sample.Took > SlowLimit
	s.Spans, s.Ordered = spansOf(s.Sample, t.sites, s.Facts)
	if t.hold != 0 {
		s.HasLoad = t.arm.Load.Kind != experiment.NoLoad
		s.LoadBegin, s.LoadEnd = t.hold.Sub(s.Sample.Start), t.loadEnd().Sub(s.Sample.Start)
	}
	s.Ticks = t.ticks(s.Sample)
	until := s.Sample.Took
	if x, ok := s.longest(); ok && s.Ordered {
		until = x.To
	}
	s.Held = s.Slow && t.arm.Threaded && s.HasLoad && !s.Facts.Preempt.Preempts() && kept(s.Ticks, until)
	w := t.witness(s, sum)
	s.began(w)
	s.waited(w)
	s.heldUp(w)
	s.looped(w)
	s.escalated(w)
	s.ended(w)
	s.missing(w)
	s.Title = s.title(w)
	slices.SortStableFunc(s.Marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	return s
}

// loadEnd is when the load's own deadline was: it counts from the hold's begin.
func (t *Teller) loadEnd() rcu.Ktime {
	end := t.hold.Add(t.arm.Load.Hold)
	if t.tail != 0 && t.arm.Load.Hold == 0 {
		return t.tail
	}
	return end
}

// A witness is what the instruments have on one operation.
type witness struct {
	sum     TrialSummary
	reports []reported   // while it lasted
	events  []klog.Event // those that the reports are of
	outer   counted      // from the last reading before it to the first after it or the load
	inner   counted      // from the first reading within it to the last, while the load was on
	last    counted      // around the end of its longest wait
	beside  []experiment.Sample
	tail    time.Duration // when the tail began, since the operation's begin
	hasTail bool
}

func (t *Teller) witness(s Story, sum TrialSummary) witness {
	begin, end := s.Sample.Start, s.Sample.Start.Add(s.Sample.Took)
	w := witness{sum: sum, tail: t.tail.Sub(begin), hasTail: t.tail != 0}
	w.reports, w.events = t.reportsIn(sum, begin, end)
	if s.HasLoad && s.LoadEnd > 0 {
		end = min(end, s.Sample.Start.Add(s.LoadEnd)) // what came after is nobody's holding
	}
	w.inner, w.outer = t.within(begin, end), t.around(begin, end)
	if longest, ok := s.longest(); ok {
		w.last = t.around(begin.Add(longest.To-longest.Doubt), begin.Add(max(longest.To+longest.Doubt, longest.Until)))
	}
	end = s.Sample.Start.Add(s.Sample.Took)
	for _, b := range t.beside {
		if b.Start < end && b.Start.Add(b.Took) > begin && b.Took > SlowLimit {
			w.beside = append(w.beside, b)
		}
	}
	return w
}

func (s *Story) say(about Topic, sure Sureness, text string, evidence ...Evidence) {
	s.Statements = append(s.Statements, Statement{About: about, Text: text, Sure: sure, Evidence: evidence})
}

func (s *Story) mark(at time.Duration, kind MarkKind, predicted bool, text string) {
	s.Marks = append(s.Marks, Mark{At: at, Kind: kind, Predicted: predicted, Text: text})
}

func (s Story) outcomeWords(sum TrialSummary) string {
	text := fmt.Sprintf("the trial ended: %s, with %s", sum.Outcome, plural(s.Of, "operation"))
	if n := sum.Main().Refused; n > 0 {
		text += fmt.Sprintf(", %d refused by the kernel (%s)", n, sum.Main().Refusal)
	}
	return text
}

// noun is what the operation is called.
func (s Story) noun() string { return ArmSummary{Arm: s.Arm}.noun() }

// Name is how the operation is asked for: "stock/1/3".
func (s Story) Name() string { return fmt.Sprintf("%s/%d/%d", s.Arm.Name, s.Rep, s.Number) }
