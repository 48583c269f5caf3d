package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
)

// A Running is a load that is set up, and after Start runs. Packets may be called concurrently
// with anything but Stop; the other methods are for one goroutine.
type Running struct {
	Load    experiment.Load
	CPU     int            // the CPU under test
	Device  string         // the device whose NAPI is under test; "" for no load
	Ifindex int            // Device's index in the load's network namespace
	Thread  machine.Thread // the NAPI's kthread; zero in softirq mode
	// Begin and Deadline are the instants between which the load lasts, set by Start.
	Begin, Deadline rcu.Ktime

	options Options
	thread  *thread
	pair    *pair
	flood   chan error // the flood's result, once it has ended
	cancel  context.CancelFunc
}

// Prepare sets load l up on CPU cpu, up to but without its first frame, so that counters can be
// attached before it starts. The error matches errors.ErrUnsupported when the kernel can't.
func Prepare(ctx context.Context, l experiment.Load, cpu int, o Options) (*Running, error) {
	r := &Running{Load: l, CPU: cpu, options: o}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var first func() (*pair, error)
	switch l.Kind {
	case experiment.NoLoad:
		return r, nil
	case experiment.Bounce:
		first = func() (*pair, error) { return newPair(dropProgram(0), o.Threaded, cpu) }
	case experiment.Flood:
		first = func() (*pair, error) { return newPair(dropProgram(floodBurn), o.Threaded, cpu) }
	default:
		return nil, fmt.Errorf("prepare load %q: want %s, %s or %s", l.Kind, experiment.Bounce, experiment.Flood, experiment.NoLoad)
	}
	r.thread = newThread()
	err := r.thread.do(func() (err error) {
		if o.Isolate {
			if err := isolate(); err != nil {
				return err
			}
		}
		r.pair, err = first()
		return err
	})
	if err != nil {
		r.thread.end()
		return nil, fmt.Errorf("prepare load %s: %w", l.Kind, err)
	}
	r.Device, r.Ifindex, r.Thread = Device, r.pair.receiver.Attrs().Index, r.pair.kthread
	return r, nil
}

// Start sends the first frames and sets Begin and Deadline. The load ends by itself at Deadline.
func (r *Running) Start(ctx context.Context) (err error) {
	if r.Begin, err = machine.Now(); err != nil {
		return err
	}
	r.Deadline = r.Begin.Add(r.Load.Hold)
	switch r.Load.Kind {
	case experiment.Bounce:
		err = r.thread.do(r.startBounce)
	case experiment.Flood:
		ctx, r.cancel = context.WithCancel(ctx)
		r.flood = make(chan error, 1)
		go func() { r.flood <- r.runFlood(ctx) }()
	}
	if err != nil {
		return fmt.Errorf("start load %s: %w", r.Load.Kind, err)
	}
	return nil
}

// startBounce exchanges the program for the one with the deadline and injects the frames. In
// softirq mode the NAPI runs where the frames are sent from, so that the thread goes there for
// them, and away again before anything else.
func (r *Running) startBounce() error {
	code := bounceProgram(r.pair.sender.Attrs().Index, r.Deadline)
	if err := r.pair.attach("bounce", code); err != nil {
		return err
	}
	if !r.options.Threaded {
		home, err := machine.Affinity(0)
		if err != nil {
			return err
		}
		if err := machine.Pin(0, r.CPU); err != nil {
			return err
		}
		defer func() { _ = machine.Pin(0, home...) }() // it was there before; the CPU can only have gone offline
	}
	f := frame()
	for range r.Load.Inflight {
		if err := r.pair.send(f); err != nil {
			return err
		}
	}
	return nil
}

// floodBurn is how often flood's receiver reads the clock for a frame, so that it falls behind the
// sender and uses its whole budget in each poll. Emulated, 200 readings took 100 µs and sending a frame
// up to 250 µs (sid's armhf kernel under TCG): the thread ran 40 % of the time and slept 264 times a second.
const floodBurn = 1500

// floodNice is the sender's nice value: with two CPUs it shares one with the probes, which must
// not wait for it.
const floodNice = 10

// runFlood sends frames as fast as it can until the deadline. In threaded mode it runs on the spare
// CPU; in softirq mode the NAPI runs where the frames come from, so that is the CPU under test.
func (r *Running) runFlood(ctx context.Context) error {
	runtime.LockOSThread() // never unlocked: the thread's CPU and priority end with it
	cpu := r.options.Spare
	if !r.options.Threaded {
		cpu = r.CPU
	}
	if err := machine.Pin(0, cpu); err != nil {
		return err
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, floodNice); err != nil {
		return fmt.Errorf("lower the sender's priority: %w", err)
	}
	f := frame()
	for ctx.Err() == nil {
		now, err := machine.Now()
		if err != nil || now >= r.Deadline {
			return err
		}
		for range 32 {
			if err := r.pair.send(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// Packets returns how many packets the device under test has received, redirected and dropped ones
// included: veth counts every frame that its poll takes from the ring. 0 without a load.
func (r *Running) Packets() (uint64, error) {
	if r.pair == nil {
		return 0, nil
	}
	b := make([]byte, 32)
	n, err := r.pair.stats.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("count packets: %w", err)
	}
	packets, err := strconv.ParseUint(strings.TrimSpace(string(b[:n])), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count packets: %w", err)
	}
	return packets, nil
}

// left returns how long the load goes on.
func (r *Running) left() time.Duration {
	now, err := machine.Now()
	if err != nil {
		return 0
	}
	return max(0, r.Deadline.Sub(now))
}

// Stop ends the load and removes its devices. On a kernel that stalls it can take until Deadline:
// exchanging the program and removing a device both wait for what the load holds up.
func (r *Running) Stop() error {
	if r.thread == nil {
		return nil
	}
	var errs []error
	if r.cancel != nil {
		r.cancel()
		errs = append(errs, <-r.flood)
	}
	if r.Load.Kind == experiment.Bounce && r.left() > 0 {
		errs = append(errs, r.thread.do(func() error { return r.pair.attach("drop", dropProgram(0)) }))
	}
	errs = append(errs, r.thread.do(r.pair.remove))
	r.thread.end()
	r.thread = nil
	return errors.Join(errs...)
}
