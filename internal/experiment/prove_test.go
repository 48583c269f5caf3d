package experiment

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
)

const source612 = "debian-source:trixie/linux-source-6.12"

func TestProveModels(t *testing.T) {
	none, voluntary, full, lazy := rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy
	for _, c := range []struct {
		release Release
		arch    string
		allow   bool
		want    []rcu.Preemption
	}{
		{Release{6, 12}, "amd64", false, []rcu.Preemption{none, voluntary, full}},
		{Release{6, 12}, "amd64", true, []rcu.Preemption{none, voluntary, full}},
		{Release{6, 13}, "amd64", false, []rcu.Preemption{none, voluntary, full, lazy}},
		{Release{6, 14}, "arm64", false, []rcu.Preemption{none, voluntary, full}},
		{Release{6, 15}, "arm64", false, []rcu.Preemption{none, voluntary, full, lazy}},
		{Release{6, 18}, "armhf", false, []rcu.Preemption{none, voluntary, full}},
		{Release{7, 0}, "amd64", false, []rcu.Preemption{full, lazy}},
		{Release{7, 3}, "amd64", true, []rcu.Preemption{none, full, lazy}},
		{Release{7, 3}, "arm64", false, []rcu.Preemption{full, lazy}},
		{Release{7, 3}, "armhf", false, []rcu.Preemption{voluntary, full}},
		{Release{7, 3}, "armhf", true, []rcu.Preemption{none, voluntary, full}},
	} {
		if diff := cmp.Diff(c.want, ProveModels(c.release, c.arch, c.allow)); diff != "" {
			t.Errorf("%v on %s, allow %v:\n%s", c.release, c.arch, c.allow, diff)
		}
	}
}

// What prove --dry-run prints, as it stands.
func TestProveGolden(t *testing.T) {
	for name, p := range map[string]Proving{
		"prove-6.12": {Kernel: source612, Release: Release{6, 12}, Arch: "amd64", Patch: []string{"yield-on-exit.patch"}, Mainline: "debian:sid/armhf"},
		"prove-7.3-quick": {
			Kernel: "tree:/home/me/linux@v7.3", Release: Release{7, 3}, Arch: "amd64", Patch: []string{"/p/one.patch", "/p/two \"2\".patch"},
			AllowKconfig: true, Quick: true, Seed: 9,
		},
		"prove-armhf": {Kernel: "tree:/l", Release: Release{7, 3}, Arch: "armhf", Patch: []string{"/p/x.patch"}, Reps: 1},
		"prove-model": {Kernel: "model:6.12/amd64", Release: Release{6, 12}, Arch: "amd64", Loop: YieldOnExit, Mainline: "model:7.3/armhf"},
	} {
		text, e, err := Prove(p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		golden(t, "testdata/"+name+".yaml", string(text))
		checkProof(t, name, e)
	}
	text, e, err := ProveGate(Proving{Kernel: "tree:/l", Release: Release{6, 12}, Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/prove-gate.yaml", string(text))
	if len(Plan(e)) != 1 || e.Arms[0].Config.Preempt != rcu.None {
		t.Errorf("the gate's arms are %v", e.Arms)
	}
}

// checkProof checks what a proof rests on: patched arms have the deletes, every kernel of the claim is built as
// it, and stock and patched differ in the patch alone.
func checkProof(t *testing.T, name string, e *Experiment) {
	t.Helper()
	byName := map[string]Arm{}
	for _, a := range e.Arms {
		byName[a.Name] = a
	}
	for _, a := range e.Arms {
		model, rest, _ := strings.Cut(a.Name, "-")
		if rest == "patched" {
			if span := time.Duration(e.Trials(a)) * a.Load.Hold; span < ProveDeletes/proveRate*time.Second {
				t.Errorf("%s: %s holds its load for %v in all", name, a.Name, span)
			}
			stock := byName[model+"-stock"]
			if stock.Config != a.Config || stock.Preempt != a.Preempt || stock.Kernel != a.Kernel || stock.Probe != a.Probe {
				t.Errorf("%s: %s and its stock arm differ in more than the patch", name, a.Name)
			}
			if len(a.Patch) == 0 && a.Loop == Stock || len(stock.Patch) > 0 || stock.Loop != Stock {
				t.Errorf("%s: %s is not what is patched", name, a.Name)
			}
		}
		if m := a.Preempt; model != "mainline" && !preempting(m) && a.Config.Preempt != m {
			t.Errorf("%s: %s is built for %q", name, a.Name, a.Config.Preempt)
		}
	}
}

func TestProveWrongModels(t *testing.T) {
	for _, c := range []struct {
		p    Proving
		want string
	}{
		{Proving{Release: Release{6, 12}, Arch: "amd64", Models: []rcu.Preemption{rcu.Lazy}}, "6.12 for amd64 can't have the model lazy: it has none, voluntary or full; lazy came to amd64 with 6.13"},
		{Proving{Release: Release{7, 3}, Arch: "amd64", Models: []rcu.Preemption{rcu.None}}, "sources before 7.0 can have none, and --allow-kconfig edits"},
		{Proving{Release: Release{7, 3}, Arch: "arm64", Models: []rcu.Preemption{rcu.Voluntary}}, "later ones only for --arch armhf"},
		{Proving{Release: Release{7, 3}, Arch: "armhf", Models: []rcu.Preemption{rcu.Lazy}}, "armhf has none"},
		{Proving{Release: Release{7, 3}, Arch: "armhf", Models: []rcu.Preemption{rcu.RT}}, "under none, voluntary, full and lazy"},
	} {
		_, _, err := Prove(c.p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Prove(%v) = %v; want %q", c.p.Models, err, c.want)
		}
	}
	_, _, err := ProveGate(Proving{Release: Release{7, 3}, Arch: "amd64"})
	if want := "can't have none or voluntary, under which alone the loop stalls"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ProveGate = %v; want %q", err, want)
	}
}

// Whatever a source and its patches are called, the plan is a file that says so, or an error.
func FuzzProve(f *testing.F) {
	f.Add("tree:/home/me/linux", "/home/me/fix.patch", "a note", 6, 12, true)
	f.Add("tree:/a\"b\\c: {x}", "- #\t'", "\u2028", 7, 3, false)
	f.Fuzz(func(t *testing.T, kernel, patch, note string, major, minor int, quick bool) {
		p := Proving{Kernel: kernel, Patch: []string{patch}, Notes: []string{note}, Release: Release{major, minor}, Arch: "amd64", Quick: quick}
		text, e, err := Prove(p)
		if err != nil {
			return
		}
		for _, a := range e.Arms {
			patched := strings.Contains(a.Name, "-patched")
			if a.Kernel != kernel || patched != (len(a.Patch) == 1) || patched && a.Patch[0] != patch {
				t.Errorf("arm %s has kernel %q and patch %q of\n%s", a.Name, a.Kernel, a.Patch, text)
			}
		}
	})
}
