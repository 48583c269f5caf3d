package kimage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
)

func TestInspectConfig(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "bzImage")
	writeFile(t, image, fakeBzImage("7.3.4 (b@h) #1 SMP PREEMPT_DYNAMIC", nil))
	img := &Image{Spec: "debian:sid", Release: "7.3.4", Arch: "amd64", Path: image, Config: configLines([]byte(fakeConfig)), ConfigFrom: "the test"}
	in, err := Inspect(t.Context(), img)
	if err != nil {
		t.Fatal(err)
	}
	if in.Preempt != rcu.Lazy || in.Dynamic != Yes || in.PreemptRCU != Yes || in.LazyArch != Yes || in.HZ != 250 ||
		in.StallTimeout != 21*time.Second || in.ExpStallTimeout != 21*time.Second ||
		in.Veth != Modular || in.BPF != Yes || in.VLAN != No || in.ThreadedNAPI != Yes {
		t.Errorf("Inspect = %+v", in)
	}
	want := []string{"CONFIG_PREEMPT_BUILD=y", "CONFIG_ARCH_HAS_PREEMPT_LAZY=y", "# CONFIG_PREEMPT is not set", "CONFIG_PREEMPT_LAZY=y",
		"CONFIG_PREEMPT_DYNAMIC=y", "CONFIG_PREEMPT_RCU=y", "CONFIG_HZ=250", "CONFIG_RCU_CPU_STALL_TIMEOUT=21", "CONFIG_RCU_EXP_CPU_STALL_TIMEOUT=0"}
	if diff := cmp.Diff(want, in.Config()); diff != "" {
		t.Errorf("Config (-want +got):\n%s", diff)
	}
	for _, f := range in.Facts() {
		if f.Name == "HZ" && (f.Value != "250" || f.Source != "CONFIG_HZ in the test") {
			t.Errorf("fact %+v", f)
		}
		if f.Value == "" || f.Value != string(Unknown) && f.Source == "" {
			t.Errorf("fact %+v has no value or no source", f)
		}
	}

	if err := in.Check(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "veth as a module, and the module is not there") {
		t.Errorf("Check without modules = %v", err)
	}
	img.Modules = []Module{{Name: "veth"}, {Name: "dummy"}}
	if in, err = Inspect(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	if err := in.Check("dummy"); err != nil {
		t.Errorf("Check(dummy) = %v", err)
	}
	if err := in.Check("vlan"); err == nil || !strings.Contains(err.Error(), "no vlan devices") {
		t.Errorf("Check(vlan) = %v", err)
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, tt := range []struct{ without, want string }{
		{"CONFIG_VETH", "has no veth (CONFIG_VETH is not set)"},
		{"CONFIG_BPF_SYSCALL", "has no BPF"},
		{"CONFIG_PACKET", "has no packet sockets"},
	} {
		image := filepath.Join(t.TempDir(), "bzImage")
		writeFile(t, image, fakeBzImage("6.18.1", nil))
		var config []string
		for _, line := range configLines([]byte(fakeConfig)) {
			if !strings.HasPrefix(line, tt.without+"=") {
				config = append(config, line)
			}
		}
		in, err := Inspect(t.Context(), &Image{Release: "6.18.1", Arch: "amd64", Path: image, Config: config, Modules: []Module{{Name: "veth"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Check(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check without %s = %v; want %q", tt.without, err, tt.want)
		}
	}
}

// Without a package's config: the built-in one, else the banner, else nothing is claimed.
func TestInspectImage(t *testing.T) {
	static := strings.ReplaceAll(fakeConfig, "CONFIG_PREEMPT_DYNAMIC=y", "# CONFIG_PREEMPT_DYNAMIC is not set")
	tests := []struct {
		name, version string
		payload       []byte
		preempt       rcu.Preemption
		dynamic, rcu  Support
		hz            int
		veth          Support
		models        string
	}{
		{"IKCONFIG", "6.18.15 (b@h) #1 SMP PREEMPT", pack(t, "xz", fakeKernel(t, static)), rcu.Lazy, No, Yes, 250, Modular, "lazy"},
		{"dynamic banner", "6.18.15 (b@h) #1 SMP PREEMPT_DYNAMIC", nil, "", Yes, Yes, 0, Unknown, "none, voluntary, full, lazy"},
		{"rt banner", "6.18.15 (b@h) #1 SMP PREEMPT_RT", nil, rcu.RT, No, Yes, 0, Unknown, "rt"},
		{"preempt banner, old", "6.12.1 (b@h) #1 SMP PREEMPT", nil, rcu.Full, No, Yes, 0, Unknown, "full"},
		{"preempt banner, full or lazy", "6.18.15 (b@h) #1 SMP PREEMPT", nil, "", No, Unknown, 0, Unknown, ""},
		{"none or voluntary", "6.12.1 (b@h) #1 SMP", nil, "", No, No, 0, Unknown, ""},
		{"nothing", "", nil, "", Unknown, Unknown, 0, Unknown, ""},
	}
	for _, tt := range tests {
		image := filepath.Join(t.TempDir(), "bzImage")
		writeFile(t, image, fakeBzImage(tt.version, tt.payload))
		in, err := Inspect(t.Context(), &Image{Arch: "amd64", Path: image})
		if err != nil {
			t.Fatal(err)
		}
		if in.Preempt != tt.preempt || in.Dynamic != tt.dynamic || in.PreemptRCU != tt.rcu || in.HZ != tt.hz ||
			in.Veth != tt.veth || joinModels(in.Models()) != tt.models {
			t.Errorf("%s: Inspect = %+v, models %q; want %q", tt.name, in, joinModels(in.Models()), tt.models)
		}
		if in.Dynamic == Unknown && in.Check() != nil {
			t.Errorf("%s: Check = %v; what is unknown passes", tt.name, in.Check())
		}
	}
}

func TestAcceptsPreempt(t *testing.T) {
	kernel := func(release, arch string, dynamic, lazy Support, preempt rcu.Preemption) Inspection {
		return Inspection{Release: release, Arch: arch, Dynamic: dynamic, LazyArch: lazy, Preempt: preempt}
	}
	tests := []struct {
		in     Inspection
		accept string
		why    string // of a refusal
	}{
		{kernel("7.3.4", "amd64", Yes, Yes, rcu.Lazy), "full lazy", "accepts preempt=full, preempt=lazy; debian:"},
		{kernel("7.0.1", "amd64", Yes, Yes, rcu.Lazy), "full lazy", "accepts preempt=full"},
		{kernel("6.19.14", "amd64", Yes, Yes, rcu.Lazy), "none voluntary full lazy", "accepts"},
		{kernel("6.12.117", "amd64", Yes, No, rcu.Voluntary), "none voluntary full", "debian:"},
		{kernel("7.3.4", "mips64el", Yes, No, rcu.Full), "none voluntary full", "accepts"},
		{kernel("7.2.13", "armhf", No, No, rcu.Voluntary), "voluntary", "is built for voluntary alone (no PREEMPT_DYNAMIC)"},
		{kernel("7.3.4", "arm64", No, Yes, rcu.Lazy), "lazy", "is built for lazy alone"},
		{kernel("6.12", "amd64", Unknown, Unknown, ""), "none voluntary full lazy rt", ""},
	}
	for _, tt := range tests {
		for _, model := range []rcu.Preemption{rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy, rcu.RT} {
			ok, why := tt.in.AcceptsPreempt(model)
			want := strings.Contains(" "+tt.accept+" ", " "+string(model)+" ")
			if ok != want || !ok && (!strings.Contains(why, tt.why) || !strings.Contains(why, string(model))) {
				t.Errorf("%s %s AcceptsPreempt(%s) = %v, %q; want %v, %q", tt.in.Release, tt.in.Arch, model, ok, why, want, tt.why)
			}
		}
		if ok, why := tt.in.AcceptsPreempt(""); !ok || why != "" {
			t.Errorf("AcceptsPreempt of no wish = %v, %q", ok, why)
		}
	}
	undecided := Inspection{Release: "6.12", Arch: "amd64", Dynamic: No, static: []rcu.Preemption{rcu.None, rcu.Voluntary}}
	if ok, why := undecided.AcceptsPreempt(rcu.Lazy); ok || !strings.Contains(why, "none or voluntary") {
		t.Errorf("AcceptsPreempt(lazy) of a kernel without PREEMPT = %v, %q", ok, why)
	}
	if ok, why := undecided.AcceptsPreempt(rcu.None); !ok || why == "" {
		t.Errorf("AcceptsPreempt(none) of a kernel that is none or voluntary = %v, %q", ok, why)
	}
}

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]release{"6.18.15+deb13-amd64": {6, 18}, "7.3": {7, 3}, "7.3-rc7": {7, 3}, "10.0": {10, 0}} {
		if got, ok := parseRelease(text); !ok || !cmp.Equal(got, want, cmp.AllowUnexported(release{})) {
			t.Errorf("parseRelease(%s) = %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "6", "-1.2"} {
		if got, ok := parseRelease(text); ok {
			t.Errorf("parseRelease(%q) = %v; want an error", text, got)
		}
	}
}
