package sim

import "github.com/napistall/napistall/internal/model"

func polls(s model.StepID) bool { return s == model.StepPoll || s == model.StepNetRXPoll }

// drain goes on with a poll from instant t, by which the packets that it has so far are done: it ends when the ring is
// empty or the weight is used. Packets that arrive meanwhile are part of it. It returns when that is.
func (e *engine) drain(t int64) int64 {
	if e.dev.veth {
		if e.polling == 0 {
			e.polling = e.bounced()
			t += e.polling * e.p.packet
		}
		return t
	}
	return e.drainFrom(t, int64(e.s.Packets()))
}

// drainFrom is drain of a NIC with on packets that the model knows of.
func (e *engine) drainFrom(t, on int64) int64 {
	if e.load.single() {
		return e.drainSingle(t, on)
	}
	for {
		e.receive(t, e.dev.ring+e.polling-on)
		have := min(on+e.arrived, e.dev.weight)
		if e.polling >= have {
			return t
		}
		t += (have - e.polling) * e.p.packet
		e.polling = have
	}
}

// drainSingle is drainFrom for packets that come one by one at a steady rate: it goes from packet to packet.
func (e *engine) drainSingle(t, on int64) int64 {
	s, packet, weight := &e.load.front, e.p.packet, e.dev.weight
	n := min(on+e.arrived, weight)
	t += (n - e.polling) * packet
	next, carry, found := s.next, s.carry, int64(0)
	for last := e.load.end - 1; n < weight && next <= min(t, last); n++ {
		t += packet
		found++
		next += s.whole
		if carry += s.part; carry >= s.base {
			carry -= s.base
			next++
		}
	}
	s.next, s.carry = next, carry
	s.left -= found
	e.arrived += found
	e.polling = n
	if n == weight { // there may be more than it takes
		e.receive(t, e.dev.ring+n-on)
	}
	return t
}

// bounced is how many packets a veth's poll takes.
func (e *engine) bounced() int64 {
	n := int64(e.s.Packets())
	if n > e.dev.bulk && e.now < e.load.end {
		return e.dev.weight
	}
	return min(n, e.dev.weight)
}

// receive takes what arrives up to t onto the ring, which has room for so many packets that the model hasn't been told of.
func (e *engine) receive(t, room int64) {
	n := e.load.take(t)
	if n == 0 {
		return
	}
	if over := e.arrived + n - max(room, 0); over > 0 {
		over = min(over, n)
		n -= over
		e.rec.dropped += over
		e.load.dropped(over, t)
	}
	e.arrived += n
}
