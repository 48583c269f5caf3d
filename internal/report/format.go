package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What stands for a number that there is none of: it does not apply, or it is not known.
const (
	notApplicable = "–"
	unknown       = "?"
)

// clean makes text from outside harmless on a terminal: whatever is not printable (escapes, line
// ends, marks that turn the writing direction, broken UTF-8) becomes its number.
func clean(s string) string {
	b := strings.Builder{}
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func count(n int) string { return strconv.Itoa(n) }

// rate writes x per second with two to three digits and an SI suffix: 0.0, 4.6, 340k, 3.3M.
func rate(x float64) string {
	switch {
	case x >= 99.95e6:
		return fmt.Sprintf("%.0fM", x/1e6)
	case x >= 999.5e3:
		return fmt.Sprintf("%.1fM", x/1e6)
	case x >= 9995:
		return fmt.Sprintf("%.0fk", x/1e3)
	case x >= 999.5:
		return fmt.Sprintf("%.1fk", x/1e3)
	case x >= 99.95:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.1f", x)
}

// wrap breaks text into lines of at most width runes, at spaces; a longer word gets a line of its own, and
// a number stays with its unit. Lines after the first are indented by indent. A width of 0 or less does
// not break.
func wrap(text string, width int, indent string) []string {
	words := units(strings.Fields(text))
	if len(words) == 0 {
		return nil
	}
	var lines []string
	line := words[0]
	for _, w := range words[1:] {
		if width > 0 && runes(line)+1+runes(w) > width {
			lines = append(lines, line)
			line = indent + w
			continue
		}
		line += " " + w
	}
	return append(lines, line)
}

// units joins each unit to the number before it.
func units(words []string) []string {
	var out []string
	for _, w := range words {
		unit := strings.TrimRight(w, ".,;:)")
		if n := len(out) - 1; n >= 0 && (unit == "s" || unit == "ms" || unit == "%") && strings.ContainsAny(out[n][len(out[n])-1:], "0123456789") {
			out[n] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

func runes(s string) int { return utf8.RuneCountInString(s) }

// pad fills s with spaces up to width, on its left when right-aligned.
func pad(s string, width int, right bool) string {
	space := strings.Repeat(" ", max(0, width-runes(s)))
	if right {
		return space + s
	}
	return s + space
}

// clip shortens s to n runes, the last of which then says so.
func clip(s string, n int) string {
	if n <= 0 || runes(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
