// Package kimage gets guest kernels: it names them (Spec), fetches them from a distribution's
// packages or takes them from files (Store.Fetch), builds them from source (Store.Build), says what they can do (Inspect), and makes the
// initramfs that they boot with. Everything that it fetches is kept by content in one cache
// directory; nothing else on the system is changed.
package kimage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// An Image is a kernel that can be booted: the image, its configuration and the modules that a
// trial needs. Its files belong to the cache and must not be changed.
type Image struct {
	Spec    string // as it was asked for
	Release string // uname -r; empty when it could not be found out
	// Version is the Debian package's version, and Packages the packages that the image comes from;
	// empty when it doesn't come from packages.
	Version  string
	Packages []string
	Arch     string // Debian's name of the architecture: amd64, armhf, arm64 …
	GOARCH   string // Go's name, for Agent
	Path     string // the kernel image as QEMU's -kernel takes it
	Digest   string // SHA-256 of the file at Path, in hex
	// Config holds the CONFIG_ lines of the kernel's configuration, "is not set" ones included; nil when
	// the package or directory has none (Inspect then looks into the image).
	Config []string
	// ConfigFrom says where Config was found.
	ConfigFrom string
	// Source says what a kernel that was built here was built from: "linux-source-6.12 6.12.117-1 with fix.patch"; empty
	// for others. A tree with changes that aren't committed is called dirty.
	Source string
	// KconfigDiff is the change of kernel/Kconfig.preempt by which the kernel has a preemption model that its source
	// forbids; empty if it needed none.
	KconfigDiff string
	// Modules are decompressed and in load order: each comes after those that it depends on.
	Modules []Module
}

// A Module is one decompressed kernel module.
type Module struct {
	Name string // with underscores, as in /proc/modules
	Path string // the .ko file
	Size int64
}

// A SpecError says that a kernel spec can't be followed because of what it says: it has a wrong
// form, or names something that doesn't exist. It also stands for a patch or fragment in whose name or text that is so.
type SpecError struct {
	Spec string // as written
	Msg  string // what is wrong, and what there is instead
}

func (e *SpecError) Error() string { return fmt.Sprintf("kernel %q: %s", e.Spec, e.Msg) }

// An inputError is a SpecError about a file that a build takes, and is called by what it is.
type inputError struct {
	what string // patch or fragment
	err  *SpecError
}

func (e inputError) Error() string { return fmt.Sprintf("%s %q: %s", e.what, e.err.Spec, e.err.Msg) }
func (e inputError) Unwrap() error { return e.err }

// An unsupportedError matches errors.ErrUnsupported without its text.
type unsupportedError string

func (e unsupportedError) Error() string        { return string(e) }
func (e unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// DefaultDir returns the directory where kernels are kept: napistall/kernels under the user's cache
// directory.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	return filepath.Join(dir, "napistall", "kernels"), nil
}

// An arch is one machine architecture under the names that it has.
type arch struct {
	debian  string // dpkg --print-architecture
	goarch  string
	flavour string // Debian's kernel flavour that boots in QEMU with the least
	uname   string // uname -m
	lazy    [2]int // first release with ARCH_HAS_PREEMPT_LAZY; zero where there is none
}

// arches lists the architectures that can be named. The releases of ARCH_HAS_PREEMPT_LAZY are those
// of the commits that select it in arch/*/Kconfig; a kernel's own config comes first.
func arches() []arch {
	return []arch{
		{"amd64", "amd64", "cloud-amd64", "x86_64", [2]int{6, 13}},
		{"arm64", "arm64", "cloud-arm64", "aarch64", [2]int{6, 15}},
		{"armhf", "arm", "armmp", "armv7l", [2]int{}},
		{"armel", "arm", "rpi", "armv5tel", [2]int{}},
		{"i386", "386", "686-pae", "i686", [2]int{6, 13}},
		{"riscv64", "riscv64", "riscv64", "riscv64", [2]int{6, 13}},
		{"ppc64el", "ppc64le", "powerpc64le", "ppc64le", [2]int{6, 14}},
		{"s390x", "s390x", "s390x", "s390x", [2]int{}},
		{"loong64", "loong64", "loong64", "loongarch64", [2]int{6, 13}},
		{"mips64el", "mips64le", "mips64r2el", "mips64", [2]int{}},
	}
}

// archOf returns the architecture with Debian's name, and whether it is known here.
func archOf(debian string) (arch, bool) {
	for _, a := range arches() {
		if a.debian == debian {
			return a, true
		}
	}
	return arch{debian: debian, goarch: debian, flavour: debian}, false
}

// debianArch returns Debian's name of the architecture that Go calls goarch.
func debianArch(goarch string) string {
	for _, a := range arches() {
		if a.goarch == goarch {
			return a.debian
		}
	}
	return goarch
}
