package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/qemu"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rundir"
	"github.com/napistall/napistall/internal/runner"
	"github.com/napistall/napistall/internal/testenv"
)

// builtKernels is what the arms of seed need that are built from source: nothing is built here, for that takes a quarter
// of an hour.
const builtKernels = "built-kernels"

// A holding is an arm in which the simulator is held against a real kernel.
type holding struct {
	names   []string // EXPERIMENT/ARM of all arms that are this one
	arm     experiment.Arm
	factor  float64 // by which medians may differ; 0 where they are not compared
	fit     string  // the arm whose run says what things cost; "" for the simulator's own costs
	fits    bool    // others are fitted on this one
	reports bool    // the stall reports must come at their times
}

// holdings are the arms of mainline, band and models, each once, those that others are fitted on before the others.
func holdings(t *testing.T) []holding {
	t.Helper()
	var all []holding
	add := func(name string, shorten func(*experiment.Experiment), arms ...string) {
		for _, a := range armsOf(t, name, shorten) {
			if len(arms) == 0 || slices.Contains(arms, a.Name) {
				all = addHolding(all, name+"/"+a.Name, a)
			}
		}
	}
	add("models", shortHolds)
	add("mainline", (*experiment.Experiment).Shorten)
	add("band", (*experiment.Experiment).Shorten)
	for i := range all {
		h := &all[i]
		switch h.names[0] {
		case "models/full", "models/lazy", "models/full-newest", "mainline/lazy":
			h.factor, h.fit = medians, "models/none"
		case "models/voluntary":
			// Its waits are a few geometric numbers of ticks each: a dozen of them have no exact median, nor has the fit.
			h.factor, h.fit = 1.5*medians, "models/none"
		case "models/none":
			h.fits = true
		case "mainline/stock":
			h.reports = true
		}
	}
	return all
}

// addHolding adds an arm, or only its name if there is one already that differs in nothing else.
func addHolding(all []holding, name string, arm experiment.Arm) []holding {
	for i := range all {
		other := all[i].arm
		other.Name = arm.Name
		if cmp.Equal(other, arm) {
			all[i].names = append(all[i].names, name)
			return all
		}
	}
	return append(all, holding{names: []string{name}, arm: arm})
}

func armsOf(t *testing.T, name string, shorten func(*experiment.Experiment)) []experiment.Arm {
	t.Helper()
	text, ok := experiment.Builtin(name)
	if !ok {
		t.Fatalf("no built-in experiment %s", name)
	}
	e, err := experiment.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	shorten(e)
	if err := findPatches(".", e); err != nil {
		t.Fatal(err)
	}
	return e.Arms
}

// shortHolds makes the holds as --quick does, and leaves the stall timeouts: with one of 3 s, whether RCU reports a
// stall under preempt=none is chance.
func shortHolds(e *experiment.Experiment) {
	timeouts := map[string]experiment.Arm{}
	for _, a := range e.Arms {
		timeouts[a.Name] = a
	}
	e.Shorten()
	for i, a := range e.Arms {
		e.Arms[i].StallTimeout = timeouts[a.Name].StallTimeout
	}
}

// TestHoldings holds the plan to what must be in it: every arm, and none twice.
func TestHoldings(t *testing.T) {
	var names []string
	all := holdings(t)
	for _, h := range all {
		names = append(names, strings.Join(h.names, " "))
		if h.fit != "" && !slices.ContainsFunc(all[:slices.IndexFunc(all, func(x holding) bool { return x.names[0] == h.names[0] })],
			func(x holding) bool { return x.names[0] == h.fit }) {
			t.Errorf("%s is fitted on %s, which does not come before it", h.names[0], h.fit)
		}
	}
	want := []string{
		"models/none", "models/voluntary", "models/full", "models/lazy", "models/full-newest",
		"mainline/stock band/inflight-1", "mainline/above-band band/inflight-40", "mainline/softirq band/softirq", "mainline/lazy",
		"band/inflight-4", "band/inflight-16", "band/inflight-17",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("holdings, -want +got:\n%s", diff)
	}
}

// TestSimulatorAgainstKernels runs every arm of mainline, band and models, shortened, on a kernel in a virtual machine
// and in the simulator: the band and what stalls have to be the same, and under full and lazy preemption the lengths of
// deletions, too, with what a poll takes fitted on another arm.
func TestSimulatorAgainstKernels(t *testing.T) {
	testenv.Need(t, testenv.QEMUx86, testenv.QEMUArm, testenv.Apt)
	b := &bench{dir: t.TempDir(), costs: map[string]experiment.Costs{}}
	b.real = realKernels(t, false)
	for _, h := range holdings(t) {
		t.Run(h.names[0], func(t *testing.T) { b.hold(t, h) })
	}
}

// TestSimulatorAgainstPatch does the same for a kernel with the patch, fitted on the one without, if both have been built.
func TestSimulatorAgainstPatch(t *testing.T) {
	testenv.Need(t, testenv.QEMUx86)
	b := &bench{dir: t.TempDir(), costs: map[string]experiment.Costs{}}
	b.real = realKernels(t, true)
	arms := armsOf(t, "seed", (*experiment.Experiment).Shorten)
	for _, h := range []holding{
		{names: []string{"seed/none"}, arm: arms[0], reports: true, fits: true},
		{names: []string{"seed/patched"}, arm: arms[1], factor: medians, fit: "seed/none"},
	} {
		target, err := b.real.Acquire(t.Context(), h.arm)
		if err != nil {
			testenv.Lacks(t, builtKernels, err.Error())
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		t.Run(h.names[0], func(t *testing.T) { b.hold(t, h) })
	}
}

// realKernels is the backend of virtual machines, with the real QEMU.
func realKernels(t *testing.T, offline bool) backend.Backend {
	t.Helper()
	t.Setenv("PATH", os.Getenv(realPath)) // the scripts play a QEMU of their own
	store, err := newStore("", offline)
	if err != nil {
		t.Fatal(err)
	}
	return qemu.Backend{Accel: "auto", Store: store}
}

// A bench runs arms on both backends.
type bench struct {
	dir   string
	real  backend.Backend
	costs map[string]experiment.Costs // by the arm that they were fitted on
}

// hold runs h on a kernel and in the simulator, and fails t where they differ. A trial whose host was busy is no
// reason to fail: it is tried again, as often as one on a broken machine.
func (b *bench) hold(t *testing.T, h holding) {
	arm := h.arm
	if h.fit != "" {
		costs, ok := b.costs[h.fit]
		if !ok {
			t.Fatalf("%s gave nothing to fit", h.fit)
		}
		arm.Model.Costs = costs
	}
	simulated := b.run(t, newSimBackend(), filepath.Join(b.dir, h.file()+"-sim"), arm, simulations)
	for try := 1; ; try++ {
		path := filepath.Join(b.dir, fmt.Sprintf("%s-%d", h.file(), try))
		kernel := b.run(t, b.real, path, h.arm, 1)[0]
		real := conductOf(kernel)
		wrong := append(h.judge(t, real, simulated), b.keepFit(t, h, path)...)
		switch {
		case len(wrong) == 0:
			return
		case real.busy > busyShare && try <= backend.Retries:
			t.Logf("try %d of %d, with a host that was busy: %s", try, 1+backend.Retries, strings.Join(wrong, "; "))
		default:
			t.Fatalf("%s: %s", kernel.Facts.Release, strings.Join(wrong, "\n"))
		}
	}
}

// file is a name for h's runs.
func (h holding) file() string { return strings.ReplaceAll(h.names[0], "/", "-") }

// medians is by which factor the simulator's median deletion may miss a kernel's. The simulator's neighbour comes at one rate, a
// guest's others do not: under TCG on an idle host the median of one and the same arm was 30 ms on one day and 122 ms on another
// (docs/simulator.md), where the simulator has 41 ms.
const medians = 4

// simulations is how many trials the simulator makes of an arm: a real one is one draw, and simulated ones cost little.
const simulations = 5

// judge says in what the simulator's trials differ from real.
func (h holding) judge(t *testing.T, real conduct, trials []explain.TrialSummary) []string {
	sim := pooled(trials)
	t.Logf("%s\nkernel:    %+v\nsimulated: %+v", strings.Join(h.names, ", "), real, sim)
	wrong := differs(real, sim, h.factor)
	if !h.reports {
		return wrong
	}
	// Printing a report over an emulated serial line takes some tenths of a second.
	wrong = append(wrong, lateReports(real, int64(real.hz))...)
	for _, s := range trials {
		for _, w := range lateReports(conductOf(s), 0) {
			wrong = append(wrong, "simulated: "+w)
		}
	}
	return wrong
}

// keepFit fits the costs to the run in path, if other arms are to be held by them.
func (b *bench) keepFit(t *testing.T, h holding, path string) []string {
	if !h.fits {
		return nil
	}
	fit, _, err := fitRun(t.Context(), path, nil)
	if err != nil {
		return []string{fmt.Sprintf("nothing to fit: %v", err)}
	}
	t.Logf("fit: %+v", fit.Costs)
	b.costs[h.names[0]] = fit.Costs
	return nil
}

// pooled is what several trials of one arm show together. Where they don't agree, they differ from any kernel.
func pooled(trials []explain.TrialSummary) conduct {
	all := conductOf(trials[0])
	for _, s := range trials[1:] {
		c := conductOf(s)
		if c.band != all.band || c.stalls != all.stalls || c.lockups != all.lockups || c.blocked != all.blocked {
			all.band = explain.Mixed
		}
	}
	sum := explain.Summarize(trials[0].Arm, trials)
	all.median, all.n = sum.Hold.Summary.Median, len(sum.Hold.Values)
	return all
}

// run runs reps trials of arm on where, and keeps them in path.
func (b *bench) run(t *testing.T, where backend.Backend, path string, arm experiment.Arm, reps int) []explain.TrialSummary {
	t.Helper()
	e := experiment.Experiment{Name: "held", Reps: reps, Seed: 1, Arms: []experiment.Arm{arm}}
	dir, err := rundir.Create(path, []byte("name: held\n"), rundir.Plan{Backend: "held", Experiment: e, Trials: experiment.Plan(&e)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}()
	log := slog.New(newPlainHandler(t.Output()))
	_, err = (&runner.Runner{Backend: where, Dir: dir, Log: log}).Run(t.Context(), dir.Plan().Trials)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("%s can't run here, but everything that it needs was there: %v", arm.Name, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out []explain.TrialSummary
	for _, trial := range dir.Plan().Trials {
		s, err := loadTrial(dir, trial)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}
