package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/klog"
)

// sourceDirs are the packages whose types are in a document.
var sourceDirs = map[string]string{"report": ".", "experiment": "../experiment", "explain": "../explain", "klog": "../../klog", "rcu": "../rcu"}

// closed are the types of which a document has no other value than their constants: those that this program
// sets, and no kernel or agent.
var closed = []reflect.Type{
	reflect.TypeFor[explain.Word](), reflect.TypeFor[explain.Band](), reflect.TypeFor[explain.Status](), reflect.TypeFor[explain.Stall](),
	reflect.TypeFor[klog.Kind](), reflect.TypeFor[experiment.LoadKind](), reflect.TypeFor[experiment.Loop](),
}

// A property is one member of an object whose members keep their order.
type property struct {
	name  string
	value any
}

type object []property

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, p := range o {
		b.WriteByte("{,"[min(i, 1)])
		v, err := json.Marshal(p.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", p.name, v)
	}
	if len(o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// A schemaMaker describes types.
type schemaMaker struct {
	comments map[string]string   // of types, "explain.Band", and of their fields, "explain.Band.Name"
	consts   map[string][]string // values of a type's constants, by the type
	defs     object
	seen     map[string]bool
}

// newSchemaMaker reads the comments and constants from the sources.
func newSchemaMaker(t *testing.T) *schemaMaker {
	t.Helper()
	m := &schemaMaker{comments: map[string]string{}, consts: map[string][]string{}, seen: map[string]bool{}}
	for name, dir := range sourceDirs {
		files, err := fs.Glob(os.DirFS(dir), "*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path.Join(dir, file), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					m.read(name, g)
				}
			}
		}
	}
	return m
}

func (m *schemaMaker) read(pkg string, g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			name := pkg + "." + s.Name.Name
			m.comments[name] = words(g.Doc, s.Doc)
			if st, ok := s.Type.(*ast.StructType); ok {
				for _, f := range st.Fields.List {
					for _, id := range f.Names {
						m.comments[name+"."+id.Name] = words(f.Doc, f.Comment)
					}
				}
			}
		case *ast.ValueSpec:
			id, typed := s.Type.(*ast.Ident)
			for i := range s.Values {
				if lit, ok := s.Values[i].(*ast.BasicLit); ok && typed && g.Tok == token.CONST {
					m.consts[pkg+"."+id.Name] = append(m.consts[pkg+"."+id.Name], constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0)))
				}
			}
		}
	}
}

// words are comments as one line.
func words(groups ...*ast.CommentGroup) string {
	var all []string
	for _, g := range groups {
		all = append(all, strings.Fields(g.Text())...)
	}
	return strings.Join(all, " ")
}

// describe returns the schema of t, which def names where it is an object.
func (m *schemaMaker) describe(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Pointer:
		return m.describe(t.Elem())
	case reflect.Slice:
		return object{{"type", "array"}, {"items", m.describe(t.Elem())}}
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", m.describe(t.Elem())}}
	case reflect.Struct:
		m.define(t)
		return object{{"$ref", "#/$defs/" + defName(t)}}
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.String:
		if values := m.consts[t.String()]; slices.Contains(closed, t) {
			slices.Sort(values)
			return object{{"enum", slices.Compact(values)}}
		}
		return object{{"type", "string"}}
	case reflect.Uint64:
		return object{{"type", "integer"}, {"minimum", 0}}
	case reflect.Float64:
		return object{{"type", "number"}}
	}
	return object{{"type", "integer"}}
}

// defName is what t is called in the schema.
func defName(t reflect.Type) string {
	if t == reflect.TypeFor[document]() {
		return "document"
	}
	return strings.Replace(t.String(), "report.json", "report.", 1)
}

// define adds t to the definitions.
func (m *schemaMaker) define(t reflect.Type) {
	if m.seen[t.String()] {
		return
	}
	m.seen[t.String()] = true
	m.defs = append(m.defs, property{defName(t), nil})
	place := len(m.defs) - 1
	var fields object
	required := []string{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := m.describe(f.Type)
		what := m.comments[t.String()+"."+f.Name]
		if f.Type == reflect.TypeFor[time.Duration]() {
			what = strings.TrimSpace(what + " In nanoseconds.")
		}
		if what != "" {
			s = append(s, property{"description", what})
		}
		fields = append(fields, property{name, s})
		if options == "" {
			required = append(required, name)
		}
	}
	def := object{{"type", "object"}}
	if what := m.comments[t.String()]; what != "" {
		def = append(def, property{"description", what})
	}
	m.defs[place].value = append(def, property{"properties", fields}, property{"required", required}, property{"additionalProperties", false})
}

// made is the schema of the document that JSON writes.
func made(t *testing.T) string {
	t.Helper()
	m := newSchemaMaker(t)
	root := m.describe(reflect.TypeFor[document]())
	format := m.defs[0].value.(object)[2].value.(object)
	format[0].value = object{{"const", JSONFormat}, {"description", "The name of this format."}}
	all := object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", "urn:napistall:report:1"},
		{"title", JSONFormat}, {"description", "What `napistall report --format json` of this version of napistall writes."},
		{"$ref", root[0].value}, {"$defs", m.defs}}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(all); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestJSONSchemaIsThatOfTheTypes: a field that is added, also one of an experiment or of facts, is in the schema.
func TestJSONSchemaIsThatOfTheTypes(t *testing.T) {
	want := made(t)
	if *update {
		if err := os.WriteFile("schema/json.json", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if Schema("json") != want {
		t.Error("schema/json.json is not what the types say: run go test ./internal/report -update and look at the difference")
	}
}

func TestJSONSchemaSaysWhatFieldsAre(t *testing.T) {
	m := newSchemaMaker(t)
	m.describe(reflect.TypeFor[document]())
	said := 0
	for _, d := range m.defs {
		if strings.Contains(fmt.Sprint(d.value), "description") {
			said++
		}
	}
	if said < len(m.defs)*2/3 || len(m.defs) < 20 {
		t.Errorf("%d of %d types are described", said, len(m.defs))
	}
	if got := m.comments["experiment.Facts.HZ"]; got != "ticks per second" {
		t.Errorf("the comment of HZ is %s", strconv.Quote(got))
	}
}
