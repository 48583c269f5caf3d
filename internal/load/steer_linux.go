package load

import (
	"context"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// steer is the band controller: it looks at what the NAPI does, and sets the flow's rate or window, until
// ctx ends or the load does.
func (r *Running) steer(ctx context.Context) error {
	c, apply := r.control()
	before, err := r.watch()
	if err != nil {
		return err
	}
	look := shortLook
	for r.left() > look {
		timer := time.NewTimer(look)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		now, err := r.watch()
		if err != nil {
			return err
		}
		o := now.since(before)
		if r.options.Preempts {
			o = o.forgive()
		}
		before = now
		if set := c.observe(o, look); !o.in(look) {
			if err := apply(int(set)); err != nil {
				return err
			}
		}
		look = nextLook(look, o.in(look))
	}
	return nil
}

// control returns what steers the load, and what puts a setting into force.
func (r *Running) control() (*control, func(int) error) {
	switch {
	case r.Load.Kind == experiment.TCP && r.Load.Rate > 0:
		return newControl(float64(r.Load.Rate), 1, maxSteer, 0), r.setTCPRate
	case r.Load.Kind == experiment.TCP:
		return newControl(float64(r.Load.Window), 1, maxFrames, 1), r.setTCPWindow
	case r.Load.Kind == experiment.Windowed:
		return newControl(float64(r.Load.Window), 1, maxFrames, 1), func(n int) error { r.flow.window.Store(int64(n)); return nil }
	}
	c := newControl(float64(r.Load.Rate), 1, maxSteer, 0)
	c.patient = true // see pollWork
	return c, func(n int) error { r.flow.rate.Store(int64(n)); return nil }
}

// maxSteer bounds a rate that is steered.
const maxSteer = 1e8
