package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/explain"
)

// junitRules are the elements of Jenkins' junit-4.xsd with their attributes, required ones first, and the elements that
// may be in each, in order.
var junitRules = map[string]struct {
	required, optional, inside []string
}{
	"testsuites": {nil, []string{"name", "time", "tests", "failures", "disabled", "errors"}, []string{"testsuite"}},
	"testsuite": {[]string{"name", "tests"}, []string{"failures", "errors", "time", "disabled", "skipped", "timestamp", "hostname", "id", "package"},
		[]string{"properties", "testcase", "system-out", "system-err"}},
	"properties": {nil, nil, []string{"property"}},
	"property":   {[]string{"name", "value"}, nil, nil},
	"testcase": {[]string{"name"}, []string{"assertions", "time", "classname", "status"},
		[]string{"skipped", "error", "failure", "system-out", "system-err"}},
	"skipped": {}, "system-out": {}, "system-err": {},
	"error":   {nil, []string{"type", "message"}, nil},
	"failure": {nil, []string{"type", "message"}, nil},
}

// follows holds an XML text against junitRules.
func follows(text string) error {
	dec := xml.NewDecoder(strings.NewReader(text))
	var stack []string
	last := map[int]int{} // by depth, the place of the newest element among those that its parent may have
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch e := tok.(type) {
		case xml.StartElement:
			if err := allowed(e, stack, last); err != nil {
				return err
			}
			stack = append(stack, e.Name.Local)
			last[len(stack)] = 0
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		}
	}
}

func allowed(e xml.StartElement, stack []string, last map[int]int) error {
	name := e.Name.Local
	rule, known := junitRules[name]
	if !known {
		return fmt.Errorf("element %s is none of the schema's", name)
	}
	if depth := len(stack); depth > 0 {
		place := slices.Index(junitRules[stack[depth-1]].inside, name)
		if place < last[depth] {
			return fmt.Errorf("%s is not allowed there in %s", name, stack[depth-1])
		}
		last[depth] = place
	} else if name != "testsuites" {
		return fmt.Errorf("the root is %s", name)
	}
	var has []string
	for _, a := range e.Attr {
		has = append(has, a.Name.Local)
		if !slices.Contains(rule.required, a.Name.Local) && !slices.Contains(rule.optional, a.Name.Local) {
			return fmt.Errorf("%s has an attribute %s", name, a.Name.Local)
		}
	}
	for _, a := range rule.required {
		if !slices.Contains(has, a) {
			return fmt.Errorf("%s has no attribute %s", name, a)
		}
	}
	return nil
}

func TestJUnitFollowsItsSchema(t *testing.T) {
	for name, r := range runs() {
		if err := follows(written(t, JUnit, r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range []string{"<testsuite/>", `<testsuites id="1"/>`, "<testsuites><testcase/></testsuites>",
		`<testsuites><testsuite name="a" tests="0"><system-err/><system-out/></testsuite></testsuites>`,
		`<testsuites><testsuite name="a"/></testsuites>`} {
		if follows(wrong) == nil {
			t.Errorf("follows(%s) finds nothing wrong", wrong)
		}
	}
}

// TestJUnitCounts reads it back as a CI system would.
func TestJUnitCounts(t *testing.T) {
	for name, r := range runs() {
		var got junitSuites
		if err := xml.Unmarshal([]byte(written(t, JUnit, r)), &got); err != nil {
			t.Fatal(err)
		}
		tests, failures, errs, skipped := 0, 0, 0, 0
		for _, s := range got.Suites {
			for _, c := range s.Cases {
				tests++
				if c.Failure != nil {
					failures++
				}
				if c.Error != nil {
					errs++
				}
				if c.Skipped != nil {
					skipped++
				}
			}
			if s.Tests != len(s.Cases) {
				t.Errorf("%s: suite %s says %d tests and has %d cases", name, s.Name, s.Tests, len(s.Cases))
			}
		}
		done, _ := r.trials()
		if want := done + len(r.Aborted) + len(r.NotRun) + len(r.Results); tests != want || got.Tests != want {
			t.Errorf("%s: %d cases, said to be %d; want %d", name, tests, got.Tests, want)
		}
		if failures != got.Failures || errs != got.Errors || failures != r.Unmet() || errs != len(r.Aborted) || skipped != len(r.NotRun) {
			t.Errorf("%s: %d failures, %d errors, %d skipped; want %d, %d, %d", name, failures, errs, skipped, r.Unmet(), len(r.Aborted), len(r.NotRun))
		}
	}
}

// What could not be said because the arm could not run is skipped; what could not be said for another reason fails, as
// it does in run's exit status.
func TestJUnitTellsSkippedFromUnknown(t *testing.T) {
	r := runs()["inconclusive"]
	status := func(r Run) string {
		text := written(t, JUnit, r)
		_, text, _ = strings.Cut(text, `<testcase name="expect `)
		text, _, _ = strings.Cut(text, "</testcase>")
		for _, word := range []string{"<failure", "<skipped>", "<error"} {
			if strings.Contains(text, word) {
				return strings.Trim(word, "<>")
			}
		}
		return "passed"
	}
	r.Results = r.Results[:1]
	for _, c := range []struct {
		status explain.Status
		notRun []NotRun
		want   string
	}{
		{explain.Met, nil, "passed"}, {explain.NotMet, nil, "failure"}, {explain.Unknown, nil, "failure"},
		{explain.Unknown, []NotRun{{Arm: "lazy", Why: "no such kernel"}}, "skipped"},
		{explain.NotMet, []NotRun{{Arm: "lazy", Why: "no such kernel"}}, "failure"},
	} {
		r.Results[0].Status, r.NotRun = c.status, c.notRun
		if got := status(r); got != c.want {
			t.Errorf("%s with %v not run: %s; want %s", c.status, c.notRun, got, c.want)
		}
	}
}
