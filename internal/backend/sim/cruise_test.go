package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
)

// arms returns a spread of kernels, loops and loads, on each of which a trial has something else to skip.
func arms() []string {
	kernels := []string{
		"kernel: model:6.18, config: {preempt: none}", "kernel: model:6.18, preempt: none", "kernel: model:7.3, preempt: lazy, model: {costs: {neighbour: 10ms}}",
		"kernel: model:6.12, preempt: full, model: {costs: {neighbour: 3ms}}", "kernel: model:6.18, config: {preempt: none}, loop: yield-on-exit, model: {costs: {neighbour: 20ms}}",
		"kernel: model:6.18, config: {preempt: none}, loop: qs-only-persistent-stamp", "kernel: model:6.18, config: {preempt: lazy}, model: {user: true}",
		"kernel: model:7.3, preempt: lazy, loop: busy-poll", "kernel: model:6.12, config: {preempt: none}, loop: backlog-thread",
		"kernel: model:6.18, config: {preempt: none}, model: {backlog: true, report-cost: 20ms}, stall-timeout: 3s",
	}
	loads := []string{
		"load: {kind: bounce, inflight: 16, hold: 1s}", "load: {kind: bounce, inflight: 30, hold: 1s}",
		"load: {kind: paced, rate: 3k/s, hold: 1s}", "load: {kind: paced, rate: 90k/s, hold: 1s}", "load: {kind: paced, rate: 500k/s, batch: 7, hold: 1s}",
		"load: {kind: paced, rate: 60k/s, hold: 1s}, nic: {moderation: 50us}", "load: {kind: paced, rate: 900k/s, hold: 1s}, nic: {latch: false, ring: 32}",
		"load: {kind: windowed, window: 3, hold: 1s}", "load: {kind: windowed, window: 90, rtt: 20us, hold: 1s}, nic: {ring: 16}",
		"load: {kind: tcp, window: 300, hold: 1s}, nic: {ring: 64}", "load: {kind: paced, rate: 60k/s, band: hold, hold: 1s}",
		"load: {kind: paced, rate: 60k/s, hold: 1s}, nic: {mask-scope: all-queues}", "load: {kind: flood, hold: 1s}",
	}
	var out []string
	for i, k := range kernels {
		for j, l := range loads {
			if strings.Contains(k, "backlog-thread") && (strings.Contains(l, "bounce") || strings.Contains(l, "mask-scope")) {
				continue // TestRefusals
			}
			out = append(out, fmt.Sprintf("{name: a%d-%d, %s, %s}", i, j, k, l))
		}
	}
	// One that is long enough for every kind of report.
	return append(out, "{name: long, kernel: debian:sid/armhf, stall-timeout: 3s, load: {kind: bounce, inflight: 16, hold: 4s}, model: {report-cost: 1ms}}")
}

// TestCruiseIsExact holds trials that skip what repeats against the same trials step by step.
func TestCruiseIsExact(t *testing.T) {
	t.Parallel()
	for i, text := range arms() {
		arm := armOf(t, text)
		if arm.Name != "long" {
			arm.Load.Hold /= 10 // shorter than a file may ask for
		}
		arm.Duration = arm.Load.Hold + 50e6
		run := func(stepwise bool) []experiment.Record {
			target, err := Backend{stepwise: stepwise}.Acquire(t.Context(), arm)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			var recs []experiment.Record
			err = target.Run(t.Context(), experiment.Trial{Rep: 1, Seed: uint64(i), Arm: arm}, func(r experiment.Record) error {
				recs = append(recs, r)
				return nil
			})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return recs
		}
		if d := cmp.Diff(run(true), run(false)); d != "" {
			t.Errorf("%s (-stepped +skipped):\n%s", text, d[:min(len(d), 3000)])
		}
	}
}
