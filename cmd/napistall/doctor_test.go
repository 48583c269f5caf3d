package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/doctor"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestDoctorSnapshots judges again what was collected in guests, and on a machine without any: the verdicts are
// those that doctor gave there.
func TestDoctorSnapshots(t *testing.T) {
	files, err := filepath.Glob("testdata/doctor/*.tar.gz")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d snapshots, %v", len(files), err)
	}
	for _, name := range files {
		p, err := readPatient(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		report := doctor.Judge(p.Case)
		var b bytes.Buffer
		out := bufio.NewWriter(&b)
		(&doctorText{out: out}).report(p.Case, report)
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSuffix(name, ".tar.gz") + ".txt"
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if d := cmp.Diff(string(want), b.String()); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, d)
		}
		want1 := verdictByName(filepath.Base(name))
		if report.Verdict != want1 {
			t.Errorf("%s: %s; want %s", name, report.Verdict, want1)
		}
		checkDocument(t, name, newDoctored(p.Case, report))
	}
}

// verdictByName is what a snapshot's name, KERNEL-SCENE.tar.gz, asks for.
func verdictByName(name string) doctor.Verdict {
	switch {
	case strings.Contains(name, "lazy"), strings.Contains(name, "full"), strings.Contains(name, "plain"):
		return doctor.NotExposed
	case strings.Contains(name, "bounce"):
		return doctor.Happening
	}
	return doctor.Exposed
}

// checkDocument: the document is JSON of its own format, and reads back as what was written.
func checkDocument(t *testing.T, name string, d doctored) {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(b))
	strict.DisallowUnknownFields()
	var again doctored
	if err := strict.Decode(&again); err != nil || again.Format != doctorFormat {
		t.Errorf("%s: %v, format %q", name, err, again.Format)
	}
	if diff := cmp.Diff(d, again); diff != "" && !strings.Contains(diff, "nil") { // an empty list reads back as none
		t.Errorf("%s: read back (-written +read):\n%s", name, diff)
	}
}

// TestDoctorPage holds docs/doctor.md to the document: it names every field that there is.
func TestDoctorPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var fields []string
	jsonFields(reflect.TypeFor[doctored](), seen, &fields)
	if len(fields) < 60 {
		t.Fatalf("found %d fields", len(fields))
	}
	for _, f := range fields {
		if !regexp.MustCompile("`" + f + "`").Match(page) {
			t.Errorf("docs/doctor.md does not name the field %s", f)
		}
	}
	if !strings.Contains(string(page), doctorFormat) {
		t.Errorf("docs/doctor.md does not name %s", doctorFormat)
	}
}

func jsonFields(t reflect.Type, seen map[reflect.Type]bool, to *[]string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return
	}
	seen[t] = true
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		*to = append(*to, name)
		jsonFields(f.Type, seen, to)
	}
}
