package report

import (
	"fmt"
	"html/template"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/stats"
)

// doneBy is the share of what survival tells of that took at most d.
func doneBy(survival stats.Survival, d time.Duration) float64 {
	i := sort.Search(len(survival), func(i int) bool { return survival[i].D > d })
	if i == 0 {
		return 0
	}
	return 1 - survival[i-1].S
}

const (
	cdfHeight  = 260 // of the drawing
	cdfTop     = 14
	cdfBottom  = 228
	armStyles  = 8  // lines that the style sheet tells apart
	maxCutTick = 60 // of cut values on one line; the page and docs/html.md name it
)

// A cdf is the figure of all distribution functions.
type cdf struct {
	Plot   template.HTML
	Legend []legendItem
	Cut    bool     // some value was cut
	NoTick int      // values that were cut and have no tick
	Empty  []string // arms without a value
}

// A legendItem explains one line.
type legendItem struct {
	Class string
	Name  string
}

func newCDF(r Run, sc scale) cdf {
	var c cdf
	var names []string
	s := &svg{}
	body := &svg{}
	for i, a := range r.Arms {
		if len(a.Hold.Values) == 0 {
			c.Empty = append(c.Empty, clean(a.Arm.Name))
			continue
		}
		class := fmt.Sprintf("a%d", i%armStyles)
		survival := stats.KaplanMeier(a.Hold.Values)
		body.path("curve "+class, cdfHeight, stepPath(survival, a.Hold.Summary, sc), 1)
		ticks := 0
		for _, v := range a.Hold.Values {
			if !v.Censored {
				continue
			}
			c.Cut = true
			if ticks++; ticks > maxCutTick {
				c.NoTick++
				continue
			}
			y := cdfY(doneBy(survival, v.D))
			body.vline("curve "+class, sc.at(v.D.Seconds()), y-5, y+5)
		}
		c.Legend = append(c.Legend, legendItem{class, fmt.Sprintf("%s (n = %d)", clean(a.Arm.Name), len(a.Hold.Values))})
		names = append(names, clean(a.Arm.Name))
	}
	if len(names) == 0 {
		return c
	}
	s = newSVG(cdfHeight, "distribution of the time that one took, by arm: "+strings.Join(names, ", ")+"; medians are in the table")
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		s.hline("grid", 0, 1, cdfY(share))
		s.text("tick inside", 0, cdfY(share)-3, fmt.Sprintf("%.0f %%", 100*share))
	}
	s.axis(sc.ticks(), cdfTop, cdfBottom+6)
	s.vline("limit", sc.at(1), cdfTop, cdfBottom)
	s.b.WriteString(body.b.String())
	c.Plot = s.html()
	return c
}

func cdfY(share float64) float64 { return cdfBottom - share*(cdfBottom-cdfTop) }

// stepPath draws a curve from the left edge on. Steps within one unit of the axis are drawn as one, which no screen can tell.
// A curve that comes to 100 % goes on to the right edge, any other ends with the longest value, which was cut.
func stepPath(survival stats.Survival, sum stats.Summary, sc scale) string {
	var d strings.Builder
	lastY := coord(cdfY(0))
	fmt.Fprintf(&d, "M0 %s", lastY)
	for i, st := range survival {
		x := math.Round(stretch * sc.at(st.D.Seconds()))
		if i+1 < len(survival) && math.Round(stretch*sc.at(survival[i+1].D.Seconds())) == x {
			continue
		}
		if y := coord(cdfY(1 - st.S)); y != lastY {
			fmt.Fprintf(&d, "H%sV%s", coord(x), y)
			lastY = y
		}
	}
	end := float64(stretch)
	if n := len(survival); n == 0 || survival[n-1].S > 0 {
		end = stretch * sc.at(sum.Worst.Seconds())
	}
	fmt.Fprintf(&d, "H%s", coord(end))
	return d.String()
}
