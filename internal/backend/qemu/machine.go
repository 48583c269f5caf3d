package qemu

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// A machine is how QEMU emulates one architecture.
type machine struct {
	goarch  string
	debian  string // Debian's name of it
	binary  string
	pkg     string   // Debian's package with the binary
	board   []string // -M and, for TCG, -cpu
	console string   // the kernel's name of the first serial port
	serial2 bool     // a second serial port can be had
}

// machines lists the guests' architectures. The arm boards are QEMU's own "virt". The CPUs are fixed
// where a wider one only adds instructions to translate; without five-level page tables an x86 boot
// is a second shorter. A 32-bit kernel without LPAE finds PCI only below 4 GiB: highmem=off.
func machines() []machine {
	return []machine{
		{"amd64", "amd64", "qemu-system-x86_64", "qemu-system-x86", []string{"-M", "q35", "-cpu", "max,la57=off"}, "ttyS0", true},
		{"arm", "armhf", "qemu-system-arm", "qemu-system-arm", []string{"-M", "virt,highmem=off", "-cpu", "cortex-a15"}, "ttyAMA0", false},
		{"arm64", "arm64", "qemu-system-aarch64", "qemu-system-arm", []string{"-M", "virt", "-cpu", "cortex-a57"}, "ttyAMA0", false},
	}
}

func machineFor(goarch string) (machine, error) {
	for _, m := range machines() {
		if m.goarch == goarch {
			return m, nil
		}
	}
	return machine{}, unsupportedError(fmt.Sprintf("boot a kernel for %s: amd64, arm and arm64 can be emulated", goarch))
}

// machineOf returns the machine for a kernel of one of Debian's architectures.
func machineOf(debian string) (machine, bool) {
	for _, m := range machines() {
		if m.debian == debian {
			return m, true
		}
	}
	return machine{}, false
}

// find returns the path of m's QEMU.
func (m machine) find() (string, error) {
	path, err := exec.LookPath(m.binary)
	if err != nil {
		return "", unsupportedError(fmt.Sprintf("no %s here: install Debian's package %s", m.binary, m.pkg))
	}
	return path, nil
}

// native reports whether this machine runs m's instructions itself, so that KVM can.
func (m machine) native() bool { return m.goarch == runtime.GOARCH && runtime.GOOS == "linux" }

// channels says by what the guest may send its records.
type channels struct{ virtio, serial bool }

// defaultMemory is enough for every kernel tried; 256 MiB was not for one with its modules.
const defaultMemory = 512 // MiB

// argv is the command line that boots k under arm's conditions.
//
// A person repeats it with the initramfs in a file and the records into another:
//
//	COMMAND 3<initramfs.cpio 4>records.jsonl
//
// because it reads the one from descriptor 3, and writes the other to descriptor 4 and the console
// to its stdout.
func (m machine) argv(binary, accel string, k kernel, arm experiment.Arm) []string {
	a := append([]string{binary}, m.board...)
	if accel == "kvm" {
		a[slices.Index(a, "-cpu")+1] = "host"
		if m.goarch == "arm64" {
			a[slices.Index(a, "-M")+1] += ",gic-version=host" // the default, 2, is not on every host
		}
		a = append(a, "-accel", "kvm")
	} else {
		a = append(a, "-accel", m.tcg(runtime.GOARCH))
	}
	memory := arm.Memory
	if memory == 0 {
		memory = defaultMemory
	}
	a = append(a, "-smp", strconv.Itoa(arm.VCPUs), "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-chardev", "file,id=console,path="+consolePath, "-serial", "chardev:console")
	if k.channels.virtio {
		a = append(a, "-chardev", "file,id=records,path="+recordsPath,
			"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=records,name=napistall.records")
	}
	if k.channels.serial && m.serial2 {
		a = append(a, "-chardev", "file,id=records2,path="+recordsPath, "-serial", "chardev:records2")
	}
	return append(a, "-kernel", k.image, "-initrd", initrdPath, "-append", m.cmdline(k, arm))
}

// tcg asks for a thread for each CPU, without which a CPU that is stuck slows the other down. QEMU
// can't do that for an x86 guest on a host that orders memory less strictly.
func (m machine) tcg(host string) string {
	if m.goarch == "amd64" && host != "amd64" {
		return "tcg"
	}
	return "tcg,thread=multi"
}

// cmdline is the kernel's command line: what the evidence needs, what the arm wishes, and last, so
// that it wins, what the arm says itself. The self-tests of cryptography cost 2 s of an emulated
// arm's boot.
func (m machine) cmdline(k kernel, arm experiment.Arm) string {
	p := []string{"console=" + m.console, "loglevel=7", "printk.time=1", "panic=0", "cryptomgr.notests"}
	if arm.StallTimeout > 0 {
		sec := max(3, int64((arm.StallTimeout+time.Second-1)/time.Second))
		p = append(p, fmt.Sprintf("rcupdate.rcu_cpu_stall_timeout=%d", sec))
	}
	if arm.ExpStallTimeout > 0 {
		p = append(p, fmt.Sprintf("rcupdate.rcu_exp_cpu_stall_timeout=%d", arm.ExpStallTimeout.Milliseconds()))
	}
	if arm.Preempt != "" && k.dynamic {
		p = append(p, "preempt="+string(arm.Preempt))
	}
	return strings.Join(append(p, arm.Boot...), " ")
}
