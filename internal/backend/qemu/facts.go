package qemu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
)

// enrich adds to f which spec the kernel is, and what its configuration says and the guest could not
// read.
func (k kernel) enrich(f *experiment.Facts) {
	f.Kernel, f.Source, f.KconfigDiff = k.spec, k.source, k.kconfigDiff
	if len(f.Config) == 0 {
		f.Config = slices.Clone(k.config)
	}
	if f.Preempt == "" && k.preempt != "" && !k.dynamic {
		f.Preempt = k.preempt
		learn(f, "preempt", string(k.preempt))
	}
	if f.HZ == 0 && k.hz != 0 {
		f.HZ = k.hz
		learn(f, "hz", strconv.Itoa(k.hz))
	}
}

// learn notes that a field comes from the configuration and is no longer unknown.
func learn(f *experiment.Facts, field, value string) {
	f.Evidence = append(slices.Clone(f.Evidence), fmt.Sprintf("%s: the kernel's configuration says %s", field, value))
	f.Unknown = slices.DeleteFunc(slices.Clone(f.Unknown), func(s string) bool { return strings.EqualFold(s, field) })
}

// checkFacts compares what booted with what the arm wished for: no number is made of another kernel.
func (k kernel) checkFacts(f experiment.Facts, arm experiment.Arm) error {
	if arm.Preempt != "" && f.Preempt != arm.Preempt {
		got := string(f.Preempt)
		if got == "" {
			got = "an unknown preemption model"
		} else {
			got = "preempt=" + got
		}
		return &backend.WrongKernelError{Wish: "preempt=" + string(arm.Preempt), Got: got, Hint: k.hint(arm.Preempt)}
	}
	if f.CPUs < arm.VCPUs {
		return &backend.WrongKernelError{
			Wish: fmt.Sprintf("%d CPUs", arm.VCPUs), Got: fmt.Sprintf("%d CPUs", f.CPUs),
			Hint: "look for nr_cpus=, maxcpus= and CPUs that did not come up in the console",
		}
	}
	return nil
}
