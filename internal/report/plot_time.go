package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

const (
	timeHeight  = 150 // of the drawing of lengths
	timeTop     = 16
	timeBottom  = 146
	rateHeight  = 34  // of the drawing of one rate
	bandHeight  = 12  // of the ribbon
	maxPanels   = 24  // trials that are drawn
	cellsAcross = 500 // places along a panel in which what falls together is drawn once
	cellPixels  = 2   // height of such a place
)

// A panel is one trial over time.
type panel struct {
	Arm, Trial string
	Open       bool // the first of its arm
	Lanes      []lane
	Axis       template.HTML
	Missing    string // why there is none
	Drawn, N   int    // operations that have a mark of their own, and all
}

// A timeline is the figure of lengths over time.
type timeline struct {
	Panels  []panel
	Omitted []string // trials that are not drawn
}

// newTimeline draws the trials of r, the first of each arm before all second ones where there are too many.
func newTimeline(r Run, x Extras, sc scale) timeline {
	var tl timeline
	rounds := 0
	for _, a := range r.Arms {
		rounds = max(rounds, len(a.Trials))
	}
	chosen := map[string]bool{}
	for round := range rounds {
		for _, a := range r.Arms {
			if round < len(a.Trials) {
				if len(chosen) < maxPanels {
					chosen[a.Trials[round].ID] = true
				} else {
					tl.Omitted = append(tl.Omitted, clean(a.Trials[round].ID))
				}
			}
		}
	}
	top := ratesTop(r, x)
	for _, a := range r.Arms {
		for i, t := range a.Trials {
			if chosen[t.ID] {
				p := newPanel(t, x.trial(t.ID), sc, top)
				p.Open = i == 0
				tl.Panels = append(tl.Panels, p)
			}
		}
	}
	return tl
}

// A rateOf is one of the rates that tell the band.
type rateOf struct {
	name  string
	value func(Second) (float64, bool) // and whether it was counted
}

func rates() []rateOf {
	per := func(n uint64, s Second) float64 { return float64(n) / s.Took.Seconds() }
	return []rateOf{
		{"polls/s", func(s Second) (float64, bool) { return per(s.Polls, s), true }},
		{"sleeps/s", func(s Second) (float64, bool) { return per(s.Sleeps, s), true }},
		{"full-budget polls/s", func(s Second) (float64, bool) { return per(s.Full, s), s.Traced }},
	}
}

// ratesOf are the rates that t can have: without a NAPI thread there is nothing to sleep, and no band for whole budgets to be above of.
func ratesOf(t explain.TrialSummary) []rateOf {
	if !t.Arm.Threaded {
		return rates()[:1]
	}
	return rates()
}

// ratesTop is the largest rate of the run: all rates of all trials are drawn on one scale.
func ratesTop(r Run, x Extras) float64 {
	top := 10.0
	for _, a := range r.Arms {
		for _, t := range a.Trials {
			for _, s := range x.trial(t.ID).Seconds {
				for _, rt := range rates() {
					if v, ok := rt.value(s); ok {
						top = math.Max(top, v)
					}
				}
			}
		}
	}
	return top
}

func newPanel(t explain.TrialSummary, x TrialExtra, sc scale, top float64) panel {
	p := panel{Arm: clean(t.Arm.Name), Trial: clean(t.ID)}
	began := beginOf(t, x)
	end := t.Arm.Duration.Seconds()
	main := t.Main()
	for _, list := range [][]experiment.Sample{main.Hold, main.Tail} {
		for _, s := range list {
			end = math.Max(end, since(began, s.Start.Add(s.Took)).Seconds())
		}
	}
	if began == 0 {
		p.Missing = "nothing was timed, and when the load began is not known"
		return p
	}
	ts := scale{lo: 0, hi: math.Max(1, end)}
	p.Lanes = append(p.Lanes, p.lengths(t, x, ts, sc))
	if len(x.Seconds) > 0 {
		for _, rt := range ratesOf(t) {
			p.Lanes = append(p.Lanes, rateLane(t, x, rt, ts, top))
		}
		if t.Band.Band != explain.NoBand {
			p.Lanes = append(p.Lanes, bandLane(t, x, ts))
		}
	}
	axis := newSVG(22, "axis: seconds since the load began")
	ticks := ts.ticks()
	for i := range ticks {
		ticks[i].label += " s"
	}
	axis.axis(ticks, 0, 4)
	p.Axis = axis.html()
	return p
}

// lengths draws each operation as a bar from its start to its end, at the height of what it took.
func (p *panel) lengths(t explain.TrialSummary, x TrialExtra, ts, sc scale) lane {
	began, main := beginOf(t, x), t.Main()
	p.N = len(main.Hold) + len(main.Tail)
	s := newSVG(timeHeight, fmt.Sprintf("trial %s: length over time of %d operations", clean(t.ID), p.N))
	if over := holdEnd(t, x); over > 0 {
		s.rect("after", ts.at(over), 1, 0, timeHeight, "")
		s.vline("ended", ts.at(over), 0, timeHeight)
	}
	y := func(seconds float64) float64 { return timeBottom - sc.at(seconds)*(timeBottom-timeTop) }
	for _, tk := range sc.ticks() {
		at := timeBottom - tk.at*(timeBottom-timeTop)
		s.hline("grid", 0, 1, at)
		s.text("tick inside", 0, at-2, tk.label)
	}
	s.hline("limit", 0, 1, y(explain.SlowLimit.Seconds()))
	for _, r := range x.Reports {
		s.vline("report", ts.at(since(began, r.At).Seconds()), 0, timeHeight)
	}
	var bars [kinds]strings.Builder
	var count [kinds]int
	seen := map[[3]int]bool{}
	for i, one := range append(append([]experiment.Sample{}, main.Hold...), main.Tail...) {
		k := kindOf(one, t, x)
		if i >= len(main.Hold) && k == stalled {
			k = slow // after the hold nothing holds
		}
		x0, x1 := ts.at(since(began, one.Start).Seconds()), ts.at(since(began, one.Start.Add(one.Took)).Seconds())
		at := y(one.Took.Seconds())
		cell := [3]int{int(k), int(x0 * cellsAcross), int(at / cellPixels)}
		count[k]++
		if (k == quick || k == slow) && seen[cell] {
			continue
		}
		seen[cell] = true
		p.Drawn++
		fmt.Fprintf(&bars[k], "M%s %sH%s", coord(stretch*x0), coord(at), coord(stretch*x1))
	}
	for k := range kinds {
		_, class, _ := k.look()
		s.path("bars "+class, timeHeight, bars[k].String(), count[k])
	}
	for _, one := range main.Hold {
		if k := kindOf(one, t, x); k == cut || k == cutStalled {
			symbol, class, words := k.look()
			s.mark(symbol, class, ts.at(since(began, one.Start.Add(one.Took)).Seconds()), y(one.Took.Seconds()), words)
		}
	}
	notes := []string{fmt.Sprintf("%d in the hold, %d after", len(main.Hold), len(main.Tail))}
	return lane{Name: "time taken", Notes: notes, Plot: s.html()}
}

// holdEnd is when t's load ended, in seconds after its begin; 0 where there was none.
func holdEnd(t explain.TrialSummary, x TrialExtra) float64 {
	switch {
	case x.Ended > x.Began && x.Began != 0:
		return since(x.Began, x.Ended).Seconds()
	case t.Arm.Load.Kind != experiment.NoLoad:
		return t.Arm.Load.Hold.Seconds()
	}
	return 0
}

// rateLane draws one rate, a bar for each second, on a logarithmic scale from 0 (1 for 0, so that 0 has no height).
func rateLane(t explain.TrialSummary, x TrialExtra, rt rateOf, ts scale, top float64) lane {
	l := lane{Name: rt.name}
	var d strings.Builder
	n, sum, took := 0, 0.0, 0.0
	for _, s := range x.Seconds {
		v, ok := rt.value(s)
		if !ok {
			continue
		}
		n++
		sum, took = sum+v*s.Took.Seconds(), took+s.Took.Seconds()
		x0, x1 := secondSpan(x, s, ts)
		y := rateHeight * (1 - 0.94*math.Log10(1+v)/math.Log10(1+top))
		fmt.Fprintf(&d, "M%s %dV%sH%sV%[2]dz", coord(stretch*x0), rateHeight, coord(math.Min(y, rateHeight-1)), coord(stretch*x1))
	}
	l.Notes = []string{"not counted"}
	if n > 0 {
		l.Notes = []string{"mean " + rate(sum/took)}
	}
	s := newSVG(rateHeight, fmt.Sprintf("trial %s: %s in each second, %s", clean(t.ID), rt.name, l.Notes[0]))
	s.hline("base", 0, 1, rateHeight-0.5)
	s.path("rate", rateHeight, d.String(), n)
	l.Plot = s.html()
	return l
}

func secondSpan(x TrialExtra, s Second, ts scale) (x0, x1 float64) {
	return ts.at(since(x.Began, s.From).Seconds()), ts.at(since(x.Began, s.From.Add(s.Took)).Seconds())
}

// bandLane draws a ribbon that says of each second whether it was in the band.
func bandLane(t explain.TrialSummary, x TrialExtra, ts scale) lane {
	b := t.Band
	l := lane{Name: "band", Notes: []string{orUnknown(bandCell(b.Band))}}
	if n := b.Seconds(); n > 0 {
		l.Notes = []string{fmt.Sprintf("%s; %d of %d s in it", bandCell(b.Band), b.In, n)}
	}
	s := newSVG(bandHeight, fmt.Sprintf("trial %s: band of each second, %s", clean(t.ID), l.Notes[0]))
	s.hline("base", 0, 1, bandHeight-0.5)
	for _, sec := range x.Seconds {
		j := explain.JudgeBand(t.Arm, t.Facts, []explain.Window{sec.Window})
		if j.Seconds() == 0 {
			continue
		}
		x0, x1 := secondSpan(x, sec, ts)
		s.rect("mark band-"+string(j.Band), x0, x1, 0, bandHeight, fmt.Sprintf("%s the band at %.0f s", bandWord(j.Band), since(x.Began, sec.From).Seconds()))
	}
	l.Plot = s.html()
	return l
}

func bandWord(b explain.Band) string {
	if b == explain.In {
		return "in"
	}
	return string(b)
}
