package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rundir"
)

func TestHostWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cpuinfo")
	if err := os.WriteFile(path, []byte("processor\t: 0\nmodel\t: 7\nmodel name\t: Fast CPU: 9\n\nprocessor\t: 1\nmodel name\t: Other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := cpuModel(path); got != "Fast CPU: 9" {
		t.Errorf("cpuModel = %q; want Fast CPU: 9", got)
	}
	if got := cpuModel(path + "x"); got != "" {
		t.Errorf("cpuModel of no file = %q", got)
	}
	h := rundir.Host{Arch: "x86_64", CPUs: 2, Model: "Fast", Release: "6.12", Tools: []string{"qemu-a: QEMU 7", "qemu-b: QEMU 8"}}
	trials := []explain.TrialSummary{{}, {Command: experiment.Command{Argv: []string{"/usr/bin/qemu-b", "-M"}}}}
	if got, want := hostWords(h, trials), "x86_64, 2 CPUs, Fast, Linux 6.12, qemu-b (QEMU 8)"; got != want {
		t.Errorf("hostWords = %q; want %q", got, want)
	}
}
