package experiment

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/rcu"
)

// A proveText is a proving's experiment on its way to be a file.
type proveText struct {
	Proving
	arms, expect []string
}

// A proveArm is what an arm has of its own.
type proveArm struct {
	patched  bool
	reps     int
	hold     time.Duration
	inflight int // 0: one, in the band
	softirq  bool
}

// Where an arm's load is, as part of its name.
const (
	aboveSuffix   = "-above"
	softirqSuffix = "-softirq"
	aboveInflight = 40 // twice and a half what is above the band (DEV_MAP_BULK_SIZE 16)
)

const stallNote = "RCU's stall timeout is 3 s in every arm, not the kernel's own 21 s or more, so that a hold of 10 to 30 s is enough for" +
	" its reports."

// model adds the arms under one model, and what is expected of them.
func (t *proveText) model(m rcu.Preemption) {
	for _, patched := range []bool{false, true} {
		a := proveArm{patched: patched, reps: t.Reps, hold: proveHold}
		if preempting(m) {
			a.reps = 1
		}
		if patched {
			if t.Quick {
				a.reps = 1
			}
			a.hold = patchedHold(a.reps)
		} else if t.Quick {
			a.hold = controlHold
		}
		name := t.arm(m, proveName(string(m), patched), a)
		t.expectIn(m, name, patched)
		if t.Quick && preempting(m) {
			continue // a control of what doesn't stall anyway
		}
		a.reps, a.hold = 1, controlHold
		a.inflight = aboveInflight
		t.quiet(t.arm(m, name+aboveSuffix, a), "above")
		if patched && t.Loop != Stock {
			continue // without a thread its loop doesn't run
		}
		a.inflight, a.softirq = 0, true
		t.quiet(t.arm(m, name+softirqSuffix, a), "")
	}
}

func proveName(model string, patched bool) string {
	if patched {
		return model + "-patched"
	}
	return model + "-stock"
}

// expectIn states what is expected in the band: where the model doesn't preempt, that stock stalls and patched
// doesn't; else that neither does.
func (t *proveText) expectIn(m rcu.Preemption, name string, patched bool) {
	say := func(format string, args ...any) { t.expect = append(t.expect, fmt.Sprintf(format, args...)) }
	say("%s.band == in", name)
	if !patched && !preempting(m) {
		say("%s.worst >= 0.9*hold", name)
		say("%s.stalls >= 1", name)
		return
	}
	say("%s.worst < %s", name, short(ProveWorst))
	say("%s.stalls == 0", name)
	if !patched {
		return
	}
	say("%s.over-1s == 0", name)
	say("%s.deletes >= %d", name, ProveDeletes)
	if !preempting(m) {
		say("%s vs %s: over-1s lower", name, proveName(string(m), false))
	}
}

// quiet states that a control doesn't stall.
func (t *proveText) quiet(name, band string) {
	if band != "" {
		t.expect = append(t.expect, fmt.Sprintf("%s.band == %s", name, band))
	}
	t.expect = append(t.expect, name+".stalls == 0")
}

// arm adds one arm and returns its name.
func (t *proveText) arm(m rcu.Preemption, name string, a proveArm) string {
	words := []string{"name: " + name, "kernel: " + quote(t.Kernel)}
	static := !preempting(m) || !hasDynamic(t.Arch)
	var config []string
	if static {
		config = append(config, "preempt: "+string(m))
	}
	if t.Arch != "" && t.Arch != "amd64" && !IsModel(t.Kernel) {
		config = append(config, "arch: "+t.Arch)
	}
	if t.AllowKconfig && !preempting(m) {
		config = append(config, "allow-kconfig: true")
	}
	if len(config) > 0 {
		words = append(words, "config: {"+strings.Join(config, ", ")+"}")
	}
	if !static {
		words = append(words, "preempt: "+string(m))
	}
	if a.patched && len(t.Patch) > 0 {
		words = append(words, "patch: "+quoteList(t.Patch))
	}
	if a.patched && t.Loop != Stock {
		words = append(words, "loop: "+string(t.Loop))
	}
	t.add(append(words, a.words()...))
	return name
}

// words are the arm's own part of its line.
func (a proveArm) words() []string {
	var w []string
	if a.reps > 1 {
		w = append(w, fmt.Sprintf("reps: %d", a.reps))
	}
	if a.softirq {
		w = append(w, "threaded: false")
	}
	load := "hold: " + short(a.hold)
	if a.inflight > 0 {
		load = fmt.Sprintf("inflight: %d, ", a.inflight) + load
	}
	return append(w, "load: {"+load+"}")
}

func (t *proveText) add(words []string) {
	t.arms = append(t.arms, "{"+strings.Join(words, ", ")+"}")
}

// mainline adds the kernel as it is shipped: in the band, and both controls unless the proving is quick.
func (t *proveText) mainline() {
	const name = "mainline"
	head := func(name string) []string {
		words := []string{"name: " + name, "kernel: " + quote(t.Mainline)}
		if IsModel(t.Mainline) {
			return append(words, "config: {preempt: voluntary}")
		}
		return append(words, "preempt: voluntary")
	}
	t.add(append(head(name), proveArm{hold: proveHold}.words()...))
	t.expectIn(rcu.Voluntary, name, false)
	if t.Quick {
		return
	}
	t.add(append(head(name+aboveSuffix), proveArm{hold: controlHold, inflight: aboveInflight}.words()...))
	t.quiet(name+aboveSuffix, "above")
	t.add(append(head(name+softirqSuffix), proveArm{hold: controlHold, softirq: true}.words()...))
	t.quiet(name+softirqSuffix, "")
}

// notes says what a reader of the table has to know.
func (t *proveText) notes(models []rcu.Preemption) {
	notes := []string{stallNote}
	if t.Quick {
		notes = append(notes, "quick: shorter holds, one trial of each patched arm, and no controls under models that preempt.")
	}
	dynamic := false
	for _, m := range models {
		dynamic = dynamic || preempting(m) && hasDynamic(t.Arch)
	}
	if dynamic {
		notes = append(notes, "none and voluntary are kernels built as such; full and lazy are one PREEMPT_DYNAMIC kernel, told by preempt=.")
	}
	if t.AllowKconfig && !t.Release.before(7, 0) {
		notes = append(notes, "none: Kconfig of this release forbids it on this architecture. It was edited for these arms: no such kernel is shipped.")
	}
	if t.Mainline != "" && !IsModel(t.Mainline) {
		notes = append(notes, "mainline is a current kernel as its distribution ships it, unpatched, on an architecture without lazy preemption.")
	}
	t.Notes = append(notes, t.Notes...)
}

// file writes the experiment.
func (t *proveText) file() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name, what, question := "prove", "stock against patched, under each preemption model", t.shortPatch()
	if len(t.expect) == 0 {
		name, what, question = "gate", "does this source stall?", ""
	}
	say("# %s: %s", name, what)
	say("name: %s", name)
	if question == "" {
		say("question: %s", quote("Does threaded NAPI stall in "+t.Kernel+"?"))
	} else {
		say("question: %s", quote("Does "+question+" end the stalls of threaded NAPI in "+t.Kernel+"?"))
	}
	say("seed: %d", t.Seed)
	say("stall-timeout: %s", short(proveTimeout))
	say("load: {kind: bounce, inflight: 1}")
	say("probe: {op: link-del, device: dummy, every: %s}", short(proveEvery))
	say("arms:")
	for _, a := range t.arms {
		say("  - %s", a)
	}
	list := func(key string, items []string) {
		if len(items) > 0 {
			say("%s:", key)
		}
		for _, x := range items {
			say("  - %s", x)
		}
	}
	list("expect", t.expect)
	var notes []string
	for _, n := range t.Notes {
		notes = append(notes, quote(n))
	}
	list("notes", notes)
	return b.String()
}

// quote writes text as YAML reads it back, whatever is in it: JSON's strings are YAML's.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""` // a string can always be written
	}
	return string(b)
}

func quoteList(list []string) string {
	var quoted []string
	for _, x := range list {
		quoted = append(quoted, quote(x))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
