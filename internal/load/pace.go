package load

import (
	"math/bits"
	"time"
)

// A pace is an absolute schedule: packet n is due n ÷ rate seconds after its start, to the nanosecond and for
// ever, so that nothing drifts.
type pace struct {
	start time.Duration
	rate  uint64 // packets per second
	n     uint64 // packets that were due before the next one
}

// next returns the instant at which the next packet is due.
func (p *pace) next() time.Duration {
	whole, rest := p.n/p.rate, p.n%p.rate
	hi, lo := bits.Mul64(rest, uint64(time.Second))
	part, _ := bits.Div64(hi, lo, p.rate) // rest < rate: part < 1 s
	return p.start + time.Duration(whole)*time.Second + time.Duration(part)
}

// sent counts n packets, due or not.
func (p *pace) sent(n int) { p.n += uint64(n) }

// restart goes on from instant now at another rate.
func (p *pace) restart(now time.Duration, rate int) {
	*p = pace{start: now, rate: uint64(max(rate, 1))}
}

// The polls of an open loop that is to be held in the band.
const (
	heldPackets = 16 // of a budget of 64
	heldPolls   = 1500
	// maxHeldWork leaves room above experiment.MinEntries for what a poll takes beside its work.
	maxHeldWork = time.Second / 1250
	// maxWait is how long a poll waits for a sender that is late: as long as one that another thread preempts, whose
	// slice is 3 ms (sysctl_sched_base_slice, kernel/sched/fair.c) and ends with a tick. On a machine that reads its
	// clock in 20 ns the program's rounds are over after sureWait: more of them take the verifier seconds under
	// emulation, where in turn a reading takes ten times as long.
	maxWait      = 5 * time.Millisecond
	sureWait     = time.Millisecond
	maxHeldBatch = 32
)

// pollWork is how long the receiver of an open loop works in each poll so that the loop stays in the band by
// itself. A poll that takes the same however many packets it finds leaves as many for the next as come in that
// time, from two packets on to a budget's worth: a band as wide as that. Where the work is for each packet, a
// rate that is half a per cent above what the receiver can do fills its ring within seconds, one as much below
// empties it, and nothing pushes back. Still the thread would sleep whenever the sender is late for longer than
// that, for which reason the poll waits for it (see pollProgram).
func pollWork(rate, batch int) time.Duration {
	gap := float64(time.Second) / float64(rate)
	packets := max(min(heldPackets, float64(rate)/heldPolls), 2, 1.5*float64(batch))
	return min(time.Duration(packets*gap), maxHeldWork)
}

// Gaps counts how far the gaps between two bursts were from what they should have been. Its zero value is
// empty. It is not for concurrent use.
type Gaps struct {
	// Count is the number of gaps, Within that of those that were off by at most OnTime, Max what the worst
	// was off.
	Count, Within uint64
	Max           time.Duration
	bins          [gapBins + 1]uint64 // by µs; the last holds what is longer
}

// OnTime is what a gap may be off and still be on time.
const OnTime = 20 * time.Microsecond

// gapBins is the number of bins, of 1 µs each.
const gapBins = 10000

// add counts a gap that was got where want was due.
func (g *Gaps) add(got, want time.Duration) {
	off := (got - want).Abs()
	g.Count++
	if off <= OnTime {
		g.Within++
	}
	g.Max = max(g.Max, off)
	g.bins[min(int(off/time.Microsecond), gapBins)]++
}

// Quantile returns what a share q of the gaps were off at most, rounded up to 1 µs; Max beyond 10 ms.
func (g *Gaps) Quantile(q float64) time.Duration {
	need := uint64(q * float64(g.Count))
	var sum uint64
	for i, n := range g.bins[:gapBins] {
		sum += n
		if sum >= need && sum > 0 {
			return min(time.Duration(i+1)*time.Microsecond, g.Max)
		}
	}
	return g.Max
}
