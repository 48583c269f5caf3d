package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

	// Receiver says what becomes of the frames, for whoever reads the result; "" where that goes without saying.
	Receiver string

	options Options
	online  []int
	thread  *thread
	pair    *pair
	couple  *couple // the pair with two namespaces
	tcp     *transfer
	socket  *packetSocket
	flow    Flow
	watch   func() (Observation, error)
	stats   *os.File       // a real device's rx_packets
	running sync.WaitGroup // what Start started
	mu      sync.Mutex
	errs    []error // of what Start started
	cancel  context.CancelFunc
}

// Progress returns what the sender has done and how it is set. It may be called from any goroutine.
func (r *Running) Progress() Progress {
	if r.tcp != nil && r.tcp.source != nil {
		_ = r.countSegments() // once the transfer is closed, the last counts stand
	}
	return r.flow.Now()
}

// Watch gives the band controller of a load with band: hold its eyes: read returns what the NAPI has done
// since some fixed instant, and is called from the controller's goroutine between Start and Stop.
func (r *Running) Watch(read func() (Observation, error)) { r.watch = read }

// begin runs f in a goroutine that Stop waits for.
func (r *Running) begin(f func() error) {
	r.running.Go(func() {
		if err := f(); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errs = append(r.errs, err)
		}
	})
}

// Prepare sets load l up on CPU cpu, up to but without its first frame, so that counters can be
// attached before it starts. The error matches errors.ErrUnsupported when the kernel can't.
func Prepare(ctx context.Context, l experiment.Load, cpu int, o Options) (*Running, error) {
	r := &Running{Load: l, CPU: cpu, options: o}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var setup func() error
	switch l.Kind {
	case experiment.NoLoad:
		return r, nil
	case experiment.External:
		return r, r.external()
	case experiment.Bounce:
		setup = func() (err error) { r.pair, err = newPair(dropProgram(0), o.Threaded, cpu); return err }
	case experiment.Flood:
		setup = func() (err error) { r.pair, err = newPair(dropProgram(floodBurn), o.Threaded, cpu); return err }
	case experiment.Paced:
		setup = r.setupPaced
	case experiment.Windowed:
		setup = r.setupWindowed
	case experiment.TCP:
		setup = r.setupTCP
	default:
		return nil, fmt.Errorf("prepare load %q: want one of %v: %w", l.Kind, experiment.LoadKinds(), errors.ErrUnsupported)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.thread = newThread()
	err := r.thread.do(func() error {
		if o.Isolate {
			if err := isolate(); err != nil {
				return err
			}
		}
		if err := setup(); err != nil {
			return err
		}
		if o.Loop == experiment.BusyPoll {
			if err := busyPoll(r.pair.receiver.Attrs().Index); err != nil {
				return errors.Join(err, r.remove())
			}
		}
		return nil
	})
	if err != nil {
		r.thread.end()
		return nil, fmt.Errorf("prepare load %s: %w", l.Kind, err)
	}
	r.Device, r.Ifindex, r.Thread = Device, r.pair.receiver.Attrs().Index, r.pair.kthread
	return r, nil
}

// check refuses what can't be done with the devices that a load makes, and finds the CPUs.
func (r *Running) check() (err error) {
	switch r.options.Loop {
	case experiment.Stock, experiment.BusyPoll:
	case experiment.BacklogThread:
		return fmt.Errorf("loop %s: no load here keeps backlog_napi/N busy, a veth pair has a NAPI of its own: --backend sim: %w", r.options.Loop, errors.ErrUnsupported)
	default:
		return fmt.Errorf("loop %s: this kernel has its own loop: --backend sim, or patch: %w", r.options.Loop, errors.ErrUnsupported)
	}
	if r.options.Device != "" {
		return fmt.Errorf("load %s on %s: what reaches a real device comes from its peer: run napistall load there, and load: {kind: external} here: %w",
			r.Load.Kind, r.options.Device, errors.ErrUnsupported)
	}
	list, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return fmt.Errorf("find the sender's CPU: %w", err)
	}
	r.online, err = machine.ParseCPUList(string(list))
	return err
}

// Start sends the first frames and sets Begin and Deadline. The load ends by itself at Deadline.
func (r *Running) Start(ctx context.Context) (err error) {
	if r.Load.Band != "" && r.watch == nil {
		return fmt.Errorf("start load %s: nobody counts its polls, which the band controller goes by: %w", r.Load.Kind, errors.ErrUnsupported)
	}
	if r.Begin, err = machine.Now(); err != nil {
		return err
	}
	r.Deadline = r.Begin.Add(r.Load.Hold)
	ctx, r.cancel = context.WithCancel(ctx)
	switch r.Load.Kind {
	case experiment.Bounce:
		err = r.thread.do(r.startBounce)
	case experiment.Flood:
		r.begin(func() error { return r.runFlood(ctx) })
	case experiment.Paced:
		r.begin(func() error { return r.sendPaced(ctx) })
	case experiment.Windowed:
		r.begin(func() error { return r.circulate(ctx) })
	case experiment.TCP:
		err = r.startTCP(ctx)
	}
	if err != nil {
		return fmt.Errorf("start load %s: %w", r.Load.Kind, err)
	}
	if r.Load.Band != "" {
		r.begin(func() error { return r.steer(ctx) })
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
	f := frame(frameLen)
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
	f := frame(frameLen)
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
	stats := r.stats
	if r.pair != nil {
		stats = r.pair.stats
	}
	if stats == nil {
		return 0, nil
	}
	b := make([]byte, 32)
	n, err := stats.ReadAt(b, 0)
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
	if r.cancel != nil {
		r.cancel()
	}
	r.running.Wait()
	r.mu.Lock()
	errs := r.errs
	r.errs = nil
	r.mu.Unlock()
	if r.stats != nil {
		errs = append(errs, r.stats.Close())
		r.stats = nil
	}
	if r.thread == nil {
		return errors.Join(errs...)
	}
	if r.Load.Kind == experiment.Bounce && r.left() > 0 {
		errs = append(errs, r.thread.do(func() error { return r.pair.attach("drop", dropProgram(0)) }))
	}
	errs = append(errs, r.thread.do(r.remove))
	r.thread.end()
	r.thread = nil
	return errors.Join(errs...)
}

// remove takes the devices away, on the load's thread.
func (r *Running) remove() error {
	var errs []error
	if r.socket != nil {
		errs = append(errs, r.socket.close())
	}
	if r.tcp != nil {
		errs = append(errs, r.tcp.close())
	}
	if r.couple != nil {
		return errors.Join(append(errs, r.couple.remove())...)
	}
	return errors.Join(append(errs, r.pair.remove())...)
}
