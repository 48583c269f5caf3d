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
// does. What the device has no room for is lost; took, which may be nil, is told what it took. A new rate of f's
// begins a new schedule.
func (c clock) paced(ctx context.Context, p *packetSocket, f *Flow, batch int, end time.Duration, took func(frames int)) (Gaps, error) {
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
		if took != nil {
			took(sent)
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
