package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/stats"
	"github.com/napistall/napistall/klog"
)

// JSONFormat names the document that JSON writes. Fields may be added under the same name; one that
// is removed, renamed or changes its meaning makes a new one.
const JSONFormat = "napistall/report/1"

// document is the whole. Times whose names end in _sec are seconds as a fraction; _ns, and those of
// experiment, whole nanoseconds. A number that there is none of is left out, never 0.
type document struct {
	Format      string                `json:"format"`
	Version     string                `json:"napistall,omitempty"` // the version of napistall that ran it
	Backend     string                `json:"backend,omitempty"`   // where it ran: qemu, sim, host or ssh
	Quick       bool                  `json:"quick"`               // holds were shortened and stalls reported sooner
	Interrupted bool                  `json:"interrupted"`         // it was ended before its plan was
	Experiment  experiment.Experiment `json:"experiment"`          // every default filled in
	Verdict     jsonVerdict           `json:"verdict"`
	Expect      []jsonResult          `json:"expect"`      // what became of the expectations, in their order
	Arms        []jsonArm             `json:"arms"`        // in the experiment's order, also those without trials
	Comparisons []jsonComparison      `json:"comparisons"` // the first arm with trials against each other
	Aborted     []jsonAborted         `json:"aborted"`     // tries that are in no number
	NotRun      []jsonNotRun          `json:"not_run"`     // arms that could not run
	Repeat      []string              `json:"repeat"`      // the commands that repeat it
}

type jsonVerdict struct {
	Word        explain.Word `json:"word"`         // reproduced, not reproduced, not in the band, inconclusive
	Sentences   []string     `json:"sentences"`    // what it rests on
	NotMeasured []string     `json:"not_measured"` // what a reader might take it for and it is not
}

type jsonResult struct {
	Text   string         `json:"text"`   // as the file has it
	Status explain.Status `json:"status"` // met, not met, unknown
	Got    string         `json:"got"`    // what was found, in words
}

type jsonAborted struct {
	Trial string `json:"trial"`
	Arm   string `json:"arm"`
	Try   int    `json:"try"`
	Why   string `json:"why"`
}

type jsonNotRun struct {
	Arm string `json:"arm"`
	Why string `json:"why"`
}

// jsonArm pools an arm's trials.
type jsonArm struct {
	Name        string           `json:"name"`
	Kernel      string           `json:"kernel,omitempty"` // in short, as in the table
	Model       string           `json:"model,omitempty"`
	Band        explain.Band     `json:"band"`            // in, above, below, mixed, none (no threaded loop), unknown
	Hold        jsonLengths      `json:"hold"`            // of the arm's own operation, begun in the hold
	Tail        jsonLengths      `json:"tail"`            // begun after it
	Stalls      jsonStalls       `json:"stalls"`          // since the load began, each grace period once
	Stalled     int              `json:"stalled_trials"`  // trials that show a stall
	SlowSec     float64          `json:"slow_sec"`        // spent in operations over 1 s begun in the hold
	Rates       *jsonRates       `json:"rates,omitempty"` // over all trials
	Probes      []jsonProbe      `json:"probes"`          // the other operations
	TrialsDone  int              `json:"trials_done"`     // trials that are data
	Panicked    int              `json:"panicked"`        // trials that ended in a panic
	Silent      int              `json:"silent"`          // trials whose target stopped answering
	Facts       experiment.Facts `json:"facts"`           // of the first trial
	Trials      []jsonTrial      `json:"trials"`
	AbortedHere int              `json:"aborted"` // tries of this arm that are in no number
}

type jsonProbe struct {
	Op   string      `json:"op"`
	Hold jsonLengths `json:"hold"`
	Tail jsonLengths `json:"tail"`
}

type jsonStalls struct {
	Classic     int `json:"classic"`
	Expedited   int `json:"expedited"`
	SoftLockups int `json:"soft_lockups"`
	HungTasks   int `json:"hung_tasks"`
	TasksRCU    int `json:"tasks_rcu"`
	Workqueue   int `json:"workqueue_lockups"`
	Starved     int `json:"kthread_starved"`
	Early       int `json:"before_load"` // of any kind, in none of the others
}

// jsonLengths sums up lengths. The intervals are at 95 %; the median's is left out where there are
// too few for one.
type jsonLengths struct {
	N               int       `json:"n"`
	Censored        int       `json:"censored"` // cut by the trial's end: at least that long
	Refused         int       `json:"refused"`  // by the kernel: in no other number
	MedianSec       *float64  `json:"median_sec,omitempty"`
	MedianAtLeast   bool      `json:"median_at_least,omitempty"`    // the median was cut: it is longer
	MedianLoSec     *float64  `json:"median_lo_sec,omitempty"`      // lower end of the median's interval
	MedianHiSec     *float64  `json:"median_hi_sec,omitempty"`      // upper end of the median's interval
	MedianHiAtLeast bool      `json:"median_hi_at_least,omitempty"` // the upper end was cut: it is longer
	WorstSec        *float64  `json:"worst_sec,omitempty"`          // the longest
	WorstAtLeast    bool      `json:"worst_at_least,omitempty"`     // one that was cut may have been longer
	Over            jsonShare `json:"over_1s"`                      // of those of which it is known
	Undecided       int       `json:"cut_before_1s"`                // of which it is not known whether they took over 1 s
	Caveats         []string  `json:"caveats,omitempty"`            // what a reader of the numbers has to know
}

// jsonShare is a share with its exact (Clopper–Pearson) interval.
type jsonShare struct {
	K  int      `json:"k"`
	N  int      `json:"n"`
	Lo *float64 `json:"lo,omitempty"`
	Hi *float64 `json:"hi,omitempty"`
}

// jsonRates are per second of the hold, from the first reading of the counters to the last.
type jsonRates struct {
	Seconds      float64  `json:"seconds"` // counted
	Traced       bool     `json:"traced"`  // polls counted at napi:napi_poll; else packets over frames in flight
	Polls        float64  `json:"polls"`
	FullPolls    *float64 `json:"full_polls,omitempty"` // only when traced
	Packets      float64  `json:"packets"`              // that the NAPI processed
	Voluntary    float64  `json:"voluntary"`            // switches of the NAPI thread
	Nonvoluntary float64  `json:"nonvoluntary"`         // switches of the NAPI thread
	Interrupts   float64  `json:"interrupts"`
	Softnet      float64  `json:"softnet"`
	SoftnetDrop  float64  `json:"softnet_drop"` // packets that the CPU's backlog refused
	Squeezed     float64  `json:"squeezed"`     // times that softirqs ran out of budget or time
	RunShare     float64  `json:"run_share"`    // of a CPU, 0…1
}

type jsonTrial struct {
	ID       string             `json:"id"`
	Rep      int                `json:"rep"`
	Outcome  string             `json:"outcome"`                // completed, panic, silent or cut
	HostWait int64              `json:"host_wait_ns,omitempty"` // the guest's CPUs, for the host's
	Why      string             `json:"why,omitempty"`          // the evidence of a panic or of silence
	Command  experiment.Command `json:"command"`
	Facts    experiment.Facts   `json:"facts"`
	Band     jsonBand           `json:"band"`
	Rates    *jsonRates         `json:"rates,omitempty"`
	Stall    explain.Stall      `json:"stall,omitempty"` // the strongest evidence of one
	Events   []jsonEvent        `json:"events"`          // the kernel's reports since the load began
	Early    []jsonEvent        `json:"events_before_load,omitempty"`
	Losses   []experiment.Loss  `json:"losses"`             // what was missed
	Samples  []jsonSample       `json:"samples"`            // each operation that was not refused
	Refusals []string           `json:"refusals,omitempty"` // the first of each operation
}

type jsonBand struct {
	Band     explain.Band `json:"band"`
	Evidence string       `json:"evidence"` // what it was judged from
	Inferred bool         `json:"inferred"` // full-budget polls were not counted: what is in flight stands in for them
	In       int          `json:"sec_in"`   // seconds of the hold in the band
	Above    int          `json:"sec_above"`
	Below    int          `json:"sec_below"`
}

// jsonEvent is a report by the kernel; its instants are printk's, seconds since boot.
type jsonEvent struct {
	Kind     klog.Kind `json:"kind"`
	Flavor   string    `json:"flavor,omitempty"`
	GP       string    `json:"gp,omitempty"`
	CPUs     []int     `json:"cpus,omitempty"`
	Task     string    `json:"task,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Jiffies  int64     `json:"jiffies,omitempty"` // the largest age reported, in ticks
	Reports  int       `json:"reports"`           // how often it was reported
	FirstSec *float64  `json:"first_sec,omitempty"`
	LastSec  *float64  `json:"last_sec,omitempty"`
	Lines    []string  `json:"lines"` // the first report
}

type jsonSample struct {
	Op       string           `json:"op"`                 // the operation
	Phase    string           `json:"phase"`              // hold: begun while the load was on; tail: after it
	StartNS  int64            `json:"start_ns"`           // since the target's boot
	TookNS   int64            `json:"took_ns"`            // how long it took
	Censored bool             `json:"censored,omitempty"` // cut by the trial's end: it took longer
	Waits    map[rcu.Wait]int `json:"waits,omitempty"`    // stack samples by wait
	Stack    []string         `json:"stack,omitempty"`    // the newest while it took over 1 s, innermost first
}

type jsonComparison struct {
	A      string   `json:"a"`
	B      string   `json:"b"`
	Over   jsonTest `json:"over_1s"`         // Fisher's exact test, two-sided
	Length jsonTest `json:"lengths"`         // rank test on all lengths, two-sided
	Trials jsonTest `json:"worst_per_trial"` // rank test on the longest of each trial, two-sided
}

type jsonTest struct {
	P     *float64 `json:"p,omitempty"`
	Words string   `json:"words,omitempty"` // why there is no p
}

// JSON writes r as one document of JSONFormat.
func JSON(w io.Writer, r Run) error {
	text, err := json.MarshalIndent(newDocument(r), "", " ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if _, err := w.Write(append(printable(text), '\n')); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// printable escapes what json leaves in strings and a terminal would act on: marks that turn the
// writing direction, say. Outside of strings a document is all ASCII.
func printable(text []byte) []byte {
	out := make([]byte, 0, len(text)+1)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r < utf8.RuneSelf || unicode.IsPrint(r) {
			out = append(out, text[:n]...)
		} else if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[n:]
	}
	return out
}

func newDocument(r Run) document {
	d := document{
		Format: JSONFormat, Version: r.Version, Backend: r.Backend, Quick: r.Experiment.Quick, Interrupted: r.Interrupted,
		Experiment: r.Experiment,
		Verdict:    jsonVerdict{r.Verdict.Word, list(r.Verdict.Sentences), list(r.Verdict.NotMeasured)},
		Expect:     []jsonResult{}, Arms: []jsonArm{}, Comparisons: []jsonComparison{}, Aborted: []jsonAborted{}, NotRun: []jsonNotRun{},
		Repeat: list(r.Repeat),
	}
	d.Experiment.Arms = list(d.Experiment.Arms)
	for _, x := range r.Results {
		d.Expect = append(d.Expect, jsonResult{x.Expectation.Text, x.Status, x.Got})
	}
	for _, a := range r.Aborted {
		d.Aborted = append(d.Aborted, jsonAborted(a))
	}
	for _, n := range r.NotRun {
		d.NotRun = append(d.NotRun, jsonNotRun(n))
	}
	for _, a := range r.Arms {
		arm := newJSONArm(a)
		arm.AbortedHere = r.aborted(a.Arm.Name)
		d.Arms = append(d.Arms, arm)
	}
	for _, p := range r.pairs() {
		c := explain.Compare(p[0], p[1])
		d.Comparisons = append(d.Comparisons, jsonComparison{c.A, c.B, newJSONTest(c.Over), newJSONTest(c.Lengths), newJSONTest(c.Trials)})
	}
	return d
}

// list is s, and an empty list where there is none: a reader needs no third case.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func newJSONTest(t explain.Test) jsonTest {
	if !t.HasP {
		return jsonTest{Words: t.Words}
	}
	return jsonTest{P: number(t.P)}
}

// number is x, or nothing where x is no number that JSON has.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func newJSONArm(a explain.ArmSummary) jsonArm {
	j := jsonArm{
		Name: a.Arm.Name, Kernel: a.KernelName(), Model: explain.Model(a.Facts), Band: a.Band,
		Hold: newJSONLengths(a.Hold), Tail: newJSONLengths(a.Tail),
		Stalls:  jsonStalls{a.Classic, a.Expedited, a.SoftLockups, a.HungTasks, a.TasksRCU, a.Workqueue, a.Starved, a.Early},
		Stalled: a.Stalled, SlowSec: a.SlowTime.Seconds(), Rates: newJSONRates(a.Rates), Probes: []jsonProbe{},
		TrialsDone: len(a.Trials), Panicked: a.Panicked, Silent: a.Silent, Facts: a.Facts, Trials: []jsonTrial{},
	}
	for _, op := range a.Ops() {
		hold, tail := a.Op(op)
		j.Probes = append(j.Probes, jsonProbe{op, newJSONLengths(hold), newJSONLengths(tail)})
	}
	for _, t := range a.Trials {
		j.Trials = append(j.Trials, newJSONTrial(t))
	}
	return j
}

func newJSONLengths(l explain.Lengths) jsonLengths {
	s := l.Summary
	j := jsonLengths{N: s.N, Censored: s.Censored, Refused: l.Refused, Over: newJSONShare(l.Over), Undecided: l.Undecided,
		Caveats: s.Caveats}
	if worst, atLeast, ok := l.Worst(); ok {
		j.WorstSec, j.WorstAtLeast = number(worst.Seconds()), atLeast
		j.MedianSec, j.MedianAtLeast = number(s.Median.Seconds()), s.MedianCensored
		if s.HasInterval {
			j.MedianLoSec = number(s.MedianLo.Seconds())
			j.MedianHiSec, j.MedianHiAtLeast = number(s.MedianHi.Seconds()), s.MedianHiCensored
		}
	}
	return j
}

func newJSONShare(p stats.Proportion) jsonShare {
	j := jsonShare{K: p.K, N: p.N}
	if p.N > 0 {
		lo, hi := p.Interval(explain.Confidence)
		j.Lo, j.Hi = number(lo), number(hi)
	}
	return j
}

func newJSONRates(r explain.Rates) *jsonRates {
	if r.Windows == 0 {
		return nil
	}
	per := func(n uint64) float64 { x, _ := r.PerSecond(n); return x }
	j := jsonRates{
		Seconds: r.Took.Seconds(), Traced: r.Traced, Polls: per(r.Polls), Packets: per(r.Packets),
		Voluntary: per(r.Sleeps), Nonvoluntary: per(r.Nonvol), Interrupts: per(r.Interrupts),
		Softnet: per(r.Softnet), SoftnetDrop: per(r.Dropped), Squeezed: per(r.Squeezed),
	}
	j.RunShare, _ = r.RunShare()
	if r.Traced {
		j.FullPolls = number(per(r.Full))
	}
	return &j
}

func newJSONTrial(t explain.TrialSummary) jsonTrial {
	b := t.Band
	j := jsonTrial{
		ID: t.ID, Rep: t.Rep, Outcome: t.Outcome, HostWait: int64(t.HostWait), Why: t.Why, Command: t.Command, Facts: t.Facts,
		Band:  jsonBand{b.Band, b.Evidence, b.Inferred, b.In, b.Above, b.Below},
		Rates: newJSONRates(t.Rates), Stall: t.Stall(), Events: newJSONEvents(t.Events), Early: newJSONEvents(t.Early),
		Losses: list(t.Losses), Samples: []jsonSample{},
	}
	j.Command.Argv = list(j.Command.Argv)
	for _, op := range t.Ops {
		for _, samples := range [][]experiment.Sample{op.Hold, op.Tail} {
			for _, s := range samples {
				j.Samples = append(j.Samples, jsonSample{s.Op, s.Phase, int64(s.Start), int64(s.Took), s.Censored, s.Waits, s.Stack})
			}
		}
		if op.Refused > 0 {
			j.Refusals = append(j.Refusals, fmt.Sprintf("%s: %s", op.Op, op.Refusal))
		}
	}
	return j
}

func newJSONEvents(events []klog.Event) []jsonEvent {
	out := []jsonEvent{}
	for _, e := range events {
		j := jsonEvent{Kind: e.Kind, Flavor: e.Flavor, GP: e.GP, CPUs: e.CPUs, Task: e.Task, PID: e.PID, Jiffies: e.Jiffies,
			Reports: e.Reports, Lines: list(e.Lines)}
		if e.HasTime {
			j.FirstSec, j.LastSec = number(e.First.Seconds()), number(e.Last.Seconds())
		}
		out = append(out, j)
	}
	return out
}
