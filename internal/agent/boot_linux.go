package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
)

// mountAll mounts what a trial reads. Only the first three must be there.
func mountAll() error {
	for _, m := range []struct {
		kind, at string
		needed   bool
	}{
		{"proc", "/proc", true}, {"sysfs", "/sys", true}, {"devtmpfs", "/dev", true},
		{"debugfs", "/sys/kernel/debug", false}, {"tracefs", "/sys/kernel/tracing", false},
		{"bpf", "/sys/fs/bpf", false}, {"tmpfs", "/tmp", false}, {"tmpfs", "/run", false},
	} {
		err := unix.Mount(m.kind, m.at, m.kind, 0, "")
		if m.needed && err != nil && !errors.Is(err, unix.EBUSY) { // devtmpfs may mount itself
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	return nil
}

// loadModules loads every module in ModulesDir in the order of their names. One that is refused is
// a loss: what needs it will say so.
func loadModules() []experiment.Loss {
	files, err := filepath.Glob(ModulesDir + "/*.ko") // sorted
	if err != nil {
		return []experiment.Loss{{What: "modules", Count: 1, Why: err.Error()}}
	}
	var losses []experiment.Loss
	for _, f := range files {
		if err := loadModule(f); err != nil {
			losses = append(losses, experiment.Loss{What: "module " + filepath.Base(f), Count: 1, Why: err.Error()})
		}
	}
	return losses
}

func loadModule(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("finit_module: %w", err)
	}
	return nil
}

// portWait is how long the virtio-serial port may take to appear once its driver is there.
const portWait = 2 * time.Second

// portPoll is the interval at which it is looked for.
const portPoll = 10 * time.Millisecond

// openRecords opens the virtio-serial port named RecordsPort, else the second serial port.
func openRecords() (io.Writer, error) {
	for end := time.Now().Add(portWait); time.Now().Before(end); time.Sleep(portPoll) {
		dev, err := virtioPort("/sys/class/virtio-ports", RecordsPort)
		if err != nil {
			continue
		}
		if f, err := os.OpenFile(dev, os.O_WRONLY, 0); err == nil {
			return f, nil
		}
	}
	f, err := openSerial("/dev/ttyS1")
	if err != nil {
		return nil, fmt.Errorf("no virtio-serial port named %s, and no second serial port: %w", RecordsPort, err)
	}
	return f, nil
}

// virtioPort returns the device of the port with a name.
func virtioPort(class, name string) (string, error) {
	files, err := filepath.Glob(class + "/*/name")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == name {
			return "/dev/" + filepath.Base(filepath.Dir(f)), nil
		}
	}
	return "", fmt.Errorf("virtio-serial port %s: %w", name, os.ErrNotExist)
}

// openSerial opens a serial port so that it passes bytes on as they are.
func openSerial(dev string) (io.Writer, error) {
	fd, err := unix.Open(dev, unix.O_WRONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dev, err)
	}
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err == nil {
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
		err = unix.IoctlSetTermios(fd, unix.TCSETS, t)
	}
	if err != nil { // a port without hardware behind it
		return nil, errors.Join(fmt.Errorf("open %s: %w", dev, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), dev), nil
}

// settleWait is how long settleClock waits. The kernel measures the TSC for one second, once or twice.
const settleWait = 5 * time.Second

// settleClock waits until an x86 kernel that has just booted has measured its TSC and no longer runs on
// tsc-early. The change stops every CPU at the same time (stop_machine), so that one whose kernel thread
// never yields keeps all others standing until the load ends: what is measured then is that, not RCU.
func settleClock(ctx context.Context, sys string) error {
	name := sys + "/devices/system/clocksource/clocksource0/current_clocksource"
	end := time.After(settleWait)
	tick := time.NewTicker(portPoll)
	defer tick.Stop()
	for {
		now, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(now)) != "tsc-early" {
			return nil // an unreadable one is no reason to wait
		}
		select {
		case <-ctx.Done():
			return nil // whoever comes next sees that
		case <-end:
			return fmt.Errorf("still tsc-early after %v: its change would stop all CPUs while the load runs", settleWait)
		case <-tick.C:
		}
	}
}
