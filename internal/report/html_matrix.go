package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

// A heatBound is the longest length that a shade is for.
type heatBound struct {
	most  time.Duration
	words string
}

// heatBounds are the shades of a heat map, two to a decade, but for the last, which is for whatever is longer.
func heatBounds() []heatBound {
	return []heatBound{{30 * time.Millisecond, "30 ms"}, {100 * time.Millisecond, "0.1 s"}, {300 * time.Millisecond, "0.3 s"},
		{time.Second, "1 s"}, {3 * time.Second, "3 s"}, {10 * time.Second, "10 s"}}
}

// A heatCell is what one kind of arm came to under one preemption model.
type heatCell struct {
	Arms  string // their names; empty: no such arm
	Worst string
	Over  string
	Shade string // a class
	Stall string // the strongest evidence of one
	Band  string
}

// A heatRow is one kind of arm.
type heatRow struct {
	Name  string
	Cells []heatCell
}

// A heatMap holds kinds of arms against preemption models.
type heatMap struct {
	Models []string
	Rows   []heatRow
	Scale  []heatCell // the shades with what they stand for
}

// newHeatMap returns nothing unless some kind of arm was run under two models. Arms are of one kind when their names differ by
// the model's name alone; those that are called by their model are of the kind of their kernel.
func newHeatMap(r Run) *heatMap {
	arms := map[[2]string][]explain.ArmSummary{}
	var rows, models []string
	for _, a := range r.Arms {
		if len(a.Trials) == 0 || a.Facts.Preempt == "" {
			continue
		}
		key := [2]string{armKind(a), explain.Model(a.Facts)}
		arms[key] = append(arms[key], a)
		rows, models = add(rows, key[0]), add(models, key[1])
	}
	crossed := slices.ContainsFunc(rows, func(row string) bool {
		n := 0
		for _, m := range models {
			if len(arms[[2]string{row, m}]) > 0 {
				n++
			}
		}
		return n > 1
	})
	if !crossed {
		return nil
	}
	slices.SortStableFunc(models, func(a, b string) int { return modelRank(a) - modelRank(b) })
	h := &heatMap{Models: models}
	for _, row := range rows {
		hr := heatRow{Name: clean(row)}
		for _, m := range models {
			hr.Cells = append(hr.Cells, newHeatCell(arms[[2]string{row, m}]))
		}
		h.Rows = append(h.Rows, hr)
	}
	for i := range len(heatBounds()) + 1 {
		h.Scale = append(h.Scale, heatCell{Shade: fmt.Sprintf("h%d", i), Worst: heatWords(i)})
	}
	return h
}

// armKind is a's name without the name of a model.
func armKind(a explain.ArmSummary) string {
	words := strings.FieldsFunc(a.Arm.Name, func(c rune) bool { return strings.ContainsRune("-_/., ", c) })
	words = slices.DeleteFunc(words, func(w string) bool {
		_, err := rcu.ParsePreemption(strings.ToLower(w))
		return err == nil
	})
	if len(words) == 0 {
		return a.KernelName()
	}
	return strings.Join(words, "-")
}

func modelRank(m string) int {
	m, _, _ = strings.Cut(m, " ")
	return slices.Index([]rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy, rcu.RT}, rcu.Preemption(strings.ToLower(m)))
}

// newHeatCell sums up arms, mostly one; of several it is the one with the longest operation that counts, and the strongest
// evidence of a stall in any.
func newHeatCell(arms []explain.ArmSummary) heatCell {
	if len(arms) == 0 {
		return heatCell{}
	}
	var names []string
	var all explain.ArmSummary
	worst := arms[0]
	for _, a := range arms {
		names = append(names, clean(a.Arm.Name))
		all.Trials = append(all.Trials, a.Trials...)
		if a.Hold.Summary.Worst > worst.Hold.Summary.Worst {
			worst = a
		}
	}
	c := heatCell{Arms: strings.Join(names, ", "), Worst: worstCell(worst.Hold), Over: overCell(worst), Stall: string(all.StallEvidence()),
		Band: bandCell(worst.Band), Shade: "none"}
	if d, _, ok := worst.Hold.Worst(); ok {
		c.Shade = fmt.Sprintf("h%d", heatStep(d))
		c.Over += fmt.Sprintf(" of %d", len(worst.Hold.Values))
	}
	return c
}

// heatStep is the shade of d.
func heatStep(d time.Duration) int {
	bounds := heatBounds()
	if i := slices.IndexFunc(bounds, func(b heatBound) bool { return d <= b.most }); i >= 0 {
		return i
	}
	return len(bounds)
}

func heatWords(i int) string {
	bounds := heatBounds()
	if i == len(bounds) {
		return "over " + bounds[i-1].words
	}
	return "to " + bounds[i].words
}
