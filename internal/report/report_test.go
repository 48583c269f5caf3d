package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type format struct {
	name  string
	write func(io.Writer, Run) error
}

func formats() []format {
	return []format{
		{"txt", func(w io.Writer, r Run) error { return Text(w, r, Options{}) }},
		{"long.txt", func(w io.Writer, r Run) error { return Text(w, r, Options{Long: true, Width: 100}) }},
		{"80.txt", func(w io.Writer, r Run) error { return Text(w, r, Options{Width: 80}) }},
		{"mail", Mail},
		{"json", JSON},
		{"csv", CSV},
		{"md", MD},
		{"bench", Bench},
		{"junit.xml", JUnit},
		{"kcidb.json", kcidb},
	}
}

func written(t *testing.T, write func(io.Writer, Run) error, r Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for name, r := range runs() {
		for _, f := range formats() {
			t.Run(name+"."+f.name, func(t *testing.T) {
				got := written(t, f.write, r)
				if again := written(t, f.write, runs()[name]); again != got {
					t.Error("the same run gives other bytes")
				}
				golden(t, name+"."+f.name, got)
			})
		}
	}
}

// Whatever is in a run, text has no control characters, and stays within its width where it can.
func TestTextIsHarmless(t *testing.T) {
	for name, r := range runs() {
		for _, f := range formats() {
			for i, line := range strings.Split(written(t, f.write, r), "\n") {
				for _, c := range line {
					if !unicode.IsPrint(c) {
						t.Errorf("%s.%s:%d: %q has %U", name, f.name, i+1, line, c)
					}
				}
			}
		}
	}
}

func TestMailFitsAMailingList(t *testing.T) {
	for name, r := range runs() {
		for i, line := range strings.Split(written(t, Mail, r), "\n") {
			whole := strings.HasPrefix(line, "  $ ") || strings.HasPrefix(line, "    rcu: ") || strings.HasPrefix(line, "    watchdog: ")
			if runes(line) > mailWidth && !whole {
				t.Errorf("%s.mail:%d: %d characters: %q", name, i+1, runes(line), line)
			}
			for _, c := range line {
				if c >= 0x80 {
					t.Errorf("%s.mail:%d: %q is not ASCII", name, i+1, line)
				}
			}
		}
	}
}

func TestTextFits80Columns(t *testing.T) {
	for name, r := range runs() {
		for i, line := range strings.Split(written(t, func(w io.Writer, r Run) error {
			return Text(w, r, Options{Long: true, Width: 80})
		}, r), "\n") {
			if runes(line) > 80 {
				t.Errorf("%s:%d: %d characters: %q", name, i+1, runes(line), line)
			}
		}
	}
}

func TestCSVIsReadable(t *testing.T) {
	for name, r := range runs() {
		rows, err := csv.NewReader(strings.NewReader(written(t, CSV, r))).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		samples := 0
		for _, a := range r.Arms {
			for _, trial := range a.Trials {
				for _, op := range trial.Ops {
					samples += len(op.Hold) + len(op.Tail)
				}
			}
		}
		if len(rows) != samples+1 {
			t.Errorf("%s: %d rows; want a heading and %d samples", name, len(rows), samples)
		}
		for _, row := range rows {
			for _, c := range row {
				if c != "" && strings.ContainsAny(c[:1], "=+-@\t\r") {
					t.Errorf("%s: cell %q is a formula", name, c)
				}
			}
		}
	}
}

func TestJSONHoldsTheFigures(t *testing.T) {
	var d document
	dec := json.NewDecoder(strings.NewReader(written(t, JSON, runs()["reproduced"])))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		t.Fatal(err)
	}
	a := d.Arms[0]
	if d.Format != JSONFormat || d.Verdict.Word != explain.Reproduced || a.Band != explain.In || *a.Hold.WorstSec != 30.1 ||
		a.Stalls.Classic != 1 || a.Stalls.Expedited != 1 || a.Rates.Polls != 340_000 || a.Hold.Over.K != 1 {
		t.Errorf("stock in JSON: %+v", a)
	}
	if n := len(a.Trials[0].Samples); n != 1+8+1+1 {
		t.Errorf("%d samples; want 11", n)
	}
	if w := a.Trials[0].Samples[0].Waits["rcu_barrier"]; w != 60 {
		t.Errorf("%d stack samples in rcu_barrier; want 60", w)
	}
}

func TestJSONLeavesOutWhatThereIsNot(t *testing.T) {
	var d document
	if err := json.Unmarshal([]byte(written(t, JSON, runs()["zero"])), &d); err != nil {
		t.Fatal(err)
	}
	if h := d.Arms[0].Hold; h.MedianSec != nil || h.WorstSec != nil || h.Over.Lo != nil || h.Over.Hi != nil {
		t.Errorf("no samples have numbers: %+v", h)
	}
}

func TestUnmetCountsUnknownToo(t *testing.T) {
	if n := runs()["reproduced"].Unmet(); n != 0 {
		t.Errorf("reproduced: %d unmet; want 0", n)
	}
	r := Run{Results: []explain.Result{{Status: explain.Met}, {Status: explain.NotMet}, {Status: explain.Unknown}}}
	if n := r.Unmet(); n != 2 {
		t.Errorf("Unmet = %d; want 2", n)
	}
}

func TestAbortedTriesAreInNoNumber(t *testing.T) {
	r := runs()["reproduced"]
	before := r.row(r.Arms[0], false, false)
	r.Aborted = []Aborted{{Trial: "000-stock-1", Arm: "stock", Try: 1, Why: "QEMU died"}}
	if d := cmp.Diff(before, r.row(r.Arms[0], false, false)); d != "" {
		t.Errorf("an aborted try changes the table:\n%s", d)
	}
	if text := written(t, Mail, r); !strings.Contains(text, "aborted, in no number: 000-stock-1 try 1: QEMU died") {
		t.Error("the mail does not show the aborted try")
	}
}

func TestMailCanBeRepeatedElsewhere(t *testing.T) {
	r := runs()["fixed"]
	r.Text = "name: patch\narms:\n\t- {name: ✓}\n"
	r.Host = "4 CPUs x86_64"
	text := written(t, Mail, r)
	for _, want := range []string{
		"    name: patch\n    arms:\n    \\x09- {name: \\u2713}\n", "  - host: 4 CPUs x86_64\n",
		"  - timed: the deletion of a dummy device, 0.25 s after the last one\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the mail lacks %q:\n%s", want, text)
		}
	}
}

func TestMailNamesABuildOnce(t *testing.T) {
	none, full := lazy(), lazy()
	none.arm.Name, none.facts.Preempt, none.arm.Boot = "none", rcu.None, []string{"threadirqs"}
	full.arm.Name, full.facts.Preempt = "full", rcu.Full
	none.facts.Config = []string{"CONFIG_PREEMPT_DYNAMIC=y", "# CONFIG_PREEMPT is not set", "CONFIG_BPF_JIT=y"}
	full.facts.Config = none.facts.Config
	const want = `
  - 7.3.4-cloud-amd64 x86_64, #1 SMP Debian 7.2.13-1, from
    debian:sid/amd64, CONFIG_PREEMPT_DYNAMIC=y
    none: model NONE dyn, stall timeout 21 s, boot parameters threadirqs
    full: model FULL, stall timeout 21 s
`
	if text := written(t, Mail, run("x", "", none, full)); !strings.Contains(text, want) {
		t.Errorf("the mail lacks %q:\n%s", want, text)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrorsAreReturned(t *testing.T) {
	for _, f := range formats() {
		if err := f.write(failing{}, runs()["reproduced"]); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: error %v; want no space left", f.name, err)
		}
	}
}

func TestRate(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.0", 4.64: "4.6", 99.9: "99.9", 99.97: "100", 999.4: "999", 1234: "1.2k", 9994: "10.0k", 340_000: "340k",
		999_400: "999k", 999_600: "1.0M", 3_300_000: "3.3M", 120e6: "120M",
	} {
		if got := rate(x); got != want {
			t.Errorf("rate(%v) = %q; want %q", x, got, want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain – ÷": "plain – ÷", "\x1b[2J": `\x1b[2J`, "a\nb\tc": `a\x0ab\x09c`, "\xffz": `\xffz`, "\u202eabc": `\u202eabc`,
		"\ufffd": "\ufffd", "\u0085": `\x85`,
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q; want %q", in, got, want)
		}
	}
}

func TestLayoutRepeatsTheFirstColumn(t *testing.T) {
	cols := []column{{head: "arm", cells: []string{"stock"}}, {head: "kernel", cells: []string{"7.2.13"}}, {head: "n", right: true, cells: []string{"12"}}}
	want := []string{"arm    kernel", "stock  7.2.13", "", "arm     n", "stock  12"}
	if d := cmp.Diff(want, layout(cols, 14)); d != "" {
		t.Errorf("layout (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"arm    kernel   n", "stock  7.2.13  12"}, layout(cols, 0)); d != "" {
		t.Errorf("layout (-want +got):\n%s", d)
	}
}

func TestSettingNamesWhatDiffers(t *testing.T) {
	a, b := stock(), lazy()
	a.arm.Load.Hold, b.accel = 10*time.Second, "kvm"
	if got, want := run("x", "", a, b).setting(), "2 vCPUs, TCG and KVM, hold 10 s or 30 s"; got != want {
		t.Errorf("setting = %q; want %q", got, want)
	}
	live := stock()
	live.accel, live.facts.CPUs = "none", 4
	if got, want := run("x", "", live).setting(), "4 CPUs, live machine, hold 30 s"; got != want {
		t.Errorf("setting = %q; want %q", got, want)
	}
	if got := New(experiment.Experiment{Name: "x", Arms: []experiment.Arm{arm("a")}}, nil).setting(); got != "hold 30 s" {
		t.Errorf("setting without trials = %q", got)
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("a few words to be broken", 7)
	f.Fuzz(func(t *testing.T, text string, width int) {
		lines := wrap(text, width, "  ")
		if d := cmp.Diff(strings.Fields(text), strings.Fields(strings.Join(lines, "\n"))); d != "" {
			t.Errorf("words changed (-want +got):\n%s", d)
		}
		for i, l := range lines {
			if width > 2 && runes(l) > width && len(units(strings.Fields(l))) > 1 {
				t.Errorf("line %d is longer than %d: %q", i, width, l)
			}
		}
	})
}

func BenchmarkText200kSamples(b *testing.B) {
	s := lazy()
	s.deletes = some(200_000, time.Millisecond)
	r := run("big", "", s)
	for b.Loop() {
		if err := Text(io.Discard, r, Options{Long: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// golden holds got to the file called name in testdata, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}
