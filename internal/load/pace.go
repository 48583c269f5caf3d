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
