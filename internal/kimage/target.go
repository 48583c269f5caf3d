package kimage

import (
	_ "embed" // for the configurations
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// What guests are configured with: on any architecture, and on each.
var (
	//go:embed guest.config
	guestConfig string
	//go:embed guest-amd64.config
	guestAmd64 string
	//go:embed guest-arm64.config
	guestArm64 string
	//go:embed guest-armhf.config
	guestArmhf string
)

// A buildTarget is an architecture that kernels are built for.
type buildTarget struct {
	debian string // Debian's name
	kbuild string // make's ARCH=
	src    string // the directory in arch/
	cross  string // prefix of the compiler where this machine has another architecture
	image  string // what make leaves, below the object directory
	make   string // make's target for it
	guest  string // its part of the configuration
	hz     []int  // what its tick can be
}

// buildTargets lists the architectures that kernels are built for. The ticks are those of kernel/Kconfig.hz
// and arch/arm/Kconfig.
func buildTargets() []buildTarget {
	usual := []int{100, 250, 300, 1000}
	return []buildTarget{
		{"amd64", "x86_64", "x86", "x86_64-linux-gnu-", "arch/x86/boot/bzImage", "bzImage", guestAmd64, usual},
		{"arm64", "arm64", "arm64", "aarch64-linux-gnu-", "arch/arm64/boot/Image", "Image", guestArm64, usual},
		{"armhf", "arm", "arm", "arm-linux-gnueabihf-", "arch/arm/boot/zImage", "zImage", guestArmhf, []int{100, 200, 250, 300, 500, 1000}},
	}
}

// targetOf returns the target that arch names, in Debian's or the kernel's words; the empty name is amd64.
func targetOf(arch string) (buildTarget, error) {
	if arch == "" {
		arch = BuildArch
	}
	debian, _ := experiment.BuildArch(arch)
	for _, t := range buildTargets() {
		if t.debian == debian {
			return t, nil
		}
	}
	why := ""
	if strings.HasPrefix(arch, "mips") {
		why = " (guests are booted on no mips machine)"
	}
	return buildTarget{}, fmt.Errorf("architecture %q: kernels are built for %s%s", arch, strings.Join(experiment.BuildArches(), ", "), why)
}

// prefix returns what compiler names begin with on this machine.
func (t buildTarget) prefix(machine string) string {
	if t.debian == machine {
		return ""
	}
	return t.cross
}

// defaultHZ is what distributions build for x86 with.
const defaultHZ = 250

// config returns what is asked of a kernel's configuration, without a user's fragment. Without a model it gets
// all that it can have, by PREEMPT_DYNAMIC.
func (t buildTarget) config(model rcu.Preemption, hz int) (string, error) {
	options := map[rcu.Preemption]string{
		rcu.None: "PREEMPT_NONE", rcu.Voluntary: "PREEMPT_VOLUNTARY", rcu.Full: "PREEMPT", rcu.Lazy: "PREEMPT_LAZY", rcu.RT: "PREEMPT_RT",
	}
	if hz == 0 {
		hz = defaultHZ
	}
	if !slices.Contains(t.hz, hz) {
		words := strings.Fields(strings.Trim(fmt.Sprint(t.hz), "[]"))
		last := len(words) - 1
		return "", fmt.Errorf("HZ %d: a kernel for %s takes %s or %s", hz, t.debian, strings.Join(words[:last], ", "), words[last])
	}
	text := guestConfig + t.guest + fmt.Sprintf("\n# What was wished for.\nCONFIG_HZ_%d=y\n", hz)
	if model == "" && t.debian == "armhf" {
		return "", fmt.Errorf("a kernel for armhf has one preemption model, for want of PREEMPT_DYNAMIC there: name none, voluntary or full")
	}
	if model == "" {
		return text + "CONFIG_PREEMPT_DYNAMIC=y\n", nil
	}
	option, ok := options[model]
	if !ok {
		return "", fmt.Errorf("preemption model %q: want none, voluntary, full, lazy or rt", model)
	}
	return text + "CONFIG_PREEMPT_DYNAMIC=n\nCONFIG_" + option + "=y\n", nil
}
