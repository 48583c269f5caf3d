package explain

import (
	"fmt"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

const (
	// afterLoad is how long after the load's end a wait may end to be ended by it: the grace periods that then follow
	// take some ticks, of an emulated kernel some more.
	afterLoad = time.Second
	// afterReport is how long after a stall report a full-budget poll may come to be due to it: the ring fills while
	// the report is printed (docs/mechanism.md).
	afterReport = time.Second
)

// modelAccel is the Accel of a Command whose target was the simulator.
const modelAccel = "model"

// ended says what ended the longest wait.
func (s *Story) ended(w witness) {
	if s.Sample.Censored {
		s.say(AboutEnd, Unseen, fmt.Sprintf("it had not ended when the trial did, after %s", FormatDuration(s.Sample.Took)), Evidence{"records", "the sample is censored"})
		return
	}
	x, ok := s.longest()
	if !s.Slow || !ok || !s.Ordered {
		s.endedUnlooked(w, ok)
		return
	}
	what := fmt.Sprintf("%s ended at %s", x.name(), at(x.To))
	stacks := Evidence{"stack samples", fmt.Sprintf("the last one in %s was taken at %s, the next one, or the operation's end, came at %s", x.Wait, at(x.last), at(x.Until))}
	if s.loadEnded(x) {
		evidence := []Evidence{stacks, {"records", fmt.Sprintf("the load's deadline was at %s", at(s.LoadEnd))}}
		sure := Inferred
		if w.last.ok && w.last.Sleeps > 0 {
			sure = Counted
			evidence = append(evidence, Evidence{"counters", fmt.Sprintf("%s slept %s between the readings around it", s.thread(), times(w.last.Sleeps))})
		}
		when := fmt.Sprintf("%s, %s", what, relation(x.To-s.LoadEnd, "it"))
		if x.To == s.LoadEnd {
			when = fmt.Sprintf("%s ended between two looks around it", x.name())
		}
		s.say(AboutEnd, sure, "the end of the load: "+when, evidence...)
		return
	}
	s.endedInLoad(w, x, what, stacks)
}

// endedUnlooked is for an operation of which it isn't known when its waits ended.
func (s *Story) endedUnlooked(w witness, looked bool) {
	switch {
	case !s.Slow && s.HasLoad && s.Arm.Threaded:
		s.say(AboutEnd, Inferred, "nothing that held it: its waits took what RCU takes", Evidence{"records", fmt.Sprintf("it took %s, no more than %s", FormatDuration(s.Sample.Took), FormatDuration(SlowLimit))})
	case !s.Slow:
		s.say(AboutEnd, Inferred, "nothing held it", Evidence{"records", "it took " + FormatDuration(s.Sample.Took)})
	case looked && s.HasLoad && s.Sample.Took > s.LoadEnd-afterLoad/10 && s.Sample.Took < s.LoadEnd+afterLoad:
		s.say(AboutEnd, Inferred, fmt.Sprintf("the end of the load: it ended %s", relation(s.Sample.Took-s.LoadEnd, "it")),
			Evidence{"records", fmt.Sprintf("the load's deadline was at %s", at(s.LoadEnd))})
	default:
		s.say(AboutEnd, Unseen, "when its waits ended was not kept")
	}
}

// loadEnded reports whether x ended with the load.
func (s Story) loadEnded(x Span) bool {
	return s.HasLoad && x.From < s.LoadEnd && max(x.To+x.Doubt, x.Until) >= s.LoadEnd-experiment.StackEvery && x.To <= s.LoadEnd+afterLoad
}

// endedInLoad is for a wait that ended while the load went on.
func (s *Story) endedInLoad(w witness, x Span, what string, stacks Evidence) {
	c := w.last
	evidence := []Evidence{stacks}
	if c.ok {
		evidence = append(evidence, s.counterEvidence(c))
	}
	report, reported := s.reportBefore(w, x.To+x.Doubt)
	if reported {
		evidence = append(evidence, logEvidence(report))
	}
	switch {
	case !s.Arm.Threaded:
		s.say(AboutEnd, Unseen, what+": softirqs let grace periods end, and what decided is not counted", evidence...)
	case s.Facts.Preempt.Preempts():
		s.say(AboutEnd, Inferred, what+": this kernel preempts its own code", evidence...)
	case !c.ok:
		s.say(AboutEnd, Unseen, what+", between no two readings of the counters", evidence...)
	case c.Traced && c.Full > 0 && reported:
		s.say(AboutEnd, Inferred, fmt.Sprintf("a stall report: %s, %s, in a second in which %s used the whole budget and so reached cond_resched(); the ring fills while a report is printed",
			what, relation(x.To-report.at, "the report"), plural(int(c.Full), "poll")), evidence...)
	case c.Traced && c.Full > 0:
		s.say(AboutEnd, Inferred, fmt.Sprintf("polls that used the whole budget: %s, in a second with %d of them; the loop then reached cond_resched()", what, c.Full), evidence...)
	case c.Sleeps > 0:
		s.say(AboutEnd, Inferred, fmt.Sprintf("sleep: %s, in a second in which the thread slept %s", what, times(c.Sleeps)), evidence...)
	case c.Nonvol > 0:
		s.say(AboutEnd, Inferred, fmt.Sprintf("a switch: %s, in a second in which the thread was switched away from %s", what, times(c.Nonvol)), evidence...)
	case s.Facts.Flavor == rcu.Preempt && x.Wait != rcu.FlushWork:
		s.say(AboutEnd, Inferred, what+", without a sleep, a switch or a full budget: with rcu_preempt a tick or an IPI that finds bottom halves on reports for the CPU; which one did is not seen", evidence...)
	default:
		s.say(AboutEnd, Unseen, what+"; nothing that the counters know came with it: a pass through schedule() that picks the same thread again is in none of them", evidence...)
	}
}

// reportBefore is the newest RCU or lockup report not long before t.
func (s *Story) reportBefore(w witness, t time.Duration) (reported, bool) {
	var newest reported
	found := false
	for _, r := range w.reports {
		rcuOrLockup := r.kind == klog.Classic || r.kind == klog.Expedited || r.kind == klog.SoftLockup
		if rcuOrLockup && r.at <= t && t-r.at <= afterReport {
			newest, found = r, true
		}
	}
	return newest, found
}

// missing says what no instrument of the trial looked at.
func (s *Story) missing(w witness) {
	if w.sum.Command.Accel == modelAccel {
		s.say(AboutUnseen, Unseen, "a kernel: the simulator's model ran in its place", Evidence{"records", "the command's accel is " + modelAccel})
	}
	if !s.Slow {
		return
	}
	s.say(AboutUnseen, Unseen, "rcu_urgent_qs, rcu_need_heavy_qs and resched IPIs themselves, and passes through schedule() that picked the same thread again: no tracepoint was recorded")
	if s.Arm.Threaded && s.HasLoad {
		s.say(AboutUnseen, Unseen, "where in the loop each packet came in: which window of the re-entry it hit")
	}
	if !s.Ordered && len(s.Spans) > 0 {
		s.say(AboutUnseen, Unseen, "the order of the waits: this run's records keep only how many stack samples saw each", Evidence{"records", "the sample has waits and no runs"})
	}
	if s.Ordered && len(s.Sample.Runs) >= experiment.MaxRuns {
		s.say(AboutUnseen, Unseen, fmt.Sprintf("the waits after the %dth change between them", experiment.MaxRuns))
	}
	if call := s.uncounted(); call != "" {
		s.say(AboutUnseen, Unseen, "which of the deletion's calls of synchronize_net it was: "+call)
	}
	for i, l := range s.Losses {
		if i == 4 {
			break
		}
		s.say(AboutUnseen, Unseen, fmt.Sprintf("%d %s, missed anywhere in the trial", l.Count, l.What), Evidence{"records", l.Why})
	}
	if w.sum.HostWait > 0 {
		s.say(AboutUnseen, Unseen, fmt.Sprintf("what the guest's CPUs did while the host's were busy with others, %s in the trial altogether", FormatDuration(w.sum.HostWait)), Evidence{"records", "end: host_wait"})
	}
}

// uncounted says why a span in synchronize_net has no number.
func (s Story) uncounted() string {
	for _, x := range s.Spans {
		if x.Wait == rcu.SynchronizeNet && x.Call == 0 && s.Sample.Op == experiment.LinkDel {
			if x.Site == "" {
				return "only the innermost function of a stack can be read on this kernel"
			}
			return "the trial's stacks show no two calls in the same function to tell apart"
		}
	}
	return ""
}

// title is the story in one sentence.
func (s Story) title(w witness) string {
	what := fmt.Sprintf("%s %d of %d took %s", s.noun(), s.Number, s.Of, FormatDuration(s.Sample.Took))
	if s.Sample.Censored {
		what = fmt.Sprintf("%s %d of %d had taken %s when the trial ended", s.noun(), s.Number, s.Of, FormatDuration(s.Sample.Took))
	}
	x, ok := s.longest()
	where := ""
	if ok && s.Sample.Took > 0 {
		where = fmt.Sprintf(", %s of it in %s", FormatShare(min(1, x.Took().Seconds()/s.Sample.Took.Seconds())), x.name())
	}
	switch {
	case s.Held:
		return fmt.Sprintf("%s held CPU %d: %s%s", s.thread(), s.Facts.LoadCPU, what, where)
	case !s.Slow:
		return fmt.Sprintf("nothing held: %s", what)
	case !s.Arm.Threaded && s.HasLoad:
		return fmt.Sprintf("no thread held: the NAPI was polled in softirq, and %s%s", what, where)
	case len(s.Ticks) == 0 && s.HasLoad:
		return fmt.Sprintf("%s%s; who held it was not counted", what, where)
	}
	return fmt.Sprintf("nobody is seen to hold: %s%s", what, where)
}
