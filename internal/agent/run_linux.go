package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/load"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/probe"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/wire"
)

// Run runs r on this machine, in network namespaces of its own or on the device that r names, and passes
// its records to emit, in order and one at a time, the last an End, before which every change is undone.
// The whole process is pinned off the CPU under test, and stays so. An error means that there is no
// result; one that matches errors.ErrUnsupported, that this machine can't.
func Run(ctx context.Context, r wire.Request, emit func(experiment.Record) error) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("run a trial on this machine: it needs root, for BPF, network devices and the kernel's log: %w", errors.ErrUnsupported)
	}
	return run(ctx, r, emit, true)
}

// A session is one trial while it runs.
type session struct {
	trial   experiment.Trial
	device  string // a real device to measure
	isolate bool   // on a machine that lives on
	journal *journal
	out     *queue
	facts   experiment.Facts
	test    int // the CPU under test
	spare   int // where we are
	online  []int
	kmsg    *kmsg
	boot    []experiment.Kmsg
	load    *load.Running
	counter *probe.Counter
	probes  []*probe.Prober
	undo    []func() error // newest last
}

func run(ctx context.Context, r wire.Request, emit func(experiment.Record) error, isolate bool) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{trial: r.Trial, device: r.Device, isolate: isolate, journal: &journal{dir: journalDir()}}
	s.out = newQueue(emit, cancel)
	pumped := make(chan error, 1)
	stop := make(chan struct{})
	defer func() {
		err = errors.Join(err, s.finish(stop, pumped))
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		if err == nil {
			s.put(experiment.Record{End: &experiment.End{Outcome: experiment.Completed}})
		}
		s.out.close()
	}()
	if err := s.look(); err != nil {
		pumped <- nil
		return err
	}
	go func() { pumped <- s.pump(stop) }()
	s.phase(experiment.Setup, 0)
	if err := s.setup(ctx); err != nil {
		return err
	}
	if err := settleClock(ctx, "/sys"); err != nil {
		s.lose(experiment.Loss{What: "clock source", Count: 1, Why: err.Error()})
	}
	return s.measure(ctx)
}

// put stamps r and queues it.
func (s *session) put(r experiment.Record) {
	if now, err := machine.Now(); err == nil {
		r.At = now
	}
	s.out.put(r)
}

func (s *session) putKmsg(k experiment.Kmsg) { s.put(experiment.Record{Kmsg: &k}) }

func (s *session) phase(name string, expect time.Duration) {
	s.put(experiment.Record{Phase: &experiment.Phase{Name: name, Expect: expect}})
}

func (s *session) lose(l ...experiment.Loss) {
	for _, l := range l {
		s.put(experiment.Record{Loss: &l})
	}
}

// look reads what the machine is, emits it, and moves us off the CPU under test.
func (s *session) look() (err error) {
	if s.isolate {
		if err := s.settings(); err != nil {
			return err
		}
	}
	if err := s.openLog(); err != nil {
		return err
	}
	found, err := machine.Read(machine.Source{Kmsg: bootText(s.boot)})
	if err != nil {
		return err
	}
	s.online = found.Online
	s.facts = record(found)
	s.test, s.spare, err = s.cpus(found.Online)
	s.facts.LoadCPU, s.facts.ProbeCPU = s.test, s.spare
	s.putFacts()
	if !s.isolate { // a live machine's log from before the trial is none of its business
		for _, k := range s.boot {
			s.putKmsg(k)
		}
	}
	if err != nil {
		return err
	}
	// One CPU must not mean one thread of Go at a time: a probe that comes out of the kernel would
	// wait for its turn inside what it measures.
	runtime.GOMAXPROCS(max(procs, runtime.GOMAXPROCS(0)))
	return machine.PinProcess(s.spare)
}

// openLog opens the kernel's log and reads what is there. A live machine may withhold it, as in a
// container.
func (s *session) openLog() error {
	k, err := openKmsg()
	if err != nil && s.isolate {
		s.lose(experiment.Loss{What: "kernel log", Count: 1, Why: err.Error()})
		return nil
	}
	if err != nil {
		return err
	}
	s.kmsg = k
	s.undo = append(s.undo, k.close)
	if err := k.drain(func(line experiment.Kmsg) { s.boot = append(s.boot, line) }); err != nil {
		return err
	}
	if s.isolate {
		k.lost, k.bad = 0, 0
	}
	return nil
}

func (s *session) pump(stop <-chan struct{}) error {
	if s.kmsg == nil {
		return nil
	}
	return s.kmsg.pump(stop, s.putKmsg)
}

// procs is enough for every thread of ours at once: three probes, their watchers, the flood, the log
// and the counters.
const procs = 12

func (s *session) putFacts() {
	f := s.facts
	s.put(experiment.Record{Facts: &f})
}

// setup tries every probe once, sets the load up and attaches the counters.
func (s *session) setup(ctx context.Context) error {
	if err := s.openProbes(ctx); err != nil {
		return err
	}
	r, err := load.Prepare(ctx, s.trial.Arm.Load, s.test, load.Options{
		Threaded: s.trial.Arm.Threaded, Loop: s.trial.Arm.Loop, Isolate: s.isolate, Spare: s.spare, Device: s.device, Preempts: s.facts.Preempt.Preempts(),
	})
	if err != nil {
		return err
	}
	s.load = r
	s.undo = append(s.undo, r.Stop)
	if err := s.openCounter(); err != nil {
		return err
	}
	if r.Receiver != "" {
		s.facts.Evidence = append(s.facts.Evidence, "load: the receiver "+r.Receiver)
	}
	if s.counter.Traced() {
		r.Watch(s.watchBand)
	}
	s.facts.Thread, s.facts.ThreadPID, s.facts.PollTrace = r.Thread.Comm, r.Thread.PID, s.counter.Traced()
	s.putFacts()
	return nil
}

// watchBand is what a band controller sees of the NAPI under test.
func (s *session) watchBand() (load.Observation, error) {
	n, err := s.counter.Band()
	return load.Observation{Polls: n.Polls, Full: n.FullPolls, Sleeps: n.Voluntary, Preempted: n.Nonvoluntary}, err
}

func (s *session) openCounter() error {
	t := probe.Target{Device: s.load.Device, CPU: s.test, Online: s.online, Thread: s.load.Thread.PID, Packets: s.load.Packets}
	if s.trial.Arm.Load.Kind == experiment.Bounce {
		t.Inflight = s.trial.Arm.Load.Inflight
	}
	c, notrace, err := probe.NewCounter(t)
	if err != nil {
		return err
	}
	if notrace != nil {
		s.facts.Evidence = append(s.facts.Evidence, "polls: not traced: "+notrace.Error())
	}
	s.counter = c
	s.undo = append(s.undo, c.Close)
	return nil
}

// openProbes readies the operation that the trial asks for, and the two beside it. One of the two
// that this kernel lacks is a loss; the one asked for must be there.
func (s *session) openProbes(ctx context.Context) error {
	asked := s.trial.Arm.Probe
	wanted := []experiment.Probe{asked}
	for _, op := range []string{experiment.Membarrier, experiment.RCUBarrier} {
		if op != asked.Op {
			wanted = append(wanted, experiment.Probe{Op: op, Every: probe.Beside})
		}
	}
	for _, w := range wanted {
		p, err := probe.Open(ctx, probe.Options{Probe: w, Isolate: s.isolate}, s.putSample)
		switch {
		case err == nil:
			s.probes = append(s.probes, p)
		case w.Op != asked.Op && errors.Is(err, errors.ErrUnsupported):
			s.lose(experiment.Loss{What: "probe " + w.Op, Count: 1, Why: err.Error()})
		default:
			return err
		}
	}
	return nil
}

// putSample is called from the probes' threads.
func (s *session) putSample(sample experiment.Sample) {
	sample.Phase = s.phaseAt(sample.Start)
	s.put(experiment.Record{Sample: &sample})
}

func (s *session) phaseAt(t rcu.Ktime) string {
	if t < s.load.Deadline {
		return experiment.Hold
	}
	return experiment.Tail
}

// measure starts load and probes and counts until the trial's duration is over, whether or not a
// probe is blocked then.
func (s *session) measure(ctx context.Context) error {
	arm := s.trial.Arm
	if err := s.counter.Reset(); err != nil {
		return err
	}
	s.phase(experiment.Hold, arm.Load.Hold)
	if err := s.load.Start(ctx); err != nil {
		return err
	}
	for _, p := range s.probes {
		p.Begin()
	}
	for _, stop := range schedule(arm.Load.Hold, arm.Duration) {
		if err := s.sleepUntil(ctx, s.load.Begin.Add(stop.at)); err != nil {
			return err
		}
		if stop.tail {
			s.phase(experiment.Tail, arm.Duration-arm.Load.Hold)
			continue
		}
		if err := s.count(); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) count() error {
	n, err := s.counter.Read()
	if err != nil {
		return err
	}
	now, err := machine.Now()
	if err != nil {
		return err
	}
	n.InHold = now < s.load.Deadline
	flow := s.load.Progress()
	n.Sent, n.Lost, n.Rate, n.Window = flow.Sent, flow.Lost, flow.Rate, flow.Window
	s.put(experiment.Record{Counters: &n})
	return nil
}

func (s *session) sleepUntil(ctx context.Context, t rcu.Ktime) error {
	now, err := machine.Now()
	if err != nil {
		return err
	}
	timer := time.NewTimer(t.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish stops what runs and, on a machine that lives on, takes everything away again. In a guest
// the machine itself is thrown away, and a wait for its kernel would be for nothing.
func (s *session) finish(stop chan struct{}, pumped <-chan error) error {
	var errs []error
	for _, p := range s.probes {
		r, err := p.Stop()
		if r.Blocked != nil && s.load != nil && s.load.Begin != 0 {
			s.putSample(*r.Blocked)
		}
		s.lose(r.Losses...)
		errs = append(errs, err)
	}
	time.Sleep(lag)
	close(stop)
	errs = append(errs, <-pumped)
	if s.kmsg != nil {
		s.lose(s.kmsg.losses()...)
	}
	if !s.isolate {
		return errors.Join(errs...)
	}
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i]())
	}
	for _, p := range s.probes {
		errs = append(errs, p.Wait(context.Background())) // the load's deadline ends what it waits for
	}
	errs = append(errs, s.journal.undo()) // last, when nothing of ours uses a module any more
	return errors.Join(errs...)
}

// failed is the End that says why there is no result.
func failed(err error) experiment.Record {
	why := err.Error()
	if errors.Is(err, errors.ErrUnsupported) {
		why = experiment.UnsupportedWhy + why
	}
	if now, e := machine.Now(); e == nil {
		return experiment.Record{At: now, End: &experiment.End{Outcome: experiment.Failed, Why: why}}
	}
	return experiment.Record{End: &experiment.End{Outcome: experiment.Failed, Why: why}}
}
