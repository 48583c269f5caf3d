package main

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/runner"
)

func TestSpark(t *testing.T) {
	ms := func(list ...int) []time.Duration {
		var out []time.Duration
		for _, x := range list {
			out = append(out, time.Duration(x)*time.Millisecond)
		}
		return out
	}
	all := ms(-5, 0, 31, 32, 99, 100, 319, 320, 1000, 1001, 3199, 3200, 9999, 10_000, 31_999, 32_000, 3_600_000)
	if got, want := blockGlyphs().spark(all, 99), "▁▁▁▂▂▃▃▄▄▅▅▆▆▇▇██"; got != want {
		t.Errorf("spark = %s; want %s", got, want)
	}
	if got, want := asciiGlyphs().spark(all, 5), "**##"; got != "+**##" {
		t.Errorf("the newest five = %s; want +%s", got, want)
	}
	if got := blockGlyphs().spark(nil, 5); got != "" {
		t.Errorf("spark of nothing = %q", got)
	}
	if sparkLevels()[slowLevel-1] != explain.SlowLimit+1 {
		t.Error("the upper half of the signs does not begin over explain.SlowLimit")
	}
}

func TestGlyphsFollowTheLocale(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		blocks           bool
	}{
		{"", "", "", false}, {"C", "", "de_DE.UTF-8", false}, {"", "C", "de_DE.UTF-8", false}, {"", "", "de_DE.UTF-8", true},
		{"C.utf8", "C", "C", true}, {"", "en_GB.utf-8", "C", true}, {"", "", "ja_JP.eucJP", false},
	} {
		t.Setenv("LC_ALL", c.all)
		t.Setenv("LC_CTYPE", c.ctype)
		t.Setenv("LANG", c.lang)
		if got := localeGlyphs().levels[0] == '▁'; got != c.blocks {
			t.Errorf("LC_ALL=%s LC_CTYPE=%s LANG=%s: blocks %v; want %v", c.all, c.ctype, c.lang, got, c.blocks)
		}
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", 89*time.Second + 400*time.Millisecond: "89 s", 90 * time.Second: "2 min",
		89 * time.Minute: "89 min", 90 * time.Minute: "1 h 30 min", 26*time.Hour + 5*time.Minute: "26 h 05 min"} {
		if got := roughly(d); got != want {
			t.Errorf("roughly(%v) = %q; want %q", d, got, want)
		}
	}
}

// FuzzLiveLine: whatever is measured, a line has at most the columns that there are, is one line and all ASCII
// where the locale has nothing else.
func FuzzLiveLine(f *testing.F) {
	f.Add("above-band", "hold", 12, 345, 2, int64(time.Minute), int64(1e12), 80, true)
	f.Add(strings.Repeat("é", 99), "pre\nare\x1b[2J", 1000, 1000, 1, int64(-1), int64(0), 1, false)
	f.Fuzz(func(t *testing.T, arm, phase string, index, total, try int, elapsed, worst int64, width int, blocks bool) {
		g := asciiGlyphs()
		if blocks {
			g = blockGlyphs()
		}
		p := runner.Progress{Trial: "x", Arm: arm, Phase: phase, Index: index, Total: total, Try: try, Elapsed: time.Duration(elapsed),
			Expect: time.Duration(elapsed), Worst: time.Duration(worst), OverWorst: true, Stalls: index,
			Latest: []time.Duration{time.Duration(worst), time.Duration(elapsed), 0}}
		line := g.clip(liveLine(p, width, g), width)
		if utf8.RuneCountInString(line) > max(0, width) {
			t.Errorf("%d columns: %q", width, line)
		}
		for _, r := range line {
			if !unicode.IsPrint(r) || !blocks && r > unicode.MaxASCII && !strings.ContainsRune(arm+phase, r) {
				t.Errorf("%q has %U", line, r)
			}
		}
	})
}
