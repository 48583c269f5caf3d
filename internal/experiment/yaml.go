package experiment

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on what is given to the YAML parser, whose time is quadratic in the number of a mapping's
// keys and in the depth of nesting.
const (
	maxBytes = 128 << 10
	maxDepth = 32
	maxKeys  = 8192
)

// document returns the root of the one YAML document in text, or nil after noting what is wrong. It
// refuses what an experiment never needs and what would make positions or meaning unclear:
// anchors, aliases, merge keys, tags, directives, complex keys, further documents.
func (s *source) document(text string) ast.Node {
	if !s.plainText(text) {
		return nil
	}
	tokens := lexer.Tokenize(text)
	if !s.plainYAML(tokens) {
		return nil
	}
	file, err := parseTokens(tokens)
	if err != nil {
		s.syntax(err)
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root == nil:
			root = doc.Body
		default:
			s.mistake(place(doc.Body), "one experiment per file", "a second YAML document")
			return nil
		}
	}
	if root == nil {
		s.mistake(pos{1, 1}, "an experiment: name, arms, …", "the file is empty")
	}
	return root
}

// plainText checks the encoding: UTF-8 of moderate length, no control characters.
func (s *source) plainText(text string) bool {
	if len(text) > maxBytes {
		s.mistake(pos{1, 1}, "", "the file has %d KiB; an experiment has at most %d KiB", len(text)>>10, maxBytes>>10)
		return false
	}
	p := pos{1, 1}
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			s.mistake(p, "UTF-8 text", "byte 0x%02x is not UTF-8", text[i])
			return false
		case r == '\n':
			p = pos{p.line + 1, 1}
			continue
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n"), r == '\t':
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			s.mistake(p, "", "control character U+%04X", r)
			return false
		}
		p.col++
	}
	return true
}

// plainYAML checks the tokens for the parts of YAML that aren't used, and for the depth of nesting.
func (s *source) plainYAML(tokens token.Tokens) bool {
	depth, dashes, keys, line := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			dashes++
		case token.MappingValueType:
			keys++
		default:
			if what, want := unused(t.Type); what != "" {
				s.mistake(tokenPlace(t), want, "a YAML %s can't be used in an experiment", what)
				return false
			}
		}
		if depth+dashes > maxDepth || keys > maxKeys {
			s.mistake(tokenPlace(t), "", "an experiment has at most %d levels and %d keys", maxDepth, maxKeys)
			return false
		}
	}
	return true
}

// unused names a part of YAML that isn't used, and says what is used instead.
func unused(t token.Type) (what, want string) {
	const instead = "like: derives one arm from another"
	switch t {
	case token.AnchorType:
		return "anchor (&)", instead
	case token.AliasType:
		return "alias (*)", instead
	case token.MergeKeyType:
		return "merge key (<<)", instead
	case token.TagType:
		return "tag (!)", "put the text in quotes if it begins with !"
	case token.DirectiveType:
		return "directive (%)", "want KEY: VALUE"
	case token.MappingKeyType:
		return "complex key (?)", "want KEY: VALUE"
	}
	return "", ""
}

// parseTokens is parser.Parse with a panic in it turned into an error: the text can be any bytes, and
// the parser is not ours.
func parseTokens(tokens token.Tokens) (f *ast.File, err error) {
	defer func() {
		if recover() != nil {
			f, err = nil, errors.New("this is not YAML")
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntax notes what the YAML parser had to say.
func (s *source) syntax(err error) {
	p, msg := pos{1, 1}, err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		msg = e.GetMessage()
		if t := e.GetToken(); t != nil {
			p = tokenPlace(t)
		}
	}
	first, _, _ := strings.Cut(msg, "\n")
	s.mistake(p, "", "%s", first)
}

func tokenPlace(t *token.Token) pos {
	if t == nil || t.Position == nil {
		return pos{1, 1}
	}
	return pos{t.Position.Line, t.Position.Column}
}

// place returns where a node begins; for a block mapping that is its first key.
func place(n ast.Node) pos {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return place(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return place(n.Key)
	}
	return tokenPlace(n.GetToken())
}
