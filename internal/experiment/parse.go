package experiment

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/napistall/napistall/internal/rcu"
)

// MaxReps is the largest number of trials per arm.
const MaxReps = 1000

// Bounds of what a file may ask for: wide enough for any study that ends, narrow enough to catch a slip.
const (
	maxArms  = 256
	maxVCPUs = 64
	minHold  = time.Second
	maxHold  = time.Hour
	maxTrial = 2 * time.Hour
	maxEvery = 10 * time.Minute
	// XDP's redirect ring of veth holds 256 frames (VETH_RING_SIZE).
	maxInflight = 256
	// RCU_CPU_STALL_TIMEOUT and RCU_EXP_CPU_STALL_TIMEOUT in kernel/rcu/Kconfig.debug.
	minStall = 3 * time.Second
	maxStall = 300 * time.Second
)

// Parse reads an experiment file. It resolves defaults, like: and everything else, so that the result
// needs no more checks. Its mistakes are joined *ParseErrors, the first few in the order of the text;
// file is the name that they carry. Any bytes may be given.
func Parse(file string, src []byte) (*Experiment, error) {
	text := strings.TrimPrefix(string(src), "\ufeff")
	s := newSource(file, text)
	root := s.document(text)
	if root == nil {
		return nil, s.err()
	}
	raw := s.experiment(value{"the file", root})
	if err := s.err(); err != nil {
		return nil, err // whether what was read goes together is asked when it could be read
	}
	e := s.resolve(raw)
	if err := s.err(); err != nil {
		return nil, err
	}
	return e, nil
}

// An experimentText is an experiment as written, nothing resolved.
type experimentText struct {
	at             pos
	name, question opt[string]
	reps           opt[int]
	seed           opt[uint64]
	notes          opt[[]string]
	quickHold      opt[time.Duration]
	defaults       armText // for every arm
	arms           []armText
	armsAt         opt[struct{}]
	expect         []value
}

// An armText is an arm as written.
type armText struct {
	at                  pos
	name, like          opt[string]
	reps                opt[int]
	kernel, patch, boot opt[[]string]
	config              configText
	vcpus, memory       opt[int]
	preempt             opt[rcu.Preemption]
	threaded            opt[bool]
	loop                opt[Loop]
	nic                 nicText
	model               modelText
	stall, expStall     opt[time.Duration]
	load                loadText
	probe               probeText
	duration            opt[time.Duration]
}

type probeText struct {
	op, device opt[string]
	every      opt[time.Duration]
}

func (s *source) experiment(v value) *experimentText {
	x := &experimentText{at: place(v.node)}
	s.mapping(v, "an experiment", append([]field{
		{"name", func(v value) { x.name = s.name(v) }},
		{"question", func(v value) { x.question = s.prose(v) }},
		{"notes", func(v value) { x.notes = s.list(v, s.prose) }},
		{"reps", func(v value) { x.reps = s.count(v, 1, MaxReps) }},
		{"seed", func(v value) { x.seed = s.number(v, 0, 1<<64-1) }},
		{"quick", func(v value) { s.quick(v, x) }},
		{"arms", func(v value) { s.arms(v, x) }},
		{"expect", func(v value) { x.expect = s.items(v, "a list of expectations such as stock.worst >= 10s") }},
	}, s.sharedFields(&x.defaults)...))
	return x
}

func (s *source) quick(v value, x *experimentText) {
	s.mapping(v, "quick", []field{
		{"hold", func(v value) { x.quickHold = s.duration(v, minHold, maxHold, time.Millisecond) }},
	})
}

func (s *source) arms(v value, x *experimentText) {
	x.armsAt = opt[struct{}]{at: place(v.node), set: true}
	for _, item := range s.items(v, "a list of arms such as - {name: stock, kernel: debian:sid/armhf}") {
		a := armText{at: place(item.node)}
		item.key = "an item of arms"
		s.mapping(item, "an arm", append([]field{
			{"name", func(v value) { a.name = s.name(v) }},
			{"like", func(v value) { a.like = s.text(v, "the name of another arm") }},
			{"reps", func(v value) { a.reps = s.count(v, 1, MaxReps) }},
			{"config", func(v value) { s.config(v, &a.config) }},
			{"patch", func(v value) { a.patch = s.list(v, s.patchName) }},
			{"preempt", func(v value) { a.preempt = s.preemption(v) }},
			{"threaded", func(v value) { a.threaded = s.truth(v) }},
			{"loop", func(v value) { a.loop = s.loop(v) }},
		}, s.sharedFields(&a)...))
		x.arms = append(x.arms, a)
	}
}

// sharedFields are the keys that an arm has and that an experiment may set for every arm.
func (s *source) sharedFields(a *armText) []field {
	return []field{
		{"kernel", func(v value) { a.kernel = s.list(v, s.kernel) }},
		{"boot", func(v value) { a.boot = s.list(v, s.bootParameter) }},
		{"vcpus", func(v value) { a.vcpus = s.vcpus(v) }},
		{"memory", func(v value) { a.memory = s.memory(v) }},
		{"stall-timeout", func(v value) { a.stall = s.duration(v, minStall, maxStall, time.Second) }},
		{"exp-stall-timeout", func(v value) { a.expStall = s.duration(v, time.Millisecond, maxStall, time.Millisecond) }},
		{"load", func(v value) { s.load(v, &a.load) }},
		{"nic", func(v value) { s.nic(v, &a.nic) }},
		{"model", func(v value) { s.modelKnobs(v, &a.model) }},
		{"probe", func(v value) { s.probe(v, &a.probe) }},
		{"duration", func(v value) { a.duration = s.duration(v, minHold, maxTrial, time.Millisecond) }},
	}
}

func (s *source) probe(v value, p *probeText) {
	s.mapping(v, "probe", []field{
		{"op", func(v value) { p.op = s.word(v, []string{LinkDel, Membarrier, RCUBarrier}) }},
		{"device", func(v value) { p.device = s.word(v, []string{"dummy", "veth", "vlan"}) }},
		{"every", func(v value) { p.every = s.duration(v, time.Millisecond, maxEvery, time.Microsecond) }},
	})
}

func (s *source) vcpus(v value) opt[int] {
	n := s.count(v, 1, maxVCPUs)
	if n.set && n.v < 2 {
		s.mistake(n.at, "want 2 or more: one is under test, another one measures", "vcpus is 1")
	}
	return n
}

// cpu reads a CPU's number, or last.
func (s *source) cpu(v value) opt[int] {
	if t, at, ok := scalar(v.node); ok && t == "last" {
		return opt[int]{LastCPU, at, true}
	}
	if v.node.Type() != ast.IntegerType {
		s.wrongType(v, "a CPU's number from 0, or last")
		return opt[int]{}
	}
	return s.count(v, 0, maxVCPUs-1)
}

func (s *source) preemption(v value) opt[rcu.Preemption] {
	models := []string{string(rcu.None), string(rcu.Voluntary), string(rcu.Full), string(rcu.Lazy), string(rcu.RT)}
	w := s.word(v, models)
	return opt[rcu.Preemption]{rcu.Preemption(w.v), w.at, w.set}
}

// memory reads an amount of memory in whole MiB.
func (s *source) memory(v value) opt[int] {
	const want = "an amount with its unit, such as 512MiB or 1GiB"
	t := s.text(v, want)
	if !t.set {
		return opt[int]{}
	}
	for unit, mib := range map[string]uint64{"MiB": 1, "GiB": 1024} {
		digits, ok := strings.CutSuffix(t.v, unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16)
		if err != nil || n*mib < 64 || n*mib > 65536 {
			s.mistake(t.at, "want 64MiB to 64GiB", "memory is %s", clip(t.v))
			return opt[int]{}
		}
		return opt[int]{int(n * mib), t.at, true}
	}
	s.mistake(t.at, "want "+want, "memory is %s", clip(t.v))
	return opt[int]{}
}

// name reads the name of an experiment or arm. It becomes part of folder names and table columns.
func (s *source) name(v value) opt[string] {
	const want = "a name of small letters, digits, dots, dashes and underscores, at most 32, beginning with a letter or digit"
	t := s.text(v, want)
	if t.set && !validName(t.v) {
		s.mistake(t.at, "want "+want, "%q can't be a name", clip(t.v))
		return opt[string]{}
	}
	return t
}

func validName(n string) bool {
	if n == "" || len(n) > 32 || strings.IndexByte("._-", n[0]) >= 0 {
		return false
	}
	return strings.Trim(n, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// kernel reads a kernel spec as far as its kind. What stands behind the colon is kimage's to judge.
func (s *source) kernel(v value) opt[string] {
	const want = "want debian:SUITE/ARCH/FLAVOUR/RELEASE, deb:FILE, file:IMAGE, host, tree:DIR, debian-source:SUITE/PACKAGE or model:GENERATION/ARCH"
	t := s.text(v, want[len("want "):])
	if !t.set || t.v == "host" {
		return t
	}
	kind, rest, colon := strings.Cut(t.v, ":")
	switch {
	case strings.ContainsAny(t.v, " \t") && kind+":" != treeKernel && kind != "file" && kind != "deb":
		s.mistake(t.at, want, "kernel %s has a space in it", clip(t.v))
	case !colon:
		s.mistake(t.at, want, "unknown kernel %s", clip(t.v))
	case kind+":" == modelKernel:
		if _, err := ParseModelKernel(t.v); err != nil {
			s.mistake(t.at, err.Error(), "there is no kernel %s", clip(t.v))
		}
	case kind != "debian" && kind != "debian-source" && kind != "deb" && kind != "file" && kind != "tree":
		s.mistake(t.at, want, "unknown kind of kernel %s", clip(kind+":"))
	case strings.TrimSpace(rest) == "":
		s.mistake(t.at, want, "kernel %s names nothing", clip(t.v))
	}
	return t
}

// patchName reads the name of a patch.
func (s *source) patchName(v value) opt[string] { return s.text(v, "the name of a patch file") }

// bootParameter reads one kernel parameter. It refuses those that would hide from us what the kernel
// under test is, or that would take the trial's agent away.
func (s *source) bootParameter(v value) opt[string] {
	t := s.text(v, "one kernel parameter such as threadirqs")
	if !t.set {
		return t
	}
	if strings.ContainsAny(t.v, " \t") {
		s.mistake(t.at, "want one parameter per item: boot: [threadirqs, nohlt]", "boot parameter %q has a space in it", clip(t.v))
		return t
	}
	name, val, _ := strings.Cut(t.v, "=")
	name = strings.ReplaceAll(name, "-", "_") // the kernel takes either
	if why := refusedParameter(name, val); why != "" {
		s.mistake(t.at, why, "boot parameter %s can't be used", clip(t.v))
	}
	return t
}

func refusedParameter(name, val string) string {
	switch name {
	case "preempt":
		return fmt.Sprintf("write preempt: %s instead, so that the kernel is checked to follow it", val)
	case "rcupdate.rcu_cpu_stall_timeout":
		return fmt.Sprintf("write stall-timeout: %ss instead", val)
	case "rcupdate.rcu_exp_cpu_stall_timeout":
		return fmt.Sprintf("write exp-stall-timeout: %sms instead", val)
	case "init", "rdinit", "__":
		return "what runs in the guest is napistall's own init"
	case "nosmp":
		return "it leaves one CPU: one is under test, another one measures"
	case "maxcpus", "nr_cpus":
		if n, err := strconv.Atoi(val); err != nil || n < 2 {
			return "want 2 or more CPUs: one is under test, another one measures"
		}
	}
	return ""
}
