package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// modelKernel begins the spec of a kernel that only the simulator has.
const modelKernel = "model:"

// A ModelKernel is a kernel that only the simulator has: model:GENERATION[/ARCH].
type ModelKernel struct {
	Generation string // the release whose rules it follows: 6.12, 6.18 or 7.3
	Arch       string // Debian's name: amd64, arm64, armhf; and mips
}

// IsModel reports whether the kernel spec is one that only the simulator has.
func IsModel(spec string) bool { return strings.HasPrefix(spec, modelKernel) }

// ParseModelKernel returns the kernel that spec names. Its error says which there are.
func ParseModelKernel(spec string) (ModelKernel, error) {
	rest, ok := strings.CutPrefix(spec, modelKernel)
	generation, arch, slash := strings.Cut(rest, "/")
	if !slash {
		arch = "amd64"
	}
	if !ok || !slices.Contains(generations(), generation) || !slices.Contains(modelArches(), arch) {
		return ModelKernel{}, fmt.Errorf("want model:GENERATION[/ARCH] with %s, and %s", orList(generations()), orList(modelArches()))
	}
	return ModelKernel{generation, arch}, nil
}

func generations() []string { return []string{"6.12", "6.18", "7.3"} }

func modelArches() []string { return []string{"amd64", "arm64", "armhf", "mips"} }

// String returns the spec, with the architecture.
func (k ModelKernel) String() string { return modelKernel + k.Generation + "/" + k.Arch }

// Dynamic reports whether the kernel has PREEMPT_DYNAMIC unless it is built for one model
// (HAVE_PREEMPT_DYNAMIC: x86 and arm64, not 32-bit arm and not mips).
func (k ModelKernel) Dynamic() bool { return k.Arch == "amd64" || k.Arch == "arm64" }

// Models lists the preemption models that the kernel can be built for and, where it is Dynamic, be told to
// follow at boot. 6.12 has no lazy one. From 6.13 on an architecture with ARCH_HAS_PREEMPT_LAZY has it too; 7.3
// leaves those only full and lazy, and the others voluntary and full: PREEMPT_NONE depends on
// ARCH_NO_PREEMPT there (kernel/Kconfig.preempt).
func (k ModelKernel) Models() []rcu.Preemption {
	lazy := k.Dynamic() && k.Generation != "6.12" // the same architectures have both
	switch {
	case k.Generation == "7.3" && lazy:
		return []rcu.Preemption{rcu.Full, rcu.Lazy}
	case k.Generation == "7.3":
		return []rcu.Preemption{rcu.Voluntary, rcu.Full}
	case lazy:
		return []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy}
	}
	return []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full}
}

// HasLoop reports whether the kernel can run the variant. Threaded busy polling came after 6.18; whatever
// else is not stock is a patch that any of them could have.
func (k ModelKernel) HasLoop(l Loop) bool {
	return k.Generation == "7.3" || l != BusyPoll && l != BusyPollResetStamp
}

// modelKernels are the arm's kernels that only the simulator has, in order. Each was checked when it was read.
func modelKernels(specs []string) []ModelKernel {
	var list []ModelKernel
	for _, spec := range specs {
		if k, err := ParseModelKernel(spec); err == nil {
			list = append(list, k)
		}
	}
	return list
}

// checkModelKernel checks that the arm's model kernels can have what is asked of them.
func (s *source) checkModelKernel(a armText, arm Arm) {
	for _, k := range modelKernels(a.kernel.v) {
		wish := a.preempt
		switch {
		case a.config.preempt.set:
			s.checkModel(k, a.config.preempt, arm.Name, "be built for")
			if wish.set && wish.v != a.config.preempt.v {
				s.mistake(wish.at, "config: preempt: makes a kernel with one model: name one of them",
					"arm %s: a kernel built for %s can't run with %s", arm.Name, a.config.preempt.v, wish.v)
			}
		case wish.set && !k.Dynamic():
			s.mistake(wish.at, fmt.Sprintf("say it when the kernel is built: config: {preempt: %s}", wish.v),
				"arm %s: %s has no PREEMPT_DYNAMIC to choose a model at boot", arm.Name, k)
		case wish.set:
			s.checkModel(k, wish, arm.Name, "run with")
		case !k.Dynamic():
			s.mistake(a.kernel.at, "add config: {preempt: …} with "+orList(words(k.Models())),
				"arm %s: %s has no PREEMPT_DYNAMIC, and no model is said", arm.Name, k)
		}
		if !k.HasLoop(arm.Loop) {
			s.mistake(a.loop.at, "threaded busy polling came after 6.18: use model:7.3", "arm %s: %s has no loop %s", arm.Name, k, arm.Loop)
		}
	}
}

func (s *source) checkModel(k ModelKernel, model opt[rcu.Preemption], arm, what string) {
	if !slices.Contains(k.Models(), model.v) {
		s.mistake(model.at, "want "+orList(words(k.Models())), "arm %s: %s can't %s %s", arm, k, what, model.v)
	}
}

func words[T ~string](list []T) []string {
	var out []string
	for _, w := range list {
		out = append(out, string(w))
	}
	return out
}

// NeedsModel returns nil if arm can be tried on a real kernel, else an error that matches
// errors.ErrUnsupported and says what only the simulator has. Every backend that isn't the simulator asks it.
func NeedsModel(arm Arm) error {
	specs := append([]string{arm.Kernel}, arm.KernelElse...)
	why := ""
	switch {
	case !slices.ContainsFunc(specs, func(k string) bool { return !IsModel(k) }):
		why = fmt.Sprintf("only the simulator has the kernel %s", arm.Kernel)
	case arm.Loop != Stock && arm.Loop != BusyPoll && arm.Loop != BacklogThread:
		why = fmt.Sprintf("the loop variant %s exists in the simulator only; on a real kernel, use patch:", arm.Loop)
	case arm.Load.Kind == Recorded:
		why = "only the simulator replays a recorded load"
	case arm.Model != Model{}:
		why = "only the simulator has the knobs of model:"
	case arm.NIC.Ring != 0 && !slices.Contains(realRings(), arm.NIC.Ring):
		why = fmt.Sprintf("only the simulator has a ring of %d: a veth pair has %d descriptors, a real device its own", arm.NIC.Ring, vethRing)
	case arm.NIC.Ring != 0 && !arm.NIC.Latch:
		why = "only the simulator can choose whether a masked interrupt is latched"
	case arm.NIC.MaskScope == AllQueues:
		why = "only the simulator can choose the mask-scope of an interrupt"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("arm %s: %s: --backend sim: %w", arm.Name, why, errors.ErrUnsupported)
}

// vethRing is the number of frames that veth's ring for XDP and NAPI holds (VETH_RING_SIZE).
const vethRing = 256

// realRings are the sizes that an arm may state or have by default on a real kernel, where nothing sets them.
func realRings() []int { return []int{defaultRing, vethRing} }
