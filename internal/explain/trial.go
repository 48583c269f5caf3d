// Package explain turns what trials reported into what they mean: it sums up one trial's records,
// judges the band, says where slow deletes waited, compares arms, and forms the verdict of an
// experiment. It takes values and returns values, and says beside each number what it rests on.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/klog"
)

// SlowLimit is the length beyond which a delete counts as slow: the report that this project starts
// from (docs/mechanism.md) counts its deletes over one second, ten times a healthy delete on its board.
const SlowLimit = time.Second

// maxLogLines bounds the kernel log lines that a Trial keeps of each source, so that a console that
// prints without end costs no more than some MB. What is beyond is counted as a loss.
const maxLogLines = 20_000

// maxLine bounds a console line still without its end.
const maxLine = 4096

// A Trial collects one trial's records, given one after another. It is not for concurrent use.
type Trial struct {
	sum     TrialSummary
	kmsg    []klog.Line
	console []klog.Line
	part    []byte        // of a console line that has not ended
	missed  int           // lines beyond maxLogLines
	before  time.Duration // printk's stamp when the load began
	began   bool          // the load has begun
	last    *reading      // newest counters
	windows []Window
}

// A TrialSummary is what one trial showed.
type TrialSummary struct {
	ID      string
	Index   int
	Rep     int
	Arm     experiment.Arm
	Outcome string // of experiment.End; "cut" when the records stop before it
	Why     string // of experiment.End
	// HostWait is experiment.End's: how long the guest's CPUs waited for a busy host's.
	HostWait time.Duration

	Command experiment.Command
	Facts   experiment.Facts
	Ops     []OpSamples // sorted by Op, the arm's own first
	// Events are the kernel's reports since the load began; Early are those before it, which the load
	// did not cause.
	Events []klog.Event
	Early  []klog.Event
	Rates  Rates
	Band   Judgement
	Losses []experiment.Loss
}

// Cut is the outcome of a trial whose records stop before their End.
const Cut = "cut"

// OpSamples are the samples of one operation, in the order in which they began.
type OpSamples struct {
	Op      string
	Hold    []experiment.Sample // began while the load was on
	Tail    []experiment.Sample // began after it
	Refused int                 // operations that the kernel refused: in neither list
	Refusal string              // the first refusal's text
}

// NewTrial returns a Trial for t's records.
func NewTrial(t experiment.Trial) *Trial {
	return &Trial{sum: TrialSummary{
		ID: t.ID(), Index: t.Index, Rep: t.Rep, Arm: t.Arm, Outcome: Cut,
		Ops: []OpSamples{{Op: t.Arm.Probe.Op}},
	}}
}

// Add takes the next record.
func (t *Trial) Add(r experiment.Record) {
	switch {
	case r.Command != nil:
		t.sum.Command = *r.Command
	case r.Console != nil:
		t.addConsole(r.Console.Text)
	case r.Facts != nil:
		t.sum.Facts = *r.Facts
	case r.Phase != nil:
		t.began = t.began || r.Phase.Name == experiment.Hold || r.Phase.Name == experiment.Tail
	case r.Sample != nil:
		t.addSample(*r.Sample)
	case r.Counters != nil:
		t.addCounters(r.At, *r.Counters)
	case r.Kmsg != nil:
		t.addKmsg(*r.Kmsg)
	case r.Loss != nil:
		t.sum.Losses = append(t.sum.Losses, *r.Loss)
	case r.End != nil:
		t.sum.Outcome, t.sum.Why, t.sum.HostWait = r.End.Outcome, r.End.Why, r.End.HostWait
	}
}

func (t *Trial) addKmsg(k experiment.Kmsg) {
	if !t.began {
		t.before = max(t.before, k.Stamp)
	}
	if len(t.kmsg) >= maxLogLines {
		t.missed++
		return
	}
	t.kmsg = append(t.kmsg, klog.Line{Stamp: k.Stamp, HasStamp: true, Text: k.Text})
}

// addConsole keeps the whole lines of text; a piece may begin or end within a line.
func (t *Trial) addConsole(text string) {
	for text != "" {
		line, rest, whole := strings.Cut(text, "\n")
		if room := maxLine - len(t.part); len(line) > room {
			line = line[:room]
		}
		t.part = append(t.part, line...)
		if !whole {
			return
		}
		t.endLine()
		text = rest
	}
}

func (t *Trial) endLine() {
	if len(t.console) >= maxLogLines {
		t.missed++
	} else {
		t.console = append(t.console, klog.Lines(string(t.part))...)
	}
	t.part = t.part[:0]
}

func (t *Trial) addSample(s experiment.Sample) {
	i := slices.IndexFunc(t.sum.Ops, func(o OpSamples) bool { return o.Op == s.Op })
	if i < 0 {
		i = len(t.sum.Ops)
		t.sum.Ops = append(t.sum.Ops, OpSamples{Op: s.Op})
	}
	op := &t.sum.Ops[i]
	switch {
	case s.Err != "":
		if op.Refused++; op.Refused == 1 {
			op.Refusal = s.Err
		}
	case s.Phase == experiment.Tail:
		op.Tail = append(op.Tail, s)
	default:
		op.Hold = append(op.Hold, s)
	}
}

// Summary returns what the records given so far show. Its memory is the caller's; Add may go on.
func (t *Trial) Summary() TrialSummary {
	s := t.sum
	s.Ops = slices.Clone(s.Ops)
	for i, op := range s.Ops {
		s.Ops[i].Hold, s.Ops[i].Tail = sorted(op.Hold), sorted(op.Tail)
	}
	slices.SortFunc(s.Ops[1:], func(a, b OpSamples) int { return strings.Compare(a.Op, b.Op) })
	s.Losses = slices.Clone(s.Losses)
	if t.missed > 0 {
		s.Losses = append(s.Losses, experiment.Loss{What: "kernel log lines", Count: t.missed,
			Why: fmt.Sprintf("more than %d", maxLogLines)})
	}
	console := t.console
	if len(t.part) > 0 {
		console = append(slices.Clip(console), klog.Lines(string(t.part))...)
	}
	for _, e := range klog.Parse(klog.Merge(t.kmsg, console)) {
		if t.early(e) {
			s.Early = append(s.Early, e)
		} else {
			s.Events = append(s.Events, e)
		}
	}
	s.Rates = sumRates(t.windows)
	s.Band = JudgeBand(s.Arm, s.Facts, t.windows)
	return s
}

// early reports whether e was over when the load began, by printk's own clock: the records' order
// says which line was the last before the load, so that no clock is converted into another.
func (t *Trial) early(e klog.Event) bool {
	if !t.began {
		return false
	}
	return e.HasTime && t.before > 0 && e.Last <= t.before
}

func sorted(s []experiment.Sample) []experiment.Sample {
	s = slices.Clone(s)
	slices.SortStableFunc(s, func(a, b experiment.Sample) int { return cmp.Compare(a.Start, b.Start) })
	return s
}

// Main returns the samples of the arm's own operation.
func (s TrialSummary) Main() OpSamples { return s.Ops[0] }

// Stalls counts the reports of kind k since the load began.
func (s TrialSummary) Stalls(k klog.Kind) int { return klog.Count(s.Events, k) }
