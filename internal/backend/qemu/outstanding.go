package qemu

import (
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// An outstanding follows the probe's operation that has not been reported yet, for the trial whose
// guest falls silent or panics: nobody can then ask the guest since when its probe is blocked. Its bound is
// careful: the operation began by the time that the one before had ended, the pause had passed and a
// device could be made, and it was still going on at the newest Counters, which the agent sends each
// second.
type outstanding struct {
	probe experiment.Probe
	phase string    // now
	begun string    // the phase in which it began
	from  rcu.Ktime // it had begun by then
	alive rcu.Ktime // the newest Counters
}

// makingDevice is more than it takes to create and set up a device, 0.04 s under TCG when idle.
const makingDevice = time.Second

func (o *outstanding) saw(r experiment.Record) {
	switch {
	case r.Phase != nil:
		if o.phase = r.Phase.Name; o.phase == experiment.Hold {
			o.next(r.At)
		}
	case r.Sample != nil && r.Sample.Op == o.probe.Op:
		o.next(r.Sample.Start.Add(r.Sample.Took))
	case r.Counters != nil:
		o.alive = max(o.alive, r.At)
	}
}

func (o *outstanding) next(before rcu.Ktime) {
	o.from, o.begun = before.Add(o.probe.Every+makingDevice), o.phase
}

// sample returns the operation as a censored sample, or nil if none was surely going on.
func (o *outstanding) sample() *experiment.Sample {
	took := o.alive.Sub(o.from)
	if o.from == 0 || took <= 0 {
		return nil
	}
	return &experiment.Sample{Op: o.probe.Op, Start: o.from, Took: took, Censored: true, Phase: o.begun}
}
