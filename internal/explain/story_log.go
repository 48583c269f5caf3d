package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// logLine is one line of the kernel's log with when it was read.
type logLine struct {
	at    rcu.Ktime
	stamp time.Duration
	text  string
}

// A reported is one report of the kernel's in its log: its first line.
type reported struct {
	at    time.Duration // since the operation began
	stamp time.Duration
	text  string
	kind  klog.Kind
	event int // which of the witness's events it belongs to
	// born is when its grace period began, since the operation began, by the age in its event's newest report.
	born    time.Duration
	hasBorn bool
}

// addLine keeps k. printk's clock began with the kernel's, as the target's did, but may run beside it by some
// milliseconds: the least lag between a line's stamp and its reading puts one on the other.
func (t *Teller) addLine(at rcu.Ktime, k experiment.Kmsg) {
	if lag := time.Duration(at) - k.Stamp; at != 0 && (!t.hasLag || lag < t.lag) {
		t.lag, t.hasLag = lag, true
	}
	if t.hold != 0 && len(t.lines) < maxLogLines {
		t.lines = append(t.lines, logLine{at, k.Stamp, k.Text})
	}
}

// when is the instant of a stamp on the target's clock.
func (t *Teller) when(stamp time.Duration) rcu.Ktime { return rcu.Ktime(stamp + t.lag) }

// reportsIn lists what the kernel reported between begin and end, with the events that the reports belong to. Lines that
// only the console has keep their stamps, but no more than an event's first and last of them is known.
func (t *Teller) reportsIn(sum TrialSummary, begin, end rcu.Ktime) ([]reported, []klog.Event) {
	var out []reported
	var events []klog.Event
	for _, e := range sum.Events {
		if !e.HasTime || !tells(e.Kind) {
			continue
		}
		heads := t.heads(e)
		if len(heads) == 0 && len(e.Lines) > 0 {
			heads = []logLine{{at: t.when(e.First), stamp: e.First, text: e.Lines[0]}}
		}
		n := len(out)
		born, hasBorn := t.born(sum, e, heads)
		for _, l := range heads {
			if at := t.when(l.stamp); at >= begin && at <= end {
				out = append(out, reported{at: at.Sub(begin), stamp: l.stamp, text: strings.TrimSpace(l.text), kind: e.Kind, event: len(events), born: born.Sub(begin), hasBorn: hasBorn})
			}
		}
		if len(out) > n {
			events = append(events, e)
		}
	}
	slices.SortStableFunc(out, func(a, b reported) int { return int(a.at - b.at) })
	return out, events
}

// born is when the grace period of e began: its largest age is that of its newest report.
func (t *Teller) born(sum TrialSummary, e klog.Event, heads []logLine) (rcu.Ktime, bool) {
	if len(heads) == 0 || e.Jiffies <= 0 || sum.Facts.HZ <= 0 || e.Jiffies > maxAge*int64(sum.Facts.HZ) {
		return 0, false
	}
	age := time.Duration(e.Jiffies) * time.Second / time.Duration(sum.Facts.HZ)
	return t.when(heads[len(heads)-1].stamp).Add(-age), true
}

// maxAge is the oldest a grace period is taken for, in seconds: what says more is a damaged line.
const maxAge = 1_000_000

// tells reports whether an event of kind k says something of who holds a CPU or who waits.
func tells(k klog.Kind) bool {
	switch k {
	case klog.Classic, klog.Expedited, klog.SoftLockup, klog.HungTask, klog.Starved, klog.WorkqueueLockup, klog.TasksRCU, klog.Panic:
		return true
	}
	return false
}

// heads are the first lines of e's reports, of those that were read from the kernel's log.
func (t *Teller) heads(e klog.Event) []logLine {
	var heads []logLine
	for _, l := range t.lines {
		if l.stamp < e.First || l.stamp > e.Last || !head(l.text) {
			continue
		}
		if slices.Contains(e.Lines, strings.TrimSpace(l.text)) || slices.Contains(e.Lines, l.text) {
			heads = append(heads, l)
		}
	}
	return heads
}

// head reports whether a line begins a report.
func head(text string) bool {
	for _, word := range []string{"INFO: ", "BUG: ", "kthread starved", "Kernel panic"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
