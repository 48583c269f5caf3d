package backend

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// A Live is what a backend may do with a machine that lives on after its trials. Its zero value allows what
// harms nobody, with devices of the trial's own.
type Live struct {
	// Device is a real device to measure, for arms whose load is external. Default: none.
	Device string
	// Bounce allows loads that hold a CPU inside the kernel, which nothing else can then use, for up to 2 s.
	Bounce bool
	// Owned raises that to 10 s: whoever sets it owns the machine and all that runs on it.
	Owned bool
}

// LiveKernel is the only kernel that an arm can have on a live machine: the one that runs it.
const LiveKernel = "host"

// How long a load may hold a CPU that others use, and where the machine is the user's own.
const (
	maxHold   = 2 * time.Second
	ownedHold = 10 * time.Second
)

// Refuse returns why arm can't or may not run on a live machine, as far as that can be told without
// looking at it. Its errors match errors.ErrUnsupported.
func (l Live) Refuse(arm experiment.Arm) error {
	if err := refuseKernel(arm); err != nil {
		return err
	}
	if err := experiment.NeedsModel(arm); err != nil {
		return err
	}
	external := arm.Load.Kind == experiment.External
	switch {
	case external && l.Device == "":
		return unsupported("its load comes from elsewhere: name the device that it reaches, with --device")
	case !external && l.Device != "":
		return unsupported("its load %s makes devices of its own, and %s is only measured: give it load: {kind: external}", arm.Load.Kind, l.Device)
	}
	return l.refuseLoad(arm)
}

// refuseKernel returns why a running kernel is not the arm's.
func refuseKernel(arm experiment.Arm) error {
	switch {
	case arm.Kernel != LiveKernel && !slices.Contains(arm.KernelElse, LiveKernel):
		return unsupported("it asks for the kernel %s, and a live machine has only the one that runs it: "+
			"write kernel: host, or run the arm in a virtual machine with --backend qemu", arm.Kernel)
	case len(arm.Boot) > 0:
		return unsupported("boot: %s can't be given to a kernel that runs already: drop it, or run the arm with --backend qemu", strings.Join(arm.Boot, " "))
	case arm.Memory != 0:
		return unsupported("memory: is for virtual machines: drop it, or run the arm with --backend qemu")
	}
	return nil
}

// refuseLoad returns why the load is not allowed on a machine that others use.
func (l Live) refuseLoad(arm experiment.Arm) error {
	if !Starves(arm.Load) {
		return nil
	}
	if !l.Bounce && !l.Owned {
		return unsupported("the load %s keeps a CPU inside the kernel for %v, where nothing else can use it: "+
			"on a live machine, allow that with --allow-bounce, or run the arm with --backend qemu", arm.Load.Kind, arm.Load.Hold)
	}
	limit, more := maxHold, " (--i-own-this-machine: 10 s)"
	if l.Owned {
		limit, more = ownedHold, ""
	}
	if arm.Load.Hold > limit {
		return unsupported("hold %v: on a live machine, the load %s may last %v at most%s", arm.Load.Hold, arm.Load.Kind, limit, more)
	}
	return nil
}

// Starves reports whether a load means to hold its CPU: what stays in the band does.
func Starves(l experiment.Load) bool {
	return l.Kind.Circulates() || l.Band == experiment.HoldBand
}

func unsupported(format string, args ...any) error {
	return UnsupportedError(fmt.Sprintf(format, args...))
}

// CheckLive compares what runs on a live machine with what the arm asks for: no number is made of another
// kernel. Its errors are of type *WrongKernelError.
func CheckLive(f experiment.Facts, arm experiment.Arm) error {
	if arm.Preempt != "" && f.Preempt != arm.Preempt {
		got := "preempt=" + string(f.Preempt)
		if f.Preempt == "" {
			got = "an unknown preemption model"
		}
		return &WrongKernelError{Wish: "preempt=" + string(arm.Preempt), Got: got, Hint: liveHint(f)}
	}
	if f.CPUs < arm.VCPUs {
		return &WrongKernelError{
			Wish: fmt.Sprintf("%d CPUs", arm.VCPUs), Got: fmt.Sprintf("%d CPUs", f.CPUs),
			Hint: "on a live machine, vcpus: is what the arm needs at least",
		}
	}
	return nil
}

// liveHint says how the running kernel's model could be another.
func liveHint(f experiment.Facts) string {
	if f.Dynamic {
		return "it is PREEMPT_DYNAMIC: write the model to /sys/kernel/debug/sched/preempt, or boot with preempt="
	}
	return "it was built so: run the arm with --backend qemu and another kernel"
}
