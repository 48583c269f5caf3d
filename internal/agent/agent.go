// Package agent runs one trial on the machine that it is on: it says what the machine is, holds the
// load, probes, counts and passes on the kernel's log. It is also the first process of a guest.
package agent

import (
	"runtime/debug"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
)

// RecordsPort is the virtio-serial port that a guest's records go to.
const RecordsPort = "napistall.records"

// TrialFile and ModulesDir are where a guest finds its trial and its kernel's modules. The modules
// are decompressed and loaded in the order of their names.
const (
	TrialFile  = "/napistall/trial.json"
	ModulesDir = "/napistall/modules"
)

// version is set by the linker: the tag or commit that was built.
var version string

// Version is this program's own version, from the build: a tag, a revision, or "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "devel"
}

// record turns a machine's facts into the trial's.
func record(f machine.Facts) experiment.Facts {
	return experiment.Facts{
		Release: f.Release, Version: f.Version, Arch: f.Arch, Preempt: f.Preempt, Dynamic: f.Dynamic, Flavor: f.Flavor,
		HZ: f.HZ, CPUs: len(f.Online), Cmdline: f.Cmdline, ClockSrc: f.ClockSource, StallSec: f.StallSec, ExpMillis: f.ExpMillis,
		Stacks: f.Stacks, Agent: Version(), Evidence: f.Evidence, Unknown: f.Unknown, Config: f.Config,
	}
}
