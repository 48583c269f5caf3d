package rcu

import "strings"

// Decides reports whether a line of a kernel's configuration sets what a reader has to know to judge its
// stalls: the preemption model, the tick, who runs RCU's callbacks, when something is reported, and the
// debugging that slows everything. A line that says "is not set" never does: whatever is not there is not set.
func Decides(line string) bool {
	name, value, set := strings.Cut(line, "=")
	option, ok := strings.CutPrefix(name, "CONFIG_")
	if !set || !ok || value == "" || value == "n" {
		return false
	}
	switch option {
	case "PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT", "PREEMPT_LAZY", "PREEMPT_RT", "PREEMPT_DYNAMIC", "ARCH_HAS_PREEMPT_LAZY",
		"SMP", "HZ", "HZ_PERIODIC", "NO_HZ_IDLE", "NO_HZ_FULL",
		"TREE_RCU", "PREEMPT_RCU", "RCU_LAZY", "RCU_NOCB_CPU", "RCU_NOCB_CPU_DEFAULT_ALL",
		"RCU_CPU_STALL_TIMEOUT", "RCU_EXP_CPU_STALL_TIMEOUT", "SOFTLOCKUP_DETECTOR", "DETECT_HUNG_TASK", "WQ_WATCHDOG",
		"KASAN", "PROVE_LOCKING", "PROVE_RCU", "DEBUG_ATOMIC_SLEEP", "DEBUG_PREEMPT", "DEBUG_OBJECTS", "DEBUG_NET":
		return true
	}
	return false
}
