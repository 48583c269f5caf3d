package experiment

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/rcu"
)

func TestParseModelKernel(t *testing.T) {
	for _, tt := range []struct {
		spec    string
		want    string
		dynamic bool
		models  string
	}{
		{"model:6.12", "model:6.12/amd64", true, "none voluntary full"},
		{"model:6.18", "model:6.18/amd64", true, "none voluntary full lazy"},
		{"model:6.18/arm64", "model:6.18/arm64", true, "none voluntary full lazy"},
		{"model:6.18/armhf", "model:6.18/armhf", false, "none voluntary full"},
		{"model:7.3/amd64", "model:7.3/amd64", true, "full lazy"},
		{"model:7.3/mips", "model:7.3/mips", false, "voluntary full"},
	} {
		k, err := ParseModelKernel(tt.spec)
		if err != nil {
			t.Errorf("ParseModelKernel(%q): %v", tt.spec, err)
			continue
		}
		if got := strings.Join(words(k.Models()), " "); k.String() != tt.want || k.Dynamic() != tt.dynamic || got != tt.models {
			t.Errorf("%s: %s, dynamic %v, models %s; want %s, %v, %s", tt.spec, k, k.Dynamic(), got, tt.want, tt.dynamic, tt.models)
		}
	}
	for _, spec := range []string{"", "model:", "model:6.1", "model:7.3/", "model:7.3/sparc", "model:7.3/amd64/x", "debian:sid", "7.3"} {
		if k, err := ParseModelKernel(spec); err == nil || !strings.Contains(err.Error(), "want model:GENERATION[/ARCH]") {
			t.Errorf("ParseModelKernel(%q) = %v, %v; want what there is", spec, k, err)
		}
	}
}

func TestModelsAreKnownWords(t *testing.T) {
	for _, g := range generations() {
		for _, arch := range modelArches() {
			for _, m := range (ModelKernel{g, arch}).Models() {
				if p, err := rcu.ParsePreemption(string(m)); err != nil || p != m {
					t.Errorf("model:%s/%s: %v, %v", g, arch, p, err)
				}
			}
		}
	}
}

func TestNeedsModel(t *testing.T) {
	stock := Arm{Name: "a", Kernel: "debian:sid", Threaded: true, Load: Load{Kind: Paced, Rate: 1000, Batch: 1, Size: 60},
		NIC: NIC{Ring: 1024, Latch: true, MaskScope: PerQueue}}
	bounce := stock
	bounce.Load, bounce.NIC = Load{Kind: Bounce, Inflight: 1}, NIC{}
	with := func(change func(*Arm)) Arm {
		a := stock
		change(&a)
		return a
	}
	for _, tt := range []struct {
		name string
		arm  Arm
		want string // "" when a real kernel will do
	}{
		{"stock", stock, ""},
		{"bounce", bounce, ""},
		{"busy poll", with(func(a *Arm) { a.Loop = BusyPoll }), ""},
		{"backlog", with(func(a *Arm) { a.Loop = BacklogThread }), ""},
		{"veth's ring", with(func(a *Arm) { a.NIC.Ring = 256 }), ""},
		{"moderation", with(func(a *Arm) { a.NIC.Moderation = time.Millisecond }), ""},
		{"an alternative", with(func(a *Arm) { a.Kernel, a.KernelElse = "model:7.3", []string{"debian:sid"} }), ""},
		{"kernel", with(func(a *Arm) { a.Kernel = "model:7.3" }), "only the simulator has the kernel model:7.3"},
		{"kernels", with(func(a *Arm) { a.Kernel, a.KernelElse = "model:7.3", []string{"model:6.12"} }), "only the simulator has the kernel"},
		{"patch", with(func(a *Arm) { a.Loop = YieldOnExit }), "the loop variant yield-on-exit exists in the simulator only; on a real kernel, use patch:"},
		{"reset stamp", with(func(a *Arm) { a.Loop = BusyPollResetStamp }), "busy-poll-reset-stamp exists in the simulator only"},
		{"recorded", with(func(a *Arm) { a.Load = Load{Kind: Recorded, From: "x"} }), "recorded"},
		{"costs", with(func(a *Arm) { a.Model.Costs.Wake = 1 }), "knobs of model:"},
		{"ring", with(func(a *Arm) { a.NIC.Ring = 64 }), "a ring of 64"},
		{"latch", with(func(a *Arm) { a.NIC.Latch = false }), "latched"},
		{"mask", with(func(a *Arm) { a.NIC.MaskScope = AllQueues }), "mask-scope"},
	} {
		err := NeedsModel(tt.arm)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: NeedsModel = %v; want nil", tt.name, err)
		case tt.want != "" && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "arm a: ")):
			t.Errorf("%s: NeedsModel = %v; want %q", tt.name, err, tt.want)
		}
	}
}

// Every knob of a load that has an owner is dropped for the loads that don't own it.
func TestOnlyDropsEveryForeignKnob(t *testing.T) {
	full := loadText{
		inflight: opt[int]{v: 1, set: true}, rate: opt[int]{v: 1, set: true}, batch: opt[int]{v: 1, set: true},
		window: opt[int]{v: 1, set: true}, size: opt[int]{v: 60, set: true}, rtt: opt[time.Duration]{v: 1, set: true},
		from: opt[string]{v: "f", set: true}, band: opt[string]{v: HoldBand, set: true},
		hold: opt[time.Duration]{v: 1, set: true}, cpu: opt[int]{v: 1, set: true},
	}
	for _, kind := range LoadKinds() {
		got := full.only(kind)
		for knob, set := range map[string]bool{
			"inflight": got.inflight.set, "rate": got.rate.set, "batch": got.batch.set, "window": got.window.set,
			"size": got.size.set, "rtt": got.rtt.set, "from": got.from.set, "band": got.band.set, "hold": got.hold.set, "cpu": got.cpu.set,
		} {
			if set != slices.Contains(owners(knob), kind) {
				t.Errorf("%s keeps %s: %v", kind, knob, set)
			}
		}
	}
}

func TestWholeRate(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		ok   bool
	}{
		{"80862", 80862, true}, {"80k", 80000, true}, {"80.862k", 80862, true}, {"1.5M", 1500000, true}, {"0", 0, true}, {"0.1k", 100, true},
		{"148.809523M", 148809523, true}, {"1.0005k", 0, false}, {"0.5", 0, false}, {"", 0, false}, {"k", 0, false}, {".", 0, false}, {"1e3", 0, false},
		{"-1", 0, false}, {"+1", 0, false}, {"1.2.3", 0, false}, {"1kk", 0, false}, {"NaN", 0, false}, {"0x10", 0, false}, {"1 ", 0, false},
	} {
		if n, ok := wholeRate(tt.text); ok != tt.ok || ok && n != tt.n {
			t.Errorf("wholeRate(%q) = %d, %v; want %d, %v", tt.text, n, ok, tt.n, tt.ok)
		}
	}
	if n, _ := wholeRate("99999999999999999999"); n <= maxRate(minSize) {
		t.Errorf("wholeRate of a huge number = %d", n)
	}
}

func TestParseRate(t *testing.T) {
	if n, err := ParseRate("80k/s"); n != 80000 || err != nil {
		t.Errorf("ParseRate(80k/s) = %d, %v", n, err)
	}
	for text, want := range map[string]string{"80k": "80k without its unit: want packets", "x/s": "no whole number", "0/s": "0/s, which is out of range: want 1/s to"} {
		if n, err := ParseRate(text); n != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseRate(%q) = %d, %v; want %q", text, n, err, want)
		}
	}
}
