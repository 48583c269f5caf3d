package sim

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
)

// A build is what a kernel spec stands for here: which rules the model follows, and what the simulated machine says
// about itself.
type build struct {
	spec     string
	gen      model.Generation
	arch     model.Arch
	preempt  rcu.Preemption
	dynamic  bool
	hz       int
	evidence []string
}

// yieldPatch is the name of the one patch that the model knows.
const yieldPatch = "yield-on-exit.patch"

// An unsupportedError matches errors.ErrUnsupported without its text.
type unsupportedError string

func (e unsupportedError) Error() string        { return string(e) }
func (e unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

func unsupported(format string, args ...any) error {
	return unsupportedError(fmt.Sprintf(format, args...))
}

// buildOf returns the first of arm's kernels that the model has under the preemption model that arm asks for.
func buildOf(arm experiment.Arm) (build, error) {
	var all error
	for _, spec := range append([]string{arm.Kernel}, arm.KernelElse...) {
		b, err := parseKernel(spec, arm)
		if err == nil {
			b, err = b.follow(arm)
		}
		switch {
		case err == nil:
			return b, nil
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return build{}, all
}

// parseKernel finds out what the kernel that spec names is. Debian's choices of configuration are those of its
// packages of 2026; arm64's are assumed.
func parseKernel(spec string, arm experiment.Arm) (build, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	b := build{spec: spec, hz: cmp.Or(arm.Config.HZ, 250)}
	switch kind {
	case "model":
		k, err := experiment.ParseModelKernel(spec)
		if err != nil {
			return b, err
		}
		b.gen, b.arch = generationOf(k.Generation), archOf(k.Arch)
		b.dynamic = k.Dynamic() && arm.Config.Preempt == ""
		b.preempt = cmp.Or(arm.Config.Preempt, defaultModel(b.gen))
	case "debian":
		b.debian(rest)
	case "debian-source", "tree":
		b.source(kind, rest, arm)
	default:
		return b, unsupported("the simulator can't tell what the kernel %s is: use model:, debian: or debian-source: with --backend sim", spec)
	}
	return b, nil
}

// debian fills b in for SUITE[/ARCH[/FLAVOUR[/RELEASE]]]. A spec without an architecture is amd64 here, on every machine.
func (b *build) debian(rest string) {
	part := append(strings.Split(rest, "/"), "", "", "", "")
	suite, arch, release := part[0], cmp.Or(part[1], "amd64"), part[3]
	b.gen, b.arch = model.V73, archOf(arch)
	switch {
	case release != "":
		b.gen = generationOf(release)
	case slices.Contains([]string{"bookworm", "bookworm-backports", "trixie", "stable", "trixie-security", "trixie-updates"}, suite):
		b.gen = model.V612
	}
	b.dynamic = b.arch == model.AMD64
	b.preempt = defaultModel(b.gen)
	if !b.dynamic {
		b.preempt = rcu.Voluntary
		if b.arch == model.ARM64 && b.gen == model.V73 {
			b.preempt = rcu.Lazy
			b.assume("an arm64 kernel of Debian is taken for a static LAZY build")
		}
	}
	b.assume("model of %s for %s", generationName(b.gen), b.spec)
}

// source fills b in for a kernel that is built from source: napistall builds those for amd64, without PREEMPT_DYNAMIC.
func (b *build) source(kind, rest string, arm experiment.Arm) {
	b.arch = model.AMD64
	b.preempt = cmp.Or(arm.Config.Preempt, rcu.None)
	_, pkg, _ := strings.Cut(rest, "/")
	if v, ok := strings.CutPrefix(pkg, "linux-source-"); ok && kind == "debian-source" {
		b.gen = generationOf(v)
		b.assume("model of %s for %s", generationName(b.gen), b.spec)
		return
	}
	b.gen = model.V618
	b.assume("the source of %s is not read: it is taken for 6.18, which has every preemption model", b.spec)
}

// follow makes b run under the model that arm asks for, as preempt= on the command line would.
func (b build) follow(arm experiment.Arm) (build, error) {
	has := experiment.ModelKernel{Generation: generationName(b.gen), Arch: archName(b.arch)}.Models()
	switch {
	case arm.Preempt == "" || arm.Preempt == b.preempt:
		return b, nil
	case b.dynamic && !slices.Contains(has, arm.Preempt):
		return b, unsupported("%s can't run with preempt=%s", b.spec, arm.Preempt)
	case b.dynamic:
		b.preempt = arm.Preempt
		return b, nil
	}
	return b, unsupported("%s is built for preempt=%s, the arm asks for %s", b.spec, b.preempt, arm.Preempt)
}

func (b *build) assume(format string, args ...any) {
	b.evidence = append(b.evidence, fmt.Sprintf(format, args...))
}

// generationOf returns the rules that a release "7.2.13" follows: the newest that was read and is not newer, or for
// one older than any, the oldest.
func generationOf(release string) model.Generation {
	v := strings.FieldsFunc(release, func(r rune) bool { return r == '.' || r == '+' || r == '-' || r == '~' })
	v = append(v, "0", "0")
	major, _ := strconv.Atoi(v[0]) // what is no number is older than any
	minor, _ := strconv.Atoi(v[1])
	switch {
	case major >= 7:
		return model.V73
	case major == 6 && minor >= 13:
		return model.V618
	}
	return model.V612
}

func generationName(g model.Generation) string {
	return [...]string{model.V612: "6.12", model.V618: "6.18", model.V73: "7.3"}[g]
}

func archName(a model.Arch) string {
	return [...]string{model.AMD64: "amd64", model.ARM64: "arm64", model.ARMHF: "armhf", model.MIPS: "mips"}[a]
}

// archOfMachine is archOf for uname's name of a machine.
func archOfMachine(machine string) model.Arch {
	switch {
	case machine == "aarch64":
		return model.ARM64
	case strings.HasPrefix(machine, "arm"):
		return model.ARMHF
	case strings.HasPrefix(machine, "mips"):
		return model.MIPS
	}
	return model.AMD64
}

func archOf(debian string) model.Arch {
	switch debian {
	case "arm64":
		return model.ARM64
	case "armhf", "armel", "arm":
		return model.ARMHF
	case "mips", "mipsel", "mips64el":
		return model.MIPS
	}
	return model.AMD64
}

// defaultModel is what a PREEMPT_DYNAMIC kernel boots with: VOLUNTARY where there is no LAZY.
func defaultModel(g model.Generation) rcu.Preemption {
	if g == model.V612 {
		return rcu.Voluntary
	}
	return rcu.Lazy
}

// flavor is the name of b's RCU: PREEMPT_RCU comes with PREEMPT and PREEMPT_DYNAMIC, not with static LAZY.
func (b build) flavor() rcu.Flavor {
	if b.dynamic || b.preempt == rcu.Full {
		return rcu.Preempt
	}
	return rcu.Sched
}

// facts says of b what a machine running it would.
func (b build) facts() experiment.Facts {
	version := "#1 SMP"
	switch {
	case b.dynamic:
		version += " PREEMPT_DYNAMIC"
	case b.preempt.Preempts():
		version += " PREEMPT"
	}
	return experiment.Facts{
		Kernel: b.spec, Release: generationName(b.gen) + ".0-model", Version: version + " model",
		Arch:    [...]string{model.AMD64: "x86_64", model.ARM64: "aarch64", model.ARMHF: "armv7l", model.MIPS: "mips"}[b.arch],
		Preempt: b.preempt, Dynamic: b.dynamic, Flavor: b.flavor(), HZ: b.hz, ClockSrc: "model",
		Stacks: true, PollTrace: true,
		Evidence: append([]string{
			"a model, no kernel: what the trial's own process would add (its timers, its system calls, the console) is not in it",
		}, b.evidence...),
	}
}

// loopOf returns the variant of the loop that arm asks for. A patch is not read: the one that the model has is known
// by its name.
func loopOf(arm experiment.Arm) (experiment.Loop, error) {
	loop := arm.Loop
	for _, p := range arm.Patch {
		if path.Base(strings.ReplaceAll(p, `\`, "/")) != yieldPatch {
			return "", unsupported("the simulator can't apply %s: name the loop that it makes with loop:, such as loop: cond-resched-only", p)
		}
		if loop == experiment.Stock {
			loop = experiment.YieldOnExit
		}
	}
	return loop, nil
}

// tunables are what kernel parameters change here.
type tunables struct {
	sched, first, next int64 // jiffies_till_sched_qs, _first_fqs, _next_fqs; 0 for RCU's own
	suppress           bool  // rcu_cpu_stall_suppress
}

// tunablesOf reads the kernel parameters of RCU, and refuses those that would change nothing here.
func tunablesOf(arm experiment.Arm) (tunables, error) {
	var t tunables
	for _, p := range arm.Boot {
		name, value, _ := strings.Cut(p, "=")
		n, err := strconv.ParseInt(value, 10, 32)
		to := map[string]*int64{
			"rcutree.jiffies_till_sched_qs":  &t.sched,
			"rcutree.jiffies_till_first_fqs": &t.first,
			"rcutree.jiffies_till_next_fqs":  &t.next,
		}[name]
		switch {
		case to != nil && err == nil && n > 0:
			*to = n
		case name == "rcupdate.rcu_cpu_stall_suppress" && err == nil:
			t.suppress = n != 0
		default:
			return t, unsupported("the kernel parameter %s is not in the model; rcutree.jiffies_till_{sched_qs,first_fqs,next_fqs} and rcupdate.rcu_cpu_stall_suppress are", p)
		}
	}
	return t, nil
}

// stallTimeouts returns RCU's stall timeouts in seconds and milliseconds, as Facts have them: Debian's where arm says
// nothing.
func stallTimeouts(arm experiment.Arm) (sec, expMillis int) {
	sec = 21
	if arm.StallTimeout > 0 {
		sec = int(arm.StallTimeout / time.Second)
	}
	return sec, int(arm.ExpStallTimeout / time.Millisecond)
}
