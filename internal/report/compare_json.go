package report

import (
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"io"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/stats"
)

// CompareFormat names the document that CompareJSON writes, as JSONFormat does that of JSON.
const CompareFormat = "napistall/compare/1"

//go:embed schema/compare.json
var compareSchema string

// CompareSchema returns the JSON Schema, draft 2020-12, of what CompareJSON writes.
func CompareSchema() string { return compareSchema }

type jsonComparisons struct {
	Format     string          `json:"format"`
	Runs       []jsonRun       `json:"runs"`
	Arms       []jsonFigures   `json:"arms"`
	Pairs      []jsonPair      `json:"pairs"`
	Tests      int             `json:"tests"` // that p of the pairs is corrected for
	Thresholds []jsonThreshold `json:"thresholds"`
	Unmatched  []string        `json:"unmatched"`
}

type jsonRun struct {
	Number     int      `json:"number"`
	Path       string   `json:"path"`
	Experiment string   `json:"experiment"`
	Backend    string   `json:"backend"`
	Version    string   `json:"napistall,omitempty"`
	Created    string   `json:"created,omitempty"` // RFC 3339
	Planned    int      `json:"trials_planned"`
	Done       int      `json:"trials_done"`
	Ended      bool     `json:"ended"`
	LeftOut    []string `json:"left_out"`
}

// jsonBound is a length, or a difference of two, in nanoseconds; open means at least or at most that.
type jsonBound struct {
	NS   int64  `json:"ns"`
	Open string `json:"open,omitempty"` // at least, at most
}

// jsonInterval has an end left out where nothing bounds it.
type jsonInterval struct {
	From *jsonBound `json:"from,omitempty"`
	To   *jsonBound `json:"to,omitempty"`
}

type jsonEstimate struct {
	Value    *jsonBound    `json:"value,omitempty"`
	ValueTo  *jsonBound    `json:"value_to,omitempty"` // the estimate is between value and this, where cut values leave it open
	Interval *jsonInterval `json:"interval,omitempty"` // at 95 %
	Method   string        `json:"method,omitempty"`
}

type jsonOver struct {
	K         int       `json:"k"`
	N         int       `json:"n"`
	Undecided int       `json:"undecided"`     // cut before 1 s: not in n
	Interval  []float64 `json:"interval"`      // exact, at 95 %
	Effect    float64   `json:"design_effect"` // that the interval allows for
}

type jsonFigures struct {
	Label    string        `json:"label"`
	Run      int           `json:"run"`
	Trials   int           `json:"trials"`
	N        int           `json:"n"`
	Cut      int           `json:"cut"` // by the end of their trial
	Median   *jsonEstimate `json:"median,omitempty"`
	P95      *jsonEstimate `json:"p95,omitempty"`
	Worst    *jsonBound    `json:"worst,omitempty"`
	Over     jsonOver      `json:"over_1s"`
	Warnings []string      `json:"warnings"`
}

type jsonDifference struct {
	D        float64   `json:"d"` // share of a minus share of b
	Interval []float64 `json:"interval"`
	Method   string    `json:"method"`
}

type jsonPair struct {
	A        string          `json:"a"`
	B        string          `json:"b"`
	Outcome  explain.Outcome `json:"outcome"` // differs, no difference found, not decided
	P        *float64        `json:"p,omitempty"`
	Sentence string          `json:"sentence"`
	Enough   string          `json:"enough,omitempty"`
	Share    *jsonDifference `json:"share_over_1s,omitempty"`
	Shift    *jsonEstimate   `json:"shift,omitempty"`
	ShiftOf  string          `json:"shift_of,omitempty"` // medians of trials, all lengths
	ByTrial  jsonByTrial     `json:"by_trial"`
	BySample jsonBySample    `json:"by_sample"`
	Warnings []string        `json:"warnings"`
}

// jsonByTrial are tests on one value of each trial, not corrected for their number.
type jsonByTrial struct {
	Medians jsonTest `json:"medians"`
	Longest jsonTest `json:"longest"`
}

// jsonBySample take the samples of a trial for independent.
type jsonBySample struct {
	Ranks   jsonTest `json:"ranks"`
	LogRank jsonTest `json:"log_rank"`
}

type jsonThreshold struct {
	Text   string `json:"text"`
	Status string `json:"status"` // kept, not kept, undecided
	Got    string `json:"got"`
	Enough string `json:"enough,omitempty"`
}

// CompareJSON writes c as one document of CompareFormat.
func CompareJSON(w io.Writer, c Comparison) error {
	text, err := json.MarshalIndent(newComparisons(c), "", " ")
	if err != nil {
		return fmt.Errorf("encode comparison: %w", err)
	}
	if _, err := w.Write(append(printable(text), '\n')); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func newComparisons(c Comparison) jsonComparisons {
	d := jsonComparisons{Format: CompareFormat, Runs: []jsonRun{}, Arms: []jsonFigures{}, Pairs: []jsonPair{}, Tests: c.Tests,
		Thresholds: []jsonThreshold{}, Unmatched: list(c.Unmatched)}
	for _, r := range c.Runs {
		j := jsonRun{Number: r.Number, Path: r.Path, Experiment: r.Experiment, Backend: r.Backend, Version: r.Version, Planned: r.Planned, Done: r.Done,
			Ended: r.Ended, LeftOut: list(r.LeftOut)}
		if !r.Created.IsZero() {
			j.Created = r.Created.UTC().Format("2006-01-02T15:04:05Z")
		}
		d.Runs = append(d.Runs, j)
	}
	for i, f := range c.Arms {
		d.Arms = append(d.Arms, newJSONFigures(f, c.Comparisons.Warnings[i]))
	}
	for _, p := range c.Pairs {
		d.Pairs = append(d.Pairs, newJSONPair(p))
	}
	for _, k := range c.Kept {
		status := map[explain.Status]string{explain.Met: "kept", explain.NotMet: "not kept", explain.Unknown: "undecided"}[k.Status]
		d.Thresholds = append(d.Thresholds, jsonThreshold{k.Threshold.Text, status, k.Got, k.Enough})
	}
	return d
}

func newJSONFigures(f explain.Figures, warnings []string) jsonFigures {
	j := jsonFigures{Label: f.Label, Run: f.Run, Trials: f.Trials, N: f.N, Cut: f.Cut, Warnings: list(warnings),
		Over: jsonOver{K: f.Over.K, N: f.Over.N, Undecided: f.Undecided, Interval: []float64{f.OverLo, f.OverHi}, Effect: f.Effect}}
	if f.N == 0 {
		return j
	}
	j.Worst = newJSONBound(f.Worst)
	j.Median = &jsonEstimate{Value: newJSONBound(f.Median), Method: f.MedianBy}
	if f.HasInterval {
		j.Median.Interval = newJSONInterval(f.MedianLo, f.MedianHi)
	}
	j.P95 = &jsonEstimate{Value: newJSONBound(f.P95.At), Interval: newJSONInterval(f.P95.From, f.P95.To), Method: explain.ByOrder}
	return j
}

func newJSONPair(p explain.Pair) jsonPair {
	j := jsonPair{A: p.A, B: p.B, Outcome: p.Outcome, Sentence: p.Sentence, Enough: p.Enough, Warnings: list(p.Warnings),
		ByTrial: jsonByTrial{newJSONTest(p.Medians), newJSONTest(p.Longest)}, BySample: jsonBySample{newJSONTest(p.Lengths), newJSONTest(p.LogRank)}}
	if p.HasP {
		j.P = number(p.P)
	}
	if p.Share.Method != "" {
		j.Share = &jsonDifference{p.Share.D, []float64{p.Share.Lo, p.Share.Hi}, p.Share.Method}
	}
	if p.Shift.Lo.NoValue || p.Shift == (stats.Shift{}) {
		return j
	}
	j.Shift, j.ShiftOf = &jsonEstimate{Value: newJSONBound(p.Shift.Lo), Method: "Hodges–Lehmann"}, "all lengths"
	if p.Shift.Hi != p.Shift.Lo {
		j.Shift.ValueTo = newJSONBound(p.Shift.Hi)
	}
	if p.Shift.HasInterval {
		j.Shift.Interval = newJSONInterval(p.Shift.From, p.Shift.To)
	}
	if p.Trials {
		j.ShiftOf = "medians of trials"
	}
	return j
}

func newJSONInterval(from, to stats.Bound) *jsonInterval {
	return &jsonInterval{From: newJSONBound(from), To: newJSONBound(to)}
}

func newJSONBound(b stats.Bound) *jsonBound {
	if b.NoValue {
		return nil
	}
	return &jsonBound{NS: int64(b.D), Open: map[int]string{1: "at least", -1: "at most"}[b.Open]}
}
