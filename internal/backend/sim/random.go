package sim

import (
	"math/bits"
	"math/rand/v2"
)

// random draws what a run leaves to chance. The same seed gives the same numbers on every machine: the generator is
// PCG-DXSM, whose sequence math/rand/v2 fixes, and all that is made of its words is integer arithmetic.
// math.Log and fused multiply-add differ between architectures in the last bit, so no float is in it.
type random struct{ pcg rand.PCG }

// seed starts r's sequence anew.
func (r *random) seed(seed, stream uint64) { r.pcg.Seed(seed, stream) }

// below returns a number from 0 to n-1, evenly; 0 where n is not positive. One word is drawn whatever n is. That
// the first few of n are favoured by n in 2^64 is below what any run could tell.
func (r *random) below(n int64) int64 {
	hi, _ := bits.Mul64(r.pcg.Uint64(), uint64(max(n, 0)))
	return int64(hi)
}

// exponential returns an exponentially distributed number of the given mean, in the mean's unit and rounded down.
func (r *random) exponential(mean int64) int64 {
	hi, lo := bits.Mul64(minusLog(r.pcg.Uint64()), uint64(max(mean, 0)))
	return int64(hi<<(64-logPoint) | lo>>logPoint)
}

// Fixed point: a logarithm has logPoint bits behind the point. The largest one, of 2^-64, needs 6 before it.
const (
	logPoint   = 57
	logRowBits = 8
	logRows    = 1 << logRowBits
)

// A logRow is for numbers from 1 + i/logRows on: that number's logarithm, and one over it as 64 bits behind
// the point.
type logRow struct{ log, inverse uint64 }

var (
	logTable = newLogTable()
	logTwo   = logOf(1, 3)
)

// minusLog returns -ln(u / 2^64) with logPoint bits behind the point, for u of 0 as for 1. Its error is below 2^-34.
//
// u is m · 2^(63-k) with m in [1, 2): -ln is (k+1) ln 2 - ln m. ln m is a table's row plus ln(1+r) with r below
// 1/256, for which three terms of the series do.
func minusLog(u uint64) uint64 {
	u |= 1
	k := bits.LeadingZeros64(u)
	fraction := u << uint(k) << 1 // m - 1, 64 bits behind the point
	row := &logTable[fraction>>(64-logRowBits)]
	rest := fraction << logRowBits >> logRowBits // m - (1 + i/256)
	r, _ := bits.Mul64(rest, row.inverse)        // rest / (1 + i/256)
	square, _ := bits.Mul64(r, r)
	cube, _ := bits.Mul64(square, r)
	ln := r - square/2 + cube/3 // ln(1 + r)
	return uint64(max(0, int64(uint64(k+1)*logTwo-row.log-ln>>(64-logPoint))))
}

// newLogTable computes the rows: ln(1 + i/256) = 2 atanh(i / (512 + i)).
func newLogTable() [logRows]logRow {
	var t [logRows]logRow
	t[0].inverse = 1<<64 - 1
	for i := uint64(1); i < logRows; i++ {
		t[i].log = logOf(i, 2*logRows+i)
		t[i].inverse, _ = bits.Div64(logRows, 0, logRows+i)
	}
	return t
}

// logOf returns 2 atanh(a/b) with logPoint bits behind the point, for a/b up to 1/3: the sum over odd n of
// 2 (a/b)^n / n.
func logOf(a, b uint64) uint64 {
	x, _ := bits.Div64(a, 0, b)
	square, _ := bits.Mul64(x, x)
	sum := uint64(0)
	for n, power := uint64(1), x; power > 0; n += 2 {
		sum += power / n
		power, _ = bits.Mul64(power, square)
	}
	return sum >> (63 - logPoint)
}
