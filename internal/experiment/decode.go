package experiment

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// An opt is a value that a file may state, and where it did.
type opt[T any] struct {
	v   T
	at  pos
	set bool
}

// or returns o if it is stated, else other.
func (o opt[T]) or(other opt[T]) opt[T] {
	if o.set {
		return o
	}
	return other
}

// A value is what stands after a key, not yet read.
type value struct {
	key  string
	node ast.Node
}

// A field is a key that a mapping may have, and what reads its value.
type field struct {
	key  string
	read func(value)
}

// mapping reads the keys of v, a mapping called what in messages, with fields. It notes keys that
// are unknown or stated twice.
func (s *source) mapping(v value, what string, fields []field) {
	m, ok := v.node.(*ast.MappingNode)
	if !ok {
		s.wrongType(v, what+" as keys and values")
		return
	}
	seen := map[string]pos{}
	for _, kv := range m.Values {
		at, key := place(kv.Key), kv.Key.GetToken().Value
		if first, twice := seen[key]; twice {
			s.mistake(at, fmt.Sprintf("it is already set in line %d", first.line), "%s is set twice", clip(key))
			continue
		}
		seen[key] = at
		if !readField(fields, value{key, kv.Value}) {
			s.unknownKey(at, what, key, fields)
		}
	}
}

func readField(fields []field, v value) bool {
	for _, f := range fields {
		if f.key == v.key {
			f.read(v)
			return true
		}
	}
	return false
}

func (s *source) unknownKey(at pos, what, key string, fields []field) {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	s.mistake(at, choose(key, keys), "unknown key %s in %s", clip(key), what)
}

// items returns the items of a list.
func (s *source) items(v value, want string) []value {
	seq, ok := v.node.(*ast.SequenceNode)
	if !ok {
		s.wrongType(v, want)
		return nil
	}
	var items []value
	for _, n := range seq.Values {
		items = append(items, value{v.key, n})
	}
	return items
}

// wrongType notes that v is not what was wanted.
func (s *source) wrongType(v value, want string) {
	is := "text"
	switch v.node.Type() {
	case ast.NullType:
		s.mistake(place(v.node), "want "+want, "%s has no value", v.key)
		return
	case ast.MappingType, ast.MappingValueType:
		is = "a set of keys"
	case ast.SequenceType:
		is = "a list"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		is = "the number " + v.node.GetToken().Value
	case ast.BoolType:
		is = v.node.GetToken().Value
	case ast.StringType:
		is = strconv.Quote(clip(v.node.GetToken().Value))
	}
	s.mistake(place(v.node), "want "+want, "%s is %s", v.key, is)
}

// scalar returns the text of a scalar and where that text begins. A number is text as well, so that an
// arm may be called 6.12.
func scalar(n ast.Node) (text string, at pos, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		at = place(n)
		if t := n.GetToken().Type; t == token.DoubleQuoteType || t == token.SingleQuoteType {
			at = at.right(1)
		}
		return n.Value, at, true
	case *ast.LiteralNode:
		return n.Value.Value, place(n), true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, place(n), true
	case *ast.MappingNode:
		return rejoined(n)
	}
	return "", pos{}, false
}

// rejoined undoes the YAML parser's taking {kernel: [debian:sid]} for {kernel: [{debian: sid}]}: a colon with
// nothing around it is part of a plain scalar. It goes when goccy/go-yaml does so inside flow mappings
// (https://github.com/goccy/go-yaml/issues/832).
func rejoined(n *ast.MappingNode) (text string, at pos, ok bool) {
	if n.IsFlowStyle || len(n.Values) != 1 {
		return "", pos{}, false
	}
	kv := n.Values[0]
	key, at, ok := scalar(kv.Key)
	if !ok {
		return "", pos{}, false
	}
	val, valAt, ok := scalar(kv.Value)
	colon := at.right(utf8.RuneCountInString(key))
	if !ok || tokenPlace(kv.Start) != colon || valAt != colon.right(1) {
		return "", pos{}, false
	}
	return key + ":" + val, at, true
}

// text reads one line of text that isn't empty.
func (s *source) text(v value, want string) opt[string] {
	t, at, ok := scalar(v.node)
	if !ok {
		s.wrongType(v, want)
		return opt[string]{}
	}
	if strings.TrimSpace(t) == "" {
		s.mistake(at, "want "+want, "%s is empty", v.key)
		return opt[string]{}
	}
	if strings.ContainsFunc(t, unicode.IsControl) {
		s.mistake(at, "want "+want, "%s has a line break or a control character in it", v.key)
		return opt[string]{}
	}
	return opt[string]{t, at, true}
}

// prose reads text that may run over several lines, which are joined.
func (s *source) prose(v value) opt[string] {
	if t, at, ok := scalar(v.node); ok {
		joined := strings.Join(strings.Fields(t), " ")
		if joined != "" && !strings.ContainsFunc(joined, unicode.IsControl) {
			return opt[string]{joined, at, true}
		}
	}
	return s.text(v, "text")
}

// list reads a list of texts with read; a single text stands for a list of one.
func (s *source) list(v value, read func(value) opt[string]) opt[[]string] {
	items := []value{v}
	if v.node.Type() == ast.SequenceType {
		items = s.items(v, "")
	}
	list := opt[[]string]{at: place(v.node), set: true}
	for _, item := range items {
		if t := read(item); t.set {
			list.v = append(list.v, t.v)
		}
	}
	return list
}

// word reads one of names.
func (s *source) word(v value, names []string) opt[string] {
	t := s.text(v, orList(names))
	if !t.set {
		return t
	}
	for _, n := range names {
		if t.v == n {
			return t
		}
	}
	s.mistake(t.at, choose(t.v, names), "unknown %s %s", v.key, clip(t.v))
	return opt[string]{}
}

// number reads a whole number from lo to hi.
func (s *source) number(v value, lo, hi uint64) opt[uint64] {
	want := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	t := v.node.GetToken().Value
	if v.node.Type() != ast.IntegerType && !allDigits(v.node) {
		s.wrongType(v, want)
		return opt[uint64]{}
	}
	n, err := strconv.ParseUint(t, 10, 64)
	if err != nil || n < lo || n > hi {
		s.mistake(place(v.node), "want "+want, "%s is %s", v.key, clip(t))
		return opt[uint64]{}
	}
	return opt[uint64]{n, place(v.node), true}
}

// allDigits reports whether n is a number that the YAML parser took for text because it is too large.
func allDigits(n ast.Node) bool {
	if n.Type() != ast.StringType || n.GetToken().Type != token.StringType {
		return false
	}
	return strings.Trim(n.GetToken().Value, "0123456789") == ""
}

// count is number for what fits an int.
func (s *source) count(v value, lo, hi int) opt[int] {
	n := s.number(v, uint64(lo), uint64(hi))
	return opt[int]{int(n.v), n.at, n.set}
}

// truth reads true or false.
func (s *source) truth(v value) opt[bool] {
	b, ok := v.node.(*ast.BoolNode)
	if !ok {
		s.wrongType(v, "true or false")
		return opt[bool]{}
	}
	return opt[bool]{b.Value, place(b), true}
}

// duration reads a duration from lo to hi that is a multiple of unit.
func (s *source) duration(v value, lo, hi, unit time.Duration) opt[time.Duration] {
	const want = "want a duration with its unit, such as 30s, 500ms or 2m"
	t, at, ok := scalar(v.node)
	if !ok {
		s.wrongType(v, want[len("want "):])
		return opt[time.Duration]{}
	}
	if n := v.node.Type(); n == ast.IntegerType || n == ast.FloatType {
		s.mistake(at, "want a duration with its unit, such as "+clip(t)+"s", "%s is %s without a unit", v.key, clip(t))
		return opt[time.Duration]{}
	}
	d, err := time.ParseDuration(t)
	if err != nil {
		s.mistake(at, want, "%s is %q, which is no duration", v.key, clip(t))
		return opt[time.Duration]{}
	}
	if d < lo || d > hi || d%unit != 0 {
		s.mistake(at, fmt.Sprintf("want %s to %s in steps of %s", short(lo), short(hi), short(unit)), "%s is %s", v.key, short(d))
		return opt[time.Duration]{}
	}
	return opt[time.Duration]{d, at, true}
}

// short writes d without the zero parts that Duration.String adds: 1h, not 1h0m0s.
func short(d time.Duration) string {
	t := d.String()
	if strings.HasSuffix(t, "m0s") {
		t = strings.TrimSuffix(t, "0s")
	}
	if strings.HasSuffix(t, "h0m") {
		t = strings.TrimSuffix(t, "0m")
	}
	return t
}

// clip shortens a text of the user's for a message.
func clip(t string) string {
	t = strings.Map(clean, t)
	if r := []rune(t); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return t
}
