package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"testdata/ok", "testdata/bad", "builtin"} {
		files, err := filepath.Glob(dir + "/*.yaml")
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range files {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		e, err := Parse("fuzz.yaml", src)
		if err != nil {
			wellPlaced(t, "fuzz.yaml", err)
			return
		}
		invariants(t, e)
		e.Shorten()
		invariants(t, e)
	})
}

// wellPlaced checks that every mistake in err has the file's name and a place in it.
func wellPlaced(t *testing.T, file string, err error) {
	t.Helper()
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for i, err := range errs {
		e, ok := err.(*ParseError)
		switch {
		case !ok && (i == 0 || i != len(errs)-1 || !strings.HasPrefix(err.Error(), file+": and ")):
			t.Errorf("error %T %q; want *ParseError", err, err)
		case ok && (e.File != file || e.Line < 1 || e.Col < 1 || e.Msg == ""):
			t.Errorf("badly placed: %+v", e)
		case ok && strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }):
			t.Errorf("control character in %q", e.Error())
		}
	}
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`)

// invariants checks what whoever gets an experiment from Parse relies on.
func invariants(t *testing.T, e *Experiment) {
	t.Helper()
	if !nameRE.MatchString(e.Name) || e.Reps < 1 || len(e.Arms) == 0 {
		t.Fatalf("experiment %q: reps %d, %d arms", e.Name, e.Reps, len(e.Arms))
	}
	names := map[string]Arm{}
	for _, a := range e.Arms {
		if _, twice := names[a.Name]; twice || !nameRE.MatchString(a.Name) {
			t.Errorf("bad or repeated arm name %q", a.Name)
		}
		names[a.Name] = a
		armInvariants(t, a)
	}
	for _, x := range e.Expect {
		expectInvariants(t, x, names)
	}
	planInvariants(t, e)
}

func armInvariants(t *testing.T, a Arm) {
	t.Helper()
	for what, ok := range map[string]bool{
		"kernel":   a.Kernel != "" && !slices.Contains(a.KernelElse, ""),
		"built":    isBuilt(a.Kernel) || IsModel(a.Kernel) || a.Config == Config{},
		"patched":  isBuilt(a.Kernel) || a.Patch == nil,
		"loop":     a.Loop == Stock || a.Threaded && slices.Contains(Loops(), a.Loop),
		"vcpus":    a.VCPUs >= 2 && a.Load.CPU >= LastCPU && a.Load.CPU < a.VCPUs,
		"stall":    a.StallTimeout == 0 || a.StallTimeout >= 3*time.Second && a.StallTimeout <= 300*time.Second && a.StallTimeout%time.Second == 0,
		"expstall": a.ExpStallTimeout%time.Millisecond == 0,
		"kind":     slices.Contains(LoadKinds(), a.Load.Kind),
		"inflight": (a.Load.Kind == Bounce) == (a.Load.Inflight >= 1) && a.Load.Inflight <= 256,
		"hold":     a.Load.Hold >= time.Second || a.Load.Kind == NoLoad && a.Load.Hold == 0,
		"duration": a.Duration >= a.Load.Hold && a.Duration > 0,
		"probe":    (a.Probe.Op == LinkDel) == (a.Probe.Device != ""),
		"every":    a.Probe.Every > 0 && a.Probe.Every < a.Duration,
		"boot":     !slices.ContainsFunc(a.Boot, func(b string) bool { return b == "" || strings.ContainsAny(b, " \t\n") }),
	} {
		if !ok {
			t.Errorf("arm %s: %s: %+v", a.Name, what, a)
		}
	}
	knobInvariants(t, a)
}

// knobInvariants checks that each load has its own knobs with values, and no other's.
func knobInvariants(t *testing.T, a Arm) {
	t.Helper()
	l := a.Load
	closed := l.Kind == Windowed || l.Kind == TCP
	for what, ok := range map[string]bool{
		"rate":   l.Rate >= 0 && (l.Kind != Paced || l.Rate > 0) && (l.Rate == 0 || l.Kind == Paced || l.Kind == TCP || l.Kind == Recorded),
		"wire":   l.Size == 0 || float64(l.Rate)*float64(l.Size+24)*8 <= 100e9,
		"batch":  (l.Kind == Paced) == (l.Batch >= 1) && l.Batch <= 4096,
		"window": closed == (l.Window >= 1) && l.Window <= 65536,
		"size":   (closed || l.Kind == Paced) == (l.Size >= 60) && l.Size <= 9000,
		"rtt":    closed == (l.RTT > 0),
		"from":   (l.Kind == Recorded) == (l.From != ""),
		"band":   l.Band == "" || l.Band == HoldBand && (closed || l.Kind == Paced),
		"nic":    l.Kind.OnNIC() == (a.NIC != NIC{}),
		"ring":   !l.Kind.OnNIC() || a.NIC.Ring >= 1 && a.NIC.Ring <= 65536 && (a.NIC.MaskScope == PerQueue || a.NIC.MaskScope == AllQueues),
	} {
		if !ok {
			t.Errorf("arm %s: %s: %+v", a.Name, what, a)
		}
	}
	if err := NeedsModel(a); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("NeedsModel: %v", err)
	}
	for _, k := range modelKernels([]string{a.Kernel}) {
		if a.Preempt != "" && !slices.Contains(k.Models(), a.Preempt) || a.Preempt == "" && !k.Dynamic() {
			t.Errorf("arm %s: %s with preempt %q", a.Name, k, a.Preempt)
		}
	}
}

func expectInvariants(t *testing.T, x Expectation, arms map[string]Arm) {
	t.Helper()
	a, known := arms[x.Arm]
	if _, vs := arms[x.Vs]; !known || x.Vs != "" && !vs || !slices.Contains(quantities(), x.Quantity) || x.Text == "" {
		t.Errorf("expectation %+v", x)
	}
	ops := comparisons()
	if x.Vs != "" {
		ops = directions()
	}
	if !slices.Contains(ops, x.Op) {
		t.Errorf("expectation %q: operator %q", x.Text, x.Op)
	}
	if (x.Quantity == "band" && x.Vs == "") != slices.Contains(bands(), x.Word) {
		t.Errorf("expectation %q: word %q", x.Text, x.Word)
	}
	if x.HoldFactor != 0 && x.Duration != x.ofHold(a.Load.Hold) || x.Duration < 0 || x.Count < 0 {
		t.Errorf("expectation %+v with hold %s", x, a.Load.Hold)
	}
}

func planInvariants(t *testing.T, e *Experiment) {
	t.Helper()
	plan := Plan(e)
	if len(plan) != e.Reps*len(e.Arms) {
		t.Fatalf("plan has %d trials; want %d × %d", len(plan), e.Reps, len(e.Arms))
	}
	for i, tr := range plan {
		if tr.Index != i || tr.Rep != i/len(e.Arms)+1 {
			t.Errorf("trial %d: index %d, rep %d", i, tr.Index, tr.Rep)
		}
	}
	for block := range slices.Chunk(plan, len(e.Arms)) {
		seen := map[string]bool{}
		for _, tr := range block {
			seen[tr.Arm.Name] = true
		}
		if len(seen) != len(e.Arms) {
			t.Errorf("repetition %d holds %d of %d arms", block[0].Rep, len(seen), len(e.Arms))
		}
	}
}
