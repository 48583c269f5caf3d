package qemu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A memo is the file in which it is remembered whether KVM works on this machine, with this host
// kernel, this QEMU and this architecture. A memo without a path remembers nothing.
type memo struct{ path string }

// A verdict is a memo's content.
type verdict struct {
	Works bool      `json:"works"`
	Why   string    `json:"why,omitempty"` // if not
	At    time.Time `json:"at"`
}

// remembered is how long a verdict counts: a machine can be given KVM, or be moved.
const remembered = 7 * 24 * time.Hour

func (v verdict) accel() string {
	if v.Works {
		return kvm
	}
	return tcg
}

// memory returns the memo for m on this machine.
func (b Backend) memory(m machine, binary string) memo {
	dir := b.CacheDir
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return memo{}
		}
		dir = filepath.Join(user, "napistall")
	}
	key := strings.Join([]string{m.goarch, version(binary), firstLine("/etc/machine-id"),
		firstLine("/proc/sys/kernel/hostname"), firstLine("/proc/sys/kernel/osrelease"), firstLine("/proc/sys/kernel/version")}, "\n")
	sum := sha256.Sum256([]byte(key))
	return memo{filepath.Join(dir, "accel", hex.EncodeToString(sum[:8])+".json")}
}

// recall returns the verdict, if there is one at now. A file that can't be read or understood is
// none: the machine is asked again.
func (m memo) recall(now time.Time) (verdict, bool) {
	var v verdict
	text, err := os.ReadFile(m.path)
	if err != nil || json.Unmarshal(text, &v) != nil {
		return v, false
	}
	age := now.Sub(v.At)
	return v, age >= 0 && age < remembered
}

// keep writes v. A half-written file is none, so nothing is renamed.
func (m memo) keep(v verdict) error {
	if m.path == "" {
		return fmt.Errorf("keep it: no cache directory")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode it: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o777); err != nil {
		return fmt.Errorf("keep it: %w", err)
	}
	return os.WriteFile(m.path, append(text, '\n'), 0o666)
}

// version returns the first line of what QEMU says of itself, empty if it can't.
func version(binary string) string {
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}

// firstLine returns a small file's first line, empty if it can't be read.
func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return first
}
