package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// Prepare is the phase before experiment.Boot: the kernel is fetched and looked at.
const Prepare = "prepare"

// unknownOverhead is how much longer than its arm's Duration a trial is expected to take before one of
// the arm was seen: what boot, set-up and teardown may cost under TCG.
const unknownOverhead = 15 * time.Second

// A Progress is how far one trial is, or the look at one arm before the trials.
type Progress struct {
	Trial        string // the trial's ID; empty while an arm is looked at
	Arm          string
	Index, Total int // this is Index of Total trials, or arms, counted from 1
	Try          int // from 1
	Phase        string
	Elapsed      time.Duration // since the try began, on the host's clock
	Expect       time.Duration // how long all of it should take; 0 if unknown
	Samples      int           // of the arm's own probe
	// Worst is the longest of the samples, or at least how long the one that is outstanding takes by now,
	// if that is longer; OverWorst then says so, as it does for a censored sample.
	Worst     time.Duration
	OverWorst bool
	// Latest are the lengths of the newest samples, oldest first, MaxLatest at most. Where OverWorst is about one that
	// is outstanding, it is the last of them.
	Latest []time.Duration
	Stalls int   // classic and expedited RCU stalls in the target's log, one for each grace period
	Done   bool  // this is the try's last Progress
	Err    error // why it is no data, once Done
	// Whole and Planned count the trials of the run that gave data by now and that were planned; Left is about how long
	// all that is left of the run takes, on the host's clock, or 0 if unknown. While arms are looked at, all are 0.
	Whole, Planned int
	Left           time.Duration
}

// MaxLatest is how many samples a Progress tells of: a line on a wide terminal.
const MaxLatest = 64

// Line returns p as one line of at most 80 columns.
func Line(p Progress) string {
	head := fmt.Sprintf("%*d/%d  %-12s  ", len(fmt.Sprint(p.Total)), p.Index, p.Total, clip(p.Arm, 14))
	if errors.Is(p.Err, context.Canceled) {
		return clip(oneLine(head+"interrupted"), 80)
	}
	if p.Err != nil {
		return clip(oneLine(head+"no data: "+p.Err.Error()), 80)
	}
	phase, took := p.Phase, seconds(p.Elapsed.Truncate(time.Second), 0)
	switch {
	case p.Done && p.Trial == "":
		phase = "ready"
	case p.Done:
		phase = "done"
	case p.Expect >= time.Second:
		took += "/" + seconds(p.Expect.Truncate(time.Second), 0)
	}
	line := fmt.Sprintf("%s%-7s  %6s s", head, phase, took)
	if p.Try > 1 {
		line += fmt.Sprintf("  try %d", p.Try)
	}
	return clip(oneLine(line+measured(p)), 80)
}

// measured is what there is to say about p's samples.
func measured(p Progress) string {
	if p.Trial == "" || p.Samples == 0 && p.Worst == 0 && p.Stalls == 0 {
		return ""
	}
	s := fmt.Sprintf(" %4d %-7s", p.Samples, plural("sample", p.Samples))
	if p.Worst > 0 {
		over := ""
		if p.OverWorst {
			over = "≥ "
		}
		s += fmt.Sprintf("  worst %s%s s", over, seconds(p.Worst, digits(p.Worst)))
	}
	if p.Stalls > 0 {
		s += fmt.Sprintf("  %d %s", p.Stalls, plural("stall", p.Stalls))
	}
	return s
}

func plural(word string, n int) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// digits keeps three significant ones of a time over a millisecond.
func digits(d time.Duration) int {
	switch {
	case d < time.Second:
		return 3
	case d < 10*time.Second:
		return 2
	}
	return 1
}

func seconds(d time.Duration, digits int) string { return fmt.Sprintf("%.*f", digits, d.Seconds()) }

// oneLine puts blanks in the place of what would move the cursor: a target may send anything.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// clip shortens s to at most n columns.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// A tracker follows one try and tells of it once a second and at each change of phase.
type tracker struct {
	walk  *walk
	arm   experiment.Arm
	began time.Time
	quit  chan struct{}
	gone  sync.WaitGroup

	mu      sync.Mutex
	now     Progress
	setup   time.Duration // what came before the load, once loaded
	loaded  bool          // the load has started
	last    rcu.Ktime     // newest instant seen on the target's clock
	latest  []time.Duration
	idle    rcu.Ktime // since when no sample has ended; 0 while the load has not started
	holding bool
	log     []klog.Line // of the target, the first maxLog lines
	parsed  int         // how many of them Stalls is about
}

// maxLog bounds what a target that floods its log can make us hold. What comes after so many lines is
// kept with the records as ever, but no longer part of a Progress.
const maxLog = 4096

// track starts to follow a try. The caller stops it.
func (w *walk) track(p Progress, arm experiment.Arm) *tracker {
	t := &tracker{walk: w, arm: arm, began: time.Now(), quit: make(chan struct{}), now: p}
	t.report()
	t.gone.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.report()
			case <-t.quit:
				return
			}
		}
	})
	return t
}

// stop tells the outcome; nothing is told after it.
func (t *tracker) stop(err error) {
	close(t.quit)
	t.gone.Wait()
	t.walk.over(t)
	t.mu.Lock()
	t.now.Done, t.now.Err = true, err
	took := time.Since(t.began)
	t.mu.Unlock()
	if err == nil && t.now.Trial != "" {
		t.walk.learn(t.arm, took)
	}
	t.report()
}

// see takes notice of a record.
func (t *tracker) see(r experiment.Record) {
	t.mu.Lock()
	t.last = max(t.last, r.At)
	if s := r.Sample; s != nil && s.Op == t.arm.Probe.Op && s.Err == "" {
		t.sample(*s)
	}
	if k := r.Kmsg; k != nil && len(t.log) < maxLog {
		t.log = append(t.log, klog.Line{Stamp: k.Stamp, HasStamp: true, Text: k.Text})
	}
	if r.Phase != nil {
		t.phase(*r.Phase)
	}
	t.mu.Unlock()
	if r.Phase != nil {
		t.report()
	}
}

func (t *tracker) sample(s experiment.Sample) {
	t.now.Samples++
	if t.latest = append(t.latest, s.Took); len(t.latest) > MaxLatest {
		t.latest = t.latest[len(t.latest)-MaxLatest:]
	}
	if s.Took >= t.now.Worst {
		t.now.Worst, t.now.OverWorst = s.Took, s.Censored
	}
	t.idle = max(t.idle, s.Start.Add(s.Took))
}

func (t *tracker) phase(p experiment.Phase) {
	t.now.Phase = p.Name
	t.holding = p.Name == experiment.Hold
	if t.holding {
		t.setup, t.loaded = time.Since(t.began), true
		t.idle = max(t.idle, t.last)
	}
}

// report tells how far the try is.
func (t *tracker) report() {
	if t.walk.Progress == nil {
		return
	}
	t.walk.tell.Lock()
	defer t.walk.tell.Unlock()
	t.mu.Lock()
	t.countStalls()
	p := t.now
	p.Elapsed = time.Since(t.began)
	if p.Trial != "" {
		p.Expect = t.expect()
		p.Whole, p.Planned, p.Left = t.walk.left(t, p)
	}
	p.Latest = slices.Clone(t.latest)
	if d := t.outstanding(); d > p.Worst && !p.Done {
		p.Worst, p.OverWorst = d, true
		p.Latest = append(p.Latest, d)
	}
	t.mu.Unlock()
	t.walk.Progress(p)
}

func (t *tracker) countStalls() {
	if t.parsed == len(t.log) {
		return
	}
	t.parsed = len(t.log)
	events := klog.Parse(t.log)
	t.now.Stalls = klog.Count(events, klog.Classic) + klog.Count(events, klog.Expedited)
}

// expect is how long the try should take: by its own set-up once it is known, else by the last
// finished trial of its arm. A simulator's time passes faster than the host's, how much is seen by its first trial:
// until then it is 0.
func (t *tracker) expect() time.Duration {
	overhead, known := t.walk.overheadOf(t.arm)
	switch {
	case !known && t.walk.Dir.Plan().Backend == "sim":
		return 0
	case t.loaded && overhead >= 0:
		return t.setup + t.arm.Duration
	}
	return overhead + t.arm.Duration
}

// outstanding is how long the probe's current operation takes by now, at least: on the target's
// clock, since the last one ended and the pause after it passed. Under a second it is no news.
func (t *tracker) outstanding() time.Duration {
	if !t.holding || t.idle == 0 {
		return 0
	}
	d := t.last.Sub(t.idle) - t.arm.Probe.Every
	if d < time.Second {
		return 0
	}
	return d
}

// learn keeps how much longer than its arm's Duration a trial took.
func (w *walk) learn(arm experiment.Arm, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.overhead[arm.Name] = took - arm.Duration
}

func (w *walk) overheadOf(arm experiment.Arm) (d time.Duration, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.knownOverhead(arm), len(w.overhead) > 0
}

// knownOverhead is that of the arm's last trial, else the mean of the other arms'; w.mu is held. It does not
// make a trial shorter than nothing.
func (w *walk) knownOverhead(arm experiment.Arm) time.Duration {
	if d, ok := w.overhead[arm.Name]; ok {
		return d
	}
	if len(w.overhead) == 0 {
		return unknownOverhead
	}
	var sum time.Duration
	for _, d := range w.overhead {
		sum += d
	}
	return max(-arm.Duration, sum/time.Duration(len(w.overhead)))
}

// left returns how many trials are whole, how many were planned, and about how long the run will go on, where t has come as far
// as p says: the rest of what runs and what is to do, shared by the slots, and no less than the longest of what runs.
func (w *walk) left(t *tracker, p Progress) (whole, planned int, left time.Duration) {
	slots := time.Duration(max(1, w.Backend.Slots()))
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Expect == 0 {
		return w.result.Done + w.result.Skipped, w.total, 0
	}
	if !p.Done {
		w.ends[t] = t.began.Add(p.Expect)
	}
	var sum, longest time.Duration
	for _, end := range w.ends {
		d := max(0, time.Until(end))
		sum, longest = sum+d, max(longest, d)
	}
	for _, trial := range w.todo {
		if _, out := w.dropped[trial.Arm.Name]; !out {
			sum += w.knownOverhead(trial.Arm) + trial.Arm.Duration
		}
	}
	return w.result.Done + w.result.Skipped, w.total, max(longest, sum/slots)
}

// over takes t out of what runs.
func (w *walk) over(t *tracker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ends, t)
}
