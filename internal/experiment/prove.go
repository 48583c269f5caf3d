package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/rcu"
)

// A Proving is what a patch is held against: a source, its release, and how much is to be measured.
type Proving struct {
	// Kernel is the source as a kernel spec, tree:… or debian-source:…, or a ModelKernel's.
	Kernel string
	// Release is the source's own: 6.12 is {6, 12}.
	Release Release
	// Arch is Debian's name of the architecture that is built for.
	Arch  string
	Patch []string // as they are named, in order
	// Loop stands for the patch on a ModelKernel.
	Loop Loop
	// Models are those asked for; empty: all that the source can have.
	Models []rcu.Preemption
	// AllowKconfig lets NONE and VOLUNTARY be built where Kconfig forbids them, by an edit.
	AllowKconfig bool
	// Reps is the number of trials of each arm in the band under a model that doesn't preempt; default
	// ProveReps.
	Reps  int
	Quick bool
	Seed  uint64
	// Mainline is a kernel as it is shipped, under VOLUNTARY, beside those that are built; empty: none.
	Mainline string
	// Notes are printed with the table, besides those that follow from the rest.
	Notes []string
}

// A Release is a kernel's version as far as its preemption models depend on it.
type Release struct{ Major, Minor int }

func (r Release) String() string { return fmt.Sprintf("%d.%d", r.Major, r.Minor) }

func (r Release) before(major, minor int) bool {
	return r.Major < major || r.Major == major && r.Minor < minor
}

// lazySince is the first release with ARCH_HAS_PREEMPT_LAZY for an architecture, from the commits that select
// it in arch/*/Kconfig; false where none does.
func lazySince(arch string) (Release, bool) {
	switch arch {
	case "amd64":
		return Release{6, 13}, true
	case "arm64":
		return Release{6, 15}, true
	}
	return Release{}, false
}

// hasDynamic reports whether a build for arch can have PREEMPT_DYNAMIC (HAVE_PREEMPT_DYNAMIC: x86 by static
// calls, arm64 by static keys, 32-bit arm not), so that one build follows several models.
func hasDynamic(arch string) bool { return arch == "amd64" || arch == "arm64" }

// ProveModels lists the preemption models that a source of release r can have on arch, those that don't
// preempt first. The rules are kernel/Kconfig.preempt's: before 7.0 NONE, VOLUNTARY and PREEMPT, and PREEMPT_LAZY
// where the architecture has it; since 7.0 NONE needs ARCH_NO_PREEMPT and VOLUNTARY an architecture without lazy
// preemption. With allow, Kconfig is edited so that NONE can be had everywhere.
func ProveModels(r Release, arch string, allow bool) []rcu.Preemption {
	since, can := lazySince(arch)
	lazy := can && !r.before(since.Major, since.Minor)
	restricted := !r.before(7, 0)
	var models []rcu.Preemption
	if !restricted || allow {
		models = append(models, rcu.None)
	}
	if !restricted || !lazy {
		models = append(models, rcu.Voluntary)
	}
	models = append(models, rcu.Full)
	if lazy {
		models = append(models, rcu.Lazy)
	}
	return models
}

// checkModels returns the models of p, or an error that says why one can't be had and what could have it, or what
// name no file can hold.
func (p Proving) checkModels() ([]rcu.Preemption, error) {
	for _, name := range append([]string{p.Kernel}, p.Patch...) {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("%q is not UTF-8, as an experiment's file has to be: rename it", name)
		}
	}
	have := ProveModels(p.Release, p.Arch, p.AllowKconfig)
	if len(p.Models) == 0 {
		return have, nil
	}
	able := have
	if p.AllowKconfig && !slices.Contains(able, rcu.Voluntary) {
		able = append(slices.Clone(able), rcu.Voluntary) // the edit allows it, too; NONE says the same of the loop
	}
	for _, m := range p.Models {
		if !slices.Contains(able, m) {
			return nil, fmt.Errorf("%s for %s can't have the model %s: it has %s; %s", p.Release, p.Arch, m, orList(words(have)), whoHas(m, p.Arch))
		}
	}
	return p.Models, nil
}

// whoHas says which sources could have a model.
func whoHas(m rcu.Preemption, arch string) string {
	switch m {
	case rcu.None:
		return "sources before 7.0 can have none, and --allow-kconfig edits Kconfig so that later ones can"
	case rcu.Voluntary:
		return "sources before 7.0 can have voluntary, later ones only for --arch armhf, or by --allow-kconfig"
	case rcu.Lazy:
		if since, ok := lazySince(arch); ok {
			return fmt.Sprintf("lazy came to %s with %s", arch, since)
		}
		return "lazy came to amd64 with 6.13 and to arm64 with 6.15; armhf has none"
	}
	return "a patch is proved under none, voluntary, full and lazy"
}

// Preempting reports whether the claim is about m: under the others, the kernel preempts the thread itself.
func preempting(m rcu.Preemption) bool { return m == rcu.Full || m == rcu.Lazy }

// What the trials of a proving are like. A stall timeout of 3 s, the least that RCU takes, makes a hold of
// 10 s long enough for a classic and an expedited report; the pause between deletes is short, so that a
// patched arm has many in a short hold.
const (
	// ProveReps is how many trials an arm in the band has: three stalled ones give the three deletes that
	// Fisher's test needs.
	ProveReps = 3
	// ProveDeletes is how many deletes a patched arm in the band must have had.
	ProveDeletes = 60
	// ProveWorst is what none of them may take.
	ProveWorst = 1500 * time.Millisecond

	proveHold    = 15 * time.Second
	controlHold  = 10 * time.Second
	proveEvery   = 50 * time.Millisecond
	proveTimeout = 3 * time.Second
	// proveRate is how many deletes a second a patched arm is sure to have: 6.12 under NONE and VOLUNTARY had 3.7 and
	// 3.6 with a pause of 150 ms, under TCG on 2 cores of which others took half.
	proveRate = 3
)

// patchedHold is the hold in which n trials together have ProveDeletes deletes at proveRate, and a fifth more.
func patchedHold(n int) time.Duration {
	need := time.Duration(ProveDeletes*6/5/proveRate) * time.Second
	return max(proveHold, (need/time.Duration(n) + time.Second - 1).Truncate(time.Second))
}

// Prove plans the proof that p's patch ends the stalls: stock and patched, under each model, in the band, above it
// and in softirq mode, and a kernel as it is shipped. It returns the experiment as a file, and that file parsed.
//
// NONE and VOLUNTARY are built as such, for PREEMPT_DYNAMIC under preempt=none is another system
// (kernel-model 2.2: its RCU is the preemptible one); full and lazy are one build with PREEMPT_DYNAMIC where the
// architecture has it. The error is about what p asks for.
func Prove(p Proving) ([]byte, *Experiment, error) {
	models, err := p.checkModels()
	if err != nil {
		return nil, nil, err
	}
	t := &proveText{Proving: p}
	if t.Reps == 0 {
		t.Reps = ProveReps
	}
	for _, m := range models {
		t.model(m)
	}
	if p.Mainline != "" {
		t.mainline()
	}
	t.notes(models)
	text := []byte(t.file())
	e, err := Parse("prove.yaml", text)
	if err != nil {
		return nil, nil, fmt.Errorf("plan the proof: %w", err)
	}
	return text, e, nil
}

// ProveGate plans one arm: does the source, as it is, stall under the model that says most? It returns it as Prove
// does. The error says that the source can have no model under which the loop could stall.
func ProveGate(p Proving) ([]byte, *Experiment, error) {
	models, err := p.checkModels()
	if err != nil {
		return nil, nil, err
	}
	if preempting(models[0]) {
		return nil, nil, fmt.Errorf("%s for %s can't have none or voluntary, under which alone the loop stalls; %s", p.Release, p.Arch, whoHas(rcu.None, p.Arch))
	}
	t := &proveText{Proving: p}
	t.arm(models[0], "gate", proveArm{reps: max(1, p.Reps), hold: patchedHold(3)})
	t.Notes = append(t.Notes, stallNote)
	text := []byte(t.file())
	e, err := Parse("gate.yaml", text)
	if err != nil {
		return nil, nil, fmt.Errorf("plan the gate: %w", err)
	}
	return text, e, nil
}

// shortPatch names patches for a title.
func (p Proving) shortPatch() string {
	var names []string
	for _, n := range p.Patch {
		names = append(names, n[strings.LastIndexByte(n, '/')+1:])
	}
	if p.Loop != Stock {
		names = append(names, "the loop "+string(p.Loop))
	}
	return strings.Join(names, ", ")
}
