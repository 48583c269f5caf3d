package stats

import (
	"math"
	"testing"
	"time"
)

// The survival of acute myelogenous leukaemia with and without maintenance (Miller 1981; the data set aml of R's
// package survival): weeks, negative where the patient was still in remission.
func maintained() []Value { return weeks(9, 13, -13, 18, 23, -28, 31, 34, -45, 48, -161) }
func nonmaintained() []Value {
	return weeks(5, 5, 8, 8, 12, -16, 23, 27, 30, 33, 43, 45)
}

func weeks(list ...int) []Value {
	var values []Value
	for i, w := range list {
		values = append(values, Value{D: time.Duration(max(w, -w)) * time.Second, Censored: w < 0, Trial: i})
	}
	return values
}

// Expected values: R 4.2.2, survival 3.5.3, summary(survfit(Surv(time,status)~x, aml, conf.type="log-log")).
func TestKaplanMeier(t *testing.T) {
	want := []Step{
		{D: 9, AtRisk: 11, S: 0.909091, Lo: 0.5080802, Hi: 0.986674}, {D: 13, AtRisk: 10, S: 0.818182, Lo: 0.4474286, Hi: 0.951162},
		{D: 18, AtRisk: 8, S: 0.715909, Lo: 0.3501904, Hi: 0.899024}, {D: 23, AtRisk: 7, S: 0.613636, Lo: 0.2657520, Hi: 0.835299},
		{D: 31, AtRisk: 5, S: 0.490909, Lo: 0.1673309, Hi: 0.753400}, {D: 34, AtRisk: 4, S: 0.368182, Lo: 0.0928296, Hi: 0.657041},
		{D: 48, AtRisk: 2, S: 0.184091, Lo: 0.0117385, Hi: 0.525015},
	}
	got := KaplanMeier(maintained())
	if len(got) != len(want) {
		t.Fatalf("%d steps; want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		if g.D != w.D*time.Second || g.AtRisk != w.AtRisk || g.Ends != 1 || math.Abs(g.S-w.S) > 1e-6 || math.Abs(g.Lo-w.Lo) > 1e-6 || math.Abs(g.Hi-w.Hi) > 1e-6 {
			t.Errorf("step %d = %+v; want %+v", i, g, w)
		}
	}
	last := KaplanMeier(nonmaintained())[8]
	if last.S != 0 || !math.IsNaN(last.Lo) || !math.IsNaN(last.Hi) {
		t.Errorf("where none is left = %+v; want 0 without an interval", last)
	}
}

// Expected values: R 4.2.2, survival 3.5.3, print(survfit(…, conf.type="log-log")): 31 (13, NA) and 23 (5, 33).
func TestKaplanMeierMedian(t *testing.T) {
	tests := []struct {
		name           string
		values         []Value
		median, lo, hi Bound
	}{
		{"maintained", maintained(), Bound{D: 31e9}, Bound{D: 13e9}, Bound{D: 48e9, Open: 1}},
		{"nonmaintained", nonmaintained(), Bound{D: 23e9}, Bound{D: 5e9}, Bound{D: 33e9}},
		{"exactly one half", apart(1, 2, 3, 4), Bound{D: 2500 * time.Millisecond}, Bound{D: 1e9}, Bound{D: 4e9, Open: 1}},
		{"one", apart(1), Bound{D: 1e9}, Bound{D: 1e9, Open: 1}, Bound{D: 1e9, Open: 1}},
		{"all cut", weeks(-1, -2), Bound{Open: 1, NoValue: true}, Bound{Open: 1, NoValue: true}, Bound{Open: 1, NoValue: true}},
		{"none", nil, Bound{Open: 1, NoValue: true}, Bound{Open: 1, NoValue: true}, Bound{Open: 1, NoValue: true}},
		{"extremes", []Value{{D: 0}, {D: maxLength}, {D: maxLength}}, Bound{D: maxLength}, Bound{D: 0}, Bound{D: maxLength, Open: 1}},
	}
	for _, tt := range tests {
		median, lo, hi := KaplanMeier(tt.values).Median()
		if median != tt.median || lo != tt.lo || hi != tt.hi {
			t.Errorf("%s: Median = %+v, %+v, %+v; want %+v, %+v, %+v", tt.name, median, lo, hi, tt.median, tt.lo, tt.hi)
		}
	}
}

// Expected value: R 4.2.2, survival 3.5.3, survdiff(Surv(time,status)~x, aml): chi-squared 3.396388699, p 0.06533932204.
func TestLogRank(t *testing.T) {
	c := LogRank(maintained(), nonmaintained())
	if !c.HasP || math.Abs(c.P-0.06533932204) > 1e-9 || len(c.Caveats) > 0 {
		t.Errorf("LogRank = %+v; want p 0.0653393", c)
	}
	if d := LogRank(nonmaintained(), maintained()); math.Abs(d.P-c.P) > 1e-12 {
		t.Errorf("the other way round = %v; want %v", d.P, c.P)
	}
	for name, pair := range map[string][2][]Value{
		"too few":     {weeks(1, 2, 3), weeks(1, 2, 3, 4, 5)},
		"nothing":     {nil, nil},
		"all cut":     {weeks(-1, -2, -3, -4), weeks(-1, -2, -3, -4)},
		"cut at once": {weeks(-1, -1, -1, -1), weeks(2, 3, 4, 5)},
	} {
		if c := LogRank(pair[0], pair[1]); c.HasP || c.Words == "" {
			t.Errorf("%s: %+v; want words only", name, c)
		}
	}
	one := weeks(1, 2, 3, 4, 5)
	one[0].Trial = one[1].Trial
	if c := LogRank(one, nonmaintained()); len(c.Caveats) != 1 {
		t.Errorf("of values of one trial: caveats %q; want one", c.Caveats)
	}
}
