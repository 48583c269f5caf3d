package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// Extras are what a page shows beside its Run.
type Extras struct {
	Trials []TrialExtra
	// Problems are what of the run can't be used, and is in no number.
	Problems []string
	// Live, when not empty, says how far a run is that still goes on; the page then asks its server for news.
	Live string
	// State changes whenever a page of the same run would; only for Live.
	State string
}

// trial returns the extra of the trial id, empty where there is none.
func (x Extras) trial(id string) TrialExtra {
	i := slices.IndexFunc(x.Trials, func(t TrialExtra) bool { return t.Trial == id })
	if i < 0 {
		return TrialExtra{Trial: id}
	}
	return x.Trials[i]
}

// A TrialExtra is what a page shows of one trial beside its TrialSummary.
type TrialExtra struct {
	Trial   string // its ID
	Command string // what started the target, as lines for a shell
	// Began is when the load did, Ended when it was over, on the target's clock; 0 where that is not known.
	Began, Ended rcu.Ktime
	Seconds      []Second  // counted while the load was on, in order
	Reports      []Seen    // the kernel's, since the load began, that came with an instant
	Excerpts     []Excerpt // of its log, around each of its reports
	Omitted      int       // reports beyond the first maxExcerpts, without an excerpt
}

// A Second is what was counted from From on, for about a second.
type Second struct {
	From rcu.Ktime
	explain.Window
}

// A Seen is a report by the kernel with the instant at which its first line was read from /dev/kmsg: no earlier than it
// was printed, later where the reader itself was held up.
type Seen struct {
	At   rcu.Ktime
	Kind klog.Kind
}

// An Excerpt is a piece of a trial's kernel log.
type Excerpt struct {
	What  string // whose it is: "RCU stall (classic), at 25.1 s"
	Lines []ExcerptLine
}

// An ExcerptLine is one line of the kernel's; Own tells those of the report from those around it.
type ExcerptLine struct {
	Text string
	Own  bool
}

const (
	maxExcerpts = 12    // per trial
	linesBefore = 3     // of an excerpt
	linesAfter  = 24    // of an excerpt, from the report's first line on
	lastLines   = 24    // shown of a log whose kernel panicked or went silent
	maxWatched  = 50000 // lines of a trial's log that a Watch keeps
)

// A Watch collects one trial's TrialExtra from its records. It is not for concurrent use.
type Watch struct {
	extra   TrialExtra
	last    *experiment.Record // the newest counters
	kmsg    []klog.Line
	read    []rcu.Ktime // when each of kmsg was
	console strings.Builder
}

// maxConsole is how much of a console's text a Watch keeps, in bytes.
const maxConsole = 4 << 20

// NewWatch returns a Watch for the trial id.
func NewWatch(id string) *Watch { return &Watch{extra: TrialExtra{Trial: id}} }

// Add takes the next record.
func (w *Watch) Add(r experiment.Record) {
	switch {
	case r.Phase != nil && r.Phase.Name == experiment.Hold:
		w.extra.Began = r.At
	case r.Phase != nil && r.Phase.Name == experiment.Tail:
		w.extra.Ended = r.At
	case r.Kmsg != nil && len(w.kmsg) < maxWatched:
		w.kmsg = append(w.kmsg, klog.Line{Stamp: r.Kmsg.Stamp, HasStamp: true, Text: r.Kmsg.Text})
		w.read = append(w.read, r.At)
	case r.Console != nil && w.console.Len() < maxConsole:
		w.console.WriteString(r.Console.Text)
	case r.Counters != nil:
		w.count(r)
	}
}

// count makes a second of two readings that were both taken while the load was on. A total that went down makes none;
// package explain counts it as a loss.
func (w *Watch) count(r experiment.Record) {
	prev := w.last
	w.last = &r
	if prev == nil || !prev.Counters.InHold || !r.Counters.InHold || r.At <= prev.At {
		return
	}
	a, b := prev.Counters, r.Counters
	if b.Polls < a.Polls || b.FullPolls < a.FullPolls || b.Voluntary < a.Voluntary || b.Nonvoluntary < a.Nonvoluntary || b.Packets < a.Packets {
		return
	}
	w.extra.Seconds = append(w.extra.Seconds, Second{From: prev.At, Window: explain.Window{
		Took: r.At.Sub(prev.At), Traced: a.Traced && b.Traced,
		Polls: b.Polls - a.Polls, Full: b.FullPolls - a.FullPolls, Packets: b.Packets - a.Packets,
		Sleeps: b.Voluntary - a.Voluntary, Nonvol: b.Nonvoluntary - a.Nonvoluntary, RunTime: b.RunTime - a.RunTime,
	}})
}

// Extra returns what was collected, for the trial's summary t.
func (w *Watch) Extra(t explain.TrialSummary) TrialExtra {
	x := w.extra
	for _, e := range t.Events {
		if i := w.find(e); i >= 0 {
			x.Reports = append(x.Reports, Seen{At: w.read[i], Kind: e.Kind})
		}
	}
	log := klog.Merge(w.kmsg, klog.Lines(w.console.String()))
	for _, e := range t.Events {
		if len(x.Excerpts) == maxExcerpts {
			x.Omitted++
			continue
		}
		x.Excerpts = append(x.Excerpts, excerpt(log, e))
	}
	if (t.Outcome == experiment.Panicked || t.Outcome == experiment.Silent) && len(log) > 0 {
		tail := Excerpt{What: "the last lines, before it ended: " + t.Outcome}
		for _, l := range log[max(0, len(log)-lastLines):] {
			tail.Lines = append(tail.Lines, ExcerptLine{Text: lineText(l)})
		}
		x.Excerpts = append(x.Excerpts, tail)
	}
	return x
}

// find returns which of the lines read from /dev/kmsg is e's first, or -1.
func (w *Watch) find(e klog.Event) int {
	return slices.IndexFunc(w.kmsg, func(l klog.Line) bool { return begins(e, l) })
}

func begins(e klog.Event, l klog.Line) bool {
	return len(e.Lines) > 0 && strings.HasPrefix(l.Text, e.Lines[0]) && (!e.HasTime || l.Stamp == e.First)
}

// excerpt is log around e. Where the log no longer has e's first line, it is e's own lines.
func excerpt(log []klog.Line, e klog.Event) Excerpt {
	x := Excerpt{What: kindWords(e.Kind)}
	if e.HasTime {
		x.What += fmt.Sprintf(", printed at %.1f s after boot", e.First.Seconds())
	}
	if e.Reports > 1 {
		x.What += fmt.Sprintf(", reported %d times", e.Reports)
	}
	i := slices.IndexFunc(log, func(l klog.Line) bool { return begins(e, l) })
	if i < 0 {
		for _, l := range e.Lines {
			x.Lines = append(x.Lines, ExcerptLine{Text: l, Own: true})
		}
		return x
	}
	for _, l := range log[max(0, i-linesBefore):min(len(log), i+linesAfter)] {
		own := slices.ContainsFunc(e.Lines, func(own string) bool { return own != "" && strings.HasPrefix(l.Text, own) }) &&
			l.Stamp >= e.First && l.Stamp <= e.Last
		x.Lines = append(x.Lines, ExcerptLine{Text: lineText(l), Own: own})
	}
	return x
}

// lineText is l as a console shows it.
func lineText(l klog.Line) string {
	if !l.HasStamp {
		return l.Text
	}
	return fmt.Sprintf("[%12.6f] %s", l.Stamp.Seconds(), l.Text)
}

func kindWords(k klog.Kind) string {
	switch k {
	case klog.Classic:
		return "RCU stall"
	case klog.Expedited:
		return "expedited RCU stall"
	case klog.TasksRCU:
		return "Tasks RCU stall"
	}
	return strings.ReplaceAll(string(k), "-", " ")
}

// since is how long after the load's begin at was, of a trial whose load began at began.
func since(began, at rcu.Ktime) time.Duration { return at.Sub(began) }
