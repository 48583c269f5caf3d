// Command doctorguest is the first process of the guests in which the test of doctor runs napistall: at rest,
// with a threaded veth, and while one frame bounces there. What napistall prints goes to the console, in base64.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/load"
	"github.com/napistall/napistall/internal/machine"
)

// program is napistall.
const program = "/napistall/program"

// holdFor is how long the frame bounces: napistall has to run four times before it ends, and on an emulated machine that
// is shared, its start alone can take seconds, and three times as long while one of two CPUs is held.
func holdFor(start time.Duration) time.Duration { return 30*time.Second + 12*start }

func main() {
	switch {
	case len(os.Args) == 1:
		first()
	case os.Args[1] == second:
		if err := scenes(); err != nil {
			fmt.Println("@@ failed", err)
		}
	default: // as a child: on any CPU, as somebody's shell would
		if err := free(); err != nil {
			fmt.Println(err)
			os.Exit(125)
		}
		fmt.Println(unix.Exec(program, append([]string{"napistall"}, os.Args[1:]...), os.Environ()))
		os.Exit(125)
	}
}

// second is the argument of the process that does the work: packages that look at /proc when a program starts
// find it there.
const second = "scenes"

func first() {
	if err := mounts(); err != nil {
		fmt.Println("@@ failed", err)
	}
	cmd := exec.Command("/proc/self/exe", second)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Println("@@ failed", err)
	}
	fmt.Println("@@ over")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

func free() error { return machine.Pin(0, 0, 1) }

func mounts() error {
	for at, kind := range map[string]string{"/proc": "proc", "/sys": "sysfs", "/dev": "devtmpfs", "/tmp": "tmpfs"} {
		if err := unix.Mount(kind, at, kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	for at, kind := range map[string]string{"/sys/kernel/debug": "debugfs", "/sys/kernel/tracing": "tracefs"} {
		_ = unix.Mount(kind, at, kind, 0, "") // doctor has to do without, too
	}
	return nil
}

func scenes() error {
	if err := modules(); err != nil {
		return err
	}
	if err := machine.PinProcess(0); err != nil {
		return err
	}
	settle()
	start := run("start", "--version")
	run("plain", "doctor", "--json")
	return threaded(holdFor(start))
}

// settle waits until an x86 kernel has measured its TSC: the change of the clock stops all CPUs.
func settle() {
	for range 500 {
		b, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
		if err != nil || strings.TrimSpace(string(b)) != "tsc-early" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func threaded(hold time.Duration) error {
	ctx := context.Background()
	l := experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: hold}
	r, err := load.Prepare(ctx, l, 1, load.Options{Threaded: true})
	if err != nil {
		return err
	}
	run("rest", "doctor")
	run("rest-snapshot", "doctor", "--collect", "-")
	dummy := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "du0"}}
	if err := netlink.LinkAdd(dummy); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(dummy); err != nil {
		return err
	}
	start := time.Now()
	if err := r.Start(ctx); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	run("bounce", "doctor")
	run("bounce-snapshot", "doctor", "--collect", "-")
	deleted := make(chan error, 1)
	go func() { // holds RTNL while it waits for the CPU
		begun := time.Now()
		err := netlink.LinkDel(dummy)
		fmt.Printf("@@ deleted after %d ms\n", time.Since(begun).Milliseconds())
		deleted <- err
	}()
	time.Sleep(300 * time.Millisecond)
	run("rtnl", "doctor")
	run("rtnl-for", "doctor", "--for", "3s")
	fmt.Printf("@@ hold %d ms, used %d ms\n", hold.Milliseconds(), time.Since(start).Milliseconds())
	err = <-deleted
	return errors.Join(err, r.Stop())
}

// run starts napistall, says what came of it, and returns how long it took.
func run(name string, args ...string) time.Duration {
	cmd := exec.Command("/proc/self/exe", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	took := time.Since(start)
	fmt.Printf("@@ begin %s\n", name)
	text := base64.StdEncoding.EncodeToString(out)
	for len(text) > 0 {
		n := min(76, len(text))
		fmt.Printf("@= %s\n", text[:n])
		text = text[n:]
	}
	status := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else if err != nil {
		status = -1
	}
	fmt.Printf("@@ end %s status=%d ms=%d stderr=%q\n", name, status, took.Milliseconds(), stderr.String())
	return took
}

func modules() error {
	files, err := filepath.Glob("/napistall/modules/*.ko")
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
			fmt.Printf("@@ module %s: %v\n", name, err)
		}
		_ = f.Close()
	}
	return nil
}
