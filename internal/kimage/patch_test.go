package kimage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParsePatch(t *testing.T) {
	const mail = `From 0123 Mon Sep 17 00:00:00 2001
From: A <a@b>
Subject: [PATCH] x

--- this is prose
and so on
---
 f | 2 +-
 1 file changed

diff --git a/d/f b/d/f
index 1..2 100644
--- a/d/f
+++ b/d/f
@@ -3,2 +3,2 @@ func()
 a
-b
+c
@@ -9 +9,2 @@

+d
\ No newline at end of file
diff --git a/new b/new
new file mode 100644
--- /dev/null
+++ b/new	2026-01-01
@@ -0,0 +1 @@
+x
-- 
2.47.3
`
	want := []filePatch{
		{"d/f", "d/f", []hunk{{3, []string{"a\n", "b\n"}, []string{"a\n", "c\n"}}, {9, []string{"\n"}, []string{"\n", "d"}}}},
		{"", "new", []hunk{{0, nil, []string{"x\n"}}}},
	}
	for name, text := range map[string]string{"mail": mail, "CRLF": strings.ReplaceAll(mail, "\n", "\r\n")} {
		got, err := parsePatch([]byte(text))
		if d := cmp.Diff(want, got, cmp.AllowUnexported(filePatch{}, hunk{})); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
	}
}

func TestParsePatchErrors(t *testing.T) {
	head := "--- a/f\n+++ b/f\n"
	tests := []struct{ name, text, want string }{
		{"nothing", "hello\n", "no diff in it"},
		{"empty", "", "no diff in it"},
		{"cut", head + "@@ -1,2 +1,2 @@\n a\n", "line 5: the patch ends within a hunk"},
		{"mangled", head + "@@ -1,2 +1,2 @@\n a\nb\n", "line 5: not the line of a hunk"},
		{"too much", head + "@@ -1 +1,2 @@\n-a\n-b\n+c\n+d\n", "line 5: not the line of a hunk"},
		{"range", head + "@@ -x +1 @@\n", "line 3: want @@ -LINE"},
		{"outside", "--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n", "line 1: \"a/../f\": want a name below a/ or b/"},
		{"no prefix", "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\n", "want a name below a/ or b/"},
		{"rename", "diff --git a/x b/y\nrename from x\nrename to y\n", "line 2: renamed"},
		{"two names", "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "want one file's name"},
		{"bad base64", "Subject: x\nContent-Transfer-Encoding: base64\n\n%%%%\n", "line 1: decode the mail: illegal base64 data"},
		{"bad header", "What is this?\nContent-Transfer-Encoding: base64\n\nAAAA\n", "line 1: decode the mail: "},
		{"encoded prose", "Content-Transfer-Encoding: base64\n\nAAAA\n", "of the mail's text, no diff in it"},
	}
	for _, tt := range tests {
		if _, err := parsePatch([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}

func TestApplyHunks(t *testing.T) {
	const file = "one\ntwo\nthree\nfour\nfive\n"
	tests := []struct{ name, hunks, want, err string }{
		{name: "in place", hunks: "@@ -2,2 +2,2 @@\n two\n-three\n+drei\n", want: "one\ntwo\ndrei\nfour\nfive\n"},
		{name: "moved", hunks: "@@ -9,2 +9 @@\n-three\n four\n", want: "one\ntwo\nfour\nfive\n"},
		{name: "two", hunks: "@@ -1 +1,3 @@\n one\n+a\n+b\n@@ -5 +7 @@\n-five\n+fuenf\n", want: "one\na\nb\ntwo\nthree\nfour\nfuenf\n"},
		{name: "insertion", hunks: "@@ -5,0 +6 @@\n+six\n", want: file + "six\n"},
		{name: "wrong", hunks: "@@ -2,2 +2,2 @@\n two\n-drei\n+3\n", err: "hunk 1 (line 2) doesn't apply: line 3 should be \"drei\"; there stands\n     2: two\n     3: three"},
		{name: "second", hunks: "@@ -1 +1,2 @@\n one\n+a\n@@ -4 +5 @@\n-vier\n+4\n", err: "hunk 2 (line 4) doesn't apply: line 4 should be \"vier\""},
		{name: "applied", hunks: "@@ -2,2 +2,2 @@\n two\n-drei\n+three\n", err: "the file already has what it would make of it"},
		{name: "order", hunks: "@@ -4 +4 @@\n-four\n+4\n@@ -1 +1 @@\n-one\n+1\n", err: "hunk 2"},
		{name: "beyond", hunks: "@@ -70 +70 @@\n-x\n+y\n", err: "the file ends before it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := parsePatch([]byte("--- a/f\n+++ b/f\n" + tt.hunks))
			if err != nil {
				t.Fatal(err)
			}
			got, err := applyHunks(splitLines([]byte(file)), p[0].hunks)
			if text := strings.Join(got, ""); err == nil && (text != tt.want || tt.err != "") {
				t.Errorf("applied = %q; want %q%s", text, tt.want, tt.err)
			}
			if err != nil && (tt.err == "" || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %q; want %q", err, tt.err)
			}
		})
	}
}

// A hunk whose place has moved and changed is shown with the place that is most like it.
func TestHunkElsewhere(t *testing.T) {
	lines := splitLines([]byte(strings.Repeat("\n}\n", 50) + "\tlocal_bh_enable();\n\n\tif (busy)\n\t\tqs();\n\tcond_resched();\n\n\tif (!repoll)\n\t\tbreak;\n" + strings.Repeat("}\n", 9)))
	p, err := parsePatch([]byte("--- a/f\n+++ b/f\n@@ -20,6 +20,5 @@\n \tlocal_bh_enable();\n \n-\tif (!repoll)\n-\t\tbreak;\n+\tnothing();\n \tcond_resched();\n }\n"))
	if err != nil || len(p) != 1 {
		t.Fatal(p, err)
	}
	_, err = applyHunks(lines, p[0].hunks)
	want := "hunk 1 (line 20) doesn't apply: nothing there is like it; what is most like it begins at line 101; there stands\n" +
		"   101: \tlocal_bh_enable();\n   102: \n   103: \tif (busy)\n   104: \t\tqs();\n   105: \tcond_resched();"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want\n%s", err, want)
	}
}

// The tree is restored to the byte, files come and go with patches, and only what differs is written.
// noEdit leaves Kconfig as it is.
func noEdit(text string) (string, string) { return text, "" }

func TestWorkTree(t *testing.T) {
	w := workTree{t.TempDir()}
	for name, text := range fakeTree() {
		writeFile(t, filepath.Join(w.tree(), name), []byte(text))
		if err := os.Chtimes(filepath.Join(w.tree(), name), time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		writeFile(t, filepath.Join(dir, name), []byte(text))
		return filepath.Join(dir, name)
	}
	a := write("a.patch", "--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-all:\n+some:\n--- /dev/null\n+++ b/deep/new\n@@ -0,0 +1 @@\n+x\n")
	b := write("b.patch", "--- a/deep/new\n+++ b/deep/new\n@@ -1 +1 @@\n-x\n+y\n--- a/Kconfig\n+++ /dev/null\n@@ -1 +0,0 @@\n-source kernel/Kconfig.preempt\n")
	steps := []struct {
		patches []string
		change  map[string]string // from the fake tree; "" takes a file away
		written []string
	}{
		{},
		{[]string{a}, map[string]string{"Makefile": "some:\n", "deep/new": "x\n"}, []string{"Makefile", "deep/new"}},
		{[]string{a, b}, map[string]string{"Makefile": "some:\n", "deep/new": "y\n", "Kconfig": ""}, []string{"deep/new"}},
		{[]string{a, b}, map[string]string{"Makefile": "some:\n", "deep/new": "y\n", "Kconfig": ""}, nil},
		{[]string{"yield-on-exit.patch"}, map[string]string{"net/core/dev.c": "the patched one"}, []string{"Kconfig", "Makefile", "net/core/dev.c"}},
		{nil, nil, []string{"net/core/dev.c"}},
	}
	for i, step := range steps {
		patches, err := readPatches(step.patches)
		if err != nil {
			t.Fatal(err)
		}
		before := listing(t, w.tree())
		if _, _, err := w.patch(patches, noEdit); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		got := texts(t, w.tree())
		want := fakeTree()
		for name, text := range step.change {
			if want[name] = text; text == "" {
				delete(want, name)
			}
		}
		if text := got["net/core/dev.c"]; strings.Contains(text, "cond_resched();\n\n\t\tif (!repoll)\n\t\t\tbreak;\n\t}") {
			got["net/core/dev.c"] = "the patched one"
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("step %d (-want +got):\n%s", i, d)
		}
		var written []string
		for path, what := range listing(t, w.tree()) {
			if rel, err := filepath.Rel(w.tree(), path); err != nil {
				t.Fatal(err)
			} else if _, file := got[rel]; file && before[path] != what {
				written = append(written, rel)
			}
		}
		if slices.Sort(written); !slices.Equal(written, step.written) {
			t.Errorf("step %d wrote %v; want %v", i, written, step.written)
		}
	}
}

// A patch that doesn't apply leaves everything as it is.
func TestWorkTreeUntouched(t *testing.T) {
	w := workTree{t.TempDir()}
	for name, text := range fakeTree() {
		writeFile(t, filepath.Join(w.tree(), name), []byte(text))
	}
	a := filepath.Join(t.TempDir(), "a.patch")
	writeFile(t, a, []byte("--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-all:\n+some:\n"))
	before := listing(t, w.dir)
	patches, err := readPatches([]string{a, a})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.patch(patches, noEdit); err == nil {
		t.Error("one patch applies twice")
	}
	if d := cmp.Diff(before, listing(t, w.dir)); d != "" {
		t.Errorf("a patch that doesn't apply changed:\n%s", d)
	}
}

// Killed between two writes, the tree is put right the next time.
func TestWorkTreeAfterKill(t *testing.T) {
	w := workTree{t.TempDir()}
	for name, text := range fakeTree() {
		writeFile(t, filepath.Join(w.tree(), name), []byte(text))
	}
	// The journal and the original are there, the file is half written.
	writeFile(t, filepath.Join(w.dir, "patched.json"), []byte(`{"net/core/dev.c": true}`))
	writeFile(t, filepath.Join(w.dir, "pristine/net/core/dev.c"), []byte(fakeDev))
	writeFile(t, filepath.Join(w.tree(), "net/core/dev.c"), []byte(fakeDev[:40]))
	if _, _, err := w.patch(nil, noEdit); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fakeTree(), texts(t, w.tree())); d != "" {
		t.Errorf("after a kill (-want +got):\n%s", d)
	}
}

// Each form of the built-in patch parses and changes nothing but the poll loop.
func TestBuiltinPatches(t *testing.T) {
	patches, err := readPatches([]string{builtinPatches})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(patches[0].forms); n != 2 {
		t.Fatalf("%s has %d forms; want 2", builtinPatches, n)
	}
	for _, f := range patches[0].forms {
		if len(f.files) != 1 || f.files[0].from != "net/core/dev.c" || len(f.files[0].hunks) != 1 {
			t.Errorf("%s changes %+v", f.name, f.files)
		}
		h := f.files[0].hunks[0]
		for _, call := range []string{"rcu_softirq_qs_periodic(last_qs);", "cond_resched();"} {
			line := slices.Index(h.new, "\t\t"+call+"\n")
			exit := slices.Index(h.new, "\t\tif (!repoll)\n")
			if line < 0 || exit < line {
				t.Errorf("%s: %s is not before the exit", f.name, call)
			}
		}
	}
}

// The patches that people read are the ones that are built in.
func TestExamplePatches(t *testing.T) {
	forms := builtinPatch(builtinPatches)
	for _, form := range forms {
		want, err := patchFiles.ReadFile(form)
		if err != nil {
			t.Fatal(err)
		}
		got := read(t, filepath.Join("../../examples/yield-on-exit", filepath.Base(form)))
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s and its example differ:\n%s", form, d)
		}
	}
	if shown, err := filepath.Glob("../../examples/yield-on-exit/*.patch"); err != nil || len(shown) != len(forms) {
		t.Errorf("the example has %v, %v; %d forms are built in", shown, err, len(forms))
	}
}

func FuzzParsePatch(f *testing.F) {
	f.Add("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
	f.Add("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+c\n\\ No newline at end of file\n")
	f.Add("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n")
	f.Add("From a Mon Sep 17 00:00:00 2001\nSubject: x\nContent-Transfer-Encoding: quoted-printable\n\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a=3D=\nb\n+c\n")
	f.Add("Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n--b\n\nx\n--b--\n")
	f.Fuzz(func(t *testing.T, text string) {
		files, err := parsePatch([]byte(text))
		if err != nil {
			return
		}
		for _, p := range files {
			for _, name := range []string{p.from, p.to} {
				if name != "" && !filepath.IsLocal(name) {
					t.Errorf("patches %q, which is outside", name)
				}
			}
			for _, h := range p.hunks {
				h.at = 1
				if len(h.old) == 0 {
					h.at = 0
				}
				// A hunk applied to what it expects gives what it promises.
				got, err := applyHunks(h.old, []hunk{h})
				if err != nil || !slices.Equal(got, h.new) {
					t.Errorf("%q applied to %q = %q, %v", h.new, h.old, got, err)
				}
			}
		}
	})
}
