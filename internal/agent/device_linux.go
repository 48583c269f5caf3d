package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/load"
	"github.com/napistall/napistall/internal/machine"
)

// The knobs of RCU's stall timeouts; both can be set while the kernel runs.
const (
	stallKnob    = "/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout"     // seconds
	expStallKnob = "/sys/module/rcupdate/parameters/rcu_exp_cpu_stall_timeout" // ms, since 5.19
)

// settings gives a live machine what the arm asks of it beside its load. In a guest it is on the kernel's
// command line.
func (s *session) settings() error {
	arm := s.trial.Arm
	if err := s.journal.noteModules(); err != nil {
		return err
	}
	for _, k := range []struct {
		path string
		want time.Duration
		unit time.Duration
	}{{stallKnob, arm.StallTimeout, time.Second}, {expStallKnob, arm.ExpStallTimeout, time.Millisecond}} {
		if k.want == 0 {
			continue
		}
		err := s.journal.set(k.path, strconv.FormatInt(int64(k.want/k.unit), 10))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set a stall timeout: this kernel has no %s: %w", k.path, errors.ErrUnsupported)
		}
		if err != nil {
			return err
		}
	}
	if s.device == "" {
		return nil
	}
	return s.deviceSettings(arm)
}

// deviceSettings gives a real device the mode and the coalescing that the arm asks for. Addresses, routes
// and its state are nobody's business here.
func (s *session) deviceSettings(arm experiment.Arm) error {
	dir := "/sys/class/net/" + s.device
	if filepath.Base(dir) != s.device {
		return fmt.Errorf("%q is no name of a device", s.device)
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("measure %s: this machine has no such device: %w", s.device, errors.ErrUnsupported)
	}
	if arm.ModeAsIs {
		return s.coalescing(arm)
	}
	mode := "0"
	if arm.Threaded {
		mode = "1"
	}
	err := s.journal.set(dir+"/threaded", mode)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set %s to threaded: threaded NAPI came with Linux 5.12: %w", s.device, errors.ErrUnsupported)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("set %s to threaded %s: its driver has no NAPI on it now: %w", s.device, mode, errors.ErrUnsupported)
	}
	if err != nil {
		return err
	}
	return s.coalescing(arm)
}

// coalescing sets the device's rx-usecs where the arm states them.
func (s *session) coalescing(arm experiment.Arm) error {
	if arm.NIC.Moderation == 0 {
		return nil
	}
	return s.journal.moderate(s.device, arm.NIC.Moderation)
}

// A coalesce is a device whose rx-usecs were set to New, and whose adaptive moderation was switched off.
type coalesce struct {
	Device   string
	Old, New uint32
	Adaptive uint32 // what it was
}

// moderate sets the device's rx-usecs and notes what they were.
func (j *journal) moderate(device string, usecs time.Duration) error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return fmt.Errorf("open ethtool's socket: %w", err)
	}
	defer e.Close()
	now, err := e.GetCoalesce(device)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("set rx-usecs of %s: its driver has no interrupt coalescing: %w", device, errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("read the coalescing of %s: %w", device, err)
	}
	c := coalesce{Device: device, Old: now.RxCoalesceUsecs, New: uint32(usecs / time.Microsecond), Adaptive: now.UseAdaptiveRxCoalesce}
	if c.Old == c.New && c.Adaptive == 0 {
		return nil
	}
	if err := j.note(change{Coalesce: &c}); err != nil {
		return err
	}
	now.RxCoalesceUsecs, now.UseAdaptiveRxCoalesce = c.New, 0
	if _, err := e.SetCoalesce(device, now); err != nil {
		return fmt.Errorf("set rx-usecs of %s to %d: %w", device, c.New, err)
	}
	return nil
}

func (c coalesce) undo() (string, error) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return "", fmt.Errorf("open ethtool's socket: %w", err)
	}
	defer e.Close()
	now, err := e.GetCoalesce(c.Device)
	if errors.Is(err, unix.ENODEV) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the coalescing of %s: %w", c.Device, err)
	}
	if now.RxCoalesceUsecs != c.New || now.UseAdaptiveRxCoalesce != 0 {
		return "", nil
	}
	now.RxCoalesceUsecs, now.UseAdaptiveRxCoalesce = c.Old, c.Adaptive
	if _, err := e.SetCoalesce(c.Device, now); err != nil {
		return "", fmt.Errorf("set rx-usecs of %s back to %d: %w", c.Device, c.Old, err)
	}
	return fmt.Sprintf("rx-usecs of %s back from %d to %d", c.Device, c.New, c.Old), nil
}

// cpus chooses the CPU under test and the one for us. On a real device with CPU last, it is where the
// device is served now; with a number, the device's NAPI thread is moved there until the trial ends.
func (s *session) cpus(online []int) (test, spare int, err error) {
	want := s.trial.Arm.Load.CPU
	if s.device == "" {
		return load.CPUs(want, online)
	}
	t, err := machine.Source{}.Busiest("napi/" + s.device + "-")
	if err != nil {
		return 0, 0, err
	}
	switch {
	case want != experiment.LastCPU && t.PID != 0:
		if err := s.journal.pin(t.PID, want); err != nil {
			return 0, 0, err
		}
	case want == experiment.LastCPU && t.PID != 0:
		st, err := machine.ReadStat(t.PID)
		if err != nil {
			return 0, 0, err
		}
		want = st.CPU
	case want == experiment.LastCPU:
		text, err := os.ReadFile("/proc/interrupts")
		if err != nil {
			return 0, 0, fmt.Errorf("find the CPU that serves %s: %w", s.device, err)
		}
		want = served(string(text), s.device, online)
	}
	return load.CPUs(want, online)
}

// served returns the CPU that took most of device's interrupts by the text of /proc/interrupts, or LastCPU where
// no line names the device.
func served(text, device string, online []int) int {
	counts := make([]uint64, len(online))
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < len(online)+2 || !namesDevice(f[len(online)+1:], device) {
			continue
		}
		for i := range online {
			n, _ := strconv.ParseUint(f[i+1], 10, 64) // what is no number counts for nothing
			counts[i] += n
		}
	}
	best := 0
	for i, n := range counts {
		if n > counts[best] {
			best = i
		}
	}
	if len(counts) == 0 || counts[best] == 0 {
		return experiment.LastCPU
	}
	return online[best]
}

// namesDevice reports whether one of a line's last words is device or one of its queues, "eth0-rx-1".
func namesDevice(words []string, device string) bool {
	for _, w := range words {
		w = strings.TrimSuffix(w, ",")
		if w == device || strings.HasPrefix(w, device+"-") || strings.HasSuffix(w, "-"+device) || strings.Contains(w, "-"+device+"-") {
			return true
		}
	}
	return false
}
