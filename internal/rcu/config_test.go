package rcu

import "testing"

func TestDecides(t *testing.T) {
	for line, want := range map[string]bool{
		"CONFIG_PREEMPT_LAZY=y": true, "CONFIG_HZ=250": true, "CONFIG_PROVE_RCU=y": true, "CONFIG_RCU_EXP_CPU_STALL_TIMEOUT=0": true,
		"# CONFIG_PREEMPT_RT is not set": false, "CONFIG_PREEMPT_RT=n": false, "CONFIG_PREEMPT_NOTIFIERS=y": false, "CONFIG_HZ_250=y": false,
		"CONFIG_USB=m": false, "HZ=250": false, "CONFIG_HZ=": false, "": false,
	} {
		if got := Decides(line); got != want {
			t.Errorf("Decides(%q) = %v; want %v", line, got, want)
		}
	}
}
