package qemu

import (
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

func TestArgv(t *testing.T) {
	arm := experiment.Arm{VCPUs: 2, Preempt: rcu.Lazy, StallTimeout: 2500 * time.Millisecond,
		ExpStallTimeout: 1500 * time.Millisecond, Boot: []string{"a=b", "loglevel=4"}}
	for _, tt := range []struct {
		goarch, accel string
		k             kernel
		want, not     []string
	}{
		{"amd64", tcg, kernel{dynamic: true, channels: channels{virtio: true}},
			[]string{"-M q35 -cpu max,la57=off", "tcg,thread=multi", "-smp 2 -m 512", "console=ttyS0 ", "preempt=lazy",
				"rcu_cpu_stall_timeout=3 ", "rcu_exp_cpu_stall_timeout=1500", " a=b loglevel=4", "name=napistall.records"},
			[]string{"records2", "netdev"}},
		{"amd64", kvm, kernel{}, []string{"-cpu host", "-accel kvm"}, []string{"preempt=", "records"}},
		{"amd64", tcg, kernel{channels: channels{true, true}}, []string{"virtserialport", "-serial chardev:records2"}, nil},
		{"arm", tcg, kernel{channels: channels{true, true}}, []string{"-M virt", "console=ttyAMA0", "virtserialport"}, []string{"records2"}},
		{"arm64", tcg, kernel{}, []string{"-cpu cortex-a57", "console=ttyAMA0"}, nil},
	} {
		m, err := machineFor(tt.goarch)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(m.argv("qemu", tt.accel, tt.k, arm), " ")
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: argv = %s; want %q in it", tt.goarch, got, want)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(got, not) {
				t.Errorf("%s: argv = %s; want no %q in it", tt.goarch, got, not)
			}
		}
	}
	if m, ok := machineOf("amd64"); !ok || m.tcg("arm64") != "tcg" || m.tcg("amd64") != "tcg,thread=multi" {
		t.Errorf("x86 on arm64: %s; want no threads for CPUs", m.tcg("arm64"))
	}
	if _, err := machineFor("mips"); err == nil {
		t.Error("a machine for mips")
	}
}
