package kimage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// A release is a kernel's version as far as its behaviour depends on it.
type release struct{ major, minor int }

// parseRelease reads the beginning of a uname -r.
func parseRelease(s string) (release, bool) {
	var v release
	n, _ := fmt.Sscanf(s, "%d.%d", &v.major, &v.minor) // n says how far it came
	return v, n == 2 && v.major >= 0 && v.minor >= 0
}

func (v release) before(major, minor int) bool {
	return v.major < major || v.major == major && v.minor < minor
}

// Models lists what preempt= accepts on this kernel; for a kernel without PREEMPT_DYNAMIC, the one
// model that it has. It is nil when that isn't known.
//
// With PREEMPT_DYNAMIC (sched_dynamic_mode in kernel/sched/core.c): before 6.13 none, voluntary and
// full; since 6.13 also lazy, on architectures that have it; since 7.0 those accept nothing but full
// and lazy ("sched: Further restrict the preemption modes").
func (in Inspection) Models() []rcu.Preemption {
	switch in.Dynamic {
	case No:
		if in.Preempt == "" {
			return nil
		}
		return []rcu.Preemption{in.Preempt}
	case Yes:
	default:
		return nil
	}
	v, ok := parseRelease(in.Release)
	if !ok || in.LazyArch == Unknown {
		return nil
	}
	lazy := in.LazyArch == Yes
	switch {
	case in.Preempt == rcu.RT:
		return []rcu.Preemption{rcu.RT}
	case lazy && !v.before(7, 0):
		return []rcu.Preemption{rcu.Full, rcu.Lazy}
	case lazy && !v.before(6, 13):
		return []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy}
	}
	return []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full}
}

// AcceptsPreempt reports whether the kernel can run under model; the empty model stands for whatever
// it boots with. When it can't, why says so in one line and names kernels that can. When that isn't
// known, ok is true and why says that it isn't known: the guest's own report decides.
func (in Inspection) AcceptsPreempt(model rcu.Preemption) (ok bool, why string) {
	if model == "" {
		return true, ""
	}
	models := in.Models()
	if slices.Contains(models, model) {
		return true, ""
	}
	if models == nil && in.static != nil && !slices.Contains(in.static, model) {
		return false, fmt.Sprintf("kernel %s for %s can't run with preempt=%s: it is built for %s (no PREEMPT_DYNAMIC); %s",
			in.Release, in.Arch, model, strings.ReplaceAll(joinModels(in.static), ", ", " or "), whoCan(model))
	}
	if models == nil {
		return true, "which preemption models this kernel accepts can't be told before it boots"
	}
	what := "accepts preempt=" + strings.ReplaceAll(joinModels(models), ", ", ", preempt=")
	if in.Dynamic == No {
		what = fmt.Sprintf("is built for %s alone (no PREEMPT_DYNAMIC)", models[0])
	}
	return false, fmt.Sprintf("kernel %s for %s can't run with preempt=%s: it %s; %s",
		in.Release, in.Arch, model, what, whoCan(model))
}

// whoCan names stock kernels that run under a model.
func whoCan(model rcu.Preemption) string {
	switch model {
	case rcu.None, rcu.Voluntary:
		text := "debian:trixie/amd64 (6.12) and debian:trixie-backports/amd64/cloud-amd64/6.18 can"
		if model == rcu.Voluntary {
			text += ", and debian:sid/armhf always does"
		}
		return text
	case rcu.Lazy:
		return "debian:sid/amd64 and debian:trixie-backports/amd64/cloud-amd64/6.18 can"
	case rcu.RT:
		return "debian:sid/amd64/rt-amd64 always does"
	}
	return "debian:sid/amd64 and debian:trixie/amd64 can"
}

// joinModels makes a list of models into text.
func joinModels(models []rcu.Preemption) string {
	var words []string
	for _, m := range models {
		words = append(words, string(m))
	}
	return strings.Join(words, ", ")
}
