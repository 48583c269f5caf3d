package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// Escalation is what tree RCU does to a CPU that doesn't report, and when, each counted from the grace period's begin. The
// rules are those of kernel/rcu/tree.c and tree_stall.h, read in 6.12 and 7.3 (docs/mechanism.md). Zero is unknown or never.
type Escalation struct {
	Urgent  time.Duration // rcu_urgent_qs: after jiffies_to_sched_qs
	Heavy   time.Duration // rcu_need_heavy_qs: after twice that
	Resched time.Duration // resched_cpu() at each scan: after half the stall timeout
	Stall   time.Duration // first report of a stalled normal grace period
	Again   time.Duration // from one report to the next
	// ExpStall and ExpAgain are the same of an expedited one, whose interrupt asks the CPU at its begin.
	ExpStall, ExpAgain time.Duration
}

// Escalates returns when a kernel with facts f turns to what. Without HZ nothing is known, without the stall timeout no more
// than the first two.
func Escalates(f experiment.Facts) Escalation {
	if f.HZ <= 0 {
		return Escalation{}
	}
	jiffy := time.Second / time.Duration(f.HZ)
	enlist := enlistJiffies(f)
	e := Escalation{Urgent: time.Duration(enlist+1) * jiffy, Heavy: time.Duration(2*enlist+1) * jiffy}
	if f.StallSec <= 0 {
		return e
	}
	stall := time.Duration(min(max(f.StallSec, 3), 300)) * time.Second
	exp := stall
	if f.ExpMillis > 0 {
		exp = min(max(time.Duration(f.ExpMillis)*time.Millisecond, 2*jiffy), 300*time.Second)
	}
	if slices.Contains(f.Config, "CONFIG_PROVE_RCU=y") {
		stall += 5 * time.Second
		exp += exp/4 + jiffy
	}
	e.Resched = stall / 2
	if suppressed(f) {
		return e
	}
	e.Stall, e.Again = stall, 3*stall+3*jiffy
	e.ExpStall, e.ExpAgain = exp, 3*exp+3*jiffy
	return e
}

// enlistJiffies is jiffies_to_sched_qs (adjust_jiffies_till_sched_qs, kernel/rcu/tree.c).
func enlistJiffies(f experiment.Facts) int {
	if n, ok := parameter(f, "rcutree.jiffies_till_sched_qs"); ok {
		return n
	}
	first := 1 + f.CPUs/256
	if f.HZ > 250 {
		first++
	}
	if f.HZ > 500 {
		first++
	}
	next := first
	if n, ok := parameter(f, "rcutree.jiffies_till_first_fqs"); ok {
		first = n
	}
	if n, ok := parameter(f, "rcutree.jiffies_till_next_fqs"); ok {
		next = n
	}
	return max(first+2*next, f.HZ/10+f.CPUs/256)
}

func suppressed(f experiment.Facts) bool {
	n, ok := parameter(f, "rcupdate.rcu_cpu_stall_suppress")
	return ok && n != 0
}

// parameter is a number on the kernel's command line; the last one counts.
func parameter(f experiment.Facts, name string) (int, bool) {
	value, found := 0, false
	for _, word := range strings.Fields(f.Cmdline) {
		key, text, _ := strings.Cut(word, "=")
		if n, err := strconv.ParseUint(text, 10, 24); err == nil && key == name {
			value, found = int(n), true
		}
	}
	return value, found
}

// expedited reports whether a wait in x is for an expedited grace period: synchronize_net is, under RTNL, which a
// deletion holds; nothing is where rcu_normal says so.
func (s Story) expedited(x Span) bool {
	normal, _ := parameter(s.Facts, "rcupdate.rcu_normal")
	return x.Wait == rcu.SynchronizeNet && s.Sample.Op == experiment.LinkDel && normal == 0
}

// escalated says what RCU did, and when, while the operation waited for a grace period.
func (s *Story) escalated(w witness) {
	if len(w.reports) > 0 {
		s.reports(w)
	}
	x, ok := s.longest()
	if !ok || !s.Slow || !s.Ordered || x.Wait != rcu.SynchronizeNet && x.Wait != rcu.Barrier {
		return
	}
	e := Escalates(s.Facts)
	if e == (Escalation{}) {
		s.say(AboutEscalation, Unseen, "the target's HZ is not known, so that nothing can be predicted")
		return
	}
	begin, source := s.gpBegin(x, w)
	var parts []string
	if s.expedited(x) {
		parts = s.predictExpedited(e, x, begin)
	} else {
		parts = s.predictNormal(e, x, begin)
	}
	rule := fmt.Sprintf("kernel/rcu/tree.c, tree_exp.h and tree_stall.h with HZ %d, a stall timeout of %s%s and %s", s.Facts.HZ, secondsOr(s.Facts.StallSec), expWords(s.Facts), plural(s.Facts.CPUs, "CPU"))
	s.say(AboutEscalation, Predicted, fmt.Sprintf("for a grace period that began at %s (%s): %s", at(begin), source, strings.Join(parts, "; ")), Evidence{"rule", rule})
	s.compareReports(w)
}

func secondsOr(n int) string {
	if n <= 0 {
		return "unknown length"
	}
	return fmt.Sprintf("%d s", n)
}

func expWords(f experiment.Facts) string {
	if f.ExpMillis > 0 {
		return fmt.Sprintf(" (expedited: %d ms)", f.ExpMillis)
	}
	return ""
}

// gpBegin is when the grace period of x began: as a report of its kind says, which tells its age, else with the
// wait.
func (s *Story) gpBegin(x Span, w witness) (time.Duration, string) {
	if born, ok := s.bornIn(x, w); ok {
		return born, "by the age in its newest report"
	}
	return x.From, "with the wait, if no other had begun it before"
}

// bornIn is when a grace period of x's kind that was reported while x lasted began.
func (s *Story) bornIn(x Span, w witness) (time.Duration, bool) {
	kind := klog.Classic
	switch {
	case x.Wait != rcu.SynchronizeNet && x.Wait != rcu.Barrier:
		return 0, false
	case s.expedited(x):
		kind = klog.Expedited
	}
	for _, r := range w.reports {
		if r.kind == kind && r.hasBorn && r.at >= x.From && r.at <= x.Until && r.born <= x.To {
			return r.born, true
		}
	}
	return 0, false
}

// predictNormal is what a normal grace period that begins at begin does while the wait x lasts.
func (s *Story) predictNormal(e Escalation, x Span, begin time.Duration) []string {
	cpu := s.Facts.LoadCPU
	steps := []struct {
		after time.Duration
		kind  MarkKind
		text  string
	}{
		{e.Urgent, Urgent, fmt.Sprintf("CPU %d is urgent", cpu)},
		{e.Heavy, Heavy, fmt.Sprintf("a heavy quiescent state is asked of CPU %d", cpu)},
		{e.Resched, Resched, fmt.Sprintf("resched IPIs to CPU %d", cpu)},
	}
	var parts []string
	for _, step := range steps {
		if t := begin + step.after; step.after > 0 && t < x.To {
			s.mark(t, step.kind, true, step.text)
			parts = append(parts, fmt.Sprintf("%s from %s", step.text, at(t)))
		}
	}
	return append(parts, s.predictReports(begin, e.Stall, e.Again, x.To)...)
}

// predictExpedited is the same of an expedited one.
func (s *Story) predictExpedited(e Escalation, x Span, begin time.Duration) []string {
	text := fmt.Sprintf("an IPI asks CPU %d, sets need_resched and makes it urgent", s.Facts.LoadCPU)
	s.mark(begin, Resched, true, text)
	return append([]string{fmt.Sprintf("%s at %s, once", text, at(begin))}, s.predictReports(begin, e.ExpStall, e.ExpAgain, x.To)...)
}

func (s *Story) predictReports(begin, first, again, end time.Duration) []string {
	switch {
	case first == 0 && suppressed(s.Facts):
		return []string{"no report of a stall: they are suppressed"}
	case first == 0:
		return nil
	case begin+first >= end:
		return []string{fmt.Sprintf("no report of a stall before %s, when it was over", at(begin+first))}
	}
	var times []string
	for t, n := begin+first, 0; t < end && n < 20; t, n = t+again, n+1 {
		s.mark(t, Report, true, "a stall report is due")
		times = append(times, at(t))
	}
	return []string{"reports of a stall at " + join(times)}
}

// reports says what the kernel reported.
func (s *Story) reports(w witness) {
	var kinds []klog.Kind
	count := map[klog.Kind]int{}
	var evidence []Evidence
	for i, r := range w.reports {
		if count[r.kind]++; count[r.kind] == 1 {
			kinds = append(kinds, r.kind)
		}
		s.mark(r.at, Report, false, r.text)
		if i < 8 {
			evidence = append(evidence, Evidence{"kmsg", fmt.Sprintf("%s [%.6f] %s", at(r.at), r.stamp.Seconds(), r.text)})
		}
	}
	slices.SortFunc(kinds, func(a, b klog.Kind) int {
		return cmp.Compare(slices.Index(klog.Kinds(), a), slices.Index(klog.Kinds(), b))
	})
	var parts []string
	for _, k := range kinds {
		parts = append(parts, plural(count[k], string(k)+" report"))
	}
	s.say(AboutEscalation, Seen, "the kernel printed "+join(parts)+" while it lasted", evidence...)
}

// compareReports holds the reports that were due against those that came.
func (s *Story) compareReports(w witness) {
	due, came := 0, 0
	worst := time.Duration(0)
	x, _ := s.longest()
	kind := klog.Classic
	if s.expedited(x) {
		kind = klog.Expedited
	}
	for _, m := range s.Marks {
		if m.Kind != Report || !m.Predicted {
			continue
		}
		due++
		best := time.Duration(-1)
		for _, r := range w.reports {
			if d := (r.at - m.At).Abs(); r.kind == kind && (best < 0 || d < best) {
				best = d
			}
		}
		if best >= 0 && best <= time.Second {
			came++
			worst = max(worst, best)
		}
	}
	switch {
	case due == 0:
	case came == due:
		s.say(AboutEscalation, Seen, fmt.Sprintf("%s due, %d came, within %s of when it was", plural(due, "report"), came, FormatDuration(worst)), Evidence{"kmsg", "stamps against the prediction"})
	default:
		s.say(AboutEscalation, Seen, fmt.Sprintf("%s due, %d came within 1 s of when it was", plural(due, "report"), came), Evidence{"kmsg", "stamps against the prediction; lines may be lost"})
	}
}
