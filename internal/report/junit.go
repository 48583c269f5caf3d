package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/explain"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"` // seconds that the arm's trials measured, with three decimals
	Package    string          `xml:"package,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        *junitText      `xml:"system-out"` // the arm in words
	Err        *junitText      `xml:"system-err"` // the kernel's own
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr,omitempty"`
	Skipped *string       `xml:"skipped"`
	Error   *junitProblem `xml:"error"`
	Failure *junitProblem `xml:"failure"`
	Out     *junitText    `xml:"system-out"`
}

// junitText keeps its line ends.
type junitText struct {
	Text string `xml:",cdata"`
}

func newJUnitText(s string) *junitText {
	if s == "" {
		return nil
	}
	return &junitText{s}
}

type junitProblem struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes r as XML for CI systems: a test suite for each arm, in which each trial is a case that passes when it
// gave data, whatever the kernel did in it, and each expectation about the arm is one that fails
// when it was not met or can't be said. Tries on a broken machine are errors; what could not run here is skipped. The
// elements and attributes are those that Jenkins reads (junit-4.xsd).
func JUnit(w io.Writer, r Run) error {
	all := junitSuites{Name: clean(r.Experiment.Name)}
	for _, a := range r.Arms {
		s := r.junitSuite(a)
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		all.Suites = append(all.Suites, s)
	}
	text, err := xml.MarshalIndent(all, "", " ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if _, err := io.WriteString(w, xml.Header+string(text)+"\n"); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r Run) junitSuite(a explain.ArmSummary) junitSuite {
	measured := float64(len(a.Trials)) * a.Arm.Duration.Seconds()
	s := junitSuite{
		Name: clean(a.Arm.Name), Package: clean(r.Experiment.Name), Time: strconv.FormatFloat(measured, 'f', 3, 64),
		Properties: r.junitProperties(a), Out: newJUnitText(strings.Join(items(r.armItems(a), minProse), "\n")), Err: newJUnitText(kernelLines(a)),
	}
	s.Cases = append(r.junitTrials(a), r.junitExpectations(a)...)
	s.Tests = len(s.Cases)
	for _, c := range s.Cases {
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
	return s
}

func (r Run) junitProperties(a explain.ArmSummary) []junitProperty {
	all := []junitProperty{
		{"verdict", string(r.Verdict.Word)}, {"kernel", orUnknown(a.KernelName())}, {"model", orUnknown(explain.Model(a.Facts))},
		{"band", bandCell(a.Band)}, {"worst", worstCell(a.Hold)}, {"over 1 s", overCell(a)},
		{"stalls", fmt.Sprintf("%d+%d", a.Classic, a.Expedited)}, {"backend", r.Backend}, {"napistall", r.Version},
	}
	for i := range all {
		all[i].Value = clean(all[i].Value)
	}
	return slices.DeleteFunc(all, func(p junitProperty) bool { return p.Value == "" })
}

// junitTrials are the arm's trials: those that are data, those that were aborted, and the arm itself where
// it could not run.
func (r Run) junitTrials(a explain.ArmSummary) []junitCase {
	class := clean(r.Experiment.Name + "." + a.Arm.Name)
	var cases []junitCase
	for _, t := range a.Trials {
		one := explain.Summarize(a.Arm, []explain.TrialSummary{t})
		cases = append(cases, junitCase{Name: clean("trial " + t.ID), Class: class,
			Time: strconv.FormatFloat(t.Arm.Duration.Seconds(), 'f', 3, 64),
			Out:  newJUnitText(clean(fmt.Sprintf("%s; band %s; %s", lengthsWords(one.Hold), bandCell(t.Band.Band), reportsWords(one))))})
	}
	for _, x := range r.Aborted {
		if x.Arm == a.Arm.Name {
			cases = append(cases, junitCase{Name: clean(fmt.Sprintf("trial %s try %d", x.Trial, x.Try)), Class: class,
				Error: &junitProblem{Type: "machine", Message: clean(x.Why), Text: "aborted, in no number"}})
		}
	}
	for _, x := range r.NotRun {
		if x.Arm == a.Arm.Name {
			why := clean("not run: " + x.Why)
			cases = append(cases, junitCase{Name: "arm", Class: class, Skipped: &why})
		}
	}
	return cases
}

// junitExpectations are those about the arm; one about two arms is the first one's.
func (r Run) junitExpectations(a explain.ArmSummary) []junitCase {
	var cases []junitCase
	for _, x := range r.Results {
		if x.Expectation.Arm != a.Arm.Name {
			continue
		}
		c := junitCase{Name: clean("expect " + x.Expectation.Text), Class: clean(r.Experiment.Name + "." + a.Arm.Name)}
		got := clean(fmt.Sprintf("%s: %s", x.Status, x.Got))
		switch {
		case x.Status == explain.Met:
			c.Out = newJUnitText(got)
		case x.Status == explain.Unknown && (r.notRun(x.Expectation.Arm) || r.notRun(x.Expectation.Vs)):
			c.Skipped = &got
		default:
			c.Failure = &junitProblem{Type: string(x.Status), Message: got}
		}
		cases = append(cases, c)
	}
	return cases
}

// notRun reports whether an arm could not run at all.
func (r Run) notRun(arm string) bool {
	return slices.ContainsFunc(r.NotRun, func(n NotRun) bool { return n.Arm == arm })
}

// kernelLines are what the kernel printed about stalls in the arm's trials, with the trials' names.
func kernelLines(a explain.ArmSummary) string {
	var lines []string
	for _, t := range a.Trials {
		for _, e := range t.Events {
			if len(lines) >= 10*maxSlow {
				return strings.Join(append(lines, "and more"), "\n")
			}
			for _, l := range e.Lines {
				lines = append(lines, clean(t.ID)+": "+clean(strings.ReplaceAll(l, "\t", " ")))
			}
		}
	}
	return strings.Join(lines, "\n")
}
