package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/napistall/napistall/internal/explain"
)

// A grade is what a point of a map shows, least first.
type grade int

// The grades, each with the letter that stands for it. Held is a deletion that the load held for most of its time,
// reported what RCU itself called a stall.
const (
	notRun grade = iota
	quick
	slowGrade
	held
	reported
)

func (g grade) letter() byte { return " .o#@"[g] }

func (p point) grade() grade {
	r := p.result
	switch {
	case p.why != "":
		return notRun
	case r.classic+r.expedited > 0:
		return reported
	case r.stalled:
		return held
	case r.worst > explain.SlowLimit:
		return slowGrade
	}
	return quick
}

// columns are the points of row y, a value of the second axis or the only row.
func (s *sweep) columns(y int) []point {
	n := len(s.axes[0].values)
	return s.points[y*n : (y+1)*n]
}

// text prints the map of two axes, or the table of one, with what it means.
func (s *sweep) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "sweep of %s: worst deletion in a hold of %s\n", s.title, s.hold())
	if len(s.axes) == 1 {
		s.table(&b)
	} else {
		s.grid(&b)
	}
	for _, why := range s.reasons() {
		fmt.Fprintf(&b, "not run: %s\n", why)
	}
	b.WriteString("not measured: a model, no kernel; its costs are constants (docs/simulator.md).\n")
	return b.Bytes()
}

// hold is how long the load lasts at the points that can be run: "60 s", or "5 s to 60 s" where it is varied.
func (s *sweep) hold() string {
	least, most := time.Duration(0), time.Duration(0)
	for _, p := range s.points {
		if d := p.arm.Load.Hold; p.why == "" {
			if least == 0 || d < least {
				least = d
			}
			most = max(most, d)
		}
	}
	if least == most {
		return explain.FormatDuration(most)
	}
	return explain.FormatDuration(least) + " to " + explain.FormatDuration(most)
}

// table prints a line for each point.
func (s *sweep) table(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tband\tdeletes\t>1 s\tworst\tstalls c+e\tpolls/s\tfull\tsleeps/s\n", s.axes[0].key)
	for _, p := range s.points {
		if p.why != "" {
			fmt.Fprintf(w, "%s\tnot run\n", p.values[0])
			continue
		}
		r := p.result
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d+%d\t%.0f\t%s\t%.0f\n", p.values[0], r.band, r.deletes, r.slow, r.words(), r.classic, r.expedited,
			r.polls, explain.FormatShare(r.full), r.sleeps)
	}
	_ = w.Flush() // into memory
}

// words writes the longest deletion, "> 60 s" if it was cut.
func (f figures) words() string {
	switch {
	case f.deletes == 0:
		return "none"
	case f.cut:
		return "> " + explain.FormatDuration(f.worst)
	}
	return explain.FormatDuration(f.worst)
}

// grid prints a letter for each point, and the longest deletion of each row.
func (s *sweep) grid(b *bytes.Buffer) {
	x, y := s.axes[0], s.axes[1]
	width := len(y.key)
	for _, v := range y.values {
		width = max(width, len(v))
	}
	fmt.Fprintf(b, "%*s  %s: %s .. %s\n", width, y.key, x.key, x.values[0], x.values[len(x.values)-1])
	for i := len(y.values) - 1; i >= 0; i-- {
		row := s.columns(i)
		letters := make([]byte, len(row))
		worst := row[0]
		for j, p := range row {
			letters[j] = p.grade().letter()
			if p.why == "" && (worst.why != "" || p.result.worst > worst.result.worst) {
				worst = p
			}
		}
		words := "not run"
		if worst.why == "" {
			words = fmt.Sprintf("worst %s at %s", worst.result.words(), worst.values[0])
		}
		fmt.Fprintf(b, "%*s  %s  %s\n", width, y.values[i], letters, words)
	}
	b.WriteString(". each under 1 s   o some over 1 s   # held as long as the load lasts, or nearly   @ RCU reported a stall\n")
}

// reasons lists why points were not run, each once, in order.
func (s *sweep) reasons() []string {
	var list []string
	seen := map[string]bool{}
	for _, p := range s.points {
		if p.why != "" && !seen[p.why] {
			seen[p.why] = true
			list = append(list, p.why)
		}
	}
	return list
}

// csv writes a row for each point: times in seconds.
func (s *sweep) csv() []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	var head []string
	for _, a := range s.axes {
		head = append(head, a.key)
	}
	rows := [][]string{append(head, "band", "deletes", "over_1s", "worst_s", "worst_cut", "classic", "expedited", "soft_lockups",
		"polls_per_s", "full_share", "sleeps_per_s", "packets_per_s", "hold_s", "not_run")}
	for _, p := range s.points {
		rows = append(rows, append(append([]string(nil), p.values...), p.fields()...))
	}
	_ = w.WriteAll(rows) // into memory
	return b.Bytes()
}

func (p point) fields() []string {
	if p.why != "" {
		return []string{"", "", "", "", "", "", "", "", "", "", "", "", seconds(p.arm.Load.Hold), p.why}
	}
	r := p.result
	rate := func(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
	return []string{
		string(r.band), strconv.Itoa(r.deletes), strconv.Itoa(r.slow), seconds(r.worst), strconv.FormatBool(r.cut),
		strconv.Itoa(r.classic), strconv.Itoa(r.expedited), strconv.Itoa(r.lockups), rate(r.polls),
		strconv.FormatFloat(r.full, 'f', 4, 64), rate(r.sleeps), rate(r.packets), seconds(p.arm.Load.Hold), "",
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 6, 64) }
