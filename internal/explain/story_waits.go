package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// A Span is a time that an operation spent in one wait.
type Span struct {
	Wait rcu.Wait `json:"wait"`
	Site string   `json:"site,omitempty"` // of experiment.WaitRun
	// Call is which of the operation's calls of this wait it is, from 1, of Of; 0 where that can't be told.
	Call int `json:"call,omitempty"`
	Of   int `json:"of,omitempty"`
	// From and To count from the operation's begin; each may be off by Doubt, for a stack is looked at
	// only each experiment.StackEvery.
	From    time.Duration `json:"from"`
	To      time.Duration `json:"to"`
	Doubt   time.Duration `json:"doubt"`
	Samples int           `json:"samples"` // that saw it
	// Until is when it was seen to be over, at the next look or at the operation's end: To, or later where nobody
	// looked for long.
	Until time.Duration `json:"until"`
	// Extended is how much of the span's begin and end no stack sample saw: its grace period had begun, and nothing
	// that could have ended it had happened.
	Extended time.Duration `json:"extended,omitempty"`

	last time.Duration // when the newest of the samples was taken
}

// Took is the span's length.
func (s Span) Took() time.Duration { return s.To - s.From }

// maxGap is the longest time between two looks at a stack that still counts as looked at.
const maxGap = 4 * experiment.StackEvery

// spansOf returns what s's stack samples say of where it waited and when. Without their order the spans stand in the
// order in which a deletion meets the waits, with shares of the time for lengths, and ordered is false.
func spansOf(s experiment.Sample, sites map[string]bool, f experiment.Facts) (spans []Span, ordered bool) {
	if len(s.Runs) == 0 {
		return sharesOf(s), false
	}
	for i, r := range s.Runs {
		x := Span{Wait: r.Wait, Site: r.Site, From: r.First, To: r.Last, last: r.Last, Samples: r.N}
		x.Call, x.Of = callOf(r, s.Op, sites, f)
		if i == 0 && r.First <= maxGap {
			x.From = r.First / 2 // it began somewhere between the operation's begin and the first look
		}
		if i > 0 {
			spans[i-1].Until = max(r.First, spans[i-1].To)
			x.From = bound(&spans[i-1], r.First)
		}
		spans = append(spans, x)
	}
	last := &spans[len(spans)-1]
	last.Until = max(s.Took, last.To)
	if rest := s.Took - last.To; rest >= 0 && rest <= maxGap {
		last.To, last.Doubt = last.To+rest/2, rest/2
	}
	for i := range spans {
		spans[i].To = max(spans[i].To, spans[i].From)
	}
	return spans, true
}

// extend lets the longest wait of a held operation begin with its grace period, where a report tells how old that was, and
// last to the load's end, where nobody looked any more before that: only the load's end gave the CPU free.
func (s *Story) extend(w witness) {
	longest, ok := s.longest()
	if !s.Held || !s.Ordered || !ok {
		return
	}
	i := slices.Index(s.Spans, longest)
	x := &s.Spans[i]
	if born, ok := s.bornIn(*x, w); ok && born < x.From && born >= 0 && (i == 0 || born >= s.Spans[i-1].Until) {
		x.Extended += x.From - born
		x.From = born
	}
	if s.LoadEnd > x.To && s.LoadEnd <= x.Until && s.keptTo(x.To) {
		x.Extended += s.LoadEnd - x.To
		x.To = s.LoadEnd
	}
}

// keptTo reports whether the counters show the loop to keep its CPU from an instant to the load's end. The window that
// holds the load's end has the one sleep that came with it.
func (s Story) keptTo(from time.Duration) bool {
	counted := false
	for _, x := range s.Ticks {
		if x.To < from || x.From > s.LoadEnd || x.Band == NoBand {
			continue
		}
		sleeps := uint64(0)
		if x.To >= s.LoadEnd {
			sleeps = 1
		}
		if x.Window.Full > 0 || x.Window.Nonvol > 0 || x.Window.Sleeps > sleeps {
			return false
		}
		counted = true
	}
	return counted
}

// bound sets where before ends and returns where the next span, seen first at next, begins: half way, or where it was
// seen if nobody looked for long.
func bound(before *Span, next time.Duration) time.Duration {
	gap := next - before.To
	if gap > maxGap || gap < 0 {
		return max(next, before.To)
	}
	middle := before.To + gap/2
	before.To, before.Doubt = middle, gap/2
	return middle
}

func sharesOf(s experiment.Sample) []Span {
	var spans []Span
	at := time.Duration(0)
	for _, w := range Waits(s).Shares {
		to := at + time.Duration(w.Share*float64(s.Took))
		spans = append(spans, Span{Wait: w.Wait, From: at, To: to, Doubt: experiment.StackEvery, Samples: w.Samples})
		at = to
	}
	return spans
}

// named is the share of s's time that has a wait with a name.
func named(s Story) float64 {
	if s.Sample.Took <= 0 {
		return 0
	}
	sum := time.Duration(0)
	for _, x := range s.Spans {
		if x.Wait != rcu.OtherWait {
			sum += x.Took()
		}
	}
	share := sum.Seconds() / s.Sample.Took.Seconds()
	if !s.Ordered {
		share *= Waits(s.Sample).Coverage
	}
	return min(1, share)
}

// The callers of synchronize_net on a deletion's path: the close batch, and unregister_netdevice_many_notify twice
// (net/core/dev.c; docs/mechanism.md).
const (
	closeBatch = "dev_deactivate_many"
	unregister = "unregister_netdevice_many"
)

// callOf says which of how many calls of its wait r is in. The model says so itself. On a kernel it is told by the caller
// of synchronize_net: the close batch comes first, and of the two calls in unregister_netdevice_many_notify the one at the
// lower offset, as far as the trial's stacks show two.
func callOf(r experiment.WaitRun, op string, sites map[string]bool, f experiment.Facts) (call, of int) {
	if r.Wait != rcu.SynchronizeNet || op != experiment.LinkDel {
		return 0, 0
	}
	caller, place, numbered := strings.Cut(r.Site, "#")
	if numbered {
		n, m, _ := strings.Cut(place, "/")
		call, errN := strconv.Atoi(n)
		of, errM := strconv.Atoi(m)
		if errN != nil || errM != nil || call < 1 || call > of {
			return 0, 0
		}
		return call, of
	}
	of = callsIn(sites, f)
	switch {
	case of == 0:
		return 0, 0
	case strings.HasPrefix(caller, closeBatch), strings.HasPrefix(caller, "__dev_close_many"), strings.HasPrefix(caller, "dev_close_many"):
		return 1, of
	}
	if at := slices.Index(offsets(sites), r.Site); at >= 0 && len(offsets(sites)) == 2 {
		return of - 1 + at, of
	}
	return 0, 0
}

// callsIn is how often a deletion without a qdisc calls synchronize_net: three times where the close batch was seen to
// wait, as in 6.12, or where the kernel is no newer; twice since the close batch skips devices without a qdisc, as
// in 7.3; 0 where neither is known.
func callsIn(sites map[string]bool, f experiment.Facts) int {
	for site := range sites {
		if strings.HasPrefix(site, closeBatch) {
			return 3
		}
	}
	var major, minor int
	if n, _ := fmt.Sscanf(f.Release, "%d.%d", &major, &minor); n != 2 {
		return 0
	}
	switch {
	case major < 6 || major == 6 && minor <= 12:
		return 3
	case major > 7 || major == 7 && minor >= 3:
		return 2
	}
	return 0
}

// offsets lists the sites in unregister_netdevice_many_notify from which synchronize_net could be entered, lowest first.
// flush_all_backlogs is called from there too, but its site is that of a flush.
func offsets(sites map[string]bool) []string {
	var found []string
	for site := range sites {
		if strings.HasPrefix(site, unregister) && strings.Contains(site, "+") {
			found = append(found, site)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return int(offset(a) - offset(b)) })
	return found
}

func offset(site string) int64 {
	_, hex, _ := strings.Cut(site, "+")
	n, _ := strconv.ParseInt(hex, 0, 32) // one that is none sorts first
	return n
}

// longest is the longest of s's spans with a name, or of all of them.
func (s Story) longest() (Span, bool) {
	var best Span
	found := false
	for _, x := range s.Spans {
		if !found || best.Wait == rcu.OtherWait && x.Wait != rcu.OtherWait && x.Took() > 0 || x.Took() > best.Took() && (x.Wait != rcu.OtherWait || best.Wait == rcu.OtherWait) {
			best, found = x, true
		}
	}
	return best, found
}

// name names the wait with its place, "synchronize_net (1 of 3)".
func (s Span) name() string {
	if s.Call > 0 {
		return fmt.Sprintf("%s (%d of %d)", s.Wait, s.Call, s.Of)
	}
	return string(s.Wait)
}

// began says when the operation began.
func (s *Story) began(w witness) {
	text := fmt.Sprintf("at %s on the target's clock", clock(s.Sample.Start))
	if s.HasLoad {
		text += ", " + relation(-s.LoadBegin, "the load began")
		s.mark(s.LoadBegin, LoadBegins, false, "the load begins")
		s.mark(s.LoadEnd, LoadEnds, false, "the load's deadline")
		if s.Sample.Phase == experiment.Tail {
			text += fmt.Sprintf(" and %s", relation(-s.LoadEnd, "it ended"))
		}
	}
	s.say(AboutBegin, Seen, text, Evidence{"records", fmt.Sprintf("sample %d of %s, CLOCK_MONOTONIC", s.Number, s.Trial)})
}

// relation says how long after something an instant is.
func relation(d time.Duration, what string) string {
	if d < 0 {
		return fmt.Sprintf("%s before %s", FormatDuration(-d), what)
	}
	return fmt.Sprintf("%s after %s", FormatDuration(d), what)
}

// clock writes an instant of the target as printk does.
func clock(t rcu.Ktime) string { return fmt.Sprintf("%.3f s", time.Duration(t).Seconds()) }

// waited says where the operation waited.
func (s *Story) waited(w witness) {
	b := Waits(s.Sample)
	s.extend(w)
	s.Named = named(*s)
	switch {
	case b.Taken == 0 && s.Sample.Took < experiment.StackEvery:
		s.say(AboutWaits, Unseen, fmt.Sprintf("not looked at: it was over before its stack was to be sampled, each %v", experiment.StackEvery))
		return
	case b.Taken == 0:
		s.say(AboutWaits, Unseen, "no stack sample of it was taken or kept")
		return
	}
	var parts []string
	for _, x := range s.Spans {
		part := fmt.Sprintf("%s for %s", x.name(), FormatDuration(x.Took()))
		if x.Took() == 0 {
			part = fmt.Sprintf("%s, seen at %s", x.name(), at(x.From))
		}
		if s.Ordered && x.Doubt > 0 {
			part += " ± " + FormatDuration(x.Doubt)
		}
		if x.Extended > 0 {
			part += fmt.Sprintf(" (%s of it inferred: nobody looked, the grace period was open and nothing let go)", FormatDuration(x.Extended))
		}
		parts = append(parts, part)
	}
	const most = 12
	if n := len(parts) - most; n > 0 {
		parts = append(parts[:most], plural(n, "more change"))
	}
	text := strings.Join(parts, ", then ")
	evidence := []Evidence{{"stack samples", fmt.Sprintf("%d of its stack, one each %v (%s of the time looked at); %s of the time has a name",
		b.Taken, experiment.StackEvery, FormatShare(b.Coverage), FormatShare(s.Named))}}
	if !s.Ordered {
		text = join(parts) + ", in what order was not kept by the agent of this run"
	}
	evidence = append(evidence, siteEvidence(s.Spans)...)
	if len(s.Sample.Stack) > 0 {
		evidence = append(evidence, Evidence{"stack samples", "the newest stack: " + strings.Join(s.Sample.Stack, " < ")})
	}
	s.say(AboutWaits, Seen, text, evidence...)
	s.alongside(w)
}

// alongside says what the operations beside the one told of show: whether other grace periods waited as well.
func (s *Story) alongside(w witness) {
	if !s.Slow || len(w.beside) == 0 {
		return
	}
	var parts []string
	for i, b := range w.beside {
		if i == 4 {
			parts = append(parts, plural(len(w.beside)-4, "other"))
			break
		}
		text := fmt.Sprintf("%s from %s for %s", b.Op, at(b.Start.Sub(s.Sample.Start)), FormatDuration(b.Took))
		if b.Censored {
			text += " and longer"
		}
		parts = append(parts, text)
	}
	s.say(AboutWaits, Seen, "beside it waited "+join(parts), Evidence{"records", "a membarrier is one normal grace period, an rcu-barrier waits for callbacks of one"})
}

// siteEvidence says from where the waits were entered.
func siteEvidence(spans []Span) []Evidence {
	var sites []string
	for _, x := range spans {
		text := fmt.Sprintf("%s from %s", x.Wait, x.Site)
		if x.Site != "" && !slices.Contains(sites, text) {
			sites = append(sites, text)
		}
	}
	if len(sites) == 0 {
		return nil
	}
	return []Evidence{{"stack samples", "entered: " + strings.Join(sites, ", ")}}
}
