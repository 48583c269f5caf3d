package explain

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/klog"
)

const (
	// HoldShare of the hold is what one operation must have been blocked for to count as held by the
	// load: it began soon after the load and ended with it.
	HoldShare = 0.9
	// MinStall is the least length that counts so, however short the hold: a CPU that softirqs
	// saturate makes deletes slow as well, 2.3 s was measured with a flood into 6.12 under TCG, and a threaded
	// loop that yields gives way within a tick or a poll (docs/mechanism.md).
	MinStall = 5 * time.Second
	// minExpMillis is the shortest expedited stall timeout whose reports say that something stalled;
	// a kernel built for phones reports after 20 ms already (RCU_EXP_CPU_STALL_TIMEOUT in kernel/rcu/Kconfig.debug).
	minExpMillis = 1000
)

// A Stall is the strongest evidence that something held a CPU.
type Stall string

// The kinds of evidence, strongest first.
const (
	StallReport  Stall = "RCU stall"         // the kernel reported a stalled grace period
	StallLockup  Stall = "soft lockup"       // the kernel reported that the NAPI thread did not let go of its CPU
	StallBlocked Stall = "blocked operation" // an operation was blocked for HoldShare of the hold
	NoStall      Stall = ""
)

// Stall says what t shows of a stall.
func (t TrialSummary) Stall() Stall {
	switch {
	case t.Stalls(klog.Classic) > 0 || t.Stalls(klog.Expedited) > 0 && !t.hasty():
		return StallReport
	case t.napiLockups() > 0:
		return StallLockup
	case t.blocked() > 0:
		return StallBlocked
	}
	return NoStall
}

// hasty reports whether the kernel calls an expedited grace period stalled so soon that it means little.
func (t TrialSummary) hasty() bool { return t.Facts.ExpMillis > 0 && t.Facts.ExpMillis < minExpMillis }

// napiLockups counts the soft lockups of a threaded arm that name its NAPI thread, or nobody.
func (t TrialSummary) napiLockups() int {
	n := 0
	for _, e := range t.Events {
		if e.Kind == klog.SoftLockup && t.Arm.Threaded && (e.Task == "" || strings.HasPrefix(e.Task, "napi/")) {
			n++
		}
	}
	return n
}

// blocked counts the operations of the hold that were held by the load.
func (t TrialSummary) blocked() int {
	n := 0
	for _, s := range t.Main().Hold {
		if held(s.Took, t.Arm.Load.Hold) {
			n++
		}
	}
	return n
}

func held(took, hold time.Duration) bool {
	return hold > 0 && took >= MinStall && took.Seconds() >= HoldShare*hold.Seconds()
}

// StallEvidence is the strongest Stall of a's trials.
func (a ArmSummary) StallEvidence() Stall {
	found := map[Stall]bool{}
	for _, t := range a.Trials {
		found[t.Stall()] = true
	}
	for _, s := range []Stall{StallReport, StallLockup, StallBlocked} {
		if found[s] {
			return s
		}
	}
	return NoStall
}

// inBandAtAll reports whether the load was in the band for some of what was counted in a trial that
// stalled.
func (a ArmSummary) inBandAtAll() bool {
	for _, t := range a.Trials {
		if t.Stall() != NoStall && t.Band.In > 0 {
			return true
		}
	}
	return false
}

// KernelName names the kernel that a ran on in short: its version and architecture, and whether it
// was patched, or its Kconfig edited to allow a model. It is "" when no trial said.
func (a ArmSummary) KernelName() string {
	if a.Facts.Release == "" {
		return ""
	}
	name := shortRelease(a.Facts.Release) + " " + archName(a.Facts.Arch, a.Arm.Kernel)
	if len(a.Arm.Patch) > 0 {
		name += " +patch"
	}
	if a.Facts.KconfigDiff != "" {
		name += " +kconfig"
	}
	return strings.TrimSpace(name)
}

// shortRelease cuts a release down to its version: "7.2.13-armmp-lpae" is 7.2.13.
func shortRelease(release string) string {
	re := regexp.MustCompile(`^\d+(\.\d+)*(-rc\d+)?`)
	if v := re.FindString(release); v != "" {
		return v
	}
	return release
}

// archName is arch as Debian calls it where the kernel is Debian's, else as uname does.
func archName(arch, spec string) string {
	if !strings.HasPrefix(spec, "debian:") && !strings.HasPrefix(spec, "deb:") {
		return arch
	}
	switch arch {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "armv7l":
		return "armhf"
	}
	return arch
}

// Model names the preemption model in force in capitals, "NONE dyn" where PREEMPT_DYNAMIC chose it:
// none and voluntary there are another system than the static ones, since PREEMPT_RCU is on
// (kernel/rcu/Kconfig). It is "" when unknown.
func Model(f experiment.Facts) string {
	if f.Preempt == "" {
		return ""
	}
	name := strings.ToUpper(string(f.Preempt))
	if f.Dynamic && !f.Preempt.Preempts() {
		name += " dyn"
	}
	return name
}

// suspect reports whether a is an arm that the stall is expected of: a threaded NAPI under load on a
// kernel that does not preempt by itself. An unknown model is one as well, until it is known.
func (a ArmSummary) suspect() bool {
	return a.Arm.Threaded && a.Arm.Load.Kind != experiment.NoLoad && !a.Facts.Preempt.Preempts() && len(a.Trials) > 0
}

// label names a with what matters: "stock (7.2.13 armhf, VOLUNTARY, in the band)".
func (a ArmSummary) label() string { return fmt.Sprintf("%s (%s)", a.Arm.Name, a.conditions()) }

// conditions are what matters of a's kernel and load: "7.2.13 armhf, VOLUNTARY, in the band".
func (a ArmSummary) conditions() string {
	parts := []string{}
	if k := a.KernelName(); k != "" {
		parts = append(parts, k)
	}
	if m := Model(a.Facts); m != "" {
		parts = append(parts, m)
	} else {
		parts = append(parts, "model unknown")
	}
	if w := a.bandWords(); w != "" {
		parts = append(parts, w)
	}
	return strings.Join(parts, ", ")
}

func (a ArmSummary) bandWords() string {
	switch a.Band {
	case In:
		return "in the band"
	case Above, Below:
		return string(a.Band) + " the band"
	case Mixed:
		return "in the band in some trials"
	case UnknownBand:
		return "band unknown"
	}
	if a.Arm.Load.Kind == experiment.NoLoad {
		return "no load"
	}
	return "softirq mode"
}

// dynamicNone reports whether a ran without preemption on a kernel that can preempt readers.
func (a ArmSummary) dynamicNone() bool {
	return a.Facts.Dynamic && !a.Facts.Preempt.Preempts() && a.Facts.Preempt != rcu.Preemption("")
}
