package experiment

import (
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// A Config is what a kernel built from source should be configured with. Its zero value is a build for x86-64
// with PREEMPT_DYNAMIC and 250 Hz.
type Config struct {
	Preempt rcu.Preemption `json:"preempt,omitempty"`
	HZ      int            `json:"hz,omitempty"`
	// Arch is Debian's name of the architecture, one of BuildArches; empty is amd64.
	Arch string `json:"arch,omitempty"`
	// Fragment is a file of CONFIG_ lines that are asked for on top of napistall's own. Parse leaves the name as
	// it is written; a run has it from where the experiment's file is.
	Fragment string `json:"fragment,omitempty"`
	// AllowKconfig lets Preempt be none or voluntary where the source's Kconfig forbids it, by an edit of our
	// copy of kernel/Kconfig.preempt. It changes nothing where Kconfig allows the model.
	AllowKconfig bool `json:"allow_kconfig,omitempty"`
}

// BuildArches lists Debian's names of the architectures that kernels are built for.
func BuildArches() []string { return []string{"amd64", "arm64", "armhf"} }

// BuildArch returns Debian's name of the architecture that word names, in Debian's or the kernel's own words,
// and whether kernels are built for it.
func BuildArch(word string) (debian string, ok bool) {
	switch word {
	case "x86_64", "x86-64":
		word = "amd64"
	case "aarch64":
		word = "arm64"
	case "arm":
		word = "armhf"
	}
	return word, slices.Contains(BuildArches(), word)
}

type configText struct {
	preempt        opt[rcu.Preemption]
	hz             opt[int]
	arch, fragment opt[string]
	allowKconfig   opt[bool]
}

func (s *source) config(v value, c *configText) {
	s.mapping(v, "config", []field{
		{"preempt", func(v value) { c.preempt = s.preemption(v) }},
		{"hz", func(v value) { c.hz = s.hz(v) }},
		{"arch", func(v value) { c.arch = s.buildArch(v) }},
		{"fragment", func(v value) { c.fragment = s.text(v, "the name of a file of CONFIG_ lines") }},
		{"allow-kconfig", func(v value) { c.allowKconfig = s.truth(v) }},
	})
}

// buildArch reads an architecture that a kernel can be built for.
func (s *source) buildArch(v value) opt[string] {
	t := s.text(v, orList(BuildArches()))
	if !t.set {
		return t
	}
	arch, ok := BuildArch(t.v)
	if !ok {
		s.mistake(t.at, choose(t.v, BuildArches()), "no kernel is built for the architecture %s", clip(t.v))
		return opt[string]{}
	}
	t.v = arch
	return t
}

// hz reads one of the tick rates that some architecture offers (kernel/Kconfig.hz, arch/arm, arch/mips).
func (s *source) hz(v value) opt[int] {
	n := s.count(v, 24, 1024)
	switch n.v {
	case 0, 24, 48, 100, 128, 200, 250, 256, 300, 500, 1000, 1024:
	default:
		s.mistake(n.at, "want 100, 250, 300 or 1000; also 24, 48, 128, 256, 1024 on mips, 200 and 500 on arm", "no kernel ticks at hz %d", n.v)
	}
	return n
}

func (c configText) over(base configText) configText {
	return configText{preempt: c.preempt.or(base.preempt), hz: c.hz.or(base.hz), arch: c.arch.or(base.arch),
		fragment: c.fragment.or(base.fragment), allowKconfig: c.allowKconfig.or(base.allowKconfig)}
}

func (c configText) config() Config {
	return Config{Preempt: c.preempt.v, HZ: c.hz.v, Arch: c.arch.v, Fragment: c.fragment.v, AllowKconfig: c.allowKconfig.v}
}

// first returns where the first thing of c is stated that only a kernel built from source takes; with
// model, one that the simulator's don't take either.
func (c configText) first(model bool) (at pos, ok bool) {
	var all []pos
	add := func(set bool, at pos) {
		if set {
			all = append(all, at)
		}
	}
	if !model {
		add(c.preempt.set, c.preempt.at)
		add(c.hz.set, c.hz.at)
	}
	add(c.arch.set, c.arch.at)
	add(c.fragment.set, c.fragment.at)
	add(c.allowKconfig.set, c.allowKconfig.at)
	if len(all) == 0 {
		return pos{}, false
	}
	return slices.MinFunc(all, func(a, b pos) int {
		if a.line != b.line {
			return a.line - b.line
		}
		return a.col - b.col
	}), true
}

// checkBuild checks that what only some kernels take is asked of those.
func (s *source) checkBuild(a armText, name, kernel string) {
	if IsModel(kernel) {
		if a.patch.set {
			s.mistake(a.patch.at, "the simulator's patches are the variants of loop:", "arm %s: patch with %s", name, clip(kernel))
		}
		if at, ok := a.config.first(true); ok {
			s.mistake(at, "of config: the simulator's kernels take preempt and hz; their architecture is in their name: model:7.3/arm64",
				"arm %s: config with %s", name, clip(kernel))
		}
		return
	}
	const why = "only a kernel that is built here takes it: tree:DIR or debian-source:SUITE/PACKAGE"
	if a.patch.set {
		s.mistake(a.patch.at, why, "arm %s: patch with the ready-made kernel %s", name, clip(kernel))
		return
	}
	if at, ok := a.config.first(false); ok {
		s.mistake(at, why, "arm %s: config with the ready-made kernel %s", name, clip(kernel))
	}
}

// The prefixes of kernel specs. Those built from source are the ones that config: and patch: can change.
const (
	treeKernel   = "tree:"
	sourceKernel = "debian-source:"
)

func isBuilt(kernel string) bool {
	return strings.HasPrefix(kernel, treeKernel) || strings.HasPrefix(kernel, sourceKernel)
}
