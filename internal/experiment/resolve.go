package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What an arm has when nothing is said.
const (
	defaultVCPUs    = 2
	defaultInflight = 1
	defaultHold     = 30 * time.Second
	defaultEvery    = 250 * time.Millisecond
	defaultTail     = 3 * time.Second  // a trial's Duration after its Hold
	defaultIdle     = 10 * time.Second // a trial's Duration without a Hold
	defaultDevice   = "dummy"
)

// resolve turns what was written into an experiment, noting what doesn't go together.
func (s *source) resolve(x *experimentText) *Experiment {
	e := &Experiment{
		Name: x.name.v, Question: x.question.v, Reps: x.reps.or(opt[int]{v: 1}).v, Seed: x.seed.v,
		QuickHold: x.quickHold.v, Notes: x.notes.v,
	}
	if !x.name.set {
		s.mistake(x.at, "add name: and a word, such as name: my-board", "the experiment has no name")
	}
	if len(x.arms) == 0 {
		s.mistake(x.armsAt.or(opt[struct{}]{at: x.at}).at, "add arms: and at least one arm", "the experiment has no arms")
	}
	if len(x.arms) > maxArms {
		s.mistake(x.armsAt.at, "", "%d arms; an experiment has at most %d", len(x.arms), maxArms)
		return nil
	}
	family := s.family(x)
	for i := range x.arms {
		if text, ok := family.whole(i); ok {
			e.Arms = append(e.Arms, s.arm(text.over(x.defaults)))
		}
	}
	if len(e.Arms) == len(x.arms) {
		e.Expect = s.expectations(x.expect, e.Arms)
	}
	return e
}

// A family holds the arms of an experiment while like: is resolved.
type family struct {
	src  *source
	arms []armText
	// index finds an arm by its name; state and resolved belong to the arm of the same index.
	index map[string]int
	state []int
}

// The states of an arm in a family.
const (
	asWritten = iota
	resolving
	resolved
	hopeless // it, or what it is like, is wrong
)

// family indexes the arms by name, noting those without one and those with another's.
func (s *source) family(x *experimentText) *family {
	f := &family{src: s, arms: slices.Clone(x.arms), index: map[string]int{}, state: make([]int, len(x.arms))}
	for i, a := range f.arms {
		first, twice := f.index[a.name.v]
		switch {
		case !a.name.set:
			f.state[i] = hopeless
			s.mistake(a.at, "add name: and a word", "an arm has no name")
		case twice:
			f.state[i] = hopeless
			s.mistake(a.name.at, fmt.Sprintf("that is the arm in line %d already", f.arms[first].name.at.line), "second arm %s", a.name.v)
		default:
			f.index[a.name.v] = i
		}
	}
	return f
}

// whole returns arm i with what it inherits. It is false when that can't be known.
func (f *family) whole(i int) (armText, bool) {
	a := &f.arms[i]
	switch {
	case f.state[i] == hopeless:
		return armText{}, false
	case f.state[i] == resolved || !a.like.set:
		return *a, true
	}
	base, known := f.index[a.like.v]
	switch {
	case !known:
		f.src.mistake(a.like.at, choose(a.like.v, f.names(a.name.v)), "like: no arm is called %s", clip(a.like.v))
		f.state[i] = hopeless
		return armText{}, false
	case f.state[base] == resolving || base == i:
		f.src.mistake(a.like.at, "want an arm that isn't derived from this one", "arm %s is like itself", a.name.v)
		f.state[i] = hopeless
		return armText{}, false
	}
	f.state[i] = resolving
	from, ok := f.whole(base)
	if !ok {
		f.state[i] = hopeless
		return armText{}, false
	}
	*a = a.over(from)
	f.state[i] = resolved
	return *a, true
}

// names lists the arms other than the one given, in the order of the file.
func (f *family) names(but string) []string {
	var names []string
	for _, a := range f.arms {
		if a.name.set && a.name.v != but {
			names = append(names, a.name.v)
		}
	}
	return names
}

// over returns a with what it doesn't state taken from base. What the base states for another kind of
// load, probe or kernel than a's is not taken. Lists are taken whole or not at all.
func (a armText) over(base armText) armText {
	if c := class(a.kernel.v); a.kernel.set && (c == readyMade || base.kernel.set && c != class(base.kernel.v)) {
		base.config, base.patch = configText{}, opt[[]string]{}
	}
	if a.load.kind.set && !LoadKind(a.load.kind.v).OnNIC() {
		base.nic = nicText{}
	}
	a.reps = a.reps.or(base.reps)
	a.kernel = a.kernel.or(base.kernel)
	a.patch = a.patch.or(base.patch)
	a.boot = a.boot.or(base.boot)
	a.config = a.config.over(base.config)
	a.vcpus = a.vcpus.or(base.vcpus)
	a.memory = a.memory.or(base.memory)
	a.preempt = a.preempt.or(base.preempt)
	a.threaded = a.threaded.or(base.threaded)
	a.loop = a.loop.or(base.loop)
	a.nic = a.nic.over(base.nic)
	a.model = a.model.over(base.model)
	a.stall = a.stall.or(base.stall)
	a.expStall = a.expStall.or(base.expStall)
	a.load = a.load.over(base.load)
	a.probe = a.probe.over(base.probe)
	a.duration = a.duration.or(base.duration)
	return a
}

// class tells kernels apart by what else can be said of them: those built from source, those of the
// simulator, and those that are ready-made.
func class(kernels []string) int {
	switch {
	case slices.ContainsFunc(kernels, isBuilt):
		return built
	case slices.ContainsFunc(kernels, IsModel):
		return simulated
	}
	return readyMade
}

const (
	built = iota
	simulated
	readyMade
)

func (p probeText) over(base probeText) probeText {
	if p.op.set && p.op.v != LinkDel {
		base.device = opt[string]{}
	}
	return probeText{op: p.op.or(base.op), device: p.device.or(base.device), every: p.every.or(base.every)}
}

// arm fills in the defaults of an arm that has all it inherits, and checks it.
func (s *source) arm(a armText) Arm {
	arm := Arm{
		Name: a.name.v, Reps: a.reps.v, Patch: slices.Clone(a.patch.v), Boot: slices.Clone(a.boot.v), Memory: a.memory.v,
		Config:       a.config.config(),
		VCPUs:        a.vcpus.or(opt[int]{v: defaultVCPUs}).v,
		Preempt:      a.preempt.or(a.config.preempt).v,
		Threaded:     a.threaded.or(opt[bool]{v: true}).v,
		Loop:         a.loop.v,
		Model:        a.model.model(),
		StallTimeout: a.stall.v, ExpStallTimeout: a.expStall.v,
		Load:  a.load.load(),
		Probe: a.probe.probe(),
	}
	arm.ModeAsIs = !a.threaded.set && arm.Load.Kind == External
	if len(a.kernel.v) > 0 {
		arm.Kernel, arm.KernelElse = a.kernel.v[0], append([]string(nil), a.kernel.v[1:]...)
	}
	arm.NIC = a.nic.nic(arm.Load.Kind)
	arm.Duration = a.duration.v
	if !a.duration.set {
		arm.Duration = ownDuration(arm.Load.Hold)
	}
	s.checkKernel(a, arm)
	s.checkModelKernel(a, arm)
	s.checkLoop(a, arm)
	s.checkLoad(a, arm)
	s.checkNIC(a, arm)
	s.checkProbe(a, arm)
	return arm
}

func (p probeText) probe() Probe {
	probe := Probe{
		Op: p.op.or(opt[string]{v: LinkDel}).v, Device: p.device.v,
		Every: p.every.or(opt[time.Duration]{v: defaultEvery}).v,
	}
	if probe.Op == LinkDel && probe.Device == "" {
		probe.Device = defaultDevice
	}
	return probe
}

func ownDuration(hold time.Duration) time.Duration {
	if hold == 0 {
		return defaultIdle
	}
	return hold + defaultTail
}

// checkKernel checks what the arm asks of its kernel.
func (s *source) checkKernel(a armText, arm Arm) {
	if !a.kernel.set {
		s.mistake(a.at, "add kernel: and what to boot, such as kernel: debian:sid/armhf", "arm %s has no kernel", arm.Name)
		return
	}
	if len(a.kernel.v) == 0 {
		s.mistake(a.kernel.at, "want one kernel, or several in the order of preference", "arm %s has no kernel", arm.Name)
		return
	}
	for _, k := range a.kernel.v {
		if !isBuilt(k) {
			s.checkBuild(a, arm.Name, k)
		}
	}
}

// checkProbe checks that the probe can be run on the arm, and often enough to see its load.
func (s *source) checkProbe(a armText, arm Arm) {
	p := a.probe
	if p.device.set && arm.Probe.Op != LinkDel {
		s.mistake(p.device.at, arm.Probe.Op+" waits for RCU alone; only link-del has a device", "arm %s: the probe %s has no device", arm.Name, arm.Probe.Op)
	}
	span := arm.Load.Hold
	if span == 0 {
		span = arm.Duration
	}
	if arm.Probe.Every >= span {
		at := p.every.or(opt[time.Duration]{at: a.load.hold.or(a.duration).at}).at
		s.mistake(at, "want a pause that lets several probes begin while the load is on",
			"arm %s: a probe every %s sees at most one moment of the load's %s", arm.Name, short(arm.Probe.Every), short(span))
	}
	full := slices.ContainsFunc(arm.Boot, func(b string) bool { return strings.HasPrefix(b, "nohz_full=") })
	if full && arm.Probe.Op == Membarrier {
		s.mistake(p.op.at, "use rcu-barrier or link-del, or drop nohz_full",
			"arm %s: under nohz_full the kernel refuses membarrier's global command", arm.Name)
	}
}
