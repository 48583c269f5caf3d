package sim

// A segment is a run of packets with equal gaps: batch of them at next, the next batch whole + part/base
// nanoseconds later, until left are gone. The fraction keeps a rate exact over hours.
type segment struct {
	next              int64
	whole, part, base int64 // the gap; base is at least 1
	carry             int64 // of part, below base
	batch             int64 // at least 1
	left              int64
}

// endless is the length of a segment that doesn't end.
const endless = 1 << 62

// segmentOf returns count packets from at on, rate of them a second, batch at a time. A rate of 0 is all at once.
func segmentOf(at int64, rate, batch, count int64) segment {
	if rate <= 0 {
		return segment{next: at, base: 1, batch: count, left: count}
	}
	period := second * batch
	return segment{next: at, whole: period / rate, part: period % rate, base: rate, batch: batch, left: count}
}

// take removes the packets up to and including instant t and returns how many they were. Its cost does not grow with
// their number.
func (s *segment) take(t int64) int64 {
	n := int64(0)
	if gap := s.whole + 1; t-s.next >= 16*gap && s.batch > 0 {
		// So many batches are surely due: no gap is longer than whole+1.
		k := min((t-s.next)/gap, (s.left-1)/s.batch)
		if k > 0 {
			n += k * s.batch
			s.left -= k * s.batch
			s.advance(k)
		}
	}
	for s.next <= t && s.left > 0 {
		k := min(s.batch, s.left)
		n += k
		s.left -= k
		s.step()
	}
	return n
}

// step moves next on by one gap.
func (s *segment) step() {
	s.next += s.whole
	if s.carry += s.part; s.carry >= s.base {
		s.carry -= s.base
		s.next++
	}
}

// advance moves next on by k gaps.
func (s *segment) advance(k int64) {
	s.next += k * s.whole
	s.carry += k * s.part
	if s.carry >= s.base {
		s.next += s.carry / s.base
		s.carry %= s.base
	}
}

// arrivals are the packets that are still to come: a front segment and what waits behind it. Nothing is allocated
// once its queue has grown to what the load keeps in flight.
type arrivals struct {
	front  segment
	queue  []segment // a ring
	head   int
	length int
	end    int64   // from here on nothing comes
	list   []int64 // recorded instants still to come, ascending
	start  int64   // of list's clock
	num    int64   // list's times are stretched by num/den
	den    int64
}

// next returns the instant of the next packet, never when there is none.
func (a *arrivals) next() int64 {
	if a.front.left == 0 {
		return a.after()
	}
	if a.front.next >= a.end {
		return never
	}
	return a.front.next
}

// after is next when the front segment is used up.
func (a *arrivals) after() int64 {
	for a.front.left == 0 {
		if !a.refill() {
			return never
		}
	}
	return a.next()
}

// refill makes the next segment the front one.
func (a *arrivals) refill() bool {
	switch {
	case a.length > 0:
		a.front = a.queue[a.head]
		a.head = (a.head + 1) % len(a.queue)
		a.length--
	case len(a.list) > 0:
		a.front = segment{next: a.start + scaled(a.list[0], a.num, a.den), base: 1, batch: 1, left: 1}
		a.list = a.list[1:]
	default:
		return false
	}
	return true
}

// take removes the packets up to and including instant t and returns how many they were.
func (a *arrivals) take(t int64) int64 {
	n := int64(0)
	for t = min(t, a.end-1); ; {
		if a.front.left > 0 {
			if a.front.next > t {
				return n
			}
			n += a.front.take(t)
		}
		if a.front.left == 0 && !a.refill() {
			return n
		}
	}
}

// slack is how many places of the queue stay free, so that a copy of an arrivals is still good after one or two were
// added to the other.
const slack = 4

// add puts a segment behind the others. It begins no earlier than they do.
func (a *arrivals) add(s segment) {
	if a.length+slack > len(a.queue) {
		grown := make([]segment, max(16, 2*len(a.queue)))
		for i := range a.length {
			grown[i] = a.queue[(a.head+i)%len(a.queue)]
		}
		a.queue, a.head = grown, 0
	}
	a.queue[(a.head+a.length)%len(a.queue)] = s
	a.length++
}

// scaled returns t·num/den without overflow for any run that can be asked for.
func scaled(t, num, den int64) int64 {
	if num == den {
		return t
	}
	return t/den*num + t%den*num/den
}
