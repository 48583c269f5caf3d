package qemu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
)

// A session follows one booted guest to the end of its trial.
type session struct {
	p     *process
	k     kernel
	arm   experiment.Arm
	emit  func(experiment.Record) error
	watch watch
	open  outstanding
	n     int // records emitted
	// waited is what the guest's CPUs had waited for the host's when the load began.
	waited time.Duration
}

func newSession(b Backend, p *process, accel string, k kernel, arm experiment.Arm, emit func(experiment.Record) error) *session {
	limits := b.limits
	if limits.boot == 0 {
		limits = wideLimits()
	}
	return &session{
		p: p, k: k, arm: arm, emit: emit,
		watch: watch{limits: limits, duration: arm.Duration, emulated: accel == tcg, start: time.Now()},
		open:  outstanding{probe: arm.Probe},
	}
}

// glance is how often the watch looks when nothing arrives.
const glance = 100 * time.Millisecond

// follow passes on what the guest says until the trial has ended, by itself, by the watch or by ctx.
func (s *session) follow(ctx context.Context) error {
	tick := time.NewTicker(glance)
	defer tick.Stop()
	console, records := s.p.console, s.p.records
	for console != nil || records != nil {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, ok := <-console:
			if !ok {
				console = nil
				continue
			}
			err = s.line(line)
		case r, ok := <-records:
			if !ok {
				records = nil
				continue
			}
			if r.err == nil && r.End != nil {
				return s.agentEnd(*r.End)
			}
			err = s.record(r)
		case <-tick.C:
		}
		if err != nil {
			return err
		}
		if end, err := s.watch.check(time.Now()); end != nil || err != nil {
			return s.conclude(end, err)
		}
	}
	return s.conclude(s.watch.died(s.p.ended()))
}

// conclude ends the trial with what the watch has decided. Whether a panicked guest had got as far
// as the trial is only known once its last records are read: the console may be ahead of them.
func (s *session) conclude(end *experiment.End, err error) error {
	if s.watch.panicked() {
		if _, err := s.drain(); err != nil {
			return err
		}
		end, err = s.watch.panicEnd()
	}
	if err != nil {
		return s.broke(err)
	}
	return s.finish(*end)
}

// put emits r under the next number.
func (s *session) put(r experiment.Record) error {
	r.N = s.n
	if r.End != nil {
		r.End.Records = s.n
	}
	s.n++
	return s.emit(r)
}

func (s *session) line(text string) error {
	s.watch.sawLine(text, time.Now())
	return s.put(experiment.Record{Console: &experiment.Console{Text: strings.ToValidUTF8(text, "\uFFFD")}})
}

func (s *session) record(r record) error {
	if r.err != nil {
		return s.broke(fmt.Errorf("read the guest's records: %w", r.err))
	}
	s.watch.sawRecord(r.Record, time.Now())
	s.open.saw(r.Record)
	if r.Phase != nil && r.Phase.Name == experiment.Hold {
		s.waited = s.p.waited()
	}
	if r.Facts == nil {
		return s.put(r.Record)
	}
	f := *r.Facts
	s.k.enrich(&f)
	r.Facts = &f
	if err := s.put(r.Record); err != nil {
		return err
	}
	return s.k.checkFacts(f, s.arm)
}

// agentEnd ends the trial as the agent says.
func (s *session) agentEnd(end experiment.End) error {
	if end.Outcome != experiment.Failed {
		return s.finish(end)
	}
	if why, ok := strings.CutPrefix(end.Why, experiment.UnsupportedWhy); ok {
		return unsupportedError(fmt.Sprintf("run the trial on %s: %s", s.k.release, why))
	}
	return s.broke(errors.New("the agent gave up: " + end.Why))
}

// finish ends QEMU, passes on what it had still written, and then end.
func (s *session) finish(end experiment.End) error {
	waited := max(0, s.p.waited()-s.waited) // none of QEMU's threads is left where it has died
	late, err := s.drain()
	if err != nil {
		return err
	}
	if s.watch.stale != "" {
		return s.broke(s.watch.staleError())
	}
	if late != nil && end.Outcome == experiment.Silent {
		end = *late // it came in the last moment
	}
	cut := end.Outcome == experiment.Silent || end.Outcome == experiment.Panicked
	if sample := s.open.sample(); sample != nil && cut {
		if err := s.put(experiment.Record{Sample: sample}); err != nil {
			return err
		}
	}
	end.HostWait = waited
	return s.put(experiment.Record{End: &end})
}

// drain ends QEMU and passes on what it had still written, but an End, which it returns.
func (s *session) drain() (*experiment.End, error) {
	s.p.kill()
	var end *experiment.End
	console, records := s.p.console, s.p.records
	for console != nil || records != nil {
		var err error
		select {
		case line, ok := <-console:
			if !ok {
				console = nil
				continue
			}
			err = s.line(line)
		case r, ok := <-records:
			switch {
			case !ok:
				records = nil
			case r.err != nil: // a line that the kill cut
			case r.End != nil:
				end = r.End
			default:
				err = s.record(r)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return end, nil
}

// broke says that our machinery failed, with the console's last lines.
func (s *session) broke(err error) error {
	_, _ = s.drain() // only for the console; err is what matters
	op := "run the trial"
	if !s.watch.booted() {
		op = "boot the guest"
	}
	return &backend.MachineError{Op: op, Err: err, Last: telling(s.p.last.last(maxTailLines))}
}
