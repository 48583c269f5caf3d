package sim

import (
	"fmt"

	"github.com/napistall/napistall/internal/experiment"
)

const (
	second      = int64(1e9)
	millisecond = int64(1e6)
	microsecond = int64(1e3)
)

const (
	// wireOverhead is what a frame takes on Ethernet beside its bytes: checksum, preamble and gap.
	wireOverhead = 4 + 8 + 12
	// lineBytes is the line that a load without a rate comes over, bytes a second: the fastest that an experiment may
	// ask for, 100 Gbit/s.
	lineBytes = int64(100e9 / 8)
	// retransmit is TCP_RTO_MIN: when all that was in flight is lost, nothing else tells the sender.
	retransmit = 200 * millisecond
	// vethRing is VETH_RING_SIZE, what a flood arrives at.
	vethRing = 256
)

// A traffic is a load as the device sees it: when packets come, and what the sender makes of those that were polled
// or dropped.
type traffic struct {
	kind experiment.LoadKind
	arrivals
	rtt    int64
	rate   int64 // of what is sent, packets per second; 0 for all at once
	window int64 // most packets in flight
	cwnd   int64 // TCP's own window, at most window
	grown  int64 // of a TCP window's next step, in acknowledged packets
	thresh int64 // where TCP's slow start ends
	cutAt  int64 // when TCP halved its window last
	out    int64 // packets in flight
	last   int64 // when the last packet that was sent arrives
}

// newTraffic returns the load of arm from instant begin on. Recorded arrivals are given by whoever can read them.
func newTraffic(arm experiment.Arm, begin int64, recorded []int64, perPacket int64) (*traffic, error) {
	l := arm.Load
	t := &traffic{kind: l.Kind, rtt: int64(l.RTT), window: int64(l.Window), last: begin, cutAt: begin}
	t.end = begin + int64(l.Hold)
	t.rate = lineBytes / int64(max(l.Size, 60)+wireOverhead)
	switch l.Kind {
	case experiment.NoLoad, experiment.Bounce:
	case experiment.Flood:
		// Twice as fast as packets can be polled, however fast that is.
		t.add(segmentOf(begin, 2*second/max(perPacket, 1)+1, 1, endless))
	case experiment.Paced:
		t.add(segmentOf(begin, int64(l.Rate), int64(max(l.Batch, 1)), endless))
	case experiment.Windowed:
		t.cwnd = t.window
		t.send(t.window, begin)
	case experiment.TCP:
		if l.Rate > 0 {
			t.rate = min(t.rate, int64(l.Rate))
		}
		t.cwnd, t.thresh = min(10, t.window), t.window // RFC 6928's initial window
		t.send(t.cwnd, begin)
	case experiment.Recorded:
		if len(recorded) == 0 {
			return nil, fmt.Errorf("the recorded load %s has no arrivals", l.From)
		}
		t.list, t.start, t.num, t.den = recorded, begin, 1, 1
		if span := recorded[len(recorded)-1]; l.Rate > 0 && span > 0 {
			// As long as their gaps take at the rate that is asked for, over as long as they took.
			t.num, t.den = ratio(int64(len(recorded)-1)*second/int64(l.Rate), span)
		}
	default:
		return nil, unsupported("the load %s comes from elsewhere, and a simulator has no elsewhere: use paced or recorded", l.Kind)
	}
	return t, nil
}

// ratio returns a/b with both below 2^31, so that products of them fit.
func ratio(a, b int64) (int64, int64) {
	for a > 1<<31 || b > 1<<31 {
		a, b = a>>1, b>>1
	}
	return max(a, 1), max(b, 1)
}

// closed reports whether what arrives depends on what was polled.
func (t *traffic) closed() bool { return t.cwnd > 0 }

// plain reports whether all that is left to come is in the front segment, and nothing that is polled changes it.
func (t *traffic) plain() bool { return t.cwnd == 0 && t.length == 0 && len(t.list) == 0 }

// single reports whether packets come one by one at a steady rate, whatever becomes of them.
func (t *traffic) single() bool { return t.front.batch == 1 && t.front.left > endless/2 }

// send lets n packets go, of which the first arrives at instant at or as soon as the line is free.
func (t *traffic) send(n, at int64) {
	if n <= 0 {
		return
	}
	s := segmentOf(max(at, t.last), t.rate, 1, n)
	t.add(s)
	t.out += n
	s.advance(n)
	t.last = s.next
}

// polled tells the sender of n packets that were taken off the ring by instant now.
func (t *traffic) polled(n, now int64) {
	if !t.closed() || n == 0 {
		return
	}
	t.out -= n
	if t.kind == experiment.TCP && t.cwnd < t.window {
		t.grow(n)
	}
	t.send(t.cwnd-t.out, now+t.rtt)
}

// grow opens TCP's window: by what was acknowledged below thresh, by one for each window above.
func (t *traffic) grow(n int64) {
	if t.cwnd < t.thresh {
		t.cwnd = min(t.cwnd+n, t.thresh, t.window)
		return
	}
	if t.grown += n; t.grown >= t.cwnd {
		t.grown -= t.cwnd
		t.cwnd = min(t.cwnd+1, t.window)
	}
}

// dropped tells the sender of n packets that found the ring full at instant now: they are sent again a round trip
// later, or after a timeout if there is nothing behind them whose acknowledgements would tell.
func (t *traffic) dropped(n, now int64) {
	if !t.closed() || n == 0 {
		return
	}
	t.out -= n
	if t.kind == experiment.TCP && now-t.cutAt >= t.rtt {
		t.thresh = max(t.cwnd/2, 2)
		t.cwnd, t.grown, t.cutAt = t.thresh, 0, now
	}
	wait := t.rtt
	if t.out == 0 {
		wait = max(retransmit, t.rtt)
	}
	t.send(max(min(n, t.cwnd-t.out), min(1, n)), now+wait)
}
