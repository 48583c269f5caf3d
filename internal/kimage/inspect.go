package kimage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/rcu"
)

// A Support says whether a kernel has a feature.
type Support string

// The answers. Unknown is never taken for No.
const (
	Unknown Support = "unknown"
	Yes     Support = "yes"    // built in
	Modular Support = "module" // as a module
	No      Support = "no"
)

// Has reports whether the feature is there for certain.
func (s Support) Has() bool { return s == Yes || s == Modular }

// An Inspection is what can be known of a kernel without booting it. A field that couldn't be found
// out is at its zero value or Unknown; Facts says where each of the others comes from.
type Inspection struct {
	Spec    string `json:"spec"`
	Release string `json:"release,omitempty"`
	Arch    string `json:"arch,omitempty"` // Debian's name
	Banner  string `json:"banner,omitempty"`
	// Source and KconfigDiff are those of the Image.
	Source      string `json:"source,omitempty"`
	KconfigDiff string `json:"kconfig_diff,omitempty"`
	// Preempt is the model in force after a boot without preempt=.
	Preempt    rcu.Preemption `json:"preempt,omitempty"`
	Dynamic    Support        `json:"dynamic"`     // PREEMPT_DYNAMIC: preempt= chooses the model
	PreemptRCU Support        `json:"preempt_rcu"` // RCU readers can be preempted
	LazyArch   Support        `json:"lazy_arch"`   // ARCH_HAS_PREEMPT_LAZY
	HZ         int            `json:"hz,omitempty"`
	// StallTimeout is CONFIG_RCU_CPU_STALL_TIMEOUT. ExpStallTimeout is that of expedited grace periods;
	// where the kernel says 0, it is StallTimeout.
	StallTimeout    time.Duration `json:"stall_timeout,omitempty"`
	ExpStallTimeout time.Duration `json:"exp_stall_timeout,omitempty"`
	Veth            Support       `json:"veth"`
	Dummy           Support       `json:"dummy"`
	VLAN            Support       `json:"vlan"`
	BPF             Support       `json:"bpf"` // the bpf system call, with XDP for veth
	Stacks          Support       `json:"stacks"`
	Tracing         Support       `json:"tracing"` // BPF on tracepoints
	VirtioConsole   Support       `json:"virtio_console"`
	Packet          Support       `json:"packet"`        // AF_PACKET
	ThreadedNAPI    Support       `json:"threaded_napi"` // /sys/class/net/*/threaded
	// static are the models that a kernel without PREEMPT_DYNAMIC can have been built with, where more
	// than one is possible.
	static  []rcu.Preemption
	modules []string // those that come with it
	lines   []string // of the configuration
	sources map[string]string
	config  map[string]string
}

// A Fact is one line of an inspection, for a person.
type Fact struct {
	Name, Value string
	Source      string // where it comes from; empty for what is unknown
}

// Inspect finds out what img can do: from its package's configuration, else from the one built into
// the image, else from the image's version banner.
func Inspect(ctx context.Context, img *Image) (Inspection, error) {
	in := Inspection{Spec: img.Spec, Release: img.Release, Arch: img.Arch, Source: img.Source, KconfigDiff: img.KconfigDiff, sources: map[string]string{}}
	head, err := identifyFile(img.Path)
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect %s: %w", img.Path, err)
	}
	in.Banner = head.banner
	config, from := img.Config, img.ConfigFrom
	if config == nil {
		found, err := scanFile(ctx, img.Path, true)
		if err != nil {
			return Inspection{}, fmt.Errorf("inspect %s: %w", img.Path, err)
		}
		// The header's banner has the build's number; the first one in the image may be a template.
		if in.Banner == "" {
			in.Banner = found.banner
		}
		if found.config != nil {
			config, from = configLines(found.config), "the image's own IKCONFIG ("+found.where+")"
		}
	}
	if in.Release == "" {
		in.Release = bannerRelease(in.Banner)
	}
	in.set("release", "image or package")
	if config != nil {
		in.fromConfig(config, from)
	} else {
		in.fromBanner()
	}
	in.fromRelease()
	for _, m := range img.Modules {
		in.modules = append(in.modules, m.Name)
	}
	return in, nil
}

// Config returns the lines of the configuration that matter to the result, in its own order; nil
// when the kernel's configuration isn't known.
func (in Inspection) Config() []string {
	// What decides how long RCU and the NAPI thread wait.
	relevant := []string{"CONFIG_PREEMPT", "# CONFIG_PREEMPT", "CONFIG_ARCH_HAS_PREEMPT_LAZY", "CONFIG_HZ=", "CONFIG_NO_HZ",
		"CONFIG_RCU_CPU_STALL_TIMEOUT", "CONFIG_RCU_EXP_CPU_STALL_TIMEOUT", "CONFIG_PROVE_RCU", "CONFIG_SMP", "CONFIG_NR_CPUS"}
	var lines []string
	for _, line := range in.lines {
		if slices.ContainsFunc(relevant, func(prefix string) bool { return strings.HasPrefix(line, prefix) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

func bannerRelease(banner string) string {
	release, _, _ := strings.Cut(strings.TrimPrefix(banner, bannerStart), " ")
	return release
}

func (in *Inspection) set(name, source string) { in.sources[name] = source }

// fromConfig reads a complete configuration: an option that isn't in it is not set, because what it
// depends on isn't.
func (in *Inspection) fromConfig(lines []string, from string) {
	in.config, in.lines = make(map[string]string), lines
	for _, line := range lines {
		if key, value, ok := strings.Cut(line, "="); ok {
			in.config[strings.TrimPrefix(key, "CONFIG_")] = strings.Trim(value, `"`)
		}
	}
	options := []struct {
		to   *Support
		name string
		all  []string // each must be there; the first one's answer is the answer
	}{
		{&in.Dynamic, "dynamic", []string{"PREEMPT_DYNAMIC"}},
		{&in.PreemptRCU, "preempt_rcu", []string{"PREEMPT_RCU"}},
		{&in.LazyArch, "lazy_arch", []string{"ARCH_HAS_PREEMPT_LAZY"}},
		{&in.Veth, "veth", []string{"VETH"}},
		{&in.Dummy, "dummy", []string{"DUMMY"}},
		{&in.VLAN, "vlan", []string{"VLAN_8021Q"}},
		{&in.BPF, "bpf", []string{"BPF_SYSCALL"}},
		{&in.Stacks, "stacks", []string{"STACKTRACE"}},
		{&in.Tracing, "tracing", []string{"BPF_EVENTS", "PERF_EVENTS"}},
		{&in.VirtioConsole, "virtio_console", []string{"VIRTIO_CONSOLE"}},
		{&in.Packet, "packet", []string{"PACKET"}},
	}
	for _, o := range options {
		*o.to = in.has(o.all[0])
		for _, also := range o.all[1:] {
			if in.has(also) == No {
				*o.to = No
			}
		}
		in.set(o.name, "CONFIG_"+o.all[0]+" in "+from)
	}
	in.Preempt = in.configuredModel()
	if in.Preempt != "" {
		in.set("preempt", "CONFIG_PREEMPT_* in "+from)
	}
	in.HZ = in.number("HZ", "hz", from)
	in.StallTimeout = time.Duration(in.number("RCU_CPU_STALL_TIMEOUT", "stall_timeout", from)) * time.Second
	in.ExpStallTimeout = in.StallTimeout
	if ms := in.number("RCU_EXP_CPU_STALL_TIMEOUT", "exp_stall_timeout", from); ms > 0 {
		in.ExpStallTimeout = time.Duration(ms) * time.Millisecond
	}
}

func (in *Inspection) has(option string) Support {
	switch in.config[option] {
	case "y":
		return Yes
	case "m":
		return Modular
	}
	return No
}

// number reads an option's number; values that no kernel takes are unknown.
func (in *Inspection) number(option, name, from string) int {
	n, err := strconv.Atoi(in.config[option])
	if err != nil || n < 0 || n > 1<<20 {
		return 0
	}
	in.set(name, "CONFIG_"+option+" in "+from)
	return n
}

// configuredModel is the choice in kernel/Kconfig.preempt. The *_BUILD options of some versions say
// the same, or under PREEMPT_DYNAMIC something else, so they aren't looked at.
func (in *Inspection) configuredModel() rcu.Preemption {
	switch {
	case in.has("PREEMPT_RT") == Yes:
		return rcu.RT
	case in.has("PREEMPT_LAZY") == Yes:
		return rcu.Lazy
	case in.has("PREEMPT") == Yes:
		return rcu.Full
	case in.has("PREEMPT_VOLUNTARY") == Yes:
		return rcu.Voluntary
	case in.has("PREEMPT_NONE") == Yes:
		return rcu.None
	}
	return ""
}

// fromBanner takes what init/Makefile puts into the version string: SMP, then PREEMPT_DYNAMIC,
// PREEMPT_RT or PREEMPT, or none of them.
func (in *Inspection) fromBanner() {
	for _, s := range []*Support{&in.Dynamic, &in.PreemptRCU, &in.LazyArch, &in.Veth, &in.Dummy, &in.VLAN, &in.BPF,
		&in.Stacks, &in.Tracing, &in.VirtioConsole, &in.Packet} {
		*s = Unknown
	}
	_, version, ok := strings.Cut(in.Banner, " #")
	if !ok {
		return
	}
	words := make(map[string]bool)
	for _, w := range strings.Fields(version) {
		words[w] = true
	}
	const from = "the version banner"
	in.set("dynamic", from)
	in.Dynamic = No
	switch {
	case words["PREEMPT_DYNAMIC"]:
		// PREEMPT_DYNAMIC has PREEMPT_RCU in every version (kernel/rcu/Kconfig).
		in.Dynamic, in.PreemptRCU = Yes, Yes
		in.set("preempt_rcu", from)
	case words["PREEMPT_RT"]:
		in.Preempt, in.PreemptRCU = rcu.RT, Yes
		in.set("preempt", from)
		in.set("preempt_rcu", from)
	case words["PREEMPT"]:
		// Since 6.13 this can also be lazy: the banner has no word for it.
		if v, ok := parseRelease(in.Release); ok && v.before(6, 13) {
			in.Preempt, in.PreemptRCU = rcu.Full, Yes
			in.set("preempt", from)
			in.set("preempt_rcu", from)
		} else {
			in.static = []rcu.Preemption{rcu.Full, rcu.Lazy}
		}
	default:
		in.PreemptRCU = No
		in.static = []rcu.Preemption{rcu.None, rcu.Voluntary}
		in.set("preempt_rcu", from)
	}
}

// fromRelease takes what the version alone decides.
func (in *Inspection) fromRelease() {
	in.ThreadedNAPI = Unknown
	if v, ok := parseRelease(in.Release); ok {
		in.ThreadedNAPI = Yes
		if v.before(5, 12) { // net: add sysfs attribute to control napi threaded mode
			in.ThreadedNAPI = No
		}
		in.set("threaded_napi", "the release: since 5.12")
	}
	a, known := archOf(in.Arch)
	if v, ok := parseRelease(in.Release); in.LazyArch == Unknown && ok && known {
		in.LazyArch = No
		if a.lazy != [2]int{} && !v.before(a.lazy[0], a.lazy[1]) {
			in.LazyArch = Yes
		}
		in.set("lazy_arch", "the architecture and release")
	}
}

// Facts lists everything for a person, in a fixed order, unknown things too.
func (in Inspection) Facts() []Fact {
	or := func(s string) string {
		if s == "" || s == "0" || s == "0s" {
			return string(Unknown)
		}
		return s
	}
	rows := [][3]string{
		{"release", "release", in.Release},
		{"arch", "architecture", in.Arch},
		{"preempt", "preemption model at boot", in.bootModel()},
		{"dynamic", "PREEMPT_DYNAMIC", string(in.Dynamic)},
		{"models", "models it can run", joinModels(in.Models())},
		{"preempt_rcu", "PREEMPT_RCU", string(in.PreemptRCU)},
		{"hz", "HZ", strconv.Itoa(in.HZ)},
		{"stall_timeout", "RCU stall timeout", in.StallTimeout.String()},
		{"exp_stall_timeout", "expedited stall timeout", in.ExpStallTimeout.String()},
		{"threaded_napi", "threaded NAPI", string(in.ThreadedNAPI)},
		{"veth", "veth", string(in.Veth)},
		{"dummy", "dummy", string(in.Dummy)},
		{"vlan", "vlan", string(in.VLAN)},
		{"bpf", "BPF", string(in.BPF)},
		{"tracing", "BPF on tracepoints", string(in.Tracing)},
		{"stacks", "stacks in /proc", string(in.Stacks)},
		{"packet", "packet sockets", string(in.Packet)},
		{"virtio_console", "virtio console", string(in.VirtioConsole)},
	}
	if in.Source != "" {
		rows = append(rows, [3]string{"source", "built from", in.Source})
	}
	if in.KconfigDiff != "" {
		rows = append(rows, [3]string{"kconfig_diff", "Kconfig", "edited to allow preempt " + string(in.Preempt) + ": a kernel that nobody ships"})
	}
	in.deriveSources()
	facts := make([]Fact, 0, len(rows))
	for _, r := range rows {
		f := Fact{Name: r[1], Value: or(r[2]), Source: in.sources[r[0]]}
		if f.Value == string(Unknown) {
			f.Source = ""
		}
		facts = append(facts, f)
	}
	return facts
}

// bootModel says the model at boot, or between which it is undecided.
func (in Inspection) bootModel() string {
	if in.Preempt == "" && in.static != nil {
		return string(Unknown) + " (" + strings.ReplaceAll(joinModels(in.static), ", ", " or ") + ")"
	}
	return string(in.Preempt)
}

// deriveSources names the sources of what follows from other facts.
func (in Inspection) deriveSources() {
	in.sources["arch"] = "the image"
	in.sources["source"], in.sources["kconfig_diff"] = "the build", "the build, by allow-kconfig"
	in.sources["models"] = "PREEMPT_DYNAMIC, the release and the architecture"
	if in.Dynamic == No {
		in.sources["models"] = "no PREEMPT_DYNAMIC: it has one model"
	}
}

// Check returns an error if the kernel certainly can't hold a trial: no veth, BPF, packet sockets or
// threaded NAPI, or none of the probe's devices (dummy, veth or vlan); built as a module counts only
// if the module is there. What is unknown passes; the guest finds out.
func (in Inspection) Check(devices ...string) error {
	type need struct {
		has          Support
		module, what string
	}
	needs := []need{
		{in.ThreadedNAPI, "", "threaded NAPI (it came with 5.12)"},
		{in.BPF, "", "BPF (CONFIG_BPF_SYSCALL is not set)"},
		{in.Packet, "af_packet", "packet sockets (CONFIG_PACKET is not set)"},
		{in.Veth, "veth", "veth (CONFIG_VETH is not set)"},
	}
	for _, d := range devices {
		switch d {
		case "dummy":
			needs = append(needs, need{in.Dummy, "dummy", "dummy devices (CONFIG_DUMMY is not set)"})
		case "vlan":
			needs = append(needs, need{in.VLAN, "8021q", "vlan devices (CONFIG_VLAN_8021Q is not set)"})
		}
	}
	for _, n := range needs {
		switch {
		case n.has == No:
			return unsupportedError(fmt.Sprintf("kernel %q: %s has no %s", in.Spec, in.Release, n.what))
		case n.has == Modular && !slices.Contains(in.modules, n.module):
			return unsupportedError(fmt.Sprintf("kernel %q: %s has %s as a module, and the module is not there: "+
				"name the packages or the directory that have it (deb:FILE,FILE… or file:IMAGE,modules=DIR)", in.Spec, in.Release, n.module))
		}
	}
	return nil
}
