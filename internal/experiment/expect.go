package experiment

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// An Expectation is one line under expect:, either about one arm ("stock.worst >= 10s") or about
// two ("patched vs stock: over-1s lower").
type Expectation struct {
	Text string `json:"text"` // as written, white space aside
	Arm  string `json:"arm"`
	// Vs is the arm that Arm is compared with, for "A vs B: QUANTITY lower|higher|same"; else empty.
	Vs string `json:"vs,omitempty"`
	// Quantity is worst, median, deletes, over-1s, stalls, classic, expedited, soft-lockups or band.
	Quantity string `json:"quantity"`
	// Op is one of < <= == != >= >, or with Vs one of lower, higher, same.
	Op string `json:"op"`
	// The right-hand side: Duration for worst and median, Count for the numbers, Word for band.
	Duration time.Duration `json:"duration,omitempty"`
	Count    int           `json:"count,omitempty"`
	Word     string        `json:"word,omitempty"`
	// HoldFactor is set when Duration was written as a part of the arm's hold ("0.9*hold"), of which
	// it is this many times.
	HoldFactor float64 `json:"hold_factor,omitempty"`
}

// What may stand where in an expectation. The first two quantities are durations, the last is a word,
// the others are counts.
func quantities() []string {
	return []string{"worst", "median", "deletes", "over-1s", "stalls", "classic", "expedited", "soft-lockups", "band"}
}

func comparisons() []string { return []string{"<", "<=", "==", "!=", ">=", ">"} }
func directions() []string  { return []string{"lower", "higher", "same"} }
func bands() []string       { return []string{"in", "above", "below"} }

const (
	wantExpectation = "want ARM.QUANTITY OP VALUE, such as stock.worst >= 0.9*hold, or A vs B: QUANTITY lower|higher|same"
	wantLength      = "a duration such as 10s, or a part of the arm's hold such as 0.9*hold or hold/3"
	maxHoldFactor   = 10
)

// An expectationText is an expectation on the way to be one: its words, and the arms that it may name.
type expectationText struct {
	*source
	arms  []Arm
	words []word
	end   pos
}

type word struct {
	text string
	at   pos
}

func (s *source) expectations(items []value, arms []Arm) []Expectation {
	var all []Expectation
	for _, item := range items {
		if x, ok := s.expectation(item, arms); ok {
			all = append(all, x)
		}
	}
	return all
}

// expectation reads one item under expect:. YAML takes "a vs b: worst lower" for a mapping of one key.
func (s *source) expectation(item value, arms []Arm) (Expectation, bool) {
	item.key = "an expectation"
	parts := []ast.Node{item.node}
	m, isMap := item.node.(*ast.MappingNode)
	if isMap && len(m.Values) == 1 {
		parts = []ast.Node{m.Values[0].Key, m.Values[0].Value}
	}
	t := &expectationText{source: s, arms: arms}
	var texts []string
	for i, n := range parts {
		text, at, ok := scalar(n)
		if !ok {
			s.mistake(place(n), wantExpectation, "this is no expectation")
			return Expectation{}, false
		}
		if i > 0 {
			t.words = append(t.words, word{":", t.end})
		}
		t.words = append(t.words, split(text, at)...)
		t.end = at.right(utf8.RuneCountInString(text))
		texts = append(texts, strings.Join(strings.Fields(text), " "))
	}
	read := t.bound
	if slices.ContainsFunc(t.words, func(w word) bool { return w.text == "vs" || w.text == ":" }) {
		read = t.comparison
	}
	x, ok := read()
	x.Text = strings.Join(texts, ": ")
	return x, ok
}

// split cuts an expectation's text into words, comparison operators, and the signs * / and :
func split(text string, at pos) []word {
	const class = " \t<>=!*/:"
	var words []word
	last := -1 // class of the character before: words and runs of operator signs go on
	for i, r := range []rune(text) {
		kind := strings.IndexRune(class, r)
		switch {
		case kind >= 2 && kind <= 5:
			kind = 2
		case kind == 0 || kind == 1 || r == '\n':
			last = 0
			continue
		}
		if n := len(words) - 1; n >= 0 && kind == last && kind <= 2 {
			words[n].text += string(r)
		} else {
			words = append(words, word{string(r), at.right(i)})
		}
		last = kind
	}
	return words
}

// next takes the next word; past the end it is empty.
func (t *expectationText) next() word {
	if len(t.words) == 0 {
		return word{at: t.end}
	}
	w := t.words[0]
	t.words = t.words[1:]
	return w
}

// done notes what is left over.
func (t *expectationText) done() bool {
	if w := t.next(); w.text != "" {
		t.mistake(w.at, wantExpectation, "%s is too much here", clip(w.text))
		return false
	}
	return true
}

// oneOf takes a word, which has to be one of names.
func (t *expectationText) oneOf(what string, names []string) (string, bool) {
	w := t.next()
	return w.text, t.isOneOf(w, what, names)
}

func (t *expectationText) isOneOf(w word, what string, names []string) bool {
	switch {
	case slices.Contains(names, w.text):
		return true
	case w.text == "":
		t.mistake(w.at, "want "+orList(names), "the expectation ends before its %s", what)
	case strings.ContainsAny(w.text, "<>=!*/:"):
		t.mistake(w.at, "want "+orList(names), "%s is no %s", clip(w.text), what)
	default:
		t.mistake(w.at, choose(w.text, names), "unknown %s %s", what, clip(w.text))
	}
	return false
}

func (t *expectationText) arm(w word) (Arm, bool) {
	var names []string
	for _, a := range t.arms {
		if a.Name == w.text {
			return a, true
		}
		names = append(names, a.Name)
	}
	t.isOneOf(w, "arm", names)
	return Arm{}, false
}

// bound reads ARM.QUANTITY OP VALUE.
func (t *expectationText) bound() (x Expectation, ok bool) {
	w := t.next()
	dot := strings.LastIndexByte(w.text, '.')
	if dot < 0 {
		t.mistake(w.at, wantExpectation, "an expectation begins with an arm and a quantity")
		return x, false
	}
	name, quantity := word{w.text[:dot], w.at}, word{w.text[dot+1:], w.at.right(utf8.RuneCountInString(w.text[:dot]) + 1)}
	arm, ok := t.arm(name)
	if !ok || !t.isOneOf(quantity, "quantity", quantities()) {
		return x, false
	}
	x = Expectation{Arm: arm.Name, Quantity: quantity.text}
	ops := comparisons()
	if x.Quantity == "band" {
		if ops = []string{"==", "!="}; !t.hasBand(arm, quantity.at) {
			return x, false
		}
	}
	if x.Op, ok = t.oneOf("comparison", ops); !ok {
		return x, false
	}
	return x, t.value(&x, arm) && t.done()
}

// hasBand reports whether there is a band for the arm's load to be in.
func (t *expectationText) hasBand(a Arm, at pos) bool {
	why := ""
	switch {
	case !a.Threaded:
		why = "the band is a property of the NAPI thread's loop; this arm polls in softirq"
	case a.Load.Kind == NoLoad:
		why = "its load is none"
	default:
		return true
	}
	t.mistake(at, why, "arm %s has no band", a.Name)
	return false
}

// value reads the right-hand side of a bound.
func (t *expectationText) value(x *Expectation, arm Arm) (ok bool) {
	switch x.Quantity {
	case "worst", "median":
		return t.length(x, arm)
	case "band":
		x.Word, ok = t.oneOf("band", bands())
		return ok
	}
	w := t.next()
	n, err := strconv.ParseUint(w.text, 10, 31)
	if err != nil {
		t.noValue(w, "a whole number", "a count")
		return false
	}
	x.Count = int(n)
	return true
}

// noValue notes that w, on the right-hand side, is not the kind of value that the quantity has.
func (t *expectationText) noValue(w word, want, kind string) {
	if w.text == "" {
		t.mistake(w.at, "want "+want, "the expectation ends before its value")
		return
	}
	t.mistake(w.at, "want "+want, "%q is not %s", clip(w.text), kind)
}

// length reads a duration, FACTOR*hold, hold/DIVISOR or hold.
func (t *expectationText) length(x *Expectation, arm Arm) bool {
	w := t.next()
	factor, err := 1.0, error(nil)
	switch {
	case w.text == "hold" && t.take("/"):
		w = t.next()
		factor, err = strconv.ParseFloat(w.text, 64)
		factor = 1 / factor
	case w.text == "hold":
	case t.take("*"):
		factor, err = strconv.ParseFloat(w.text, 64)
		if h := t.next(); err == nil && h.text != "hold" {
			t.mistake(h.at, "want "+wantLength, "a number can only be multiplied with hold")
			return false
		}
	default:
		if x.Duration, err = time.ParseDuration(w.text); err == nil && x.Duration >= 0 {
			return true
		}
		t.noValue(w, wantLength, "a length of time")
		return false
	}
	if err != nil || !(factor > 0 && factor <= maxHoldFactor) {
		t.mistake(w.at, "want a number that makes it between 0 and 10 times the hold", "%q makes no part of the hold", clip(w.text))
		return false
	}
	if arm.Load.Hold == 0 {
		t.mistake(w.at, "state a hold for its load, or a duration here", "arm %s has no hold", arm.Name)
		return false
	}
	x.HoldFactor = factor
	x.Duration = x.ofHold(arm.Load.Hold)
	return true
}

// take takes the next word if it is sign.
func (t *expectationText) take(sign string) bool {
	if len(t.words) == 0 || t.words[0].text != sign {
		return false
	}
	t.next()
	return true
}

// sign takes the next word, which has to be sign.
func (t *expectationText) sign(sign string) bool {
	if t.take(sign) {
		return true
	}
	t.mistake(t.next().at, wantExpectation, "%q is missing here", sign)
	return false
}

// ofHold returns the duration that x's factor makes of hold, to the microsecond.
func (x Expectation) ofHold(hold time.Duration) time.Duration {
	return time.Duration(math.Round(x.HoldFactor*float64(hold.Microseconds()))) * time.Microsecond
}

// comparison reads A vs B: QUANTITY lower|higher|same.
func (t *expectationText) comparison() (x Expectation, ok bool) {
	first := t.next()
	a, ok := t.arm(first)
	if !ok {
		return x, false
	}
	if !t.sign("vs") {
		return x, false
	}
	second := t.next()
	b, ok := t.arm(second)
	if !ok {
		return x, false
	}
	if a.Name == b.Name {
		t.mistake(second.at, "want two arms", "arm %s is compared with itself", a.Name)
		return x, false
	}
	x = Expectation{Arm: a.Name, Vs: b.Name}
	if !t.sign(":") {
		return x, false
	}
	ordered := quantities()[:len(quantities())-1] // a band is neither lower nor higher
	if x.Quantity, ok = t.oneOf("quantity", ordered); !ok {
		return x, false
	}
	if x.Op, ok = t.oneOf("direction", directions()); !ok {
		return x, false
	}
	return x, t.done()
}
