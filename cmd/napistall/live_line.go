package main

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/runner"
)

// glyphs are the signs of a live line.
type glyphs struct {
	levels  []rune // of a sparkline, the lowest first
	atLeast string
	cut     string // where a line goes on
}

// sparkLevels are the lengths from which a sample has the next higher sign: half a decade each, so that the upper half is of
// samples over 1 s (explain.SlowLimit).
func sparkLevels() []time.Duration {
	return []time.Duration{32 * time.Millisecond, 100 * time.Millisecond, 320 * time.Millisecond, time.Second + 1,
		3200 * time.Millisecond, 10 * time.Second, 32 * time.Second}
}

// slowLevel is the level of the shortest sample over 1 s.
const slowLevel = 4

func blockGlyphs() glyphs {
	return glyphs{levels: []rune("▁▂▃▄▅▆▇█"), atLeast: "≥ ", cut: "…"}
}

func asciiGlyphs() glyphs { return glyphs{levels: []rune("_.-:=+*#"), atLeast: ">= ", cut: "~"} }

// localeGlyphs are those that the user's locale has: POSIX takes LC_ALL before LC_CTYPE before LANG.
func localeGlyphs() glyphs {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			if v = strings.ToLower(v); strings.Contains(v, "utf-8") || strings.Contains(v, "utf8") {
				return blockGlyphs()
			}
			return asciiGlyphs()
		}
	}
	return asciiGlyphs()
}

// legend explains a sparkline.
func (g glyphs) legend() []string {
	return []string{string(g.levels[0]), "under 32 ms,", string(g.levels[slowLevel]), "over 1 s,", string(g.levels[len(g.levels)-1]), "over 32 s"}
}

// spark draws the newest n of samples on a logarithmic scale.
func (g glyphs) spark(samples []time.Duration, n int) string {
	samples = samples[max(0, len(samples)-n):]
	steps := sparkLevels()
	var b strings.Builder
	for _, d := range samples {
		level := 0
		for level < len(steps) && d >= steps[level] {
			level++
		}
		b.WriteRune(g.levels[level])
	}
	return b.String()
}

// clip shortens s to width columns and leaves nothing in it that moves a cursor.
func (g glyphs) clip(s string, width int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if width <= 0 {
		return ""
	}
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + g.cut
}

// maxSpark keeps what a sparkline shows near its line's words.
const maxSpark = 40

// liveLine is p on at most width columns: first what it is, then how far, then the newest samples as far as there is room,
// last what was seen. On narrow terminals the phase goes first, then the time.
func liveLine(p runner.Progress, width int, g glyphs) string {
	head := fmt.Sprintf("%*d/%d  %-12s", len(fmt.Sprint(p.Total)), p.Index, p.Total, g.clip(p.Arm, 14))
	if p.Try > 1 {
		head += fmt.Sprintf("  try %d", p.Try)
	}
	took := fmt.Sprintf("  %3.0f s", p.Elapsed.Truncate(time.Second).Seconds())
	if p.Expect >= time.Second {
		took = fmt.Sprintf("  %3.0f/%.0f s", p.Elapsed.Truncate(time.Second).Seconds(), p.Expect.Truncate(time.Second).Seconds())
	}
	phase, seen := fmt.Sprintf("  %-7s", p.Phase), liveSeen(p, g)
	columns := utf8.RuneCountInString
	for _, left := range []string{head + phase + took, head + took, head} {
		if room := width - columns(left) - columns(seen); room >= 0 {
			if n := min(room-2, maxSpark); n > 0 && len(p.Latest) > 0 {
				left += "  " + g.spark(p.Latest, n)
			}
			return left + seen
		}
	}
	return g.clip(head+seen, width)
}

// liveSeen is what a trial has shown so far.
func liveSeen(p runner.Progress, g glyphs) string {
	s := ""
	if p.Worst > 0 {
		over := ""
		if p.OverWorst {
			over = g.atLeast
		}
		s += fmt.Sprintf("  worst %s%.3g s", over, p.Worst.Seconds())
	}
	if p.Stalls > 0 {
		s += "  " + counted(p.Stalls, "stall")
	}
	return s
}

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// roughly writes how long something will take, of which nobody knows better.
func roughly(d time.Duration) string {
	switch s := int(d.Round(time.Second).Seconds()); {
	case s < 90:
		return fmt.Sprintf("%d s", s)
	case s < 90*60:
		return fmt.Sprintf("%d min", (s+30)/60)
	default:
		return fmt.Sprintf("%d h %02d min", s/3600, s%3600/60)
	}
}
