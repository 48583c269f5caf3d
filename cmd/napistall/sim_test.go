package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
)

func TestParseAxis(t *testing.T) {
	for text, want := range map[string]string{
		"load.rate=10k..120k:3":              "10000 65000 120000",
		"load.rate=10k/s..120k/s:2":          "10000/s 120000/s",
		"load.inflight=1..4:4":               "1 2 3 4",
		"load.inflight=1..3:9":               "1 2 3",
		"nic.moderation=0s,20us,100us":       "0s 20us 100us",
		"nic.moderation=0..100us:3":          "0s 50µs 100µs",
		"x=1us..1ms:4log":                    "1µs 10µs 100µs 1ms",
		"load.window=1..256:5log":            "1 4 16 64 256",
		"config.preempt=none, lazy":          "none lazy",
		"stall-timeout=3s..21s:2,60s":        "3s 21s 60s",
		"load.rate=80862/s":                  "80862/s",
		"kernel=debian:sid/armhf,model:6.18": "debian:sid/armhf model:6.18",
	} {
		a, err := parseAxis(text)
		if got := strings.Join(a.values, " "); err != nil || got != want {
			t.Errorf("parseAxis(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "want KEY=VALUE", "x": "want KEY=VALUE", "x=": "want KEY=VALUE", "=1": "want KEY=VALUE", "x=1,,2": "an empty value",
		"x=1..2:1": "no number of steps", "x=1..2:a": "no number of steps", "x=a..2": "can't be an end", "x=1..5ms": "different units",
		"x=0..5:3log": "need ends above 0", "x=1..2:99999": "no number of steps", "x=-1..2": "can't be an end",
	} {
		if _, err := parseAxis(text); err == nil || !strings.Contains(err.Error(), want) || !isUsage(err) {
			t.Errorf("parseAxis(%q) = %v; want a usage error with %q", text, err, want)
		}
	}
}

func FuzzParseAxis(f *testing.F) {
	for _, s := range []string{"load.rate=10k..120k:24", "x=0s,20us", "x=1us..1ms:4log", "x=1..2,3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAxis(text)
		if err != nil {
			if !isUsage(err) {
				t.Errorf("parseAxis(%q) = %v; want a usage error", text, err)
			}
			return
		}
		if a.key == "" || len(a.values) == 0 || len(a.values) > maxAxis {
			t.Errorf("parseAxis(%q) = %d values of %q", text, len(a.values), a.key)
		}
	})
}

// TestSettingsMakeTheSameArm: an arm written as settings is read as that arm, for every arm that is built in and the
// examples.
func TestSettingsMakeTheSameArm(t *testing.T) {
	texts := map[string][]byte{}
	for _, b := range experiment.Builtins() {
		texts[b.Name], _ = experiment.Builtin(b.Name)
	}
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if texts[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	texts["knobs"] = []byte(`
name: knobs
arms:
  - {name: a, kernel: model:7.3, loop: busy-poll, load: {kind: tcp, rate: 5k/s, window: 9, rtt: 3ms, band: hold, cpu: 0}, vcpus: 3, probe: {op: membarrier}}
  - {name: b, kernel: "tree:/a b", config: {preempt: none, hz: 100}, patch: [a.patch, "b c.patch"], boot: [threadirqs], threaded: false, memory: 512MiB}
  - {name: c, kernel: model:6.12, load: {kind: recorded, from: runs/x/000-a-1}, exp-stall-timeout: 250ms, nic: {ring: 7, latch: false, mask-scope: all-queues, moderation: 3us}, model: {report-cost: 3ms, backlog: true, user: true, costs: {wake: 7us}}}
  - {name: d, kernel: host, load: {kind: none}}
`)
	for name, text := range texts {
		e, err := experiment.Parse(name, text)
		if err != nil {
			continue // an example of another backend's keys, or a broken one: its own tests say so
		}
		for _, arm := range e.Arms {
			got, err := armOfSettings(settings(arm))
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", name, arm.Name, err, yamlOf(settings(arm), ""))
				continue
			}
			got.Name, got.Memory = arm.Name, arm.Memory // a simulator has no memory
			if d := cmp.Diff(arm, got); d != "" {
				t.Errorf("%s, %s (-parsed +from settings):\n%s", name, arm.Name, d)
			}
		}
	}
}

// sweepOf runs a sweep of short trials.
func sweepOf(t *testing.T, c sweepCommand) *sweep {
	t.Helper()
	c.sets = append(c.sets, "load.hold=1s", "probe.every=200ms")
	s, err := c.plan(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSweepIsDeterministic: on any number of cores the same bytes, as text, CSV and SVG, and each of them well-formed.
func TestSweepIsDeterministic(t *testing.T) {
	c := sweepCommand{varies: []string{"load.rate=20k..100k:5", "config.preempt=none,lazy,voluntary"}, sets: []string{"model.costs.poll=20us", "model.costs.packet=9us"}}
	a, b := sweepOf(t, c), sweepOf(t, c)
	for name, out := range map[string][2][]byte{"text": {a.text(), b.text()}, "csv": {a.csv(), b.csv()}, "svg": {a.svg(), b.svg()}} {
		if !bytes.Equal(out[0], out[1]) {
			t.Errorf("two sweeps differ as %s", name)
		}
	}
	rows, err := csv.NewReader(bytes.NewReader(a.csv())).ReadAll()
	if err != nil || len(rows) != 16 {
		t.Errorf("CSV of %d rows, %v; want 16", len(rows), err)
	}
	d := xml.NewDecoder(bytes.NewReader(a.svg()))
	cells := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if el, ok := tok.(xml.StartElement); ok && el.Name.Local == "title" {
			cells++
		}
	}
	if cells != 15 {
		t.Errorf("%d cells in the SVG; want 15", cells)
	}
	want := "lazy  ....."
	if text := string(a.text()); !strings.Contains(text, want) || !strings.Contains(text, "none  .o") && !strings.Contains(text, "none  ") {
		t.Errorf("map:\n%s\nwant a row %q", text, want)
	}
}

// TestSweepShowsTheBand: one axis as a table, with the band judged from what was counted.
func TestSweepShowsTheBand(t *testing.T) {
	s, err := sweepCommand{arm: "inflight-1", sets: []string{"load.hold=2s", "probe.every=250ms"}, varies: []string{"load.inflight=15..18:4"}}.plan(t.Context(), []string{"band"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var bands []string
	for _, p := range s.points {
		bands = append(bands, string(p.result.band))
	}
	if d := cmp.Diff([]string{"in", "in", "above", "above"}, bands); d != "" {
		t.Errorf("bands (-want +got):\n%s\n%s", d, s.text())
	}
}

// TestScanInstants: a file that is no recorded load is the user's mistake, and never more than was bargained for.
func TestScanInstants(t *testing.T) {
	got, err := scanInstants("f", strings.NewReader("# ns\n0\n\n 5 \r\n5\n2592000000000000"), 4)
	if diff := cmp.Diff([]int64{0, 5, 5, 2592000000000000}, got); err != nil || diff != "" {
		t.Errorf("scanInstants = %v, %v; want four instants", got, err)
	}
	for text, want := range map[string]string{
		"": "no instants", "\x00": "is no whole number", "1\n2\n\xff": "f:3: ", "-1": "is no whole number", "1.5": "is no whole number",
		"9223372036854775807": "is after 30 days", "9223372036854775808": "is no whole number", "2\n1": "comes after 2",
		"1\n2\n3\n4\n5": "over 4 instants", strings.Repeat("0", 1<<20): "a line of over 65536 bytes",
	} {
		if _, err := scanInstants("f", strings.NewReader(text), 4); err == nil || !isUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("scanInstants(%.20q) = %v; want a usage error with %q", text, err, want)
		}
	}
}

// TestSettingsAreOneLine: what --set and --vary are given makes one value of the arm's text, and nothing else in it.
func TestSettingsAreOneLine(t *testing.T) {
	for _, text := range []string{"boot=x\n- name: b", "boot=a\rb", "boot=\x00", "boot=\xff", "boot=a\u0085b", "bo\not=x", "x y=1", ".=1", "Load.rate=1"} {
		if _, err := parseSetting(text); err == nil || !isUsage(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("parseSetting(%q) = %v; want a usage error of one line", text, err)
		}
		if _, err := parseAxis(text); err == nil || !isUsage(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("parseAxis(%q) = %v; want a usage error of one line", text, err)
		}
	}
}

// TestSweepInterrupted: neither planning nor running goes on, and what has no result says why.
func TestSweepInterrupted(t *testing.T) {
	c := sweepCommand{sets: []string{"load.hold=1s"}, varies: []string{"load.rate=1k..9k:3"}}
	s, err := c.plan(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.plan(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("plan = %v; want %v", err, context.Canceled)
	}
	if err := s.points[0].run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	rest := &sweep{axes: s.axes, points: s.points[1:]}
	if err := rest.run(ctx, 1); err != nil || rest.simulated() != 0 || s.simulated() != 1 {
		t.Errorf("run = %v, with %d points simulated; want none", err, rest.simulated())
	}
	text := string(s.text())
	for _, want := range []string{"1000  below", "5000  not run", "not run: interrupted before its turn"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("the map is\n%s\nwant %q in it", text, want)
		}
	}
}

// TestEach: each point is done once, and how far it is is said at each interval.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		var counts [n]atomic.Int32
		var said []string
		each(t.Context(), n, "simulated", func(text string) { said = append(said, text) }, func(i int) {
			time.Sleep(3 * time.Second)
			counts[i].Add(1)
		})
		for i := range counts {
			if c := counts[i].Load(); c != 1 {
				t.Errorf("point %d: %d times", i, c)
			}
		}
		want := (n + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0) * 3 / 5
		if len(said) < want-1 || len(said) > want || len(said) > 0 && !regexp.MustCompile(`^\d+ of 40 points simulated, about \d+ s to go$`).MatchString(said[0]) {
			t.Errorf("%q; want %d lines", said, want)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	each(ctx, 5, "planned", nil, func(int) { t.Error("a point after the end") })
}
