package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/explain"
)

// How a terminal draws: numbers of ECMA-48's select graphic rendition.
const (
	plainColor = ""
	bold       = "1"
	red        = "31"
	green      = "32"
	yellow     = "33"
)

// colored is s in a colour; the blanks around it stay plain, so that lines can still be trimmed.
func colored(color, s string) string {
	word := strings.TrimSpace(s)
	if color == plainColor || word == "" {
		return s
	}
	before, after, _ := strings.Cut(s, word)
	return fmt.Sprintf("%s\x1b[%sm%s\x1b[0m%s", before, color, word, after)
}

// paint colours a table's heading, and the cells of arms that were slow or stalled.
func (r Run) paint(cols []column) {
	for i := range cols {
		c := &cols[i]
		c.headColor = bold
		for _, a := range r.Arms {
			color := plainColor
			switch worst, _, ok := a.Hold.Worst(); {
			case c.head == "worst" && ok && worst > explain.SlowLimit,
				c.head == ">1 s" && a.Hold.Over.K > 0,
				c.head == "stalls c+e" && a.RCUStalls() > 0,
				c.head == "lockups" && a.SoftLockups > 0:
				color = red
			case c.head == "band" && a.Band == explain.In:
				color = bold
			}
			c.colors = append(c.colors, color)
		}
	}
}

// wordColor is the verdict's: of a stall, of none, and of what says nothing about one.
func wordColor(w explain.Word) string {
	switch w {
	case explain.Reproduced:
		return red
	case explain.NotReproduced:
		return green
	}
	return yellow
}

// paintJudged colours the verdict's word and the expectations in lines.
func (r Run) paintJudged(lines []string) {
	word := "verdict: " + string(r.Verdict.Word) + "."
	for i, l := range lines {
		switch rest, ok := strings.CutPrefix(l, word); {
		case ok:
			lines[i] = colored(wordColor(r.Verdict.Word), word) + rest
		case strings.HasPrefix(l, "expectations: ") && r.Unmet() > 0, slices.ContainsFunc(r.Results, func(x explain.Result) bool {
			return x.Status != explain.Met && strings.HasPrefix(l, "expect "+clean(x.Expectation.Text)+": ")
		}):
			lines[i] = colored(red, l)
		case strings.HasPrefix(l, "expectations: "):
			lines[i] = colored(green, l)
		}
	}
}
