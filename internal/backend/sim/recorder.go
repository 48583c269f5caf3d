package sim

import (
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
)

// A recorder makes of what happens the records that an agent on a real machine would send, at the same instants.
type recorder struct {
	emit  func(experiment.Record) error
	n     int // records so far
	arm   experiment.Arm
	facts experiment.Facts
	begin int64 // of the load
	hold  int64 // the load's end
	marks []mark

	// Totals since the load began.
	polls, full, packets   uint64
	voluntary, involuntary uint64
	interrupts, squeezed   uint64
	dropped                int64 // at a full ring
	ran                    int64 // the NAPI thread's run time, up to since
	since                  int64 // since when it runs; 0 when it does not

	probing [model.MaxProbes]probing
	log     kernelLog
	touched int64 // when the soft lockup detector's stopper last could run
	warned  int64 // when it last reported
	fqs     int   // scans of this normal grace period
	steer   steering
}

// A mark is an instant at which counters are read or a phase begins; the agent's schedule says which there are.
type mark struct {
	at   int64
	tail bool
}

// beforeEnd is how long before the load's end its last counters are read, as the agent does.
const beforeEnd = 20 * millisecond

// marksOf lists a trial's marks, from an instant begin on.
func marksOf(begin int64, hold, duration time.Duration) []mark {
	var marks []mark
	end, stop := begin+int64(duration), begin+int64(hold)
	for t := begin; t < end; t += second {
		if hold > 0 && t > stop-beforeEnd && t-second <= stop-beforeEnd && stop-beforeEnd > begin {
			marks = append(marks, mark{at: stop - beforeEnd})
		}
		if hold > 0 && t > stop && t-second <= stop {
			marks = append(marks, mark{at: stop, tail: true})
		}
		marks = append(marks, mark{at: t})
		if t == stop && hold > 0 {
			marks = append(marks, mark{at: stop, tail: true})
		}
	}
	return append(marks, mark{at: end})
}

// put sends one record.
func (r *recorder) put(rec experiment.Record, at int64) error {
	rec.N, rec.At = r.n, rcu.Ktime(at)
	r.n++
	return r.emit(rec)
}

func (r *recorder) phase(name string, expect time.Duration, at int64) error {
	return r.put(experiment.Record{Phase: &experiment.Phase{Name: name, Expect: expect}}, at)
}

// polled counts a poll.
func (r *recorder) polled(out model.Outcome) {
	r.polls++
	r.packets += uint64(out.N)
	if out.Effects&model.EffFullPoll != 0 {
		r.full++
	}
}

// switched counts a switch on CPU 0 to next.
func (r *recorder) switched(out model.Outcome, next model.Task, now int64) {
	if out.Task == model.NAPIThread {
		if out.Effects&model.EffSwitchVol != 0 {
			r.voluntary++
		} else {
			r.involuntary++
		}
	}
	if r.since != 0 {
		r.ran += now - r.since
		r.since = 0
	}
	if next == model.NAPIThread {
		r.since = now
	}
}

// count sends the counters.
func (r *recorder) count(now int64) error {
	c := experiment.Counters{
		Traced: true, Polls: r.polls, FullPolls: r.full, Packets: r.packets, Interrupts: r.interrupts, Squeezed: r.squeezed,
		InHold: now < r.hold,
	}
	if r.arm.Load.Kind != experiment.Bounce {
		c.SoftnetDone = r.packets // a bounce's frames never get as far as the stack
	}
	if r.arm.Threaded {
		c.Voluntary, c.Nonvoluntary, c.RunTime = r.voluntary, r.involuntary, time.Duration(r.ran)
		if r.since != 0 {
			c.RunTime += time.Duration(now - r.since)
		}
	}
	return r.put(experiment.Record{Counters: &c}, now)
}

// reset begins the totals anew, as the load begins.
func (r *recorder) reset(now int64) {
	r.polls, r.full, r.packets, r.voluntary, r.involuntary, r.interrupts, r.squeezed = 0, 0, 0, 0, 0, 0, 0
	r.ran, r.touched, r.warned = 0, now, now
	if r.since != 0 {
		r.since = now
	}
}

// observe does what is due at a slot that changes nothing.
func (e *engine) observe(slot int) {
	e.q.unset(slot)
	switch slot {
	case slotWatchdog:
		e.q.set(slotWatchdog, e.now+watchdogPeriod)
		e.err = e.rec.watchdog(e)
	case slotSteer:
		e.q.set(slotSteer, e.now+steerPeriod)
		e.rec.steer.turn(e)
	case slotMark:
		e.err = e.rec.mark(e.now)
		if len(e.rec.marks) > 0 && e.err == nil {
			e.q.set(slotMark, e.rec.marks[0].at)
		}
	}
}

// mark does what the next mark says.
func (r *recorder) mark(now int64) error {
	m := r.marks[0]
	r.marks = r.marks[1:]
	if m.tail {
		return r.phase(experiment.Tail, r.arm.Duration-r.arm.Load.Hold, now)
	}
	return r.count(now)
}
