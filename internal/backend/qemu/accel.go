package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// How a guest's instructions are run, in -accel's words.
const (
	auto = "auto"
	kvm  = "kvm"
	tcg  = "tcg"
)

// A proof of life is asked for because /dev/kvm may exist and not work: nested and paravirtual hosts
// let QEMU die, or hang while it burns a CPU. Where KVM works, the first line comes within 0.2 s and
// the agent within 3 s.
type proofLimits struct{ line, agent time.Duration }

func shortProof() proofLimits { return proofLimits{line: 5 * time.Second, agent: 20 * time.Second} }

// chooseAccel returns kvm or tcg for k, which is booted once when that is not known yet.
func (b Backend) chooseAccel(ctx context.Context, m machine, binary string, k kernel, arm experiment.Arm) (string, error) {
	switch b.Accel {
	case tcg:
		return tcg, nil
	case kvm:
		if !m.native() {
			return "", unsupportedError(fmt.Sprintf("run %s with KVM: this machine runs other instructions", m.goarch))
		}
		if err := b.prove(ctx, m, binary, k, arm); err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", unsupportedError(fmt.Sprintf("run %s with KVM: %v", m.goarch, err))
		}
		return kvm, nil
	case "", auto:
		if !m.native() {
			return tcg, nil
		}
		return b.tryKVM(ctx, m, binary, k, arm)
	}
	return "", fmt.Errorf("unknown accelerator %q: want auto, kvm or tcg", b.Accel)
}

// tryKVM asks the memory first, then the machine.
func (b Backend) tryKVM(ctx context.Context, m machine, binary string, k kernel, arm experiment.Arm) (string, error) {
	if err := b.openKVM(); err != nil {
		return tcg, nil // no KVM is the usual case on a rented machine, and no news
	}
	mem := b.memory(m, binary)
	if known, ok := mem.recall(time.Now()); ok {
		return known.accel(), nil
	}
	err := b.prove(ctx, m, binary, k, arm)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	b.settle(mem, err)
	return verdict{Works: err == nil}.accel(), nil
}

// settle remembers whether KVM works and says so when it does not.
func (b Backend) settle(mem memo, err error) {
	v := verdict{Works: err == nil, At: time.Now()}
	if err != nil {
		v.Why = err.Error()
		b.log(fmt.Sprintf("KVM does not work here (%s): emulating with TCG, for the next %d days too", v.Why, int(remembered.Hours()/24)))
	}
	if err := mem.keep(v); err != nil {
		b.log(fmt.Sprintf("whether KVM works is not remembered: %v", err))
	}
}

func (b Backend) openKVM() error {
	path := b.kvmDevice
	if path == "" {
		path = "/dev/kvm"
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// prove boots k under KVM until its agent is up.
func (b Backend) prove(ctx context.Context, m machine, binary string, k kernel, arm experiment.Arm) error {
	if err := b.openKVM(); err != nil {
		return err
	}
	initrd, err := k.initramfs(experiment.Trial{Arm: arm})
	if err != nil {
		return err
	}
	p, err := start(m.argv(binary, kvm, k, arm), initrd)
	_ = initrd.Close() // only memory
	if err != nil {
		return err
	}
	defer p.stop()
	return b.awaitLife(ctx, p)
}

// awaitLife returns nil once p's console shows the agent, else why it never will.
func (b Backend) awaitLife(ctx context.Context, p *process) error {
	limits := b.proof
	if limits == (proofLimits{}) {
		limits = shortProof()
	}
	tick := time.NewTicker(glance)
	defer tick.Stop()
	noLine, noAgent := time.After(limits.line), time.After(limits.agent)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, ok := <-p.console:
			if !ok {
				return whyDead(p)
			}
			if strings.Contains(line, agentUp) {
				return nil
			}
			noLine = nil
		case <-tick.C:
			if said := complaint(p.stderr.last(maxTailLines)); said != "" {
				return errors.New(said)
			}
		case <-noLine:
			return fmt.Errorf("the guest printed nothing for %v", limits.line)
		case <-noAgent:
			return fmt.Errorf("the guest's agent was not up after %v", limits.agent)
		}
	}
}

func whyDead(p *process) error {
	err := p.ended()
	if said := complaint(p.stderr.last(maxTailLines)); said != "" {
		return errors.New(said)
	}
	if err == nil {
		err = errors.New("the guest ended before its agent was up")
	}
	return err
}

// complaint returns the line in which QEMU says that KVM failed although it goes on running.
func complaint(stderr []string) string {
	for _, line := range stderr {
		for _, sign := range []string{"failed to set MSR", "emulation failure", "KVM internal error"} {
			if strings.Contains(line, sign) {
				return line
			}
		}
	}
	return ""
}
