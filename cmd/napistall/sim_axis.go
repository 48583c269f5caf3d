package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxAxis is how many values one --vary may have.
const maxAxis = 10_000

// An axis is one parameter of a sweep with the values it takes, each as an experiment file would state it.
type axis struct {
	key    string
	values []string
}

// parseAxis reads what --vary was given: KEY=A,B,C or KEY=FROM..TO[:N[log]], or a mix of both.
func parseAxis(text string) (axis, error) {
	key, list, ok := strings.Cut(text, "=")
	if key = strings.TrimSpace(key); !ok || key == "" || strings.TrimSpace(list) == "" {
		return axis{}, usagef("--vary %q: want KEY=VALUE,VALUE… or KEY=FROM..TO:N, such as load.rate=10k..120k:24", text)
	}
	if err := (setting{key, list}).check(); err != nil {
		return axis{}, usagef("--vary %q: %w", text, err)
	}
	a := axis{key: key}
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		from, to, isRange := strings.Cut(part, "..")
		values := []string{part}
		if isRange {
			var err error
			if values, err = spread(from, to); err != nil {
				return axis{}, usagef("--vary %s: %w", text, err)
			}
		}
		if part == "" {
			return axis{}, usagef("--vary %s: an empty value", text)
		}
		a.values = append(a.values, values...)
	}
	if len(a.values) > maxAxis {
		return axis{}, usagef("--vary %s: %d values; at most %d", text, len(a.values), maxAxis)
	}
	return a, nil
}

// defaultSteps is how many values a range has that doesn't say.
const defaultSteps = 10

// spread returns the values of the range from..to, where to may end in ":N" or ":Nlog".
func spread(from, to string) ([]string, error) {
	to, count, counted := strings.Cut(to, ":")
	steps, log := defaultSteps, false
	if counted {
		digits, isLog := strings.CutSuffix(count, "log")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 2 || n > maxAxis {
			return nil, fmt.Errorf("%q is no number of steps: want 2 to %d, with log behind it for equal ratios", count, maxAxis)
		}
		steps, log = n, isLog
	}
	a, err := parseQuantity(from)
	if err != nil {
		return nil, err
	}
	b, err := parseQuantity(to)
	if err != nil {
		return nil, err
	}
	unit, err := commonUnit(a, b)
	if err != nil {
		return nil, err
	}
	if log && (a.n <= 0 || b.n <= 0) {
		return nil, fmt.Errorf("%s..%s: equal ratios need ends above 0", from, to)
	}
	return between(a.n, b.n, steps, log, unit), nil
}

// between returns steps values from a to b, each with three significant digits, without those that then are
// the same as the one before.
func between(a, b float64, steps int, log bool, u unit) []string {
	var values []string
	for i := range steps {
		share := float64(i) / float64(steps-1)
		v := a + (b-a)*share
		if log {
			v = a * math.Pow(b/a, share)
		}
		text := u.format(v)
		if len(values) == 0 || values[len(values)-1] != text {
			values = append(values, text)
		}
	}
	return values
}

// A unit says how a number is written.
type unit int

const (
	anyUnit   unit = iota // of a 0 without one
	countUnit             // a count
	rateUnit
	timeUnit // a duration
)

// A quantity is a number that an experiment file may have: in nanoseconds if it is a timeUnit.
type quantity struct {
	n    float64
	unit unit
}

func parseQuantity(text string) (quantity, error) {
	text = strings.TrimSpace(text)
	if text == "0" {
		return quantity{}, nil
	}
	number, isRate := strings.CutSuffix(text, "/s")
	u := countUnit
	if isRate {
		u = rateUnit
	}
	factor := 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "M": 1e6} {
		if rest, found := strings.CutSuffix(number, suffix); found {
			number, factor = rest, by
		}
	}
	if n, err := strconv.ParseFloat(number, 64); err == nil && n >= 0 && n*factor <= 1e12 {
		return quantity{n * factor, u}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return quantity{float64(d), timeUnit}, nil
	}
	return quantity{}, fmt.Errorf("%q can't be an end of a range: want a count such as 40 or 10k, a rate such as 80k/s, or a duration such as 100us", text)
}

func commonUnit(a, b quantity) (unit, error) {
	switch {
	case a.unit == b.unit && a.unit == anyUnit:
		return countUnit, nil
	case a.unit == b.unit || b.unit == anyUnit:
		return a.unit, nil
	case a.unit == anyUnit || a.unit == countUnit && b.unit == rateUnit:
		return b.unit, nil
	case a.unit == rateUnit && b.unit == countUnit:
		return a.unit, nil
	}
	return 0, fmt.Errorf("the ends of a range have different units")
}

// format writes v with three significant digits.
func (u unit) format(v float64) string {
	if v > 0 {
		scale := math.Pow(10, math.Floor(math.Log10(v))-2)
		if scale > 1 || u == timeUnit && v < 1000 {
			v = math.Round(v/scale) * scale
		}
	}
	if u == timeUnit && v >= 10_000 {
		v = math.Round(v/1000) * 1000 // experiment files have most lengths in whole microseconds
	}
	n := int64(math.Round(v))
	switch u {
	case timeUnit:
		return time.Duration(n).String()
	case rateUnit:
		return strconv.FormatInt(n, 10) + "/s"
	}
	return strconv.FormatInt(n, 10)
}
