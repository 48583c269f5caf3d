package machine

import (
	"context"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An Examination says how to read and watch the running machine.
type Examination struct {
	For    time.Duration // how long to watch; default Glance
	Helper Helper
	Trace  bool // count polls, which takes root; not while a grace period is late
}

// Examined is what an Examination has found. Kmsg is the kernel log's text.
type Examined struct {
	Survey Survey
	Watch  Watch
	Kmsg   string
}

const (
	// Glance is the time for a watch without a wish.
	Glance = 500 * time.Millisecond
	// Patience is how long the next word about the devices may take. Reading them takes milliseconds; what takes
	// longer waits for RTNL.
	Patience = time.Second
	// startTime is how long the helper may take until it says its first word: a program as large as ours takes seconds
	// to start on a slow board, and more on an emulated one that is busy.
	startTime = 15 * time.Second
	// busyFor is from when on a thread that was not switched out is asked whether it lets others run.
	busyFor = 100 * time.Millisecond
	// maxTurns bounds the CPUs that are asked at once.
	maxTurns = 8
)

// watcher is an Examination that runs.
type watcher struct {
	Examination
	start    time.Time // of the helper
	began    time.Time // of the watch
	helper   *session
	isolated []int // CPUs that are left alone
	online   []int
	first    chan struct{} // closed when the helper has said something

	mu      sync.Mutex
	survey  Survey
	begins  string            // what is asked about the devices now
	told    bool              // all about them
	heard   time.Time         // the last word about them
	spoken  bool              // the helper has said something
	waits   []Wait            // grace periods that ended
	begun   *time.Time        // of the one that goes on
	noGP    string            // why there is none
	turns   []Wait            // turns that ended
	asked   map[int]time.Time // CPUs whose turn goes on, and since when
	last    map[int]time.Time // CPUs whose turn was asked for last
	ordered map[int]time.Time // CPUs whose turn the helper was told to measure, and hasn't begun
	polls   map[string]Polls
	noPolls string
	traced  bool
}

// Run reads the machine's files, and watches until the time is over, and somewhat longer while the helper has not
// started, answers about devices come, or a grace period or a turn is on its way to be late. It waits for nothing
// that the machine holds up.
func (e Examination) Run(ctx context.Context) (Examined, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := newWatcher(e)
	var err error
	if x.helper, err = e.Helper.start(ctx, func(w Word) { x.hear(ctx, w) }); err != nil {
		return Examined{}, err
	}
	x.letHelperStart(ctx)
	found := Examined{Kmsg: kernelLog()}
	s := Source{Kmsg: found.Kmsg}
	err = s.tellFiles(func(p Part) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.survey.Add(p)
		return nil
	})
	if err != nil {
		return Examined{}, err
	}
	before := x.counters()
	x.began = time.Now()
	tallies := x.sample(ctx, x.survey.Threads)
	found.Watch = Watch{Took: time.Since(x.began), Step: StepFor(len(tallies))}
	x.difference(&found.Watch, before)
	cancel()
	<-x.helper.done
	x.results(&found.Watch)
	for _, t := range tallies {
		if t.watched.Looks > 1 {
			found.Watch.Threads = append(found.Watch.Threads, t.watched)
		}
	}
	found.Survey = x.survey
	return found, nil
}

// letHelperStart waits for the helper's first word where both of us have one CPU: the longest of all waits, the grace
// period's, begins with it, and our own reading goes on meanwhile.
func (x *watcher) letHelperStart(ctx context.Context) {
	if mine, err := Affinity(0); err != nil || len(mine) > 1 {
		return
	}
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	select {
	case <-x.first:
	case <-x.helper.done:
	case <-limit.C:
	case <-ctx.Done():
	}
}

func newWatcher(e Examination) *watcher {
	if e.For <= 0 {
		e.For = Glance
	}
	var s Source
	x := &watcher{Examination: e, start: time.Now(), first: make(chan struct{}), asked: map[int]time.Time{}, last: map[int]time.Time{}, ordered: map[int]time.Time{}, polls: map[string]Polls{}}
	x.isolated = isolated(s.params())
	x.online, _ = ParseCPUList(s.text("sys/devices/system/cpu/online")) // where it can't be read, nothing is assumed
	x.survey.Root = os.Geteuid() == 0
	return x
}

// hear takes a word of the helper's. After the end nothing counts any more.
func (x *watcher) hear(ctx context.Context, w Word) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if !x.spoken {
		x.spoken = true
		close(x.first)
	}
	switch {
	case w.Part != nil:
		x.heard = time.Now()
		if w.Part.Begins != "" {
			x.begins = w.Part.Begins
		}
		x.told = x.told || w.Part.Netlink != nil // the last answer
		x.survey.Add(*w.Part)
	case w.Beat == nil:
	case w.Of == ofGracePeriods && len(x.online) != 1:
		x.hearGracePeriod(*w.Beat)
	case w.Of == ofTurns:
		x.hearTurn(*w.Beat)
	case w.Of == ofPolls && w.Beat.Polls != nil:
		x.polls[w.Beat.Polls.Device] = *w.Beat.Polls
	case w.Of == ofPolls:
		x.noPolls = w.Beat.Why
	}
}

func (x *watcher) hearGracePeriod(b Beat) {
	x.begun = nil
	switch {
	case b.Begin != nil:
		x.begun = new(time.Now())
	case b.End != nil:
		x.waits = append(x.waits, *b.End)
	default:
		x.noGP = b.Why
	}
}

func (x *watcher) hearTurn(b Beat) {
	switch {
	case b.Begin != nil && b.Begin.CPU != nil:
		delete(x.ordered, *b.Begin.CPU)
		x.asked[*b.Begin.CPU] = time.Now()
	case b.End != nil && b.End.CPU != nil:
		delete(x.asked, *b.End.CPU)
		x.turns = append(x.turns, *b.End)
	case b.Why != "": // it may not run there: nothing is known, and nothing claimed
		clear(x.asked)
	}
}

// sample looks at the threads until the time is over, and asks for turns where one keeps a CPU.
func (x *watcher) sample(ctx context.Context, threads []KThread) []*tally {
	var tallies []*tally
	for _, t := range threads {
		tallies = append(tallies, &tally{watched: Watched{PID: t.PID, Name: t.Name}})
	}
	tick := time.NewTicker(StepFor(len(tallies)))
	defer tick.Stop()
	for {
		var busy []int
		for _, t := range tallies {
			l, ok := x.look(t.watched.PID)
			if !ok {
				continue
			}
			t.add(l)
			if t.busy(busyFor) {
				busy = append(busy, l.cpu)
			}
		}
		x.askTurns(busy)
		x.askPolls()
		if time.Since(x.began) >= x.For && !x.pending() {
			return tallies
		}
		select {
		case <-ctx.Done():
			return tallies
		case <-tick.C:
		}
	}
}

// look reads a thread; where there is no schedstat, its run time comes in steps of 10 ms.
func (x *watcher) look(pid int) (look, bool) {
	var s Source
	u, err := s.Usage(pid)
	if err != nil {
		return look{}, false
	}
	st, err := ParseStat(s.text("proc/" + strconv.Itoa(pid) + "/stat"))
	if err != nil {
		return look{}, false
	}
	if u.RunTime == 0 {
		u.RunTime = st.Used
	}
	return look{time.Since(x.began), u, st.CPU}, true
}

// askTurns has it measured how long others wait for CPUs, once a second each.
func (x *watcher) askTurns(cpus []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ask []string
	for _, cpu := range slices.Compact(slices.Sorted(slices.Values(cpus))) {
		_, outstanding := x.asked[cpu]
		if outstanding || !x.spoken || time.Since(x.last[cpu]) < time.Second || slices.Contains(x.isolated, cpu) || len(ask) == maxTurns {
			continue
		}
		x.last[cpu], x.ordered[cpu] = time.Now(), time.Now()
		ask = append(ask, strconv.Itoa(cpu))
	}
	if len(ask) > 0 {
		x.helper.order(ofTurns, strings.Join(ask, ","))
	}
}

// askPolls has polls counted once a grace period has ended in time: enabling a tracepoint is no good idea on a
// machine that stands still.
func (x *watcher) askPolls() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.Trace || x.traced || len(x.waits) == 0 || x.waits[len(x.waits)-1].Took >= time.Second {
		return
	}
	x.traced = true
	x.helper.order(ofPolls)
}

// pending reports whether something is outstanding that is not yet late.
func (x *watcher) pending() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.helper.done:
		return false
	default:
	}
	if !x.spoken {
		return time.Since(x.start) < startTime
	}
	for _, since := range x.asked {
		if time.Since(since) < LateTurn {
			return true
		}
	}
	for _, since := range x.ordered {
		if time.Since(since) < Patience {
			return true
		}
	}
	return x.begun != nil && time.Since(*x.begun) < LateGP || !x.told && time.Since(x.heard) < Patience
}

// results adds what the helper has found. It says no more.
func (x *watcher) results(watch *Watch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.told {
		x.survey.Cut = x.begins
		if x.begins == "" {
			x.survey.Cut = "the helper that asks about network devices"
		}
	}
	watch.GracePeriods, watch.NoGP, watch.Turns = x.waits, x.noGP, x.turns
	if len(x.online) == 1 {
		watch.NoGP = "with one CPU, membarrier waits for no grace period"
	}
	if x.begun != nil {
		watch.GracePeriods = append(watch.GracePeriods, Wait{Took: time.Since(*x.begun), Censored: true})
	}
	for cpu, since := range x.asked {
		watch.Turns = append(watch.Turns, Wait{CPU: &cpu, Took: time.Since(since), Censored: true})
	}
	sortWaits(watch.Turns)
	for _, p := range x.polls {
		watch.Polls = append(watch.Polls, p)
	}
	slices.SortFunc(watch.Polls, func(a, b Polls) int { return strings.Compare(a.Device, b.Device) })
	watch.NoPolls = x.noPolls
	switch {
	case !x.Trace && os.Geteuid() != 0:
		watch.NoPolls = "only root can count polls"
	case !x.Trace:
		watch.NoPolls = "polls are counted with --for"
	case x.traced && len(x.polls) == 0 && x.noPolls == "":
		watch.NoPolls = "none was counted, or the count could not be attached in time"
	case !x.traced:
		watch.NoPolls = "no grace period ended in time: a tracepoint was not enabled on a machine that stands still"
	}
}

// counters are what the kernel counts by itself.
type counters struct {
	irqs    map[int]uint64
	packets map[string]uint64
	softnet []Softnet
}

func (x *watcher) counters() counters {
	var s Source
	c := counters{packets: map[string]uint64{}}
	c.irqs = ParseInterrupts(s.text("proc/interrupts"))
	names, _ := s.list("sys/class/net") // without a list, no packets are counted
	for _, name := range names {
		if n := s.RxPackets(name); n != nil {
			c.packets[name] = *n
		}
	}
	c.softnet, _ = ParseSoftnet(s.text("proc/net/softnet_stat"), x.online) // none where it can't be read
	return c
}

func (x *watcher) difference(watch *Watch, before counters) {
	after := x.counters()
	for _, irq := range slices.Sorted(maps.Keys(after.irqs)) {
		if n, was := after.irqs[irq], before.irqs[irq]; n > was {
			watch.Interrupts = append(watch.Interrupts, IRQCount{irq, n - was})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.packets)) {
		if n, was := after.packets[name], before.packets[name]; n > was {
			watch.Packets = append(watch.Packets, Count{name, n - was})
		}
	}
	for i, s := range after.softnet {
		if i >= len(before.softnet) || before.softnet[i].CPU != s.CPU {
			continue
		}
		b := before.softnet[i]
		s.Processed -= min(b.Processed, s.Processed)
		s.Dropped -= min(b.Dropped, s.Dropped)
		s.Squeezed -= min(b.Squeezed, s.Squeezed)
		s.RPS -= min(b.RPS, s.RPS)
		watch.Softnet = append(watch.Softnet, s)
	}
}
