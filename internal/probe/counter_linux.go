package probe

import (
	"errors"
	"fmt"
	"os"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
)

// Target says what a Counter counts.
type Target struct {
	Device  string // "" when there is no load: then only the CPU is counted
	CPU     int    // under test
	Online  []int
	Thread  int // the NAPI thread's pid; 0 in softirq mode
	Packets func() (uint64, error)
	// Inflight is the number of frames in a bounce, from which polls are derived where they can't be
	// traced; 0 for any other load.
	Inflight int
	// NoTrace leaves the tracepoint alone, which costs time in every poll.
	NoTrace bool
}

// bulk is how many redirected frames XDP flushes at once (DEV_MAP_BULK_SIZE). Up to there a poll of
// a bounce takes every frame in flight; above, how many it takes is not known.
const bulk = 16

// A Counter reads what a NAPI and its CPU have done since Reset. It is not for concurrent use.
type Counter struct {
	target Target
	polls  *polls
	zero   experiment.Counters
}

// NewCounter returns a Counter of t. Why it does not trace the polls, when it does not, is in notrace.
func NewCounter(t Target) (c *Counter, notrace error, err error) {
	c = &Counter{target: t}
	if t.Device != "" && !t.NoTrace {
		c.polls, notrace = newPolls(t.Device)
		if notrace != nil && !errors.Is(notrace, errors.ErrUnsupported) {
			return nil, nil, notrace
		}
	}
	if err := c.Reset(); err != nil {
		return nil, notrace, errors.Join(err, c.Close())
	}
	return c, notrace, nil
}

// Traced reports whether polls are counted at the tracepoint.
func (c *Counter) Traced() bool { return c.polls != nil }

// Reset makes now the instant from which Read counts.
func (c *Counter) Reset() (err error) {
	c.zero, err = c.total()
	return err
}

// Read returns what was counted since Reset.
func (c *Counter) Read() (experiment.Counters, error) {
	n, err := c.total()
	if err != nil {
		return n, err
	}
	z := &c.zero
	for _, p := range []struct{ n, z *uint64 }{
		{&n.Polls, &z.Polls}, {&n.FullPolls, &z.FullPolls}, {&n.Packets, &z.Packets}, {&n.Voluntary, &z.Voluntary},
		{&n.Nonvoluntary, &z.Nonvoluntary}, {&n.Interrupts, &z.Interrupts}, {&n.SoftnetDone, &z.SoftnetDone},
		{&n.SoftnetDrop, &z.SoftnetDrop}, {&n.Squeezed, &z.Squeezed},
	} {
		*p.n -= *p.z
	}
	n.RunTime -= z.RunTime
	return n, nil
}

// Band returns the counts that a NAPI's band is judged by, since the Counter was made, and nothing else: it is cheap
// enough for several times a second, and may be called concurrently with Read.
func (c *Counter) Band() (experiment.Counters, error) {
	var n experiment.Counters
	if c.polls != nil {
		traced, err := c.polls.read()
		if err != nil {
			return n, err
		}
		n.Traced, n.Polls, n.FullPolls = true, traced.Polls, traced.Full
	}
	return n, c.countThread(&n)
}

func (c *Counter) total() (experiment.Counters, error) {
	var n experiment.Counters
	return n, errors.Join(c.countPolls(&n), c.countThread(&n), c.countCPU(&n))
}

func (c *Counter) countPolls(n *experiment.Counters) (err error) {
	if c.target.Packets != nil {
		if n.Packets, err = c.target.Packets(); err != nil {
			return err
		}
	}
	if c.polls != nil {
		traced, err := c.polls.read()
		n.Traced, n.Polls, n.FullPolls = true, traced.Polls, traced.Full
		return err
	}
	if c.target.Inflight > 0 && c.target.Inflight <= bulk {
		n.Polls = n.Packets / uint64(c.target.Inflight)
	}
	return nil
}

func (c *Counter) countThread(n *experiment.Counters) error {
	if c.target.Thread == 0 {
		return nil
	}
	u, err := machine.Source{}.Usage(c.target.Thread)
	n.Voluntary, n.Nonvoluntary, n.RunTime = u.Voluntary, u.Nonvoluntary, u.RunTime
	return err
}

func (c *Counter) countCPU(n *experiment.Counters) error {
	text, err := os.ReadFile("/proc/interrupts")
	if err != nil {
		return fmt.Errorf("count interrupts: %w", err)
	}
	if n.Interrupts, err = interruptsOn(string(text), c.target.CPU); err != nil {
		return err
	}
	if text, err = os.ReadFile("/proc/net/softnet_stat"); err != nil {
		return fmt.Errorf("count softnet: %w", err)
	}
	s, err := softnetOn(string(text), c.target.CPU, c.target.Online)
	n.SoftnetDone, n.SoftnetDrop, n.Squeezed = s.done, s.dropped, s.squeezed
	return err
}

// Close detaches the tracepoint. It waits for grace periods.
func (c *Counter) Close() error {
	if c.polls == nil {
		return nil
	}
	return c.polls.close()
}
