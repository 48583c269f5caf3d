package load

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/rcu"
)

// A clock tells the time since it was made, from memory: a system call would take longer than some gaps.
type clock struct {
	base  time.Time
	ktime rcu.Ktime // base on CLOCK_MONOTONIC
}

func newClock() (clock, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return clock{}, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	return clock{base: time.Now(), ktime: rcu.Ktime(t.Nano())}, nil
}

func (c clock) now() time.Duration { return time.Since(c.base) }

// spinAhead is how long before an instant the sender stops sleeping and watches the clock: a sleeping thread
// is woken late by about half of it.
const spinAhead = 150 * time.Microsecond

// until returns at instant t. Long waits are slept, the rest is spun; one that is over already returns at
// once.
func (c clock) until(t time.Duration) time.Duration {
	now := c.now()
	if t-now > spinAhead {
		at := unix.NsecToTimespec(int64(c.ktime.Add(t - spinAhead)))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) // interrupted: the rest is spun
		now = c.now()
	}
	for now < t {
		now = c.now()
	}
	return now
}

// checkEvery bounds the time between two looks at whether the sender is to stop.
const checkEvery = 10 * time.Millisecond

// paced sends bursts of batch frames on an absolute schedule at f's rate, from now to end, or until ctx
// does. What the device has no room for is lost. A new rate of f's begins a new schedule.
func (c clock) paced(ctx context.Context, p *packetSocket, f *Flow, batch int, end time.Duration) (Gaps, error) {
	var gaps Gaps
	rate := int(f.rate.Load())
	var plan pace
	plan.restart(c.now(), rate)
	var last, due time.Duration
	for i := 0; ; i++ {
		t := plan.next()
		for t-c.now() > checkEvery && t < end {
			c.until(min(c.now()+checkEvery, t))
			if ctx.Err() != nil {
				return gaps, nil
			}
		}
		now := c.until(min(t, end))
		if now >= end || i%64 == 0 && ctx.Err() != nil {
			return gaps, nil
		}
		sent, lost, err := p.send(batch)
		if err != nil {
			return gaps, err
		}
		f.sent.Add(uint64(sent + lost))
		f.lost.Add(uint64(lost))
		if i > 0 {
			gaps.add(now-last, t-due)
		}
		last, due = now, t
		plan.sent(batch)
		if r := int(f.rate.Load()); r != rate {
			rate = r
			plan.restart(now, rate)
			plan.sent(batch)
		}
	}
}

// windowed keeps f's window of frames in flight, from now to end or until ctx does. acked is the receiver's
// count of frames, taken the device's, which includes those on which the receiver still works.
func (c clock) windowed(ctx context.Context, p *packetSocket, f *Flow, acked func() uint64, taken func() (uint64, error), end time.Duration) error {
	w := window{size: uint64(f.window.Load())}
	progress, full := c.now(), false
	for i := 0; ; i++ {
		now := c.now()
		if now >= end || i%64 == 0 && ctx.Err() != nil {
			return nil
		}
		w.size = uint64(f.window.Load())
		if w.ack(acked()) || w.flying() == 0 {
			progress = now
		}
		if now-progress > repairAfter {
			n, err := taken()
			if err != nil {
				return err
			}
			w.repair(n)
			f.lost.Store(w.lost)
			progress = now
		}
		n := w.room()
		if n == 0 || full && progress != now && w.flying() > 0 {
			continue // a device that had no room has none before it has taken one
		}
		sent, lost, err := p.send(n)
		if err != nil {
			return err
		}
		full = lost > 0
		w.sent += uint64(sent + lost) // a frame that the device had no room for is lost at once
		w.lost += uint64(lost)
		f.sent.Store(w.sent)
		f.lost.Store(w.lost)
	}
}

// repairAfter is how long a window waits for an acknowledgement before it asks what the device has taken: far
// longer than a receiver works for a frame.
const repairAfter = 200 * time.Millisecond
