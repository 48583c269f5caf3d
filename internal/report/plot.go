package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// A scale maps values onto 0…1 of an axis's length, with room at both ends for marks.
type scale struct {
	lo, hi float64
	log    bool
}

const (
	// axisRoom is what a scale leaves free at each end, as a share of the axis.
	axisRoom = 0.02
	// shortest is the least length that a logarithmic axis of times shows: a shorter one is drawn at it.
	shortest = time.Microsecond
)

// timeScale is a logarithmic axis, in seconds, that takes in lo to hi and at least a decade.
func timeScale(lo, hi time.Duration) scale {
	lo, hi = max(lo, shortest), max(hi, shortest)
	from, to := math.Log10(lo.Seconds()), math.Log10(hi.Seconds())
	if to-from < 1 {
		from, to = math.Floor(from), math.Ceil(to)
	}
	if to-from < 1 {
		to = from + 1
	}
	return scale{lo: from, hi: to, log: true}
}

// at is where v lies, 0…1; what is outside of the scale lies at its end.
func (s scale) at(v float64) float64 {
	if s.log {
		v = math.Log10(math.Max(v, shortest.Seconds()))
	}
	share := 0.0
	if s.hi > s.lo && !math.IsNaN(v) {
		share = math.Min(1, math.Max(0, (v-s.lo)/(s.hi-s.lo)))
	}
	return axisRoom + (1-2*axisRoom)*share
}

// A tick is a labelled value of an axis.
type tick struct {
	at    float64
	label string
}

// ticks of a logarithmic scale are its powers of ten, with steps between them where there are few; those of a linear
// one are round steps, about five.
func (s scale) ticks() []tick {
	if s.log {
		return s.logTicks()
	}
	step := roundStep((s.hi - s.lo) / 5)
	var out []tick
	for i := math.Ceil(s.lo/step - 1e-9); i*step <= s.hi+step*1e-9 && len(out) < 20; i++ {
		out = append(out, tick{s.at(i * step), strconv.FormatFloat(i*step+0, 'g', 6, 64)}) // + 0: no -0
	}
	return out
}

func (s scale) logTicks() []tick {
	steps := []float64{1}
	switch {
	case s.hi-s.lo < 1.6:
		steps = []float64{1, 2, 5}
	case s.hi-s.lo < 3:
		steps = []float64{1, 3}
	}
	var out []tick
	for e := math.Floor(s.lo); e <= math.Ceil(s.hi); e++ {
		for _, m := range steps {
			v := m * math.Pow(10, e)
			if l := math.Log10(v); l >= s.lo-1e-9 && l <= s.hi+1e-9 {
				out = append(out, tick{s.at(v), secondsLabel(v)})
			}
		}
	}
	return out
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is no less than x.
func roundStep(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= x*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// secondsLabel writes a tick's seconds: "20 µs", "1 ms", "0.1 s" is "100 ms", "10 s".
func secondsLabel(v float64) string {
	unit := " s"
	switch {
	case v < 0.99e-3:
		v, unit = v*1e6, " µs"
	case v < 0.99:
		v, unit = v*1e3, " ms"
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) + unit
}

// percentOf writes a share of an axis as SVG takes it.
func percentOf(x float64) string { return coord(100*x) + "%" }

// coord writes a coordinate to a hundredth.
func coord(x float64) string { return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64) }

// stretch is the width in units of the inner drawing that a plot stretches to the page's width.
const stretch = 1000

// An svg is a drawing as wide as its place and height pixels high. Places along it are shares of the width, across it
// pixels, so that text and marks keep their size on a narrow page. Colours and strokes come from the page's style sheet, by
// class. Texts are escaped here.
type svg struct{ b strings.Builder }

// newSVG begins a drawing that a screen reader knows by label.
func newSVG(height float64, label string) *svg {
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg class="plot" width="100%%" height="%s" role="img" aria-label="%s">`, coord(height), escape(label))
	return s
}

// escape makes text from outside fit for HTML's text and quoted attributes.
func escape(text string) string { return template.HTMLEscapeString(clean(text)) }

func (s *svg) html() template.HTML {
	s.b.WriteString("</svg>")
	return template.HTML(s.b.String())
}

func (s *svg) vline(class string, x, y0, y1 float64) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" x2="%[2]s" y1="%[3]s" y2="%[4]s"/>`, class, percentOf(x), coord(y0), coord(y1))
}

func (s *svg) hline(class string, x0, x1, y float64) {
	fmt.Fprintf(&s.b, `<line class="%s" x1="%s" x2="%s" y1="%s" y2="%[4]s"/>`, class, percentOf(x0), percentOf(x1), coord(y))
}

// rect draws a box; with a title it says that to whoever points at it.
func (s *svg) rect(class string, x0, x1, y, height float64, title string) {
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" width="%s" y="%s" height="%s"`, class, percentOf(x0), percentOf(math.Max(0, x1-x0)), coord(y), coord(height))
	if title == "" {
		s.b.WriteString("/>")
		return
	}
	fmt.Fprintf(&s.b, `><title>%s</title></rect>`, escape(title))
}

// text writes a label; near an end of the drawing it is set inwards.
func (s *svg) text(class string, x, y float64, label string) {
	anchor := "middle"
	switch {
	case x < 0.05:
		anchor = "start"
	case x > 0.95:
		anchor = "end"
	}
	fmt.Fprintf(&s.b, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`, class, percentOf(x), coord(y), anchor, escape(label))
}

// mark draws one of the page's symbols, which says title to whoever points at it.
func (s *svg) mark(symbol, class string, x, y float64, title string) {
	fmt.Fprintf(&s.b, `<use href="#%s" class="mark %s" x="%s" y="%s"><title>%s</title></use>`, symbol, class, percentOf(x), coord(y), escape(title))
}

// path draws d, whose x go from 0 to stretch and whose y are pixels, in an inner drawing of its own; strokes keep their
// width. marks is how many values it stands for.
func (s *svg) path(class string, height float64, d string, marks int) {
	if d == "" {
		return
	}
	fmt.Fprintf(&s.b, `<svg x="0" y="0" width="100%%" height="%[1]s" viewBox="0 0 %[2]d %[1]s" preserveAspectRatio="none">`+
		`<path class="%[3]s" data-marks="%[4]d" d="%[5]s"/></svg>`, coord(height), stretch, class, marks, d)
}

// axis draws ticks below y with their labels, and their lines from top to y.
func (s *svg) axis(ticks []tick, top, y float64) {
	for _, t := range ticks {
		s.vline("grid", t.at, top, y)
		s.text("tick", t.at, y+14, t.label)
	}
}
