package qemu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
)

// enrich adds to f what the kernel's configuration says and the guest could not read.
func (k kernel) enrich(f *experiment.Facts) {
	if len(f.Config) == 0 {
		f.Config = slices.Clone(k.config)
	}
	if f.Preempt == "" && k.preempt != "" && !k.dynamic {
		f.Preempt = k.preempt
		f.Evidence = append(f.Evidence, fmt.Sprintf("preempt: the kernel's configuration says %s", k.preempt))
		f.Unknown = slices.DeleteFunc(f.Unknown, func(s string) bool { return strings.EqualFold(s, "preempt") })
	}
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
