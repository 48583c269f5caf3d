package napistall

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// imports is the architecture: each package with its level and what it may import of ours, which is
// always of a lower level, or of the same one where that is listed on purpose. Change it on purpose.
var imports = map[string]struct {
	level int
	may   []string
}{
	"internal/rcu":        {0, nil},
	"internal/stats":      {0, nil},
	"internal/machine":    {0, []string{"internal/rcu"}},
	"internal/testenv":    {0, nil}, // tests only: what a machine lacks
	"internal/traceevent": {0, nil},

	"klog":                {1, nil}, // public: nothing internal may show in its API
	"internal/experiment": {1, []string{"internal/rcu"}},

	"internal/wire":    {2, []string{"internal/experiment", "internal/rcu"}},
	"internal/load":    {2, []string{"internal/experiment", "internal/machine", "internal/rcu"}},
	"internal/probe":   {2, []string{"internal/experiment", "internal/machine", "internal/rcu"}},
	"internal/kimage":  {2, []string{"internal/experiment", "internal/rcu"}},
	"internal/backend": {2, []string{"internal/experiment"}},
	"internal/explain": {2, []string{"internal/experiment", "internal/rcu", "internal/stats", "klog"}},
	"internal/model":   {2, []string{"internal/rcu"}},

	"internal/agent": {3, []string{
		"internal/experiment", "internal/load", "internal/machine", "internal/probe", "internal/rcu",
		"internal/wire", "klog",
	}},
	"internal/rundir": {3, []string{"internal/experiment", "internal/rcu", "internal/wire"}},
	"internal/report": {3, []string{
		"internal/experiment", "internal/explain", "internal/rcu", "internal/stats", "internal/traceevent", "klog",
	}},
	"internal/doctor":              {3, []string{"internal/explain", "internal/machine", "internal/rcu", "klog"}},
	"internal/check":               {3, []string{"internal/model", "internal/rcu"}},
	"internal/backend/sim":         {3, []string{"internal/backend", "internal/experiment", "internal/model", "internal/rcu", "internal/traceevent"}},
	"internal/backend/backendtest": {3, []string{"internal/backend", "internal/experiment", "internal/rcu"}},

	"internal/backend/qemu": {4, []string{
		"internal/backend", "internal/experiment", "internal/kimage", "internal/rcu", "internal/wire", "klog",
	}},
	"internal/backend/host": {4, []string{
		"internal/agent", "internal/backend", "internal/experiment", "internal/load", "internal/machine", "internal/rcu", "internal/wire",
	}},
	"internal/backend/remote": {4, []string{
		"internal/backend", "internal/experiment", "internal/kimage", "internal/rcu", "internal/wire",
	}},
	"internal/runner": {4, []string{
		"internal/backend", "internal/experiment", "internal/rcu", "internal/rundir", "klog",
	}},

	"cmd/napistall":       {5, nil}, // may import everything
	"cmd/napistall/guest": {4, []string{"internal/agent"}},
}

// pure packages take values and io.Readers and return values: they import nothing with an effect.
var pure = []string{
	"internal/rcu", "internal/experiment", "internal/stats", "klog", "internal/wire",
	"internal/explain", "internal/report", "internal/model", "internal/doctor", "internal/traceevent",
}

// effects are what a pure package must not import.
var effects = []string{"os", "os/exec", "os/signal", "net", "syscall", "log", "log/slog", "golang.org/x/sys/unix"}

const (
	module    = "github.com/napistall/napistall/"
	maxFile   = 500 // lines
	maxFunc   = 70  // lines
	testsOnly = "internal/testenv"
)

// A source is one parsed Go file of ours.
type source struct {
	dir, name string
	text      string
	file      *ast.File
	fset      *token.FileSet
}

func (s source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != "." && (strings.HasPrefix(n, ".") || n == "testdata" || n == "bin" || n == "runs") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, p, text, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, source{dir: filepath.ToSlash(filepath.Dir(p)), name: filepath.Base(p), text: string(text), file: f, fset: fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found %d Go files; is this the module's root?", len(out))
	}
	return out
}

func TestImportsPointDown(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir == "." {
			continue
		}
		rule, listed := imports[s.dir]
		if !listed {
			t.Errorf("%s: package not in the import table", path.Join(s.dir, s.name))
			continue
		}
		for _, spec := range s.file.Imports {
			dep, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if !ours || dep == s.dir {
				continue
			}
			at := s.fset.Position(spec.Pos())
			switch target := imports[dep]; {
			case s.test() && (dep == testsOnly || target.level <= rule.level):
			case dep == testsOnly:
				t.Errorf("%s: %s is for tests", at, dep)
			case s.dir == "cmd/napistall":
			case !slices.Contains(rule.may, dep):
				t.Errorf("%s: %s may not import %s", at, s.dir, dep)
			case target.level > rule.level:
				t.Errorf("%s: level %d imports %s of level %d", at, rule.level, dep, target.level)
			}
		}
	}
}

func TestTableNamesWhatExists(t *testing.T) {
	for dir, rule := range imports {
		if files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go")); err != nil || len(files) == 0 {
			t.Errorf("the import table lists %s, which has no Go file", dir)
		}
		for _, dep := range rule.may {
			if target, ok := imports[dep]; !ok || target.level > rule.level {
				t.Errorf("the import table lets %s import %s: not listed or not below", dir, dep)
			}
		}
	}
}

func TestPurePackagesHaveNoEffects(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || !slices.Contains(pure, s.dir) {
			continue
		}
		for _, spec := range s.file.Imports {
			if dep := strings.Trim(spec.Path.Value, `"`); slices.Contains(effects, dep) {
				t.Errorf("%s: %s is pure and imports %s", s.fset.Position(spec.Pos()), s.dir, dep)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: %s is pure and starts a goroutine", s.fset.Position(g.Pos()), s.dir)
			}
			return true
		})
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	packages := map[string]string{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		packages[s.dir] = s.file.Name.Name
		if s.file.Doc != nil {
			comments[s.dir] = append(comments[s.dir], s.file.Doc.Text())
		}
	}
	for dir, name := range packages {
		want := "Package " + name + " "
		if name == "main" {
			want = "Command "
		}
		if c := comments[dir]; len(c) != 1 || !strings.HasPrefix(c[0], want) {
			t.Errorf("%s has %d package comments; want one that starts %q", dir, len(c), want)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		if n := strings.Count(s.text, "\n"); n > maxFile {
			t.Errorf("%s: %d lines; at most %d", path.Join(s.dir, s.name), n, maxFile)
		}
		for _, d := range s.file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1; n > maxFunc {
				t.Errorf("%s: %s has %d lines; at most %d", s.fset.Position(fn.Pos()), fn.Name.Name, n, maxFunc)
			}
		}
	}
}

func TestNoInitAndNoMutableState(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: func init", s.fset.Position(d.Pos()))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					checkVars(t, s, d)
				}
			}
		}
	}
}

// checkVars complains about a package variable that the package itself assigns to after its
// declaration, or that starts empty and so can only be meant to change.
func checkVars(t *testing.T, s source, d *ast.GenDecl) {
	t.Helper()
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		embedded := d.Doc != nil && strings.Contains(s.text, "//go:embed")
		if len(v.Values) == 0 && !embedded && !isLinkTime(v) {
			t.Errorf("%s: package variable %v starts empty", s.fset.Position(v.Pos()), v.Names)
		}
		for _, name := range v.Names {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN {
					for _, lhs := range a.Lhs {
						if id, ok := lhs.(*ast.Ident); ok && id.Obj != nil && id.Obj == name.Obj {
							t.Errorf("%s: package variable %s is assigned to", s.fset.Position(a.Pos()), name.Name)
						}
					}
				}
				return true
			})
		}
	}
}

// isLinkTime reports whether v is the one variable that the linker sets: the version.
func isLinkTime(v *ast.ValueSpec) bool {
	return len(v.Names) == 1 && v.Names[0].Name == "version" && fmt.Sprint(v.Type) == "string"
}

func TestNoPackageIsAGrabBag(t *testing.T) {
	for _, s := range sources(t) {
		for _, word := range []string{"util", "utils", "common", "helpers", "types", "misc"} {
			if path.Base(s.dir) == word || strings.TrimSuffix(s.name, ".go") == word {
				t.Errorf("%s: named %s", path.Join(s.dir, s.name), word)
			}
		}
	}
}
