package model

import (
	"errors"
	"fmt"

	"github.com/napistall/napistall/internal/rcu"
)

const (
	none      = rcu.None
	voluntary = rcu.Voluntary
	full      = rcu.Full
	lazy      = rcu.Lazy
)

// Defaults of Config, with where the kernel has them.
const (
	defaultWeight   = 64   // NAPI_POLL_WEIGHT (include/linux/netdevice.h)
	defaultRing     = 1024 // usual for an Ethernet driver
	defaultBulk     = 16   // DEV_MAP_BULK_SIZE (include/net/xdp.h)
	defaultBudget   = 300  // netdev_budget (net/core/hotdata.c)
	defaultRestarts = 10   // MAX_SOFTIRQ_RESTART (kernel/softirq.c)
	maxRestarts     = 15
)

func (c Config) withDefaults() Config {
	if c.Preempt == "" {
		c.Preempt = none
	}
	if c.Weight == 0 && c.Ring == 0 {
		c.Ring = defaultRing
	}
	if c.Weight == 0 {
		c.Weight = min(defaultWeight, c.Ring)
	}
	if c.Bulk == 0 {
		c.Bulk = min(defaultBulk, c.Weight)
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if c.Restarts == 0 {
		c.Restarts = defaultRestarts
	}
	if c.CPUs == 0 {
		c.CPUs = 2
	}
	return c
}

func (g Generation) String() string {
	switch g {
	case V612:
		return "linux 6.12"
	case V618:
		return "linux 6.18"
	case V73:
		return "linux 7.3"
	}
	return fmt.Sprintf("generation %d", uint8(g))
}

func (a Arch) String() string {
	switch a {
	case AMD64:
		return "amd64"
	case ARM64:
		return "arm64"
	case ARMHF:
		return "armhf"
	case MIPS:
		return "mips"
	}
	return fmt.Sprintf("arch %d", uint8(a))
}

// hasLazy reports ARCH_HAS_PREEMPT_LAZY; of the four architectures those that have it also have PREEMPT_DYNAMIC.
func (a Arch) hasLazy() bool { return a == AMD64 || a == ARM64 }

// An unsupportedError matches errors.ErrUnsupported without its text.
type unsupportedError string

func (e unsupportedError) Error() string        { return string(e) }
func (e unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

func unsupported(format string, args ...any) error {
	return unsupportedError(fmt.Sprintf(format, args...))
}

func (c Config) check() error {
	for _, check := range []func(Config) error{
		Config.checkEnums, Config.checkPreempt, Config.checkLoop, Config.checkDevice, Config.checkNumbers, Config.checkPrograms,
	} {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) checkEnums() error {
	switch {
	case c.Generation > V73:
		return fmt.Errorf("%v: want 6.12, 6.18 or 7.3", c.Generation)
	case c.Arch > MIPS:
		return fmt.Errorf("%v: want amd64, arm64, armhf or mips", c.Arch)
	case c.Loop > BacklogThread:
		return fmt.Errorf("loop %d: there is no such variant", c.Loop)
	case c.Device > Veth:
		return fmt.Errorf("device %d: want a NIC or a veth", c.Device)
	case c.Break >= breakEnd:
		return fmt.Errorf("break %#x: there are %d rules", uint32(c.Break), len(Breaks()))
	}
	return nil
}

// checkPreempt holds the models to kernel/Kconfig.preempt and to what preempt= accepts (kernel/sched/core.c:
// sched_dynamic_mode).
func (c Config) checkPreempt() error {
	g, a, p := c.Generation, c.Arch, c.Preempt
	switch p {
	case none, voluntary, full, lazy:
	case rcu.RT:
		return unsupported("the model has no PREEMPT_RT: want none, voluntary, full or lazy")
	default:
		return fmt.Errorf("unknown preemption model %q: want none, voluntary, full or lazy", p)
	}
	switch {
	case c.Dynamic && !a.hasLazy():
		return unsupported("%v has no PREEMPT_DYNAMIC: want a static model", a)
	case p == lazy && g == V612:
		return unsupported("%v has no lazy preemption: want none, voluntary or full, or 6.18 or later", g)
	case p == lazy && !a.hasLazy():
		return unsupported("%v has no lazy preemption: want voluntary or full, or amd64 or arm64", a)
	case g == V73 && a.hasLazy() && (p == none || p == voluntary):
		return unsupported("%v on %v can be full or lazy only, not %s: want one of these, or 6.18 or earlier", g, a, p)
	case g == V73 && p == none:
		return unsupported("%v on %v can't be built with none: want voluntary, which has the same points here", g, a)
	}
	return nil
}

func (c Config) checkLoop() error {
	busy := c.Loop == BusyPoll || c.Loop == BusyPollResetStamp
	switch {
	case busy && c.Generation == V612:
		return unsupported("%v has no threaded busy poll: want 6.18, standing for 6.19, or later", c.Generation)
	case c.Softirq && c.Loop != Stock:
		return errors.New("without a NAPI thread there is no variant of its loop: want the stock loop or threaded")
	}
	return nil
}

func (c Config) checkDevice() error {
	switch {
	case c.Device == Veth && (c.Latch || c.AllQueues):
		return errors.New("a veth has no interrupt: want neither latch nor a shared mask")
	case c.Loop == BacklogThread && (c.Device == Veth || c.Latch || c.AllQueues):
		return errors.New("a backlog thread's packets come from other CPUs: want no veth, no latch and no shared mask")
	}
	return nil
}

func (c Config) checkNumbers() error {
	switch {
	case c.Ring == 0:
		return fmt.Errorf("a ring of 0 descriptors holds no packet: want at least the weight, %d", c.Weight)
	case c.Weight > c.Ring:
		return fmt.Errorf("a weight of %d above the ring's %d descriptors is never used up: want at most the ring", c.Weight, c.Ring)
	case c.Device == Veth && c.Bulk > c.Weight:
		return fmt.Errorf("a bulk of %d above the weight %d: want at most the weight", c.Bulk, c.Weight)
	case c.Restarts > maxRestarts:
		return fmt.Errorf("%d softirq restarts: want at most %d", c.Restarts, maxRestarts)
	case c.CPUs < 2 || c.CPUs > MaxCPUs:
		return fmt.Errorf("%d CPUs: want 2 to %d", c.CPUs, MaxCPUs)
	}
	return nil
}
