package remote

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"strings"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/kimage"
)

// goarch returns Go's name for what uname -m says of a machine whose agents are built in.
func goarch(machine string) (string, bool) {
	switch machine {
	case "x86_64":
		return "amd64", true
	case "aarch64":
		return "arm64", true
	case "armv7l", "armv8l": // a 32-bit process on a 64-bit CPU sees the latter
		return "arm", true
	}
	return "", false
}

// program returns the agent's program for the board.
func (b Backend) program(what board) ([]byte, error) {
	if b.Agent != "" {
		return b.ownProgram(what)
	}
	arch, ok := goarch(what.machine)
	if !ok {
		return nil, backend.UnsupportedError(fmt.Sprintf("run trials on %s: it is %s, for which no agent is built in: %s", b.Target, what.machine, advice(what.machine)))
	}
	return kimage.Agent(arch)
}

// advice says how to come by an agent for a machine.
func advice(machine string) string {
	switch {
	case machine == "mips":
		return "uname does not tell big from little endian: make cross builds bin/napistall-linux-mips-softfloat and " +
			"bin/napistall-linux-mipsle-softfloat; give the one that fits with --agent FILE"
	case machine == "riscv64":
		return "make cross builds bin/napistall-linux-riscv64; give it with --agent FILE"
	case strings.HasPrefix(machine, "arm"):
		return "the one that is needs armv7: build ./cmd/napistall/guest with GOARCH=arm GOARM=5 or 6, CGO_ENABLED=0, and give it with --agent FILE"
	}
	return "build ./cmd/napistall/guest for it with CGO_ENABLED=0, and give it with --agent FILE"
}

// ownProgram reads the user's agent and looks whether it can be one.
func (b Backend) ownProgram(what board) ([]byte, error) {
	data, err := os.ReadFile(b.Agent)
	if err != nil {
		return nil, fmt.Errorf("read the agent: %w", err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("agent %s is no program for Linux: %w", b.Agent, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("agent %s needs a dynamic loader, which a board may not have: build it with CGO_ENABLED=0", b.Agent)
		}
	}
	if wants, known := machineOf(f.Machine); known && !wants(what.machine) {
		return nil, fmt.Errorf("agent %s is for %s, and %s is %s", b.Agent, f.Machine, b.Target, what.machine)
	}
	return data, nil
}

// machineOf returns whether a machine, by its uname -m, runs programs for m.
func machineOf(m elf.Machine) (runs func(string) bool, known bool) {
	prefix, known := map[elf.Machine]string{
		elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64", elf.EM_ARM: "arm", elf.EM_MIPS: "mips", elf.EM_RISCV: "riscv", elf.EM_386: "i",
	}[m]
	return func(machine string) bool { return strings.HasPrefix(machine, prefix) }, known
}
