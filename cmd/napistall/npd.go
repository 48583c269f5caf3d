package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// npdConfig is a configuration of node-problem-detector's system log monitor (config/kernel-monitor.json there).
type npdConfig struct {
	Plugin     string     `json:"plugin"`
	LogPath    string     `json:"logPath"`
	Lookback   string     `json:"lookback"`
	BufferSize int        `json:"bufferSize"`
	Source     string     `json:"source"`
	Conditions []struct{} `json:"conditions"`
	Rules      []npdRule  `json:"rules"`
}

// An npdRule makes an event of the node of each line that matches. The detector puts \z behind Pattern: it has
// to match to the line's end.
type npdRule struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Pattern string `json:"pattern"`
}

// npdRules match the heads of what parse calls an event. Tasks RCU comes first: its heads are like the others'.
func npdRules() []npdRule {
	rules := [][2]string{
		{"RCUTasksStall", `INFO: rcu_tasks\w* detected stalls on tasks:.*`},
		{"RCUStall", `INFO: rcu_(sched|preempt|bh)\w* (self-detected stall on CPU|detected stalls? on CPU|detected stall, but suppressed).*`},
		{"RCUExpeditedStall", `INFO: rcu_\w+ detected expedited stalls.*`},
		{"RCUGracePeriodOld", `rcu_tasks\w* grace period number \d+ .* is \d+ jiffies old.*`},
		{"RCUKthreadStarved", `rcu_\w+ kthread starved for \d+ jiffies!.*`},
		{"RCUTimerLost", `rcu_\w+ kthread timer wakeup didn't happen for \d+ jiffies!.*`},
		{"NAPIThreadSoftLockup", `BUG: soft lockup - CPU#\d+ stuck for \d+s! \[napi/.*`},
		{"SoftLockup", `BUG: soft lockup - CPU#\d+ stuck for \d+s! \[[^n].*`},
		{"HardLockup", `Watchdog detected hard LOCKUP on cpu.*`},
		{"TaskHung", `INFO: task .+:\d+ blocked (in I/O wait )?for more than \d+ seconds\..*`},
		{"LockOwner", `INFO: task .+:\d+ .*is blocked on an? .+ likely owned by task .*`},
		{"WorkqueueLockup", `BUG: workqueue lockup - pool .* stuck for \d+s!.*`},
		{"TXTimeout", `NETDEV WATCHDOG: .*timed out.*`},
		{"UnregisterNetDevice", `unregister_netdevice: waiting for \S+ to become free.*`},
	}
	all := make([]npdRule, 0, len(rules))
	for _, r := range rules {
		all = append(all, npdRule{Type: "temporary", Reason: r[0], Pattern: r[1]})
	}
	return all
}

func writeNPD(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "\t")
	enc.SetEscapeHTML(false)
	err := enc.Encode(npdConfig{Plugin: "kmsg", LogPath: "/dev/kmsg", Lookback: "5m", BufferSize: 10, Source: "napistall-monitor",
		Conditions: []struct{}{}, Rules: npdRules()})
	if err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return nil
}
