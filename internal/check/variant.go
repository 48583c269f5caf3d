package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/napistall/napistall/internal/model"
	"github.com/napistall/napistall/internal/rcu"
)

// A Variant names a model in the words of flags and traces. The zero value of a field is its default.
type Variant struct {
	Generation   string `json:"generation,omitempty"`   // 6.12 (default), 6.18, 7.3
	Arch         string `json:"arch,omitempty"`         // amd64 (default), arm64, armhf, mips
	Preempt      string `json:"preempt,omitempty"`      // none (default), voluntary, full, lazy
	Dynamic      bool   `json:"dynamic,omitempty"`      // PREEMPT_DYNAMIC, told to follow Preempt
	PreemptCount bool   `json:"preemptCount,omitempty"` // DEBUG_ATOMIC_SLEEP
	Loop         string `json:"loop,omitempty"`         // stock (default), …, softirq
	Load         Load   `json:"load,omitempty"`
	Device       string `json:"device,omitempty"`    // nic (default), veth
	NoLatch      bool   `json:"noLatch,omitempty"`   // the interrupt is a level: what came while masked and was polled is forgotten
	AllQueues    bool   `json:"allQueues,omitempty"` // the mask is shared with other queues
	Backlog      bool   `json:"backlog,omitempty"`   // CPU 0 has backlog packets
	User         bool   `json:"user,omitempty"`      // a CPU-bound user task runs on CPU 0
	Weight       int    `json:"weight,omitempty"`    // of the NAPI; default 2
	Ring         int    `json:"ring,omitempty"`      // descriptors; default 3
	// Programs are what the probes wait for, in the words of model.Op.
	Programs [][]string `json:"programs,omitempty"`

	brk model.Break // tests only
}

// A Load says which packets can arrive.
type Load string

// The loads.
const (
	Any     Load = ""        // packets arrive whenever they like, or never
	Filling Load = "filling" // packets arrive in time for every poll to use its whole weight
)

// Default sizes: small enough to look at every state, large enough for a poll that leaves packets behind, one that
// takes all there are, and a ring that overflows.
const (
	defaultWeight = 2
	defaultRing   = 2
)

// A word is a name of a value.
type word[T any] struct {
	name  string
	value T
}

func generations() []word[model.Generation] {
	return []word[model.Generation]{{"6.12", model.V612}, {"6.18", model.V618}, {"7.3", model.V73}}
}

func archs() []word[model.Arch] {
	return []word[model.Arch]{{"amd64", model.AMD64}, {"arm64", model.ARM64}, {"armhf", model.ARMHF}, {"mips", model.MIPS}}
}

func preempts() []word[rcu.Preemption] {
	return []word[rcu.Preemption]{{"none", rcu.None}, {"voluntary", rcu.Voluntary}, {"full", rcu.Full}, {"lazy", rcu.Lazy}}
}

func loops() []word[model.Loop] {
	return []word[model.Loop]{
		{"stock", model.Stock}, {"yield-on-exit", model.YieldOnExit}, {"cond-resched-only", model.CondReschedOnly},
		{"qs-only-local-stamp", model.QSLocalStamp}, {"qs-only-persistent-stamp", model.QSPersistentStamp},
		{"busy-poll", model.BusyPoll}, {"busy-poll-reset-stamp", model.BusyPollResetStamp}, {"backlog-thread", model.BacklogThread},
		{softirqLoop, model.Stock},
	}
}

// softirqLoop is the word for threaded off.
const softirqLoop = "softirq"

func devices() []word[model.Device] {
	return []word[model.Device]{{"nic", model.NIC}, {"veth", model.Veth}}
}

func loads() []word[Load] {
	return []word[Load]{{"any", Any}, {"filling", Filling}}
}

func ops() []word[model.Op] {
	var out []word[model.Op]
	for o := model.Op(1); !strings.HasSuffix(o.String(), "?"); o++ {
		out = append(out, word[model.Op]{o.String(), o})
	}
	return out
}

// pick returns the value that name stands for; the first one if it is empty.
func pick[T any](what, name string, from []word[T]) (T, error) {
	if name == "" {
		return from[0].value, nil
	}
	var names []string
	for _, w := range from {
		if w.name == name {
			return w.value, nil
		}
		names = append(names, w.name)
	}
	last := len(names) - 1
	var zero T
	return zero, fmt.Errorf("unknown %s %q: want %s or %s", what, name, strings.Join(names[:last], ", "), names[last])
}

// Config returns the model's configuration, or an error that says which word is unknown.
func (v Variant) Config() (cfg model.Config, err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	set := func(e error) bool { keep(e); return e == nil }
	var e error
	cfg.Generation, e = pick("generation", v.Generation, generations())
	keep(e)
	cfg.Arch, e = pick("architecture", v.Arch, archs())
	keep(e)
	cfg.Preempt, e = pick("preemption model", v.Preempt, preempts())
	keep(e)
	cfg.Loop, e = pick("loop", v.Loop, loops())
	keep(e)
	cfg.Device, e = pick("device", v.Device, devices())
	keep(e)
	if _, e = pick("load", string(v.Load), loads()); !set(e) {
		return cfg, err
	}
	cfg.Dynamic, cfg.PreemptCount, cfg.Softirq = v.Dynamic, v.PreemptCount, v.Loop == softirqLoop
	nic := cfg.Device == model.NIC && cfg.Loop != model.BacklogThread
	cfg.Latch, cfg.AllQueues, cfg.Backlog, cfg.User = !v.NoLatch && nic, v.AllQueues, v.Backlog, v.User
	cfg.Weight, cfg.Ring = size(v.Weight, defaultWeight), size(v.Ring, defaultRing)
	cfg.Bulk, cfg.Budget, cfg.Restarts = 2, cfg.Weight, 1
	cfg.CPUs, cfg.Break = 2, v.brk
	if len(v.Programs) > model.MaxProbes {
		return cfg, fmt.Errorf("%d probes: at most %d", len(v.Programs), model.MaxProbes)
	}
	for i, names := range v.Programs {
		cfg.Programs[i], e = program(names)
		keep(e)
	}
	return cfg, err
}

func size(n, byDefault int) uint16 {
	if n <= 0 {
		n = byDefault
	}
	return uint16(min(n, 1<<16-1))
}

func program(names []string) (p model.Program, err error) {
	if len(names) > model.MaxOps {
		return p, fmt.Errorf("a program of %d operations: at most %d", len(names), model.MaxOps)
	}
	for i, name := range names {
		if p[i], err = pick("operation", name, ops()); err != nil {
			return p, err
		}
	}
	return p, nil
}

// names returns the words of a program.
func names(p model.Program) []string {
	var out []string
	for _, o := range p {
		if o == model.End {
			break
		}
		out = append(out, o.String())
	}
	return out
}

// explicit returns v with its defaults written out.
func (v Variant) explicit() Variant {
	for _, w := range []struct {
		word      *string
		byDefault string
	}{
		{&v.Generation, generations()[0].name}, {&v.Arch, archs()[0].name}, {&v.Preempt, preempts()[0].name},
		{&v.Loop, loops()[0].name}, {&v.Device, devices()[0].name},
	} {
		if *w.word == "" {
			*w.word = w.byDefault
		}
	}
	v.Weight, v.Ring = int(size(v.Weight, defaultWeight)), int(size(v.Ring, defaultRing))
	return v
}

// String names v in a line: what differs from the default.
func (v Variant) String() string {
	def := func(s, d string) string {
		if s == "" {
			return d
		}
		return s
	}
	parts := []string{def(v.Loop, "stock"), strings.ToUpper(def(v.Preempt, "none"))}
	if v.Dynamic {
		parts[1] = "DYNAMIC " + def(v.Preempt, "none")
	}
	parts = append(parts, "on "+def(v.Generation, "6.12")+"/"+def(v.Arch, "amd64"))
	for _, f := range []struct {
		on   bool
		text string
	}{
		{v.PreemptCount, "with PREEMPT_COUNT"}, {v.Load == Filling, "load that fills the budget"}, {v.Device == "veth", "veth"},
		{v.NoLatch, "level interrupt"}, {v.AllQueues, "shared mask"}, {v.Backlog, "backlog on CPU 0"}, {v.User, "user task on CPU 0"},
	} {
		if f.on {
			parts = append(parts, f.text)
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// Loops returns the words of every loop variant.
func Loops() []string {
	var out []string
	for _, w := range loops() {
		out = append(out, w.name)
	}
	return out
}
