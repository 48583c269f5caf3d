package qemu

import (
	"errors"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rcu"
)

// A model that the kernel can't have is refused before a quarter of an hour is spent on building it.
func TestBuildRefusedAtOnce(t *testing.T) {
	b := Backend{Binary: "qemu", Store: kimage.Store{Dir: t.TempDir(), Offline: true, Log: func(s string) { t.Errorf("something is done: %s", s) }}}
	arm := experiment.Arm{Name: "a", Kernel: "debian-source:trixie/linux-source-6.12",
		Config: experiment.Config{Preempt: rcu.None}, Preempt: rcu.Lazy}
	_, err := b.Acquire(t.Context(), arm)
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "arm a: a kernel built with config preempt none can't run with preempt lazy") {
		t.Errorf("Acquire = %v", err)
	}
}

func TestAcquireRefusesWhatOnlyTheSimulatorHas(t *testing.T) {
	_, err := Backend{}.Acquire(t.Context(), experiment.Arm{Name: "a", Kernel: "model:7.3"})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "only the simulator has the kernel model:7.3") {
		t.Errorf("Acquire of a model kernel: %v", err)
	}
}
