package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// Format is the newest format of run directories that this package reads, and the one it writes.
const Format = 1

// A Plan is what a run set out to do, by whom and where.
type Plan struct {
	Format  int       `json:"format"`            // set by Create
	Version string    `json:"version,omitempty"` // of the napistall that started the run
	Created time.Time `json:"created,omitzero"`
	Backend string    `json:"backend"`           // sim, qemu, host …
	Options Options   `json:"options,omitzero"`  // what was asked for besides the experiment
	Command []string  `json:"command,omitempty"` // napistall's own arguments, to repeat the run
	Host    Host      `json:"host,omitzero"`
	// TextSHA256 is the digest of experiment.yaml, set by Create.
	TextSHA256 string `json:"experiment_sha256"`
	// Experiment is what the text became: everything inherited and every default filled in.
	Experiment experiment.Experiment `json:"experiment"`
	Trials     []experiment.Trial    `json:"trials"` // in the order in which they run
}

// CommandLine is Command as a line that a shell reads back as the same words.
func (p Plan) CommandLine() string { return shellLine(p.Command) }

// Options are the choices outside the experiment's file that can change a result.
type Options struct {
	Quick   bool   `json:"quick,omitempty"`   // holds shortened, stall timeouts lowered
	Accel   string `json:"accel,omitempty"`   // as asked for: auto, kvm or tcg
	Offline bool   `json:"offline,omitempty"` // nothing fetched
	Slots   int    `json:"slots,omitempty"`   // targets side by side; 0 as the backend chooses
	Live    Live   `json:"live,omitzero"`     // for the backends host and ssh
}

// A Live says on which live machine trials run, and what was allowed there.
type Live struct {
	Target string `json:"target,omitempty"` // [user@]host[:port]
	Device string `json:"device,omitempty"` // a real device that is measured
	Bounce bool   `json:"bounce,omitempty"` // loads that hold a CPU, for up to 2 s
	Owned  bool   `json:"owned,omitempty"`  // the same for up to 10 s
}

// A Host is the machine that napistall ran on, which under emulation decides how fast a target is.
type Host struct {
	Release string `json:"release,omitempty"` // uname -r
	Arch    string `json:"arch,omitempty"`    // uname -m
	CPUs    int    `json:"cpus,omitempty"`
	Model   string `json:"model,omitempty"` // the CPU's name
	// Tools are the versions of what runs the targets: "qemu-system-arm 10.0.2".
	Tools []string `json:"tools,omitempty"`
}

func encodePlan(p Plan) ([]byte, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// decodePlan returns the plan in data, or for one in a newer format a *FormatError without a path.
func decodePlan(data []byte) (Plan, error) {
	var head struct {
		Format  int    `json:"format"`
		Version string `json:"version"`
	}
	err := json.Unmarshal(data, &head)
	// A newer format may have changed the type of anything but its number.
	if head.Format > Format && json.Valid(data) {
		return Plan{}, &FormatError{Format: head.Format, Version: head.Version}
	}
	if err != nil {
		return Plan{}, err
	}
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return Plan{}, err
	}
	if err := p.validate(); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// validate returns an error unless every trial can have a folder of its own.
func (p Plan) validate() error {
	if p.Format < 1 || p.Format > Format {
		return fmt.Errorf("format %d, want 1…%d", p.Format, Format)
	}
	if len(p.Trials) == 0 {
		return errors.New("no trials")
	}
	seen := make(map[string]bool, len(p.Trials))
	for _, t := range p.Trials {
		id := t.ID()
		switch {
		case seen[id]:
			return fmt.Errorf("trial %s twice", id)
		case strings.HasPrefix(id, ".") || !filepath.IsLocal(id) || strings.ContainsAny(id, "/\\\x00"):
			return fmt.Errorf("trial %q: no folder can have this name", id)
		}
		seen[id] = true
	}
	return nil
}
