package main

import (
	"bufio"
	"encoding/json"
	"slices"

	"github.com/napistall/napistall/internal/doctor"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
)

// doctorFormat names the document that doctor --json prints. Fields may be added under the same name; one that is
// removed, renamed or changes its meaning makes a new one. docs/doctor.md describes it.
const doctorFormat = "napistall/doctor/1"

// doctored is the document. What could not be read is left out, never 0 or empty.
type doctored struct {
	Format     string            `json:"format"`
	Verdict    doctor.Verdict    `json:"verdict"`    // not exposed, exposed, exposed and happening now, cannot tell
	Confidence doctor.Confidence `json:"confidence"` // high, medium, low
	Summary    string            `json:"summary"`
	Doubts     []string          `json:"doubts,omitempty"`
	Machine    doctoredMachine   `json:"machine"`
	NAPIs      []doctoredPoller  `json:"napis"`
	Devices    []machine.Device  `json:"devices"`
	IRQs       []machine.IRQ     `json:"irqs,omitempty"`
	Softnet    []machine.Softnet `json:"softnet,omitempty"`
	Watch      machine.Watch     `json:"watch"`
	Log        doctor.Log        `json:"log"`
	Findings   []doctoredFinding `json:"findings"`
	Unseen     []string          `json:"not_seen"`
}

// doctoredMachine is what the kernel is, with the evidence.
type doctoredMachine struct {
	Release  string            `json:"release,omitempty"`
	Version  string            `json:"version,omitempty"`
	Arch     string            `json:"arch,omitempty"`
	CPUs     []int             `json:"cpus,omitempty"`
	Isolated []int             `json:"isolated_cpus,omitempty"`
	HZ       int               `json:"hz,omitempty"`
	Preempt  rcu.Preemption    `json:"preempt,omitempty"`        // where the evidence leaves one
	Models   []rcu.Preemption  `json:"preempt_models,omitempty"` // what it leaves
	Dynamic  bool              `json:"preempt_dynamic"`
	Flavor   rcu.Flavor        `json:"rcu_flavor,omitempty"`
	Params   map[string]string `json:"params,omitempty"` // by path below /
	Evidence []string          `json:"evidence,omitempty"`
	Unknown  []string          `json:"unknown,omitempty"`
	Root     bool              `json:"read_by_root"`
	Cut      string            `json:"cut,omitempty"` // what had not answered in time
}

// doctoredPoller is a NAPI instance, or a poll thread without one.
type doctoredPoller struct {
	Device    string           `json:"device"`
	Driver    string           `json:"driver,omitempty"`
	ID        int              `json:"id,omitempty"`
	IRQ       *int             `json:"irq,omitempty"`
	Mode      string           `json:"mode"`     // softirq, threaded, busy-poll, unknown
	Threaded  doctor.Answer    `json:"threaded"` // yes, no, unknown
	Why       string           `json:"why"`
	Moderated string           `json:"moderated,omitempty"`
	Habit     string           `json:"driver_habit,omitempty"`
	Band      explain.Band     `json:"band,omitempty"` // in, above or below, where polls were counted
	Thread    *machine.KThread `json:"thread,omitempty"`
}

// doctoredFinding is one finding. Its state is happening, affected, possible or note.
type doctoredFinding struct {
	ID       string           `json:"id"`
	State    doctor.State     `json:"state"`
	Title    string           `json:"title"`
	Evidence []string         `json:"evidence,omitempty"`
	Source   string           `json:"source,omitempty"`
	Remedies []doctoredRemedy `json:"remedies,omitempty"`
}

type doctoredRemedy struct {
	What     string         `json:"what"`
	Price    string         `json:"price,omitempty"`
	Commands []string       `json:"commands,omitempty"`
	Persist  []doctoredFile `json:"persist,omitempty"`
}

type doctoredFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// writeDoctorJSON writes to out, which keeps an error until Flush.
func writeDoctorJSON(out *bufio.Writer, c doctor.Case, r doctor.Report) {
	b, _ := json.MarshalIndent(newDoctored(c, r), "", "  ") // strings and finite numbers always can be
	_, _ = out.Write(append(b, '\n'))
}

func newDoctored(c doctor.Case, r doctor.Report) doctored {
	f := c.Survey.Facts
	d := doctored{Format: doctorFormat, Verdict: r.Verdict, Confidence: r.Confidence, Summary: r.Summary, Doubts: r.Doubts,
		Machine: doctoredMachine{Release: f.Release, Version: f.Version, Arch: f.Arch, CPUs: f.Online, Isolated: c.Survey.Isolated, HZ: f.HZ,
			Preempt: f.Preempt, Models: f.Models, Dynamic: f.Dynamic, Flavor: f.Flavor, Params: c.Survey.Params, Evidence: f.Evidence,
			Unknown: f.Unknown, Root: c.Survey.Root, Cut: c.Survey.Cut},
		NAPIs: []doctoredPoller{}, Devices: slices.Concat([]machine.Device{}, c.Survey.Devices), IRQs: c.Survey.IRQs,
		Softnet: c.Survey.Softnet, Watch: c.Watch, Log: c.Log, Findings: []doctoredFinding{}, Unseen: slices.Concat([]string{}, r.Unseen)}
	for _, p := range r.Pollers {
		q := doctoredPoller{Device: p.Device, Driver: p.Driver, ID: p.ID, IRQ: p.IRQ, Mode: p.Mode, Threaded: p.On, Why: p.Why, Moderated: p.Moderated, Thread: p.Thread, Band: p.Band}
		if p.Habit != nil {
			q.Habit = p.Habit.Says
		}
		d.NAPIs = append(d.NAPIs, q)
	}
	for _, f := range r.Findings {
		g := doctoredFinding{ID: f.ID, State: f.State, Title: f.Title, Evidence: f.Evidence, Source: f.Source}
		for _, m := range f.Remedies {
			n := doctoredRemedy{What: m.What, Price: m.Price, Commands: m.Commands}
			for _, file := range m.Persist {
				n.Persist = append(n.Persist, doctoredFile(file))
			}
			g.Remedies = append(g.Remedies, n)
		}
		d.Findings = append(d.Findings, g)
	}
	return d
}
