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
// be held: then it works in each poll until the next packets have come. See pollWork.
func (r *Running) setupPaced() error {
	r.flow.rate.Store(int64(r.Load.Rate))
	if r.Load.Band == "" {
		return r.setupFrames(nil, r.Load.Batch)
	}
	if r.Load.Batch > maxHeldBatch {
		return fmt.Errorf("hold the band with batches of %d: two of them in one poll use its budget of 64, want batches of at most %d: %w",
			r.Load.Batch, maxHeldBatch, errors.ErrUnsupported)
	}
	return r.setupFrames(&job{work: pollWork(r.Load.Rate, r.Load.Batch), oncePerPoll: true}, r.Load.Batch)
}

// setupWindowed readies Windowed on the load's thread.
func (r *Running) setupWindowed() error {
	if r.Load.Window > maxFrames {
		return fmt.Errorf("a window of %d: veth's ring holds %d frames: %w", r.Load.Window, maxFrames, errors.ErrUnsupported)
	}
	r.flow.window.Store(int64(r.Load.Window))
	if err := r.setupFrames(&job{work: windowedWork}, 1); err != nil {
		return err
	}
	r.Receiver += " and sends it back"
	return nil
}

// setupFrames makes a couple whose receiver does j, or drops each frame at once without one.
func (r *Running) setupFrames(j *job, burst int) (err error) {
	r.Receiver = "drops each frame in XDP at once"
	receive := func(c *couple) error { return c.attach("drop", dropProgram(0)) }
	if j != nil {
		r.Receiver = j.String()
		receive = func(c *couple) error { return consumeOn(c, *j) }
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
	var took func(int)
	if r.couple.consume != nil {
		took = r.couple.consume.sent
	}
	_, err = c.paced(ctx, r.socket, &r.flow, r.Load.Batch, r.Deadline.Sub(c.ktime), took)
	return err
}
