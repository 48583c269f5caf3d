package machine

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Watching says how to watch the running machine.
type Watching struct {
	For    time.Duration // default Glance
	Helper Helper
	// Asks starts a helper's three kinds of measurement: further arguments for grace periods, turns (a
	// list of CPUs follows) and polls.
	GracePeriods, Turns, Polls string
	Trace                      bool // count polls: root, and not while a grace period is late
}

const (
	// Glance is the time for a watch without a wish.
	Glance = 500 * time.Millisecond
	// Late is how long a grace period or a turn may go on before it is given up as censored. Idle machines
	// end a grace period within 10 to 60 ms, and under a load that yields within some hundred.
	Late = 1200 * time.Millisecond
	// busyFor is from when on a thread that was not switched out is asked whether it lets others run.
	busyFor = 100 * time.Millisecond
	// maxTurns bounds the CPUs that are asked at once.
	maxTurns = 8
)

// watcher is a Watching that runs.
type watcher struct {
	Watching
	start    time.Time
	helpers  sync.WaitGroup
	isolated []int // CPUs that are left alone
	online   []int

	mu      sync.Mutex
	waits   []Wait               // grace periods that ended
	begun   *time.Time           // of the one that goes on
	noGP    string               // why there is none
	turns   []Wait               // turns that ended
	asked   map[int]time.Time    // CPUs whose turn goes on, and since when
	last    map[int]time.Time    // CPUs whose turn was asked for last
	silent  map[string]time.Time // helpers that have not said a word yet, and since when
	polls   map[string]Polls
	noPolls string
	traced  bool
}

// Run watches until w.For is over, and somewhat longer while a helper has not started, or a grace period or a
// turn is on its way to be late. It waits for nothing that the machine holds up.
func (w Watching) Run(ctx context.Context) Watch {
	if w.For <= 0 {
		w.For = Glance
	}
	var s Source
	threads, _, err := s.NAPIThreads()
	if err != nil {
		return Watch{NoGP: err.Error()}
	}
	x := newWatcher(w)
	ctx, cancel := context.WithCancel(ctx)
	x.helpers.Go(func() { x.gracePeriods(ctx) })
	before := x.counters()
	tallies := x.sample(ctx, threads)
	watch := Watch{Took: time.Since(x.start), Step: StepFor(len(threads))}
	x.difference(&watch, before)
	cancel()
	x.helpers.Wait()
	x.results(&watch)
	for _, t := range tallies {
		if t.watched.Looks > 1 {
			watch.Threads = append(watch.Threads, t.watched)
		}
	}
	return watch
}

func newWatcher(w Watching) *watcher {
	var s Source
	x := &watcher{Watching: w, start: time.Now(), asked: map[int]time.Time{}, last: map[int]time.Time{}, silent: map[string]time.Time{}, polls: map[string]Polls{}}
	x.isolated = isolated(s.params())
	x.online, _ = ParseCPUList(s.text("sys/devices/system/cpu/online")) // where it can't be read, nothing is assumed
	return x
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
		x.askTurns(ctx, busy)
		x.askPolls(ctx)
		if time.Since(x.start) >= x.For && !x.pending() {
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
	st, err := parseStat(s.text("proc/" + strconv.Itoa(pid) + "/stat"))
	if err != nil {
		return look{}, false
	}
	if u.RunTime == 0 {
		u.RunTime = st.used
	}
	return look{time.Since(x.start), u, st.cpu}, true
}

func (x *watcher) beats(ctx context.Context, on func(Beat), question ...string) error {
	key := strings.Join(question, " ")
	x.mu.Lock()
	x.silent[key] = time.Now()
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.silent, key)
		x.mu.Unlock()
	}()
	return x.Helper.Ask(ctx, func(line []byte) {
		var b Beat
		if json.Unmarshal(line, &b) != nil {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if ctx.Err() == nil {
			delete(x.silent, key)
			on(b)
		}
	}, question...)
}

func (x *watcher) gracePeriods(ctx context.Context) {
	if len(x.online) == 1 {
		x.mu.Lock()
		x.noGP = "with one CPU, membarrier waits for no grace period"
		x.mu.Unlock()
		return
	}
	err := x.beats(ctx, func(b Beat) {
		switch {
		case b.Begin != nil:
			x.begun = new(time.Now())
		case b.End != nil:
			x.begun = nil
			x.waits = append(x.waits, *b.End)
		default:
			x.begun = nil
			x.noGP = b.Why
		}
	}, x.GracePeriods)
	if err != nil {
		x.mu.Lock()
		x.noGP = err.Error()
		x.mu.Unlock()
	}
}

// askTurns starts to measure how long others wait for CPUs, once a second each.
func (x *watcher) askTurns(ctx context.Context, cpus []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ask []string
	for _, cpu := range slices.Compact(slices.Sorted(slices.Values(cpus))) {
		_, outstanding := x.asked[cpu]
		if outstanding || time.Since(x.last[cpu]) < time.Second || slices.Contains(x.isolated, cpu) || len(ask) == maxTurns {
			continue
		}
		x.last[cpu] = time.Now()
		ask = append(ask, strconv.Itoa(cpu))
	}
	if len(ask) == 0 {
		return
	}
	x.helpers.Go(func() {
		_ = x.beats(ctx, func(b Beat) { // without a helper nothing is known of turns, and nothing is claimed
			switch {
			case b.Begin != nil && b.Begin.CPU != nil:
				x.asked[*b.Begin.CPU] = time.Now()
			case b.End != nil && b.End.CPU != nil:
				delete(x.asked, *b.End.CPU)
				x.turns = append(x.turns, *b.End)
			}
		}, x.Turns, strings.Join(ask, ","))
	})
}

// askPolls starts to count polls once a grace period has ended in time: enabling a tracepoint is no good idea
// on a machine that stands still.
func (x *watcher) askPolls(ctx context.Context) {
	if !x.Trace {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.traced || len(x.waits) == 0 || x.waits[len(x.waits)-1].Took >= time.Second {
		return
	}
	x.traced = true
	x.helpers.Go(func() {
		err := x.beats(ctx, func(b Beat) {
			switch {
			case b.Polls != nil:
				x.polls[b.Polls.Device] = *b.Polls
			case b.Why != "":
				x.noPolls = b.Why
			}
		}, x.Polls)
		if err != nil {
			x.mu.Lock()
			x.noPolls = err.Error()
			x.mu.Unlock()
		}
	})
}

// pending reports whether something is outstanding that is not yet late.
func (x *watcher) pending() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, since := range x.silent {
		if time.Since(since) < startTime {
			return true
		}
	}
	for _, since := range x.asked {
		if time.Since(since) < Late {
			return true
		}
	}
	return x.begun != nil && time.Since(*x.begun) < Late
}

// results adds what the helpers have found. They have ended.
func (x *watcher) results(watch *Watch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	watch.GracePeriods, watch.NoGP, watch.Turns = x.waits, x.noGP, x.turns
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
