package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/machine"
)

// A closed loop's frames go round by themselves: the receiver sends each back into the pair when it has done its
// work for it. We put them in, take out those above the window, and find those that got lost.

// lookEvery is the time between two looks at the loop, and stillFor how long a loop in softirq mode must have
// stood for its ring to be taken for empty.
const (
	lookEvery = 50 * time.Millisecond
	stillFor  = time.Second
)

// A closedLoop is the loop of Windowed, for one goroutine.
type closedLoop struct {
	r             *Running
	ledger        *ledger
	frame         []byte
	first, second []sighting
	window        int
	still         int // looks since anything has moved
}

// circulate keeps the flow's window of frames going round until the deadline.
func (r *Running) circulate(ctx context.Context) error {
	runtime.LockOSThread() // never unlocked: the thread's CPU ends with it
	// In softirq mode the NAPI runs where the frames are sent from.
	if err := machine.Pin(0, senderCPU(r.CPU, r.options.Spare, r.online, r.options.Threaded)); err != nil {
		return err
	}
	c := &closedLoop{r: r, ledger: newLedger(maxFrames), frame: frame(r.Load.Size), first: make([]sighting, maxFrames), second: make([]sighting, maxFrames)}
	if err := c.refill(); err != nil {
		return err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for r.left() > 0 {
		select {
		case <-ctx.Done():
			return r.couple.consume.set(0, 0)
		case <-tick.C:
		}
		if err := c.look(); err != nil {
			return err
		}
	}
	return nil
}

// look counts, finds what is lost, and puts in what is missing.
func (c *closedLoop) look() error {
	n := c.r.couple.consume
	old := c.sum()
	n.read(c.first)
	idle := c.idle()
	n.read(c.second)
	c.still++
	if c.sum() != old {
		c.still = 0
	}
	c.ledger.look(c.first, c.second, idle)
	c.r.flow.sent.Store(c.sum())
	c.r.flow.lost.Store(c.ledger.all)
	return c.refill()
}

func (c *closedLoop) sum() (taken uint64) {
	for _, s := range c.second {
		taken += s.taken
	}
	return taken
}

// idle reports whether the receiver sleeps now.
func (c *closedLoop) idle() bool {
	pid := c.r.Thread.PID
	if pid == 0 {
		return time.Duration(c.still)*lookEvery >= stillFor
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ") // a NAPI thread has no bracket in its name
	return strings.HasPrefix(state, "S")
}

// refill sets the window, and puts in the frames that it lacks.
func (c *closedLoop) refill() error {
	if w := int(c.r.flow.window.Load()); w != c.window {
		c.window = w
		if err := c.r.couple.consume.set(w, c.r.Deadline); err != nil {
			return err
		}
	}
	for _, i := range c.ledger.missing(c.window, c.second) {
		binary.NativeEndian.PutUint32(c.frame[frameNumber:], uint32(i))
		sent, _, err := c.r.socket.sendOne(c.frame)
		if err != nil {
			return err
		}
		if sent == 0 {
			return nil // the ring is full: the next look tries again
		}
		c.ledger.sent(i)
	}
	return nil
}
