package stats

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Step is one of a survival curve's: from D on, the share S of all values is longer.
type Step struct {
	D      time.Duration
	AtRisk int     // values not shorter than D
	Ends   int     // values that ended at D, and were not cut there
	S      float64 // Kaplan–Meier's estimate after D
	Lo, Hi float64 // its interval at Confidence; NaN where S is 0
}

// A Survival is the Kaplan–Meier estimate of the share of values that are longer than a length (Kaplan and Meier,
// Journal of the American Statistical Association 53, 1958), which takes cut values for what they are: longer than
// they were seen to be, by nobody knows how much. It takes them to be cut for a reason that has nothing to do with how
// long they would have been.
type Survival []Step

// KaplanMeier returns the estimate for values, with Greenwood's variance and the interval of log(-log S), which never
// leaves 0 to 1 (Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, section 1.4).
func KaplanMeier(values []Value) Survival {
	sorted := bySurvival(values)
	z := distuv.UnitNormal.Quantile(1 - (1-Confidence)/2)
	var steps Survival
	s, greenwood := 1.0, 0.0
	for i := 0; i < len(sorted); {
		d, atRisk, ends := sorted[i].D, len(sorted)-i, 0
		for i < len(sorted) && sorted[i].D == d {
			if !sorted[i].Censored {
				ends++
			}
			i++
		}
		if ends == 0 {
			continue
		}
		n, e := float64(atRisk), float64(ends)
		s *= 1 - e/n
		greenwood += e / (n * (n - e))
		step := Step{D: d, AtRisk: atRisk, Ends: ends, S: s, Lo: math.NaN(), Hi: math.NaN()}
		if ends == atRisk {
			step.S, s = 0, 0
		} else {
			w := math.Exp(z * math.Sqrt(greenwood) / math.Abs(math.Log(s)))
			step.Lo, step.Hi = math.Pow(s, w), math.Pow(s, 1/w)
		}
		steps = append(steps, step)
	}
	return steps
}

func bySurvival(values []Value) []Value {
	sorted := slices.Clone(values)
	for i := range sorted {
		sorted[i].D = max(sorted[i].D, 0)
	}
	slices.SortFunc(sorted, func(a, b Value) int { return cmp.Compare(a.D, b.D) })
	return sorted
}

// Median returns the length at which half of the values have ended, and the ends of its interval at Confidence:
// where the curve's own interval passes one half (Brookmeyer and Crowley, Biometrics 38, 1982). One that the curve
// doesn't come down to is open: more than the longest value that ended.
func (s Survival) Median() (median, lo, hi Bound) {
	return s.half(func(x Step) float64 { return x.S }), s.half(func(x Step) float64 { return x.Lo }), s.half(func(x Step) float64 { return x.Hi })
}

// half returns where the curve of passes one half; the middle of the stretch where it is exactly that.
func (s Survival) half(of func(Step) float64) Bound {
	const near = 1.5e-8
	for i, step := range s {
		y := of(step)
		if !(y < 0.5+near) {
			continue
		}
		if math.Abs(y-0.5) < near {
			for _, next := range s[i+1:] {
				if of(next) < y {
					return Bound{D: step.D + (next.D-step.D)/2}
				}
			}
		}
		return Bound{D: step.D}
	}
	if len(s) == 0 {
		return Bound{Open: 1, NoValue: true}
	}
	return Bound{D: s[len(s)-1].D, Open: 1}
}

// LogRank tests whether values of a end sooner or later than those of b at any length, with cut values as what they
// are: Mantel's log-rank test, two-sided, by its chi-squared of one degree of freedom (Mantel, Cancer Chemotherapy
// Reports 50, 1966). It says in words where there is too little to test. It takes values for independent.
func LogRank(a, b []Value) Comparison {
	if len(a) < minRank || len(b) < minRank {
		return tooFew(len(a), len(b))
	}
	x, y := bySurvival(a), bySurvival(b)
	diff, variance := 0.0, 0.0
	for len(x) > 0 && len(y) > 0 { // after the last of one side nothing can be told
		d := min(x[0].D, y[0].D)
		n, m := float64(len(x)), float64(len(y))
		endsA, restA := endAt(x, d)
		endsB, restB := endAt(y, d)
		ends, total := float64(endsA+endsB), n+m
		diff += float64(endsA) - ends*n/total
		if total > 1 {
			variance += ends * (n / total) * (m / total) * (total - ends) / (total - 1)
		}
		x, y = restA, restB
	}
	if !(variance > 0) {
		return Comparison{Words: "no value of both sides ended while the other side's went on: nothing to test"}
	}
	p := probability(math.Erfc(math.Abs(diff) / math.Sqrt(2*variance)))
	c := Comparison{P: p, HasP: true, Words: "p = " + twoDigits(p)}
	if trials(a) < len(a) || trials(b) < len(b) {
		c.Caveats = []string{dependence}
	}
	return c
}

// endAt counts the values at the head of sorted that ended at d, and returns those that are longer.
func endAt(sorted []Value, d time.Duration) (ends int, rest []Value) {
	i := 0
	for i < len(sorted) && sorted[i].D == d {
		if !sorted[i].Censored {
			ends++
		}
		i++
	}
	return ends, sorted[i:]
}
