package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/napistall/napistall/internal/machine"
)

// windowedWork is what the receiver of Windowed works for each packet: what the report's board took, of
// which 80,862 packets a second kept one CPU busy.
const windowedWork = 12 * time.Microsecond

// setupPaced readies Paced on the load's thread. Its receiver drops each frame at once, unless the band is to
// be held: then it works as long for each as the rate that was asked for leaves, so that the load is about
// as much as it can do.
func (r *Running) setupPaced() error {
	work := time.Duration(0)
	if r.Load.Band != "" {
		work = min(time.Second/time.Duration(r.Load.Rate), maxWork)
	}
	r.flow.rate.Store(int64(r.Load.Rate))
	return r.setupFrames(work, r.Load.Band != "", r.Load.Batch)
}

// setupWindowed readies Windowed on the load's thread.
func (r *Running) setupWindowed() error {
	if r.Load.Window > maxFrames {
		return fmt.Errorf("a window of %d: veth's ring holds %d frames: %w", r.Load.Window, maxFrames, errors.ErrUnsupported)
	}
	r.flow.window.Store(int64(r.Load.Window))
	if err := r.setupFrames(windowedWork, true, 1); err != nil {
		return err
	}
	r.Receiver += " and sends it back"
	return nil
}

func (r *Running) setupFrames(work time.Duration, count bool, burst int) (err error) {
	r.Receiver = "drops each frame in XDP at once"
	receive := func(c *couple) error { return c.attach("drop", dropProgram(0)) }
	if count {
		r.Receiver = fmt.Sprintf("works %v for each frame after it has emptied its ring", work)
		receive = func(c *couple) error { return consumeOn(c, work) }
	}
	if r.couple, err = newCouple(r.options, r.CPU, r.Load, receive); err != nil {
		return err
	}
	r.pair = &r.couple.pair
	err = r.couple.peer.do(func() (err error) {
		r.socket, err = openPacketSocket(r.pair.sender.Attrs().Index, frame(r.Load.Size), burst)
		return err
	})
	if err != nil {
		_ = r.couple.remove() // what went wrong is err
		return err
	}
	return nil
}

// sendPaced is the sender of Paced, from now to the deadline.
func (r *Running) sendPaced(ctx context.Context) error {
	runtime.LockOSThread() // never unlocked: the thread's CPU ends with it
	if err := machine.Pin(0, senderCPU(r.CPU, r.options.Spare, r.online, r.options.Threaded)); err != nil {
		return err
	}
	c, err := newClock()
	if err != nil {
		return err
	}
	_, err = c.paced(ctx, r.socket, &r.flow, r.Load.Batch, r.Deadline.Sub(c.ktime))
	return err
}
