package sim

import (
	"cmp"
	"fmt"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
)

// simStream is the second half of the generator's seed, so that a trial's numbers are no others' that are drawn from
// the same seed.
const simStream = 0x73696d756c617465 // "simulate"

// Accel is what the commands of simulated trials name where others have an accelerator.
const Accel = "model"

// A session is one trial.
type session struct {
	*engine
	argv []string
}

// bootTime is the target's clock when a trial begins, and setupTime what it takes until the load may begin: as a small
// guest's.
const (
	bootTime  = 4 * second
	setupTime = second / 10
)

// session readies an engine for trial. Where within a jiffy the load begins is drawn.
func (t *target) session(trial experiment.Trial, emit func(experiment.Record) error) *session {
	arm := trial.Arm
	rec := &recorder{emit: emit, arm: arm, facts: t.facts(arm)}
	e := &engine{
		m: t.model, s: t.model.Initial(), q: newQueue(), now: bootTime, rec: rec, p: pricesOf(arm.Model), silent: t.tune.suppress,
		k: timingOf(t.build.hz, arm.VCPUs, t.tune, rec.facts.StallSec, rec.facts.ExpMillis),
	}
	e.rnd.seed(trial.Seed, simStream)
	rec.begin = bootTime + setupTime + e.rnd.below(second/e.k.hz)
	rec.hold = rec.begin + int64(arm.Load.Hold)
	if arm.Load.Kind == experiment.NoLoad {
		rec.hold = rec.begin + int64(cmp.Or(arm.Load.Hold, arm.Duration))
	}
	rec.marks = marksOf(rec.begin, arm.Load.Hold, arm.Duration)
	rec.probing, _ = probesOf(arm, t.build.gen)
	rec.log = kernelLog{seq: 300, wide: t.build.arch == model.AMD64 || t.build.arch == model.ARM64, gp: 1000, exp: 40, queued: 20}
	rec.steer = newSteering(arm.Load)
	c := t.model.Config()
	e.dev = device{
		veth: c.Device == model.Veth, ring: ringOf(arm), weight: int64(c.Weight), bulk: int64(c.Bulk),
		moderation: int64(arm.NIC.Moderation), last: -int64(arm.NIC.Moderation), shared: c.AllQueues,
	}
	e.latch, e.stamped = c.Latch, e.now
	e.lasting = c.Loop == model.QSPersistentStamp || c.Loop == model.BusyPoll
	e.fast.from.id, e.fast.off = none, t.backend.stepwise
	if e.dev.veth {
		e.p.step[model.StepUnmask] = 0 // veth_poll only looks at its ring again
	}
	e.late = lateness(e.passTime(arm), second/e.k.hz)
	load, err := newTraffic(arm, rec.begin, t.recorded, e.p.packet)
	e.load, e.err = load, err
	return &session{engine: e, argv: t.argv(trial)}
}

// facts are what the simulated machine says about itself before its NAPI is set up.
func (t *target) facts(arm experiment.Arm) experiment.Facts {
	f := t.build.facts()
	f.CPUs, f.Agent = arm.VCPUs, t.backend.Agent
	f.StallSec, f.ExpMillis = stallTimeouts(arm)
	f.LoadCPU = arm.Load.CPU
	if arm.Load.CPU == experiment.LastCPU {
		f.LoadCPU = arm.VCPUs - 1
	}
	if f.LoadCPU == 0 {
		f.ProbeCPU = 1
	}
	for _, p := range arm.Patch {
		f.Evidence = append(f.Evidence, "loop: "+p+" is not read; it is taken for loop: "+string(experiment.YieldOnExit))
	}
	return f
}

// run runs the trial from its first record to its last.
func (s *session) run() error {
	if s.err != nil {
		return s.err
	}
	r := s.rec
	if err := s.setup(); err != nil {
		return err
	}
	s.engine.run(r.begin - 1)
	s.now = r.begin
	r.reset(s.now)
	if err := r.phase(experiment.Hold, r.arm.Load.Hold, s.now); err != nil {
		return err
	}
	s.startLoad()
	for p := range r.probing {
		if r.probing[p].op != "" {
			s.q.set(slotBegin+p, s.now)
		}
	}
	s.q.set(slotMark, r.marks[0].at)
	s.q.set(slotWatchdog, s.now+s.rnd.below(watchdogPeriod))
	s.engine.run(r.begin + int64(r.arm.Duration))
	if s.err != nil {
		return s.err
	}
	return s.finish()
}

// setup sends what comes before the load, and starts the ticks.
func (s *session) setup() error {
	r := s.rec
	cmd := experiment.Command{Argv: s.argv, Accel: Accel}
	if err := r.put(experiment.Record{Command: &cmd}, 0); err != nil {
		return err
	}
	before := r.facts
	if err := r.put(experiment.Record{Facts: &before}, bootTime); err != nil {
		return err
	}
	if err := r.phase(experiment.Setup, 0, bootTime); err != nil {
		return err
	}
	r.name()
	after := r.facts
	if err := r.put(experiment.Record{Facts: &after}, bootTime+setupTime/2); err != nil {
		return err
	}
	s.jiffy0 = s.k.of(s.now) + 1
	s.q.set(slotTick0, s.k.at(s.jiffy0)+s.rnd.below(s.late))
	if s.p.neighbour > 0 {
		s.q.set(slotNeighbour, s.now+s.rnd.exponential(s.p.neighbour))
	}
	if s.s.Current() == model.NAPIThread {
		r.since = s.now
	}
	s.resume(turn{}, never, 0)
	s.kick()
	return nil
}

// name names the NAPI thread as the kernel would.
func (r *recorder) name() {
	switch {
	case !r.arm.Threaded || r.arm.Load.Kind == experiment.NoLoad:
		return
	case r.arm.Loop == experiment.BacklogThread:
		r.facts.Thread = fmt.Sprintf("backlog_napi/%d", r.facts.LoadCPU)
	case r.arm.Load.Kind.OnNIC():
		r.facts.Thread = "napi/eth0-1"
	default:
		r.facts.Thread = "napi/vb-9"
	}
	r.facts.ThreadPID = threadPID
}

// startLoad lets the load begin now.
func (s *session) startLoad() {
	if s.dev.veth {
		if n := s.rec.arm.Load.Inflight; n > 0 && s.rec.arm.Load.Kind == experiment.Bounce {
			s.arrived = int64(n)
			s.sync()
			s.resume(s.turn, s.q.at(slotRun0), 0)
			s.q.set(slotDeadline, s.rec.hold)
		}
		return
	}
	s.awaitArrival()
	if s.dev.shared {
		s.q.set(slotOther, s.now+s.rnd.exponential(second/otherRate))
	}
	if s.rec.steer.on {
		s.q.set(slotSteer, s.now+steerPeriod)
	}
}

// finish sends what is still blocked, and the End.
func (s *session) finish() error {
	r := s.rec
	for p := range r.probing {
		if !r.probing[p].running {
			continue
		}
		sample := r.sample(p, s.now, true)
		if err := r.put(experiment.Record{Sample: &sample}, s.now); err != nil {
			return err
		}
	}
	end := experiment.End{Outcome: experiment.Completed, Records: r.n}
	return r.put(experiment.Record{End: &end}, s.now)
}
