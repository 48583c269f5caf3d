package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
)

// A Prober runs one operation again and again on an OS thread of its own, and watches that thread
// from another, so that an operation that blocks for ever is still measured.
type Prober struct {
	options Options
	op      operation
	emit    func(experiment.Sample)
	begin   chan struct{}
	stop    context.CancelFunc
	done    chan struct{} // closed when the thread and its watcher have ended

	// ended is set as soon as the operation has returned: what the thread is seen to wait for after
	// that is p.mu, not the operation.
	ended atomic.Bool

	mu      sync.Mutex
	tid     int
	current *experiment.Sample // the operation that is outstanding
	since   rcu.Ktime          // when it began to prepare the next one; 0 when it does not
	cut     bool               // Stop has taken current; what the thread still does is not measured
	lost    int                // stacks that could not be read
	broken  error              // why the prober ended by itself
}

// Open readies a probe and tries its operation once, unmeasured, so that one which this machine
// cannot do is known before the load: its error then matches errors.ErrUnsupported. Samples are passed
// to emit, which must not block, from the prober's own goroutine, once Begin was called.
func Open(ctx context.Context, o Options, emit func(experiment.Sample)) (*Prober, error) {
	op, err := newOperation(o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	p := &Prober{options: o, op: op, emit: emit, begin: make(chan struct{}), stop: stop, done: make(chan struct{})}
	tried := make(chan error, 1)
	var threads sync.WaitGroup
	threads.Go(func() { p.thread(ctx, tried) })
	if err := <-tried; err != nil {
		stop()
		threads.Wait()
		return nil, err
	}
	threads.Go(func() { p.watch(ctx) })
	go func() {
		threads.Wait()
		close(p.done)
	}()
	return p, nil
}

// Begin lets the prober measure. It must be called once.
func (p *Prober) Begin() { close(p.begin) }

// thread is the prober's own thread: first a trial of the operation, then the measuring.
func (p *Prober) thread(ctx context.Context, tried chan<- error) {
	runtime.LockOSThread() // never unlocked: its network namespace ends with the goroutine
	defer p.stop()
	p.mu.Lock()
	p.tid = unix.Gettid()
	p.mu.Unlock()
	err := p.op.open()
	if err == nil {
		err = p.try()
	}
	if err == nil {
		err = p.op.prepare() // the first measured one can begin with the load
	}
	if err != nil {
		tried <- errors.Join(err, ignoreUnopened(p.op, err))
		return
	}
	tried <- nil
	select {
	case <-p.begin:
		err = p.loop(ctx)
	case <-ctx.Done():
	}
	err = errors.Join(err, p.op.close())
	p.mu.Lock()
	p.broken = err
	p.mu.Unlock()
}

// ignoreUnopened closes an operation whose trial was refused. One that could not even be opened
// has nothing to close.
func ignoreUnopened(op operation, err error) error {
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return op.close()
}

func (p *Prober) try() error {
	if err := p.op.prepare(); err != nil {
		return err
	}
	return p.op.run()
}

// loop measures until ctx ends, from an operation that is prepared. One that is refused is a sample
// with its error; one that can't be prepared ends the prober.
func (p *Prober) loop(ctx context.Context) error {
	for {
		if err := p.measure(); err != nil {
			return err
		}
		pause := time.NewTimer(p.options.Every)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
		if ctx.Err() != nil { // both were ready
			return nil
		}
		if err := p.prepare(); err != nil {
			return fmt.Errorf("probe %s: %w", p.options.Op, err)
		}
	}
}

func (p *Prober) prepare() error {
	now, err := machine.Now()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.since = now
	p.mu.Unlock()
	return p.op.prepare()
}

func (p *Prober) measure() error {
	s := &experiment.Sample{Op: p.options.Op}
	start, err := machine.Now()
	if err != nil {
		return err
	}
	s.Start = start
	p.mu.Lock()
	p.current, p.since = s, 0
	p.ended.Store(false)
	p.mu.Unlock()

	refused := p.op.run()
	p.ended.Store(true)
	end, err := machine.Now()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = nil
	if p.cut {
		return nil
	}
	s.Took = end.Sub(start)
	if refused != nil {
		s.Err = refused.Error()
	}
	if s.Took < slow {
		s.Stack = nil
	}
	p.emit(*s)
	return nil
}

// watch looks at the thread's stack each StackEvery while an operation is outstanding. Reading it
// waits for nobody: a task that runs simply has none.
func (p *Prober) watch(ctx context.Context) {
	tick := time.NewTicker(experiment.StackEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.look()
		}
	}
}

func (p *Prober) look() {
	p.mu.Lock()
	s, tid := p.current, p.tid
	p.mu.Unlock()
	if s == nil || p.ended.Load() {
		return
	}
	frames, err := readStack(tid)
	ended := p.ended.Load()
	now, noClock := machine.Now()
	stack := functions(frames)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ended, p.current != s, ours(stack):
	case err != nil, noClock != nil:
		p.lost++
	default:
		s.See(now.Sub(s.Start), Attribute(stack), site(frames))
		if len(stack) > 0 {
			s.Stack = stack
		}
	}
}

// readStack returns the kernel stack of our thread tid, innermost frame first. Where there is
// none (CONFIG_STACKTRACE, root; 32-bit arm gives another task's stack only without SMP) it is the one
// function that the thread sleeps in.
func readStack(tid int) ([]frame, error) {
	dir := fmt.Sprintf("/proc/self/task/%d/", tid)
	text, stackErr := os.ReadFile(dir + "stack")
	if stack := parseStack(string(text)); len(stack) > 0 {
		return stack, nil
	}
	text, err := os.ReadFile(dir + "wchan")
	if err != nil {
		return nil, errors.Join(stackErr, err)
	}
	return parseStack(string(text)), nil
}

// Result is what Stop has to say about a prober beside its samples.
type Result struct {
	// Blocked is the operation that was outstanding, censored unless it ended in that moment.
	Blocked *experiment.Sample
	// Losses are what was missed.
	Losses []experiment.Loss
}

// Stop ends the measuring without waiting for an operation that blocks: that one is returned
// censored. Wait waits for the thread.
func (p *Prober) Stop() (Result, error) {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	now, err := machine.Now()
	if err != nil {
		return Result{}, err
	}
	var r Result
	if p.current != nil {
		s := *p.current
		s.Waits, s.Runs = maps.Clone(s.Waits), slices.Clone(s.Runs) // the watcher may still be looking
		s.Took = now.Sub(s.Start)
		// One that has returned, and waits for p.mu to say so, took at most that long, not at least.
		s.Censored = !p.ended.Load()
		r.Blocked = &s
	}
	if p.lost > 0 {
		r.lose("stack samples", p.lost, p.options.Op+": neither stack nor wchan could be read")
	}
	if p.broken != nil {
		r.lose("probe "+p.options.Op, 1, p.broken.Error())
	}
	if p.since != 0 && now.Sub(p.since) >= slow {
		r.lose("probe "+p.options.Op, 1, fmt.Sprintf("blocked for %v while it prepared an operation, which is not measured", now.Sub(p.since)))
	}
	return r, nil
}

func (r *Result) lose(what string, count int, why string) {
	r.Losses = append(r.Losses, experiment.Loss{What: what, Count: count, Why: why})
}

// Wait returns when the prober's thread has ended, after Stop, or when ctx ends first.
func (p *Prober) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for probe %s: %w", p.options.Op, ctx.Err())
	}
}
