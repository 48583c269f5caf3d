package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Difference is how much larger one proportion is than another, with its interval at Confidence.
type Difference struct {
	D      float64 // of the two shares: -1…1
	Lo, Hi float64
	Method string // ChanZhang or Newcombe, or "" where a side has no case and nothing is known
}

// The methods. ChanZhang is exact: whatever the two probabilities are, it covers their difference with at least
// Confidence (Chan and Zhang, Biometrics 55, 1999): each end inverts an unconditional test at (1-Confidence)/2 that
// orders the outcomes by the score statistic of Farrington and Manning, at the nuisance probability that fits worst.
// Newcombe is his hybrid score interval (Statistics in Medicine 17, 1998, 873–890, method 10), which is near that and
// is taken for samples whose exact interval would take seconds.
const (
	ChanZhang = "Chan–Zhang exact"
	Newcombe  = "Newcombe hybrid score"
)

// exactCases is the largest number of cases, of both sides together, that the exact interval is computed for: it then
// takes some tenths of a second.
const exactCases = 4000

// DifferenceOf returns a's share minus b's. It takes the cases for independent.
func DifferenceOf(a, b Proportion) Difference {
	a, b = a.clamp(), b.clamp()
	if a.N == 0 || b.N == 0 {
		return Difference{Lo: -1, Hi: 1}
	}
	d := Difference{D: share(a) - share(b)}
	if a.N+b.N > exactCases {
		d.Method = Newcombe
		d.Lo, d.Hi = newcombe(a, b)
		return d
	}
	d.Method = ChanZhang
	d.Lo, d.Hi = exactLow(a, b), -exactLow(b, a)
	return d
}

func share(p Proportion) float64 { return float64(p.K) / float64(p.N) }

// newcombe returns the hybrid score interval, from the two Wilson intervals.
func newcombe(a, b Proportion) (lo, hi float64) {
	la, ua := wilson(a)
	lb, ub := wilson(b)
	pa, pb := share(a), share(b)
	lo = pa - pb - math.Hypot(pa-la, ub-pb)
	hi = pa - pb + math.Hypot(ua-pa, pb-lb)
	return max(lo, -1), min(hi, 1)
}

// wilson returns Wilson's score interval (Journal of the American Statistical Association 22, 1927).
func wilson(p Proportion) (lo, hi float64) {
	z := distuv.UnitNormal.Quantile(1 - (1-Confidence)/2)
	n, x := float64(p.N), share(p)
	middle := (x + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(x*(1-x)/n+z*z/(4*n*n))
	return max(0, middle-half), min(1, middle+half)
}

// exactLow returns the lower end of the exact interval of a's share minus b's.
func exactLow(a, b Proportion) float64 {
	tail := (1 - Confidence) / 2
	if a.K == 0 && b.K == b.N {
		return -1
	}
	lo, hi := -1.0, share(a)-share(b)
	for hi-lo > 1e-7 {
		mid := lo + (hi-lo)/2
		if exceeds(a, b, mid, tail) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// nuisance is how many values of the unknown probability are tried between its ends.
const nuisance = 200

// exceeds reports whether an outcome at least as far above the difference delta as the one at hand has a probability
// over tail for some pair of probabilities with that difference.
func exceeds(a, b Proportion, delta, tail float64) bool {
	bounds := region(a, b, delta)
	from, to := max(0, delta), min(1, 1+delta)
	for i := range nuisance + 1 {
		p := from + (to-from)*float64(i)/nuisance
		if probabilityBelow(bounds, a.N, p, b.N, min(1, max(0, p-delta))) > tail {
			return true
		}
	}
	return false
}

// region returns for each count of the first side the largest of the second with a score statistic as large as the
// one at hand, -1 if there is none. The statistic rises with the first count and falls with the second, so that the
// bounds rise and one pass finds them.
func region(a, b Proportion, delta float64) []int {
	least := score(a, b, delta)
	least -= 1e-9 * max(1, math.Abs(least))
	bounds := make([]int, a.N+1)
	y := -1
	for x := range bounds {
		for y < b.N && score(Proportion{x, a.N}, Proportion{y + 1, b.N}, delta) >= least {
			y++
		}
		bounds[x] = y
	}
	return bounds
}

// score is Farrington and Manning's statistic (Statistics in Medicine 9, 1990): the difference's excess over delta,
// in standard errors as they are where the difference is delta.
func score(a, b Proportion, delta float64) float64 {
	excess := share(a) - share(b) - delta
	p := constrained(a, b, delta)
	q := p - delta
	v := p*(1-p)/float64(a.N) + q*(1-q)/float64(b.N)
	switch {
	case v > 1e-15:
		return excess / math.Sqrt(v)
	case excess > 1e-12:
		return math.Inf(1)
	case excess < -1e-12:
		return math.Inf(-1)
	}
	return 0
}

// constrained returns the likeliest probability of a where b's is smaller by delta: the root of a cubic (Miettinen
// and Nurminen, Statistics in Medicine 4, 1985).
func constrained(a, b Proportion, delta float64) float64 {
	theta := float64(b.N) / float64(a.N)
	pa, pb := share(a), share(b)
	k3 := 1 + theta
	k2 := -(1 + theta + pa + theta*pb + delta*(theta+2))
	k1 := delta*delta + delta*(2*pa+theta+1) + pa + theta*pb
	k0 := -pa * delta * (1 + delta)
	v := k2*k2*k2/(27*k3*k3*k3) - k2*k1/(6*k3*k3) + k0/(2*k3)
	u := math.Sqrt(max(0, k2*k2/(9*k3*k3)-k1/(3*k3)))
	if v < 0 {
		u = -u
	}
	w := math.Pi / 3
	if u != 0 {
		w = (math.Pi + math.Acos(min(1, max(-1, v/(u*u*u))))) / 3
	}
	p := 2*u*math.Cos(w) - k2/(3*k3)
	return min(min(1, 1+delta), max(max(0, delta), p))
}

// probabilityBelow is the probability that a count of the second side is at most bounds of the first side's.
func probabilityBelow(bounds []int, n int, p float64, m int, q float64) float64 {
	first, from := binomial(n, p)
	second, start := binomial(m, q)
	total, below, next := 0.0, 0.0, start
	for i, f := range first {
		for ; next <= bounds[from+i] && next < start+len(second); next++ {
			below += second[next-start]
		}
		total += f * below
	}
	return total
}

// binomial returns the probabilities of the counts from start on, those under 1e-18 of the largest left out.
func binomial(n int, p float64) (probabilities []float64, start int) {
	switch {
	case p <= 0:
		return []float64{1}, 0
	case p >= 1:
		return []float64{1}, n
	}
	mode := min(n, int(float64(n+1)*p))
	top := distuv.Binomial{N: float64(n), P: p}.Prob(float64(mode))
	start, end := mode, mode
	var below, above []float64
	for x := top; start > 0; start-- {
		x *= float64(start) / float64(n-start+1) * (1 - p) / p
		if x < 1e-18*top {
			break
		}
		below = append(below, x)
	}
	for x := top; end < n; end++ {
		x *= float64(n-end) / float64(end+1) * p / (1 - p)
		if x < 1e-18*top {
			break
		}
		above = append(above, x)
	}
	for i := len(below) - 1; i >= 0; i-- {
		probabilities = append(probabilities, below[i])
	}
	return append(append(probabilities, top), above...), start
}
