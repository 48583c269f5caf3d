package explain

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/stats"
)

// A Threshold is a limit that a comparison has to keep: "patched: over-1s < 5%" of one arm, or "patched vs stock:
// over-1s < 5%" of how much larger the first arm's is.
//
//	ARM : QUANTITY OP VALUE           over-1s, median, p95 or worst
//	ARM vs ARM : QUANTITY OP VALUE    over-1s, in percentage points, or shift
//
// OP is < <= > >=; VALUE of over-1s is a percentage and of all others a duration, and may be negative of two arms.
type Threshold struct {
	Text     string
	A, B     string // labels; B is empty for one arm
	Quantity string
	Op       string
	Value    float64 // a share, or nanoseconds
}

const (
	wantThreshold  = "want ARM: QUANTITY OP VALUE or ARM vs ARM: QUANTITY OP VALUE, such as 'patched vs stock: over-1s < 5%'"
	wantPercentage = "a percentage such as 5%"
	wantDuration   = "a duration such as 10ms or 2s"
)

func armQuantities() []string  { return []string{"over-1s", "median", "p95", "worst"} }
func pairQuantities() []string { return []string{"over-1s", "shift"} }
func thresholdSigns() []string { return []string{"<", "<=", ">", ">="} }
func isSign(c byte) bool       { return c == '<' || c == '>' || c == '=' || c == '!' }
func isSpace(c byte) bool      { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func orList(list []string) string {
	var names []string
	for _, n := range list {
		names = append(names, harmless(n))
	}
	return strings.Join(names, ", ")
}

// harmless writes a name from a file so that no terminal acts on it.
func harmless(s string) string { return strings.Trim(strconv.QuoteToGraphic(s), `"`) }

// A thresholdText is a threshold on the way to be one.
type thresholdText struct {
	text   string
	at     int // bytes
	labels []string
}

// ParseThreshold reads a threshold about arms with labels. A label "stock@2" may be written without its number where
// no other run has an arm of that name. Its error is an *experiment.ParseError: what is wrong, where, and what was
// expected.
func ParseThreshold(text string, labels []string) (Threshold, error) {
	t := &thresholdText{text: text, labels: labels}
	x := Threshold{Text: strings.Join(strings.Fields(text), " ")}
	var err error
	if x.A, err = t.arm(); err != nil {
		return x, err
	}
	quantities := armQuantities()
	if t.word("vs") {
		from := t.at
		if x.B, err = t.arm(); err != nil {
			return x, err
		}
		if x.B == x.A {
			return x, t.wrongAt(t.skip(from), "want two arms", "%s is held against itself", harmless(x.A))
		}
		quantities = pairQuantities()
	}
	if !t.sign(":") {
		return x, t.wrong(wantThreshold, "\":\" is missing here")
	}
	if x.Quantity, err = t.oneOf("quantity", quantities); err != nil {
		return x, err
	}
	if x.Op, err = t.operator(); err != nil {
		return x, err
	}
	if x.Value, err = t.value(x); err != nil {
		return x, err
	}
	if t.at = t.skip(t.at); t.at < len(t.text) {
		return x, t.wrong(wantThreshold, "%q is too much here", clipWord(t.text[t.at:]))
	}
	return x, nil
}

func (t *thresholdText) wrong(want, msg string, args ...any) error {
	return t.wrongAt(t.skip(t.at), want, msg, args...)
}

func (t *thresholdText) wrongAt(at int, want, msg string, args ...any) error {
	line := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, t.text)
	return &experiment.ParseError{File: "--threshold", Line: 1, Col: 1 + utf8.RuneCountInString(t.text[:at]), Msg: fmt.Sprintf(msg, args...),
		Source: line, Want: want}
}

// skip returns where the next word begins.
func (t *thresholdText) skip(at int) int {
	for at < len(t.text) && isSpace(t.text[at]) {
		at++
	}
	return at
}

// peek returns the next word and where it ends: up to white space, a colon or a comparison sign.
func (t *thresholdText) peek() (word string, end int) {
	from := t.skip(t.at)
	end = from
	for end < len(t.text) && !isSpace(t.text[end]) && !isSign(t.text[end]) && t.text[end] != ':' {
		end++
	}
	return t.text[from:end], end
}

func (t *thresholdText) word(w string) bool {
	got, end := t.peek()
	if got == w {
		t.at = end
	}
	return got == w
}

func (t *thresholdText) sign(s string) bool {
	from := t.skip(t.at)
	ok := strings.HasPrefix(t.text[from:], s)
	if ok {
		t.at = from + len(s)
	}
	return ok
}

// arm reads an arm's label.
func (t *thresholdText) arm() (string, error) {
	w, end := t.peek()
	if w == "" {
		return "", t.wrong(wantThreshold, "an arm is missing here")
	}
	if slices.Contains(t.labels, w) {
		t.at = end
		return w, nil
	}
	var fit []string
	for _, l := range t.labels {
		if name, _, numbered := cutLast(l, "@"); numbered && name == w {
			fit = append(fit, l)
		}
	}
	switch len(fit) {
	case 0:
		return "", t.wrong("want "+orList(t.labels), "no arm %s", harmless(clipWord(w)))
	case 1:
		t.at = end
		return fit[0], nil
	}
	return "", t.wrong("want "+orList(fit), "several runs have an arm %s", harmless(clipWord(w)))
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (t *thresholdText) oneOf(what string, names []string) (string, error) {
	w, end := t.peek()
	if slices.Contains(names, w) {
		t.at = end
		return w, nil
	}
	if w == "" {
		return "", t.wrong("want "+orList(names), "a %s is missing here", what)
	}
	return "", t.wrong("want "+orList(names), "%q is no %s here", clipWord(w), what)
}

func (t *thresholdText) operator() (string, error) {
	from := t.skip(t.at)
	end := from
	for end < len(t.text) && isSign(t.text[end]) {
		end++
	}
	op := t.text[from:end]
	if !slices.Contains(thresholdSigns(), op) {
		if op == "" {
			return "", t.wrong("want "+orList(thresholdSigns()), "a comparison is missing here")
		}
		return "", t.wrong("want "+orList(thresholdSigns()), "%q is no comparison here: an interval is never just one value", clipWord(op))
	}
	t.at = end
	return op, nil
}

func (t *thresholdText) value(x Threshold) (float64, error) {
	w, end := t.peek()
	want := wantDuration
	read := func() (float64, bool) {
		d, err := time.ParseDuration(w)
		return float64(d), err == nil
	}
	if x.Quantity == "over-1s" {
		want = wantPercentage
		if !strings.HasSuffix(w, "%") && strings.HasPrefix(t.text[t.skip(end):], "%") {
			end = t.skip(end) + 1
		}
		w = strings.TrimSpace(t.text[t.skip(t.at):end])
		read = func() (float64, bool) {
			number, percent := strings.CutSuffix(w, "%")
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			return v / 100, percent && err == nil && math.Abs(v) <= 100
		}
	}
	v, ok := read()
	switch {
	case w == "":
		return 0, t.wrong("want "+want, "a value is missing here")
	case !ok:
		return 0, t.wrong("want "+want, "%q is no value of %s", clipWord(w), x.Quantity)
	case v < 0 && x.B == "":
		return 0, t.wrong("want "+want, "%s of one arm is never negative", x.Quantity)
	}
	t.at = end
	return v, nil
}

func clipWord(w string) string {
	const most = 40
	if r := []rune(w); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return w
}

// A Kept says whether a threshold was kept.
type Kept struct {
	Threshold Threshold
	// Status is Unknown where the interval reaches over the limit, or there is none: what can't be said was not kept.
	Status Status
	Got    string // what was found, with its interval
	Enough string // how much more would decide, where that can be told
}

// CheckThresholds holds thresholds against the sides that they name. A threshold is kept where the whole 95 % interval
// of its quantity is on the right side of its limit, and not met where all of it is on the other.
func CheckThresholds(thresholds []Threshold, sides []Side) []Kept {
	var list []Kept
	byLabel := map[string]Side{}
	for _, s := range sides {
		byLabel[s.Label] = s
	}
	for _, t := range thresholds {
		a, b := byLabel[t.A], byLabel[t.B]
		k := Kept{Threshold: t}
		var in interval
		if t.B == "" {
			in = armInterval(t.Quantity, figures(a))
		} else {
			in = pairInterval(t.Quantity, a, b)
		}
		k.Got = in.words
		k.Status = Unknown
		if in.known {
			k.Status = in.holds(t.Op, t.Value)
		}
		if k.Status == Unknown {
			k.Enough = in.enough(t)
		}
		list = append(list, k)
	}
	return list
}

// An interval is where a quantity is, with its estimate.
type interval struct {
	known      bool
	lo, at, hi float64
	n          int  // operations that it rests on, of the smaller side
	none       bool // a share of none
	words      string
}

// holds says whether every value of the interval, none or some are on the right side of limit.
func (i interval) holds(op string, limit float64) Status {
	atLo, atHi := holds(op, i.lo, limit), holds(op, i.hi, limit)
	switch {
	case atLo && atHi:
		return Met
	case !atLo && !atHi:
		return NotMet
	}
	return Unknown
}

// enough says about how many operations would decide: an interval is half as wide with four times as many.
func (i interval) enough(t Threshold) string {
	if !i.known {
		return ""
	}
	if i.none && t.B == "" && t.Op[0] == '<' {
		if n := stats.NoneSize(t.Value); n > 0 {
			return fmt.Sprintf("%d with none over 1 s would do", n)
		}
	}
	reach := i.hi - i.at
	if i.at > t.Value {
		reach = i.at - i.lo
	}
	gap := math.Abs(t.Value - i.at)
	if gap == 0 || math.IsInf(reach, 0) || !(reach > 0) || i.n == 0 {
		return ""
	}
	n := float64(i.n) * (reach / gap) * (reach / gap)
	if n > 1e6 || n <= float64(i.n) {
		return ""
	}
	return fmt.Sprintf("about %.0f of each would decide, if they are like these %d", math.Ceil(n), i.n)
}

func armInterval(quantity string, f Figures) interval {
	if f.N == 0 {
		return interval{words: "nothing was measured"}
	}
	of := func(lo, at, hi stats.Bound, words string) interval {
		return interval{known: true, lo: low(lo), at: float64(at.D), hi: high(hi), n: f.N, words: words}
	}
	switch quantity {
	case "over-1s":
		share, ok := shareOf(f.Over)
		if !ok {
			return interval{words: "all were cut before 1 s"}
		}
		return interval{known: true, lo: f.OverLo, at: share, hi: f.OverHi, n: f.Over.N, none: f.Over.K == 0, words: fmt.Sprintf("%v over 1 s, 95 %% interval %s to %s", f.Over,
			FormatShare(f.OverLo), FormatShare(f.OverHi))}
	case "median":
		if !f.HasInterval {
			return interval{words: fmt.Sprintf("%s of %d, too few for an interval: %d would do", BoundWords(f.Median), f.N, MinDeletes)}
		}
		return of(f.MedianLo, f.Median, f.MedianHi, fmt.Sprintf("%s, 95 %% interval %s", BoundWords(f.Median), IntervalWords(f.MedianLo, f.MedianHi)))
	case "p95":
		return of(f.P95.From, f.P95.At, f.P95.To, fmt.Sprintf("%s, 95 %% interval %s", BoundWords(f.P95.At), IntervalWords(f.P95.From, f.P95.To)))
	case "worst":
		return of(f.Worst, f.Worst, f.Worst, fmt.Sprintf("%s of %d; what others would take is not known", BoundWords(f.Worst), f.N))
	}
	return interval{words: fmt.Sprintf("%q is not measured", quantity)}
}

func pairInterval(quantity string, a, b Side) interval {
	if a.Arm.Arm.Probe.Op != b.Arm.Arm.Probe.Op {
		return interval{words: "the two timed different operations"}
	}
	fa, fb := figures(a), figures(b)
	if noSample(fa, fb) {
		return interval{words: fmt.Sprintf("%d against %d: nothing to compare", fa.N, fb.N)}
	}
	if quantity == "over-1s" {
		d := difference(fa, fb)
		return interval{known: d.Method != "", lo: d.Lo, at: d.D, hi: d.Hi, n: min(fa.Over.N, fb.Over.N), words: fmt.Sprintf("%v against %v, %s", fa.Over, fb.Over, PointsWords(d))}
	}
	p := newPair(a, b, fa, fb)
	i := interval{known: p.Shift.HasInterval, lo: low(p.Shift.From), at: float64(p.Shift.Lo.D), hi: high(p.Shift.To), n: min(fa.N, fb.N), words: ShiftWords(p.Shift)}
	if p.Trials {
		i.n, i.words = min(fa.Trials, fb.Trials), i.words+", of the medians of trials"
	}
	return i
}

// low is the smallest that a bound can be, and high the largest.
func low(b stats.Bound) float64 {
	if b.NoValue || b.Open < 0 {
		return math.Inf(-1)
	}
	return float64(b.D)
}

func high(b stats.Bound) float64 {
	if b.NoValue || b.Open > 0 {
		return math.Inf(1)
	}
	return float64(b.D)
}
