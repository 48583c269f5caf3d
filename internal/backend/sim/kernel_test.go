package sim

import (
	"errors"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
)

func TestKernels(t *testing.T) {
	for _, c := range []struct {
		arm     string
		gen     model.Generation
		arch    model.Arch
		preempt rcu.Preemption
		dynamic bool
		hz      int
		flavor  rcu.Flavor
	}{
		{"kernel: debian:sid/armhf", model.V73, model.ARMHF, rcu.Voluntary, false, 250, rcu.Sched},
		{"kernel: debian:trixie", model.V612, model.AMD64, rcu.Voluntary, true, 250, rcu.Preempt},
		{"kernel: debian:trixie/amd64/cloud-amd64, preempt: full", model.V612, model.AMD64, rcu.Full, true, 250, rcu.Preempt},
		{"kernel: debian:trixie-backports/amd64/cloud-amd64/6.18, preempt: none", model.V618, model.AMD64, rcu.None, true, 250, rcu.Preempt},
		{"kernel: debian:trixie-backports/amd64/cloud-amd64/6.19.4", model.V618, model.AMD64, rcu.Lazy, true, 250, rcu.Preempt},
		{"kernel: debian:trixie-backports/amd64", model.V73, model.AMD64, rcu.Lazy, true, 250, rcu.Preempt},
		{"kernel: debian:bookworm/armhf", model.V612, model.ARMHF, rcu.Voluntary, false, 250, rcu.Sched},
		{"kernel: debian-source:trixie/linux-source-6.12, config: {preempt: none, hz: 100}", model.V612, model.AMD64, rcu.None, false, 100, rcu.Sched},
		{"kernel: tree:/x, config: {preempt: lazy}", model.V618, model.AMD64, rcu.Lazy, false, 250, rcu.Sched},
		{"kernel: model:7.3/mips, config: {preempt: voluntary, hz: 256}", model.V73, model.MIPS, rcu.Voluntary, false, 256, rcu.Sched},
		{"kernel: model:6.18/arm64, preempt: none", model.V618, model.ARM64, rcu.None, true, 250, rcu.Preempt},
		{"kernel: model:6.18, config: {preempt: full}", model.V618, model.AMD64, rcu.Full, false, 250, rcu.Preempt},
		{"kernel: [host, debian:sid/armhf]", model.V73, model.ARMHF, rcu.Voluntary, false, 250, rcu.Sched},
		{"kernel: [debian:trixie-backports/amd64, debian:trixie/amd64], preempt: none", model.V612, model.AMD64, rcu.None, true, 250, rcu.Preempt},
	} {
		b, err := buildOf(armOf(t, "{name: a, "+c.arm+"}"))
		if err != nil {
			t.Errorf("%s: %v", c.arm, err)
			continue
		}
		if b.gen != c.gen || b.arch != c.arch || b.preempt != c.preempt || b.dynamic != c.dynamic || b.hz != c.hz || b.flavor() != c.flavor {
			t.Errorf("%s: %+v, flavor %s; want %+v", c.arm, b, b.flavor(), c)
		}
	}
}

// TestRefusals: an arm that the simulator can't tell anything of is unsupported, in one line that says what would do.
func TestRefusals(t *testing.T) {
	for arm, want := range map[string]string{
		"kernel: host":                                                            "can't tell what the kernel host is",
		"kernel: file:/boot/vmlinuz":                                              "can't tell what the kernel file:/boot/vmlinuz is",
		"kernel: debian:sid/armhf, preempt: lazy":                                 "is built for preempt=voluntary, the arm asks for lazy",
		"kernel: tree:/x, config: {preempt: none}, patch: [mine.patch]":           "name the loop that it makes with loop:",
		"kernel: model:6.18, boot: [threadirqs]":                                  "kernel parameter threadirqs is not in the model",
		"kernel: debian-source:trixie/linux-source-6.12, config: {preempt: lazy}": "",
		"kernel: debian:trixie-backports/amd64, preempt: none":                    "",
		"kernel: model:6.12, loop: backlog-thread":                                "can't bounce",
		"kernel: model:6.12, loop: backlog-thread, load: {kind: paced, rate: 1k/s}, nic: {mask-scope: all-queues}": "no mask-scope",
		"kernel: model:6.12, load: {kind: external}":                                                               "a simulator has no elsewhere",
	} {
		_, err := Backend{}.Acquire(t.Context(), armOf(t, "{name: a, "+arm+"}"))
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Acquire(%s) = %v; want unsupported in one line with %q", arm, err, want)
		}
	}
}

func TestYieldPatchIsTheLoop(t *testing.T) {
	arm := armOf(t, "{name: a, kernel: tree:/x, config: {preempt: none}, patch: [/somewhere/yield-on-exit.patch]}")
	if loop, err := loopOf(arm); err != nil || loop != experiment.YieldOnExit {
		t.Errorf("loopOf = %q, %v; want yield-on-exit", loop, err)
	}
}
