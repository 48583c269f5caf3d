package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/testenv"
)

// What runs in the virtual machine: this package's tests that change a machine, on one whose modules are not
// loaded, and whose kernel may stall.
const vmTests = "^(TestContract|TestSettingsAreUndone|TestWrongKernel|TestKillLeavesNothing)$"

// vmVar is the number of runs that are killed in the virtual machine, 8 by default.
const vmVar = "NAPISTALL_TEST_VM_KILLS"

// vmTime is for a guest with 8 kills to come to its end; then it is shown how far it got.
const vmTime = 10 * time.Minute

// TestVM runs the backend's whole life where anything may break.
func TestVM(t *testing.T) {
	for _, tc := range []struct {
		name, spec, goarch, need string
		qemu                     []string
		append                   string
	}{
		{"amd64, preempt=none", "debian:trixie-backports/amd64/cloud-amd64/6.18", "amd64", testenv.QEMUx86,
			[]string{"qemu-system-x86_64", "-M", "q35", "-cpu", "max,la57=off"}, "console=ttyS0 preempt=none"},
		{"armhf, voluntary", "debian:sid/armhf", "arm", testenv.QEMUArm,
			[]string{"qemu-system-arm", "-M", "virt,highmem=off", "-cpu", "cortex-a15"}, "console=ttyAMA0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testenv.Need(t, tc.need, testenv.Apt, testenv.Go)
			img := fetch(t, tc.spec)
			initrd := filepath.Join(t.TempDir(), "initrd")
			writeInitramfs(t, img, tc.goarch, initrd)
			kills, limit := os.Getenv(vmVar), vmTime
			switch {
			case kills == "" && tc.goarch == "arm":
				testenv.Lacks(t, vmVar, "its trials take half a minute each, emulated")
			case kills == "":
				kills = "8"
			default:
				limit *= 4
			}
			args := append(tc.qemu[1:], "-smp", "2", "-m", "512", "-display", "none", "-no-reboot", "-nic", "none",
				"-serial", "stdio", "-kernel", img.Path, "-initrd", initrd, "-append", tc.append+" quiet panic=1 "+killsVar+"="+kills)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			console, _, err := backendtest.Boot(t, func(threads string) *exec.Cmd {
				return exec.CommandContext(ctx, tc.qemu[0], append(args, "-accel", "tcg,thread="+threads)...)
			})
			if err != nil {
				t.Fatal(err)
			}
			text := string(console)
			if !regexp.MustCompile(`(?m)^PASS\r?$`).MatchString(text) || !strings.Contains(text, "--- PASS: TestKillLeavesNothing") || strings.Contains(text, "--- FAIL") {
				t.Errorf("the guest's tests did not pass:\n%s", text)
			}
			for line := range strings.Lines(text) {
				if strings.Contains(line, "runs killed") || strings.Contains(line, "modules:") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

func fetch(t *testing.T, text string) *kimage.Image {
	t.Helper()
	dir, err := kimage.DefaultDir()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := kimage.ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	img, err := kimage.Store{Dir: dir, Log: func(s string) { t.Log(s) }}.Fetch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// writeInitramfs makes this package's tests the guest's init, and its modprobe.
func writeInitramfs(t *testing.T, img *kimage.Image, goarch, name string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "tests")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+goarch, "GOARM=7")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	init, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := kimage.WriteInitramfs(f, img, init, nil); err != nil {
		t.Fatal(err)
	}
	// A second archive may follow the first at a multiple of 4 bytes (Documentation/driver-api/early-userspace).
	st, err := f.Stat()
	if err == nil && st.Size()%4 != 0 {
		_, err = f.Write(make([]byte, 4-st.Size()%4))
	}
	if err != nil {
		t.Fatal(err)
	}
	more := cpio.Newc.Writer(f)
	records := []cpio.Record{cpio.Directory("sbin", 0o755), cpio.Symlink("sbin/modprobe", "/init")}
	for i, r := range records {
		r.Ino, r.NLink = uint64(1e6+i), 1
		if err := more.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := cpio.WriteTrailer(more); err != nil {
		t.Fatal(err)
	}
}

// guestInit is the guest's first process. It does not return.
func guestInit() {
	if err := guestTests(); err != nil {
		fmt.Println("FAIL:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // or the kernel panics, and QEMU ends too
	os.Exit(1)
}

func guestTests() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tracefs", "/sys/kernel/tracing"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	fmt.Println("modules:", text("/proc/modules"))
	tests := exec.Command("/init", "-test.v", "-test.timeout=20m", "-test.run="+vmTests)
	tests.Env = []string{"HOME=/tmp", "PATH=/sbin", killsVar + "=" + parameter(killsVar)}
	tests.Stdout, tests.Stderr = os.Stdout, os.Stdout
	err := tests.Run()
	fmt.Println("modules:", text("/proc/modules"))
	return err
}

// parameter returns a parameter of the kernel's command line.
func parameter(name string) string {
	for _, word := range strings.Fields(text("/proc/cmdline")) {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

// modprobe loads what the kernel asks for by itself: a kind of device, or a family of sockets.
func modprobe(alias string) int {
	name, ok := strings.CutPrefix(alias, "rtnl-link-")
	if alias == "net-pf-17" {
		name, ok = "af_packet", true
	}
	files, err := filepath.Glob("/napistall/modules/*-" + name + ".ko")
	if !ok || err != nil || len(files) != 1 {
		return 1
	}
	f, err := os.Open(files[0])
	if err != nil {
		return 1
	}
	defer func() { _ = f.Close() }() // only read
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		fmt.Println("modprobe", name, err)
		return 1
	}
	return 0
}
