package main

import (
	"bufio"
	"encoding/json"

	"github.com/napistall/napistall/klog"
)

// parseFormat names the document that parse --json prints. Fields may be added under the same name; one that is
// removed, renamed or changes its meaning makes a new one.
//
//	{"format": "napistall/parse/1",
//	 "logs": [{"name": FILE,                     // "" for standard input or a single FILE
//	           "incidents": [{"events": [EVENT…], "verdict": VERDICT}…]}…]}
//
// With --follow, each line is {"format": …, "events": […], "verdict": …} about the newest incident, whenever it has
// changed. EVENT is parsedEvent, VERDICT parsedVerdict. Times are printk's, seconds since boot. What the log
// does not tell is left out, never 0.
const parseFormat = "napistall/parse/1"

// parsedEvent is one event. Its kinds and fields are those of klog.Event.
type parsedEvent struct {
	Kind      klog.Kind       `json:"kind"`
	Flavor    string          `json:"flavor,omitempty"`
	GP        string          `json:"gp,omitempty"`
	Self      bool            `json:"self,omitempty"`
	Other     bool            `json:"other,omitempty"`
	Reports   int             `json:"reports"`
	FirstSec  *float64        `json:"first_sec,omitempty"`
	LastSec   *float64        `json:"last_sec,omitempty"`
	Boot      int             `json:"boot"` // reboots within the log before it
	Jiffies   int64           `json:"jiffies,omitempty"`
	AgeSec    *float64        `json:"age_sec,omitempty"` // only where HZ is known
	HZ        int             `json:"hz,omitempty"`
	Sec       int64           `json:"sec,omitempty"` // lasted, for the kinds that aren't RCU's
	CPUs      []int           `json:"cpus,omitempty"`
	States    []parsedState   `json:"states,omitempty"`
	Readers   []int           `json:"readers,omitempty"`
	Blocked   bool            `json:"blocked_readers,omitempty"`
	AllQSes   bool            `json:"all_qses_seen,omitempty"`
	Task      string          `json:"task,omitempty"`
	PID       int             `json:"pid,omitempty"`
	Owner     string          `json:"owner,omitempty"`
	OwnerPID  int             `json:"owner_pid,omitempty"`
	Device    string          `json:"device,omitempty"`
	Works     []string        `json:"works,omitempty"`
	Traces    []parsedTrace   `json:"traces,omitempty"`
	Holdouts  []parsedHoldout `json:"holdouts,omitempty"`
	Complaint string          `json:"driver_complaint,omitempty"` // in the minute before
	Lines     []string        `json:"lines"`
}

// parsedState is a CPU in a classic stall's report; ticks or gps_behind, as the kernel printed it.
type parsedState struct {
	CPU           int    `json:"cpu"`
	Flags         string `json:"flags,omitempty"`
	Meaning       string `json:"meaning"`
	Ticks         *int64 `json:"ticks,omitempty"`
	Behind        *int64 `json:"gps_behind,omitempty"`
	Idle          string `json:"idle,omitempty"`
	FalsePositive bool   `json:"false_positive,omitempty"`
}

// parsedTrace is a backtrace; role is "" for what the report is about. loop is the outermost function that says something, top the innermost.
type parsedTrace struct {
	Role      klog.Role `json:"role,omitempty"`
	CPU       *int      `json:"cpu,omitempty"`
	Task      string    `json:"task,omitempty"`
	PID       int       `json:"pid,omitempty"`
	State     string    `json:"state,omitempty"`
	Workqueue string    `json:"workqueue,omitempty"`
	NAPI      bool      `json:"napi_thread,omitempty"` // by name
	Idle      bool      `json:"idle,omitempty"`
	Loop      string    `json:"loop,omitempty"`
	Top       string    `json:"top,omitempty"`
	Frames    []string  `json:"frames,omitempty"` // innermost first; "? " before a doubtful one
}

// parsedHoldout is a task that a Tasks grace period waits for; the numbers are its voluntary switches.
type parsedHoldout struct {
	PID         int   `json:"pid,omitempty"`
	SleptBefore int64 `json:"nvcsw_at_start"`
	Slept       int64 `json:"nvcsw"`
}

// parsedVerdict is klog.Verdict.
type parsedVerdict struct {
	Class      klog.Class      `json:"class"`
	Confidence klog.Confidence `json:"confidence"`
	Summary    string          `json:"summary"`
	Hog        *parsedHog      `json:"hog,omitempty"`
	Victims    []parsedVictim  `json:"victims,omitempty"`
	Signs      []string        `json:"signs,omitempty"`
	Against    []string        `json:"against,omitempty"`
	Next       []string        `json:"next,omitempty"`
}

type parsedHog struct {
	Task string `json:"task,omitempty"`
	PID  int    `json:"pid,omitempty"`
	CPU  *int   `json:"cpu,omitempty"`
	Loop string `json:"loop,omitempty"`
	Top  string `json:"top,omitempty"`
}

type parsedVictim struct {
	Task     string    `json:"task"`
	PID      int       `json:"pid,omitempty"`
	Sec      int64     `json:"sec,omitempty"`
	Waits    klog.Wait `json:"waits_for,omitempty"`
	In       string    `json:"in,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	OwnerPID int       `json:"owner_pid,omitempty"`
}

type parsedIncident struct {
	Format  string        `json:"format,omitempty"`
	Events  []parsedEvent `json:"events"`
	Verdict parsedVerdict `json:"verdict"`
}

// A jsonPrinter writes the document as it goes along: a log's incidents need not fit in memory.
type jsonPrinter struct {
	out             *bufio.Writer
	lines           bool // a document for each incident
	logs, incidents int
}

// put writes to out, which keeps an error until Flush.
func (p *jsonPrinter) put(s string) { _, _ = p.out.WriteString(s) }

func (p *jsonPrinter) begin() { p.put(`{"format":"` + parseFormat + `","logs":[`) }

func (p *jsonPrinter) log(name string) {
	if p.lines {
		return
	}
	p.closeLog()
	if p.logs > 0 {
		p.put(",")
	}
	p.logs++
	p.incidents = 0
	b, _ := json.Marshal(name) // a string always can be
	p.put("\n" + `{"name":` + string(b) + `,"incidents":[`)
}

func (p *jsonPrinter) closeLog() {
	if p.logs > 0 {
		p.put("]}")
	}
}

func (p *jsonPrinter) nothing() {}

func (p *jsonPrinter) end() {
	p.closeLog()
	p.put("]}\n")
}

func (p *jsonPrinter) incident(events []klog.Event, v klog.Verdict) {
	i := parsedIncident{Events: []parsedEvent{}, Verdict: newParsedVerdict(v)}
	for _, e := range events {
		i.Events = append(i.Events, newParsedEvent(e))
	}
	if p.lines {
		i.Format = parseFormat
	} else {
		if p.incidents > 0 {
			p.put(",")
		}
		p.put("\n")
	}
	p.incidents++
	b, _ := json.Marshal(i) // strings and finite numbers always can be
	p.put(string(b))
	if p.lines {
		p.put("\n")
	}
}

func newParsedEvent(e klog.Event) parsedEvent {
	p := parsedEvent{Kind: e.Kind, Flavor: e.Flavor, GP: e.GP, Self: e.Self, Other: e.Other, Reports: e.Reports, Boot: e.Boot,
		Jiffies: e.Jiffies, HZ: e.HZ, Sec: e.Seconds, CPUs: e.CPUs, Readers: e.Readers, Blocked: e.Blocked, AllQSes: e.AllQSes,
		Task: e.Task, PID: e.PID, Owner: e.Owner, OwnerPID: e.OwnerPID, Device: e.Device, Works: e.Works,
		Complaint: e.Before, Lines: e.Lines}
	if e.HasTime {
		p.FirstSec, p.LastSec = new(e.First.Seconds()), new(e.Last.Seconds())
	}
	if age, ok := e.Age(); ok {
		p.AgeSec = new(age.Seconds())
	}
	for _, s := range e.States {
		st := parsedState{CPU: s.CPU, Flags: s.Flags, Meaning: stateWords(s), Idle: s.Idle, FalsePositive: s.FalsePositive}
		if s.Ticks >= 0 {
			st.Ticks = new(s.Ticks)
		} else {
			st.Behind = new(s.Behind)
		}
		p.States = append(p.States, st)
	}
	for _, t := range e.Traces {
		p.Traces = append(p.Traces, newParsedTrace(t))
	}
	for _, h := range e.Holdouts {
		p.Holdouts = append(p.Holdouts, parsedHoldout{h.PID, h.SleptBefore, h.Slept})
	}
	return p
}

func newParsedTrace(t klog.Trace) parsedTrace {
	p := parsedTrace{Role: t.Role, Task: t.Task, PID: t.PID, State: t.State, Workqueue: t.Workqueue, NAPI: t.NAPIThread(),
		Idle: t.Idle, Loop: t.Loop(), Top: t.Top()}
	if t.HasCPU {
		p.CPU = new(t.CPU)
	}
	for _, f := range t.Frames {
		name := f.Func
		if !f.Sure {
			name = "? " + name
		}
		p.Frames = append(p.Frames, name)
	}
	return p
}

func newParsedVerdict(v klog.Verdict) parsedVerdict {
	p := parsedVerdict{Class: v.Class, Confidence: v.Confidence, Summary: v.Summary, Signs: v.Signs, Against: v.Against, Next: v.Next}
	if h := v.Hog; h != nil {
		p.Hog = &parsedHog{Task: h.Task, PID: h.PID, Loop: h.Frame, Top: h.Top}
		if h.HasCPU {
			p.Hog.CPU = new(h.CPU)
		}
	}
	for _, w := range v.Victims {
		p.Victims = append(p.Victims, parsedVictim{w.Task, w.PID, w.Seconds, w.Waits, w.In, w.Owner, w.OwnerPID})
	}
	return p
}
