package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"time"

	"github.com/napistall/napistall/internal/explain"
)

// The sizes of a map, in pixels. A cell is as large as the map's width allows.
const (
	mapWidth   = 720
	mapLeft    = 110
	mapTop     = 48
	mapBottom  = 96
	cellHeight = 22
	maxLabels  = 12
)

// svg draws the map: a cell for each point, its colour by the longest deletion, with a dot where RCU reported a stall.
// Each cell's title has the figures.
func (s *sweep) svg() []byte {
	var b bytes.Buffer
	columns, rows := len(s.axes[0].values), 1
	if len(s.axes) == 2 {
		rows = len(s.axes[1].values)
	}
	cell := float64(mapWidth) / float64(columns)
	high := min(float64(cellHeight)*2, max(6, float64(cellHeight)*20/float64(max(20, rows))))
	bottom := mapTop + high*float64(rows)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" font-family="sans-serif" font-size="12">`+"\n",
		mapLeft+mapWidth+24, bottom+mapBottom)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="20" font-size="14">%s</text>`+"\n", mapLeft,
		html.EscapeString(fmt.Sprintf("Longest deletion, %s, hold %s", s.title, s.hold())))
	for y := range rows {
		for x, p := range s.columns(y) {
			s.cell(&b, p, mapLeft+cell*float64(x), bottom-high*float64(y+1), cell, high)
		}
		if len(s.axes) == 2 && labelled(y, rows, 24) {
			fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", mapLeft-6, bottom-high*(float64(y)+0.5)+4,
				html.EscapeString(s.axes[1].values[y]))
		}
	}
	for x, v := range s.axes[0].values {
		if labelled(x, columns, maxLabels) {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", mapLeft+cell*(float64(x)+0.5), bottom+16, html.EscapeString(v))
		}
	}
	fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="middle">%s</text>`+"\n", mapLeft+mapWidth/2, bottom+34, html.EscapeString(s.axes[0].key))
	if len(s.axes) == 2 {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", mapLeft-6, mapTop-8, html.EscapeString(s.axes[1].key))
	}
	legend(&b, bottom+50)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// labelled reports whether place i of n has a label, where there is room for most of them.
func labelled(i, n, most int) bool { return i%((n+most-1)/most) == 0 }

func (s *sweep) cell(b *bytes.Buffer, p point, x, y, w, h float64) {
	if p.why != "" {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#eee"><title>%s</title></rect>`+"\n",
			x, y, w, h, html.EscapeString(p.name(s.axes)+": not run"))
		return
	}
	r := p.result
	title := fmt.Sprintf("%s: worst %s, %d of %d over 1 s, %d+%d stalls, %s the band", p.name(s.axes), r.words(), r.slow, r.deletes,
		r.classic, r.expedited, r.band)
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s</title></rect>`+"\n",
		x, y, w, h, colour(r.worst), html.EscapeString(title))
	if p.grade() == reported {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="black"/>`+"\n", x+w/2, y+h/2, max(1, min(w, h)/6))
	}
}

// colour is from pale yellow for 10 ms over orange for a second to dark red for 100 s, by the length's logarithm.
func colour(d time.Duration) string {
	share := math.Min(1, math.Max(0, (math.Log10(math.Max(d.Seconds(), 1e-3))+2)/4))
	from, to, part := [3]float64{255, 250, 205}, [3]float64{250, 150, 40}, share*2
	if share > 0.5 {
		from, to, part = to, [3]float64{120, 0, 20}, share*2-1
	}
	var c [3]int
	for i := range c {
		c[i] = int(math.Round(from[i] + (to[i]-from[i])*part))
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2])
}

// legend draws what the colours stand for.
func legend(b *bytes.Buffer, y float64) {
	x := float64(mapLeft)
	for _, d := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, 100 * time.Second} {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="24" height="14" fill="%s"/><text x="%.1f" y="%.1f">%s</text>`+"\n", x, y, colour(d), x+30, y+12,
			explain.FormatDuration(d))
		x += 96
	}
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="black"/><text x="%.1f" y="%.1f">RCU reported a stall</text>`+"\n", x+6, y+7, x+18, y+12)
	fmt.Fprintf(b, `<text x="%d" y="%.1f" fill="#555">napistall sim: a model, no kernel</text>`+"\n", mapLeft, y+34)
}
