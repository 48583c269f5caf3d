package explain

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// tell tells the story of the scene's operation number, its records as change leaves them.
func (s scene) tell(number int, change func([]experiment.Record) []experiment.Record) Story {
	t := NewTeller(experiment.Trial{Rep: max(1, s.rep), Arm: s.arm})
	records := s.records()
	if change != nil {
		records = change(records)
	}
	for _, r := range records {
		t.Add(r)
	}
	return t.Tell(number)
}

// during gives every operation over 1 s these runs.
func during(runs ...experiment.WaitRun) func([]experiment.Record) []experiment.Record {
	return func(records []experiment.Record) []experiment.Record {
		for _, r := range records {
			if r.Sample == nil || r.Sample.Took <= SlowLimit {
				continue
			}
			r.Sample.Waits = nil
			for _, x := range runs {
				r.Sample.SeeMany(x)
			}
		}
		return records
	}
}

func looks(wait rcu.Wait, site string, first, last time.Duration) experiment.WaitRun {
	return experiment.WaitRun{Wait: wait, Site: site, First: first, Last: last, N: int((last-first)/experiment.StackEvery) + 1}
}

// said returns what a story says about a topic, one statement a line, with how sure.
func said(s Story, about Topic) string {
	var lines []string
	for _, x := range s.Statements {
		if x.About == about {
			lines = append(lines, fmt.Sprintf("%s (%s)", x.Text, x.Sure))
		}
	}
	return strings.Join(lines, "\n")
}

const ms = time.Millisecond

// blocked is a deletion of 30.1 s in a stock kernel: in synchronize_net until the load's end, then in rcu_barrier.
func blocked() func([]experiment.Record) []experiment.Record {
	return during(looks(rcu.SynchronizeNet, "dev_deactivate_many+0x179", 40*ms, 29990*ms), looks(rcu.Barrier, "netdev_run_todo+0x9f", 30040*ms, 30090*ms))
}

func TestStoryOfAHeldDelete(t *testing.T) {
	s := stock().tell(1, blocked())
	if !s.Held || !s.Slow || !s.Ordered || s.Named < 0.95 {
		t.Errorf("held %v, slow %v, ordered %v, %v of the time has a name", s.Held, s.Slow, s.Ordered, s.Named)
	}
	want := map[Topic]string{
		AboutBegin: "at 5.000 s on the target's clock, 0 s after the load began (seen)",
		AboutWaits: "synchronize_net (1 of 3) for 30.0 s ± 25 ms, then rcu_barrier for 80 ms ± 5.0 ms (seen)",
		AboutCPU:   "CPU 1 had not reported (seen)",
		AboutLoop:  "10200000 polls, none with the whole budget: each left the loop without repoll, past neither rcu_softirq_qs_periodic() nor cond_resched() (counted)",
		AboutSleep: "napi/vb-8193 (pid 71) neither slept nor was switched away from (counted)",
	}
	got := map[Topic]string{}
	for about := range want {
		got[about] = said(s, about)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statements, -want +got:\n%s", diff)
	}
	for about, part := range map[Topic]string{
		AboutThread:     "napi/vb-8193 (pid 71) ran for 100 % of the time counted, on CPU 1 (counted)",
		AboutEscalation: "the kernel printed 1 classic report and 1 expedited report while it lasted (seen)",
		AboutEnd:        "the end of the load: synchronize_net (1 of 3) ended at +30.015 s, 15 ms after it",
		AboutUnseen:     "no tracepoint was recorded (unseen)",
	} {
		if text := said(s, about); !strings.Contains(text, part) {
			t.Errorf("about %s: %s; want %s", about, text, part)
		}
	}
	if want := "napi/vb-8193 (pid 71) held CPU 1: delete 1 of 11 took 30.1 s, 100 % of it in synchronize_net (1 of 3)"; s.Title != want {
		t.Errorf("title %q; want %q", s.Title, want)
	}
}

// TestEveryStatementHasEvidence: what is not unseen says what it rests on.
func TestEveryStatementHasEvidence(t *testing.T) {
	for _, s := range []Story{stock().tell(1, blocked()), stock().tell(1, nil), softirq().tell(42, nil), lazy().tell(3, nil), above().tell(1, nil)} {
		for _, x := range s.Statements {
			if x.Sure != Unseen && len(x.Evidence) == 0 {
				t.Errorf("%s: %s (%s) rests on nothing", s.Name(), x.Text, x.Sure)
			}
			for _, e := range x.Evidence {
				if e.By == "" || e.Text == "" {
					t.Errorf("%s: %s: evidence %+v", s.Name(), x.Text, e)
				}
			}
		}
	}
}

// TestWhatEndedIt: each way in which a wait can end is told from the others.
func TestWhatEndedIt(t *testing.T) {
	// mid is a deletion that is over at 12 s, 18 s before the load.
	mid := func(second func(*experiment.Counters)) (scene, func([]experiment.Record) []experiment.Record) {
		s := stock()
		s.kmsg, s.deletes = nil, []time.Duration{12 * time.Second}
		at := holdStart.Add(11500 * ms)
		return s, func(records []experiment.Record) []experiment.Record {
			for _, r := range records {
				if r.Counters != nil && r.At > at {
					second(r.Counters)
				}
			}
			return during(looks(rcu.SynchronizeNet, "", 40*ms, 11560*ms), looks(rcu.Barrier, "", 11600*ms, 11990*ms))(records)
		}
	}
	report := func(s scene, stamp time.Duration, records []experiment.Record) []experiment.Record {
		var out []experiment.Record
		for _, r := range records {
			if r.End != nil {
				for i, l := range expeditedStall(201) {
					out = append(out, experiment.Record{At: rcu.Ktime(stamp) + rcu.Ktime(i), Kmsg: &experiment.Kmsg{Stamp: stamp, Level: 3, Text: l}})
				}
			}
			out = append(out, r)
		}
		return out
	}
	full := func(c *experiment.Counters) { c.FullPolls += 70 }
	for name, tt := range map[string]struct {
		second func(*experiment.Counters)
		report bool
		facts  func(*experiment.Facts)
		want   string
	}{
		"budget":     {second: full, want: "polls that used the whole budget: synchronize_net ended at +11.580 s, in a second with 70 of them"},
		"report":     {second: full, report: true, want: "a stall report: synchronize_net ended at +11.580 s, 0.28 s after the report, in a second in which 70 polls used the whole budget"},
		"sleep":      {second: func(c *experiment.Counters) { c.Voluntary += 3 }, want: "sleep: synchronize_net ended at +11.580 s, in a second in which the thread slept 3 times (inferred)"},
		"switch":     {second: func(c *experiment.Counters) { c.Nonvoluntary++ }, want: "a switch: synchronize_net ended at +11.580 s, in a second in which the thread was switched away from 1 time (inferred)"},
		"nothing":    {second: func(*experiment.Counters) {}, want: "nothing that the counters know came with it"},
		"tick":       {second: func(*experiment.Counters) {}, facts: func(f *experiment.Facts) { f.Flavor = rcu.Preempt }, want: "with rcu_preempt a tick or an IPI that finds bottom halves on reports for the CPU; which one did is not seen (inferred)"},
		"preemption": {second: func(*experiment.Counters) {}, facts: func(f *experiment.Facts) { f.Preempt = rcu.Lazy }, want: "this kernel preempts its own code (inferred)"},
	} {
		s, change := mid(tt.second)
		if tt.facts != nil {
			tt.facts(&s.facts)
		}
		story := s.tell(1, func(records []experiment.Record) []experiment.Record {
			records = change(records)
			if tt.report {
				records = report(s, time.Duration(holdStart)+11300*ms, records)
			}
			return records
		})
		if got := said(story, AboutEnd); !strings.Contains(got, tt.want) {
			t.Errorf("%s: ended by %s; want %s", name, got, tt.want)
		}
		if story.Held != (name != "preemption") {
			t.Errorf("%s: held %v", name, story.Held)
		}
	}
}

func TestStoryOfAFlush(t *testing.T) {
	s := stock().tell(1, during(looks(rcu.FlushWork, "unregister_netdevice_many_notify+0x99", 40*ms, 29990*ms), looks(rcu.Barrier, "", 30040*ms, 30090*ms)))
	if got := said(s, AboutCPU); !strings.HasPrefix(got, "CPU 1: flush_work waits for a kworker bound to it, which needs a switch there") {
		t.Errorf("held up by %s", got)
	}
}

func TestStoryOfACutDelete(t *testing.T) {
	s := stock()
	s.cut = true
	if got := said(s.tell(1, blocked()), AboutEnd); got != "it had not ended when the trial did, after 30.1 s (unseen)" {
		t.Errorf("ended by %s", got)
	}
}

// TestControlsSayThatNothingHeld: softirq mode, a loop that yields, a kernel that preempts.
func TestControlsSayThatNothingHeld(t *testing.T) {
	yields := stock()
	yields.arm.Loop, yields.deletes, yields.kmsg = experiment.YieldOnExit, some(60, 110*ms), nil
	slow := softirq()
	for name, tt := range map[string]struct {
		story Story
		title string
	}{
		"yields":  {yields.tell(60, nil), "nothing held: delete 60 of 70 took 0.17 s"},
		"lazy":    {lazy().tell(1, nil), "nothing held: delete 1 of 70 took 0.14 s"},
		"softirq": {slow.tell(1, nil), "nothing held: delete 1 of 42 took 0.20 s"},
		"slow":    {slow.tell(42, nil), "no thread held: the NAPI was polled in softirq, and delete 42 of 42 took 2.30 s"},
	} {
		if tt.story.Held || tt.story.Title != tt.title {
			t.Errorf("%s: held %v, %q; want %q", name, tt.story.Held, tt.story.Title, tt.title)
		}
	}
	if got := said(slow.tell(42, nil), AboutThread); !strings.HasPrefix(got, "none: the NAPI was polled in softirq on CPU 1") {
		t.Errorf("thread: %s", got)
	}
}

// TestStoryWithoutOrder: records of before the order was kept say so.
func TestStoryWithoutOrder(t *testing.T) {
	s := stock().tell(1, nil)
	if s.Ordered || len(s.Spans) != 2 || s.Named < 0.95 {
		t.Errorf("ordered %v, spans %v, %v named", s.Ordered, s.Spans, s.Named)
	}
	for about, want := range map[Topic]string{
		AboutWaits:  "synchronize_net for 29.6 s and rcu_barrier for 0.50 s, in what order was not kept by the agent of this run (seen)",
		AboutEnd:    "the end of the load: it ended 0.10 s after it (inferred)",
		AboutUnseen: "the order of the waits: this run's records keep only how many stack samples saw each (unseen)",
	} {
		if got := said(s, about); !strings.Contains(got, want) {
			t.Errorf("about %s: %s; want %s", about, got, want)
		}
	}
}

// TestStoryOfWhatIsMissing: no samples, no counters, no stack, no facts.
func TestStoryOfWhatIsMissing(t *testing.T) {
	empty := NewTeller(experiment.Trial{Rep: 1, Arm: arm("stock")})
	if s := empty.Tell(empty.Slowest()); s.Number != 0 || s.Held || !strings.HasPrefix(s.Title, "nothing to tell") || said(s, AboutBegin) != "none of 0 asked for (unseen)" {
		t.Errorf("without records: %+v", s)
	}
	bare := stock().tell(1, func(records []experiment.Record) []experiment.Record {
		var out []experiment.Record
		for _, r := range records {
			if r.Sample != nil && r.Sample.Took > SlowLimit {
				r.Sample.Waits = nil
				out = append(out, r)
			}
		}
		return out
	})
	if bare.Held || bare.HasLoad || !bare.Slow {
		t.Errorf("a sample alone: held %v, load %v", bare.Held, bare.HasLoad)
	}
	if got := said(bare, AboutWaits); got != "no stack sample of it was taken or kept (unseen)" {
		t.Errorf("waits: %s", got)
	}
	uncounted := stock().tell(1, func(records []experiment.Record) []experiment.Record {
		var out []experiment.Record
		for _, r := range records {
			if r.Counters == nil {
				out = append(out, r)
			}
		}
		return blocked()(out)
	})
	if got := said(uncounted, AboutThread); uncounted.Held || !strings.HasPrefix(got, "the counters have no two readings around it (unseen)") {
		t.Errorf("without counters: held %v, thread: %s", uncounted.Held, got)
	}
	if !strings.HasSuffix(uncounted.Title, "who held it was not counted") {
		t.Errorf("title %q", uncounted.Title)
	}
}

// TestEscalates holds the rules against the tables that were read from the source: when a CPU is urgent and asked for a heavy
// quiescent state, and when reports come (jiffies_to_sched_qs; T and 3T + 3 jiffies).
func TestEscalates(t *testing.T) {
	for _, tt := range []struct {
		f    experiment.Facts
		want Escalation
	}{
		{experiment.Facts{HZ: 100, CPUs: 4, StallSec: 60}, Escalation{Urgent: 110 * ms, Heavy: 210 * ms, Resched: 30 * time.Second,
			Stall: 60 * time.Second, Again: 180030 * ms, ExpStall: 60 * time.Second, ExpAgain: 180030 * ms}},
		{experiment.Facts{HZ: 250, CPUs: 2, StallSec: 21}, Escalation{Urgent: 104 * ms, Heavy: 204 * ms, Resched: 10500 * ms,
			Stall: 21 * time.Second, Again: 63012 * ms, ExpStall: 21 * time.Second, ExpAgain: 63012 * ms}},
		{experiment.Facts{HZ: 1000, CPUs: 2, StallSec: 21, ExpMillis: 20}, Escalation{Urgent: 101 * ms, Heavy: 201 * ms, Resched: 10500 * ms,
			Stall: 21 * time.Second, Again: 63003 * ms, ExpStall: 20 * ms, ExpAgain: 63 * ms}},
		{experiment.Facts{HZ: 250, CPUs: 2, StallSec: 21, Config: []string{"CONFIG_PROVE_RCU=y"}}, Escalation{Urgent: 104 * ms, Heavy: 204 * ms, Resched: 13 * time.Second,
			Stall: 26 * time.Second, Again: 78012 * ms, ExpStall: 26254 * ms, ExpAgain: 78774 * ms}},
		{experiment.Facts{HZ: 250, CPUs: 2, StallSec: 21, Cmdline: "quiet rcutree.jiffies_till_sched_qs=100 rcupdate.rcu_cpu_stall_suppress=1"},
			Escalation{Urgent: 404 * ms, Heavy: 804 * ms, Resched: 10500 * ms}},
		{experiment.Facts{HZ: 250, CPUs: 2}, Escalation{Urgent: 104 * ms, Heavy: 204 * ms}},
		{experiment.Facts{}, Escalation{}},
	} {
		got := Escalates(tt.f)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Escalates(%+v), -want +got:\n%s", tt.f, diff)
		}
	}
}

// TestCallOf: which of a deletion's calls of synchronize_net a stack is in.
func TestCallOf(t *testing.T) {
	sites := func(all ...string) map[string]bool {
		m := map[string]bool{}
		for _, s := range all {
			m[s] = true
		}
		return m
	}
	low, high := "unregister_netdevice_many_notify+0x1ba", "unregister_netdevice_many_notify+0x2000"
	for _, tt := range []struct {
		site     string
		sites    map[string]bool
		release  string
		call, of int
	}{
		{"dev_deactivate_many+0x179", sites("dev_deactivate_many+0x179"), "6.18.1", 1, 3},
		{low, sites("dev_deactivate_many+0x179", low, high), "6.18.1", 2, 3},
		{high, sites("dev_deactivate_many+0x179", low, high), "6.12.117", 3, 3},
		{low, sites(low, high), "7.3.4-cloud-amd64", 1, 2},
		{high, sites(low, high), "7.3.4-cloud-amd64", 2, 2},
		{low, sites(low), "7.3.4", 0, 0},
		{low, sites(low, high), "6.18.1", 0, 0},
		{low, sites(low, high), "", 0, 0},
		{"", sites(), "6.12.117", 0, 0},
		{"unregister_netdevice_many_notify#2/3", sites("unregister_netdevice_many_notify#2/3"), "6.12.0-model", 2, 3},
		{"x#9/3", sites(), "", 0, 0},
		{"x#/", sites(), "", 0, 0},
	} {
		r := experiment.WaitRun{Wait: rcu.SynchronizeNet, Site: tt.site}
		if call, of := callOf(r, experiment.LinkDel, tt.sites, experiment.Facts{Release: tt.release}); call != tt.call || of != tt.of {
			t.Errorf("callOf(%s, %s) = %d of %d; want %d of %d", tt.site, tt.release, call, of, tt.call, tt.of)
		}
	}
}

// TestSpansSayWhereNobodyLooked: a gap belongs to no wait, and a short one is halved.
func TestSpansSayWhereNobodyLooked(t *testing.T) {
	s := experiment.Sample{Op: experiment.LinkDel, Took: 10 * time.Second}
	for _, r := range []experiment.WaitRun{
		looks(rcu.RTNL, "", time.Second, 2*time.Second), looks(rcu.Barrier, "", 2050*ms, 4*time.Second), looks(rcu.OtherWait, "", 7*time.Second, 9900*ms)} {
		s.SeeMany(r)
	}
	spans, ordered := spansOf(s, nil, experiment.Facts{})
	want := []Span{
		{Wait: rcu.RTNL, From: time.Second, To: 2025 * ms, Doubt: 25 * ms, Until: 2050 * ms, Samples: 21},
		{Wait: rcu.Barrier, From: 2025 * ms, To: 4 * time.Second, Until: 7 * time.Second, Samples: 40},
		{Wait: rcu.OtherWait, From: 7 * time.Second, To: 9950 * ms, Doubt: 50 * ms, Until: 10 * time.Second, Samples: 59},
	}
	if diff := cmp.Diff(want, spans, cmpopts.IgnoreUnexported(Span{})); diff != "" || !ordered {
		t.Errorf("spans, -want +got:\n%s", diff)
	}
	if got := named(Story{Sample: s, Spans: spans, Ordered: true}); math.Abs(got-0.3) > 1e-9 {
		t.Errorf("named %v; want 0.3", got)
	}
}

// FuzzStory: whatever records say, a story comes of it, whose spans lie in their order within the operation.
func FuzzStory(f *testing.F) {
	f.Add(int64(1), int64(5e9), int64(40e6), int64(3e9), 60, "dev_deactivate_many+0x1", uint64(100), uint64(3), "rcu: INFO: rcu_sched self-detected stall on CPU", 250)
	f.Add(int64(-7), int64(-1), int64(9), int64(-9), -4, "#/#", uint64(0), uint64(1<<63), "\x1b[31m", -1)
	f.Fuzz(func(t *testing.T, start, took, first, last int64, n int, site string, polls, full uint64, line string, hz int) {
		s := stock()
		s.facts.HZ = hz
		teller := NewTeller(experiment.Trial{Rep: 1, Arm: s.arm})
		for _, r := range s.records() {
			teller.Add(r)
		}
		teller.Add(experiment.Record{At: rcu.Ktime(start), Counters: &experiment.Counters{Polls: polls, FullPolls: full, Traced: true, InHold: true}})
		teller.Add(experiment.Record{At: rcu.Ktime(start + took), Counters: &experiment.Counters{Polls: full, FullPolls: polls, InHold: true}})
		teller.Add(experiment.Record{At: rcu.Ktime(start), Kmsg: &experiment.Kmsg{Stamp: time.Duration(last), Text: line}})
		x := experiment.Sample{Op: experiment.LinkDel, Start: rcu.Ktime(start), Took: time.Duration(took), Phase: experiment.Hold}
		x.Waits = map[rcu.Wait]int{rcu.Barrier: n}
		x.Runs = []experiment.WaitRun{{Wait: rcu.SynchronizeNet, Site: site, First: time.Duration(first), Last: time.Duration(last), N: n},
			{Wait: rcu.Barrier, First: time.Duration(last), Last: time.Duration(first), N: -n}}
		teller.Add(experiment.Record{Sample: &x})
		for i := range teller.Operations() {
			story := teller.Tell(i + 1)
			if story.Title == "" || len(story.Statements) == 0 || story.Named < 0 || story.Named > 1 {
				t.Errorf("story %+v", story)
			}
			for _, span := range story.Spans {
				if span.To < span.From {
					t.Errorf("span %+v", span)
				}
			}
		}
	})
}
