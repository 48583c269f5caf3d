package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

// KCIDBMajor and KCIDBMinor are the version of KernelCI's schema that KCIDB follows: v05_03 of kcidb-io, the newest in
// October 2026 and the one that KernelCI's guide for submitters names.
const KCIDBMajor, KCIDBMinor = 5, 3

// KCIDBOrigin is the origin under which results stand that no lab has given its own to.
const KCIDBOrigin = "napistall"

// maxExcerpt is the schema's limit on a log excerpt, in characters.
const maxExcerpt = 16384

type kcidbDocument struct {
	Version   kcidbVersion    `json:"version"`
	Checkouts []kcidbCheckout `json:"checkouts"`
	Builds    []kcidbBuild    `json:"builds"`
	Tests     []kcidbTest     `json:"tests"`
}

type kcidbVersion struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

type kcidbCheckout struct {
	ID      string `json:"id"`
	Origin  string `json:"origin"`
	Comment string `json:"comment"`
}

type kcidbBuild struct {
	ID           string         `json:"id"`
	CheckoutID   string         `json:"checkout_id"`
	Origin       string         `json:"origin"`
	Comment      string         `json:"comment"`
	Architecture string         `json:"architecture,omitempty"`
	Misc         map[string]any `json:"misc,omitempty"`
}

type kcidbTest struct {
	ID          string         `json:"id"`
	BuildID     string         `json:"build_id"`
	Origin      string         `json:"origin"`
	Path        string         `json:"path"`
	Comment     string         `json:"comment"`
	Status      string         `json:"status"`
	Environment map[string]any `json:"environment,omitempty"`
	LogExcerpt  string         `json:"log_excerpt,omitempty"`
	Number      *kcidbNumber   `json:"number,omitempty"`
	Duration    float64        `json:"duration,omitempty"` // seconds
	Misc        map[string]any `json:"misc,omitempty"`
}

type kcidbNumber struct {
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Prefix string  `json:"prefix"`
}

// KCIDB writes r as a report for KernelCI's database under the submitter's origin, of lower-case letters, digits
// and _. A trial is a test: FAIL where it shows a stall or ended in a panic, ERROR where it ended before its time in any
// other way, PASS where it shows no stall in the band or in a control, DONE where the load was not in the band, MISS
// where our machinery broke, SKIP for an arm that could not run. Its identity is made from what it measured: the same trial, sent twice, is one.
func KCIDB(w io.Writer, r Run, origin string) error {
	k := kcidbMaker{run: r, origin: origin, doc: kcidbDocument{Version: kcidbVersion{KCIDBMajor, KCIDBMinor},
		Checkouts: []kcidbCheckout{}, Builds: []kcidbBuild{}, Tests: []kcidbTest{}}, made: map[string]bool{}}
	for _, a := range r.Arms {
		if err := k.arm(a); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(k.doc, "", " ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if _, err := w.Write(append(printable(text), '\n')); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// A kcidbMaker makes the document. Checkouts and builds that several arms share are in it once.
type kcidbMaker struct {
	run    Run
	origin string
	doc    kcidbDocument
	made   map[string]bool
}

// id names an object by its content.
func (k *kcidbMaker) id(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return k.origin + ":" + hex.EncodeToString(sum[:12])
}

func (k *kcidbMaker) arm(a explain.ArmSummary) error {
	build, broken := k.build(a), ""
	for _, t := range a.Trials {
		whole, err := json.Marshal(newJSONTrial(t))
		if err != nil {
			return fmt.Errorf("encode report: %w", err)
		}
		k.doc.Tests = append(k.doc.Tests, k.trial(build, string(whole), t))
		broken += k.id(string(whole)) // tries that gave nothing are known by what stands beside them
	}
	for _, x := range k.run.Aborted {
		if x.Arm == a.Arm.Name {
			t := k.test(build, a.Arm, broken, x.Trial, fmt.Sprint(x.Try), x.Why)
			t.Status, t.Comment = "MISS", clean("aborted: "+x.Why)
			k.doc.Tests = append(k.doc.Tests, t)
		}
	}
	for _, x := range k.run.NotRun {
		if x.Arm == a.Arm.Name {
			t := k.test(build, a.Arm, broken, x.Why)
			t.Status, t.Comment = "SKIP", clean("not run: "+x.Why)
			k.doc.Tests = append(k.doc.Tests, t)
		}
	}
	return nil
}

// build adds the arm's kernel, and where it came from, and returns the build's ID.
func (k *kcidbMaker) build(a explain.ArmSummary) string {
	source := "from " + a.Arm.Kernel
	words := source
	if len(a.Trials) > 0 {
		words = buildWords(a)
	}
	if len(a.Arm.Patch) > 0 {
		source += " with " + strings.Join(a.Arm.Patch, ", ")
	}
	source = strings.TrimSpace(a.Facts.Release + " " + source)
	checkout, build := k.id("checkout", source), k.id("build", source, words)
	if !k.made[checkout] {
		k.doc.Checkouts = append(k.doc.Checkouts, kcidbCheckout{ID: checkout, Origin: k.origin, Comment: clean(source)})
	}
	if !k.made[build] {
		b := kcidbBuild{ID: build, CheckoutID: checkout, Origin: k.origin, Comment: clean(words), Architecture: kcidbWord(a.Facts.Arch, false)}
		if len(a.Facts.Config) > 0 {
			b.Misc = map[string]any{"config": a.Facts.Config}
		}
		k.doc.Builds = append(k.doc.Builds, b)
	}
	k.made[checkout], k.made[build] = true, true
	return build
}

// test is what the tests of an arm have in common; content tells one from all others.
func (k *kcidbMaker) test(build string, arm experiment.Arm, content ...string) kcidbTest {
	return kcidbTest{
		ID: k.id(append([]string{"test", k.run.Experiment.Name, arm.Name}, content...)...), BuildID: build, Origin: k.origin,
		Path: strings.Join([]string{"napistall", kcidbWord(k.run.Experiment.Name, true), kcidbWord(arm.Name, true)}, "."),
	}
}

func (k *kcidbMaker) trial(build, content string, t explain.TrialSummary) kcidbTest {
	one := explain.Summarize(t.Arm, []explain.TrialSummary{t})
	x := k.test(build, t.Arm, content)
	x.Status = kcidbStatus(t)
	x.Comment = clean(fmt.Sprintf("%s: %s; band %s; %s", t.ID, lengthsWords(one.Hold), bandCell(t.Band.Band), reportsWords(one)))
	x.Duration = t.Arm.Duration.Seconds()
	where := slices.DeleteFunc([]string{k.run.Backend, accelWords(t.Command.Accel), k.run.Host}, func(s string) bool { return s == "" })
	x.Environment = map[string]any{"comment": clean(strings.Join(where, ", ")),
		"misc": map[string]any{"cpus": t.Facts.CPUs, "model": explain.Model(t.Facts), "cmdline": t.Facts.Cmdline}}
	if worst, atLeast, ok := one.Hold.Worst(); ok && !atLeast {
		x.Number = &kcidbNumber{Value: worst.Seconds(), Unit: "s", Prefix: "metric"}
	}
	if log := []rune(kernelLines(one)); len(log) > 0 {
		x.LogExcerpt = string(log[:min(len(log), maxExcerpt)])
	}
	x.Misc = map[string]any{
		"outcome": t.Outcome, "stall": string(t.Stall()), "band": string(t.Band.Band), "band_evidence": t.Band.Evidence,
		"hold": newJSONLengths(one.Hold),
	}
	return x
}

// kcidbStatus says what a trial shows in the schema's words.
func kcidbStatus(t explain.TrialSummary) string {
	switch {
	case t.Stall() != explain.NoStall, t.Outcome == experiment.Panicked:
		return "FAIL"
	case t.Outcome != experiment.Completed:
		return "ERROR"
	case t.Band.Band == explain.In, t.Band.Band == explain.NoBand:
		return "PASS"
	}
	return "DONE"
}

// kcidbWord leaves of s what a path's part may have, or with names false, an architecture.
func kcidbWord(s string, names bool) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
			return c
		case names && (c >= 'A' && c <= 'Z' || c == '-'):
			return c
		case names:
			return '_'
		}
		return -1
	}, s)
}
