package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

// A kind of operation decides how its mark looks, in the order in which marks are stacked.
type kind int

const (
	quick   kind = iota // at most explain.SlowLimit
	slow                // longer
	stalled             // a stall: the kernel reported one meanwhile, or it was held by the load
	cut                 // ended by the trial's end: it took at least that long
	cutStalled
	kinds
)

// look is a kind's symbol and class on the page.
func (k kind) look() (symbol, class, words string) {
	switch k {
	case slow:
		return "m-dot", "slow", "over 1 s"
	case stalled:
		return "m-diamond", "stalled", "a stall"
	case cut:
		return "m-tri", "cut", "cut: at least that"
	case cutStalled:
		return "m-tri", "cut stalled", "a stall, cut: at least that"
	}
	return "m-dot", "quick", ""
}

// kindOf says what s, of trial t, is. The kernel's reports count by when they were read.
func kindOf(s experiment.Sample, t explain.TrialSummary, x TrialExtra) kind {
	stall := held(s.Took, t.Arm.Load.Hold)
	for _, r := range x.Reports {
		stall = stall || s.Took > explain.SlowLimit && isStall(r.Kind) && r.At >= s.Start && r.At <= s.Start.Add(s.Took)
	}
	switch {
	case s.Censored && stall:
		return cutStalled
	case s.Censored:
		return cut
	case stall:
		return stalled
	case s.Took > explain.SlowLimit:
		return slow
	}
	return quick
}

// held reports whether one that took so long was held by a load of that hold, which is one of explain's signs of a stall.
func held(took, hold time.Duration) bool {
	return hold > 0 && took >= explain.MinStall && took.Seconds() >= explain.HoldShare*hold.Seconds()
}

// isStall reports whether k is a stall of RCU's or the lockup that goes with it.
func isStall(k klog.Kind) bool {
	return k == klog.Classic || k == klog.Expedited || k == klog.SoftLockup
}

// A point is one operation of the hold, to be drawn.
type point struct {
	took  time.Duration
	start time.Duration // after the load's begin
	kind  kind
	trial string
}

// points are a's operations of the hold, in the order of trials and start.
func points(a explain.ArmSummary, x Extras) []point {
	var out []point
	for _, t := range a.Trials {
		extra := x.trial(t.ID)
		began := beginOf(t, extra)
		for _, s := range t.Main().Hold {
			out = append(out, point{s.Took, since(began, s.Start), kindOf(s, t, extra), t.ID})
		}
	}
	return out
}

// beginOf is when t's load began, or its first operation where that is not known.
func beginOf(t explain.TrialSummary, x TrialExtra) rcu.Ktime {
	if x.Began != 0 || len(t.Main().Hold) == 0 {
		return x.Began
	}
	return t.Main().Hold[0].Start
}

// lengthScale is the axis of all lengths of r's holds; it always has SlowLimit on it.
func lengthScale(r Run) scale {
	lo, hi := explain.SlowLimit, explain.SlowLimit
	for _, a := range r.Arms {
		for _, v := range a.Hold.Values {
			lo, hi = min(lo, v.D), max(hi, v.D)
		}
	}
	return timeScale(lo, hi)
}

const (
	stripBins  = 130 // places along a strip at which marks are stacked
	stripStack = 18  // marks that a stack has at most
	dotPitch   = 5   // pixels from mark to mark in a stack
	bigPitch   = 8   // the same of marks that are no dots
)

// A lane is a labelled row of a figure.
type lane struct {
	Name  string
	Notes []string
	Plot  template.HTML
}

// A strip is the figure of all lengths.
type strip struct {
	Lanes []lane
	Axis  template.HTML
	// PerMark is how many operations of one place a mark stands for at most; 1: every operation has its own.
	PerMark int
	N       int
}

// newStrip draws each arm's operations as stacks of marks along the axis sc. Where a stack would get too high, a mark stands for
// several of the same kind and place; a place with one has a mark, so that none is lost.
func newStrip(r Run, x Extras, sc scale) strip {
	s := strip{PerMark: 1}
	bins := make([]map[int][kinds]int, len(r.Arms))
	tallest := 0
	for i, a := range r.Arms {
		bins[i] = map[int][kinds]int{}
		for _, p := range points(a, x) {
			bin := min(stripBins-1, int(sc.at(p.took.Seconds())*stripBins))
			counts := bins[i][bin]
			counts[p.kind]++
			bins[i][bin] = counts
			s.N++
			n := 0
			for _, c := range counts {
				n += c
			}
			tallest = max(tallest, n)
		}
	}
	s.PerMark = max(1, int(math.Ceil(float64(tallest)/stripStack)))
	for i, a := range r.Arms {
		s.Lanes = append(s.Lanes, lane{Name: clean(a.Arm.Name), Notes: laneNotes(r, a), Plot: stripLane(r, a, bins[i], s.PerMark, sc)})
	}
	axis := newSVG(22, "axis: time that one took, logarithmic")
	axis.axis(sc.ticks(), 0, 4)
	s.Axis = axis.html()
	return s
}

func laneNotes(r Run, a explain.ArmSummary) []string {
	if len(a.Trials) == 0 {
		return []string{"not run"}
	}
	noun := "sample"
	if r.noun() == "deletes" {
		noun = "delete"
	}
	return []string{plural(len(a.Hold.Values), noun), overCell(a) + " over 1 s, worst " + worstCell(a.Hold)}
}

// stripLane draws one arm's stacks.
func stripLane(r Run, a explain.ArmSummary, bins map[int][kinds]int, per int, sc scale) template.HTML {
	height := 30.0
	for _, counts := range bins {
		h := 12.0
		for k, n := range counts {
			h += float64(marksFor(n, per)) * pitch(kind(k))
		}
		height = math.Max(height, h)
	}
	label := fmt.Sprintf("%s: %s", clean(a.Arm.Name), strings.Join(laneNotes(r, a), ", "))
	s := newSVG(height, label)
	for _, t := range sc.ticks() {
		s.vline("grid", t.at, 0, height)
	}
	s.vline("limit", sc.at(explain.SlowLimit.Seconds()), 0, height)
	s.hline("base", 0, 1, height-1)
	var dots strings.Builder
	n := 0
	for bin := range stripBins {
		counts, x, y := bins[bin], (float64(bin)+0.5)/stripBins, height-6
		for k, c := range counts {
			for left := c; left > 0; left -= per {
				if kind(k) == quick {
					fmt.Fprintf(&dots, "M%s %sh0", coord(stretch*x), coord(y))
				} else {
					symbol, class, words := kind(k).look()
					s.mark(symbol, class, x, y, markTitle(min(left, per), words, sc, bin))
				}
				y -= pitch(kind(k))
			}
			if kind(k) == quick {
				n += c
			}
		}
	}
	s.path("dots quick", height, dots.String(), n)
	return s.html()
}

func pitch(k kind) float64 {
	if k == quick {
		return dotPitch
	}
	return bigPitch
}

func marksFor(n, per int) int { return (n + per - 1) / per }

// markTitle says what one mark stands for: its number, kind, and where along the axis.
func markTitle(n int, words string, sc scale, bin int) string {
	share := ((float64(bin)+0.5)/stripBins - axisRoom) / (1 - 2*axisRoom)
	v := math.Pow(10, sc.lo+share*(sc.hi-sc.lo))
	return fmt.Sprintf("%d × about %s: %s", n, explain.FormatDuration(time.Duration(v*float64(time.Second))), words)
}
