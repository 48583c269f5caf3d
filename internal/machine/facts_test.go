package machine

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/rcu"
)

// tree makes a machine of files.
func tree(t *testing.T, files map[string]string) Source {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Source{Root: root}
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReadWholeMachine(t *testing.T) {
	s := tree(t, map[string]string{
		"proc/sys/kernel/osrelease": "6.12.117\n",
		"proc/sys/kernel/version":   "#1 SMP Mon Nov 30 15:17:45 UTC 2026\n",
		"proc/sys/kernel/arch":      "x86_64\n",
		"proc/cmdline":              "console=ttyS0 panic=0\n",
		"proc/config.gz":            zip(t, "# a comment\nCONFIG_HZ=250\nCONFIG_PREEMPT_NONE=y\n# CONFIG_RPS is not set\nCONFIG_SOUND=y\n"),
		"proc/2/comm":               "kthreadd\n",
		"proc/2/stack":              "[<0>] kthreadd+0x1/0x2\n",
		"proc/15/comm":              "rcu_sched\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
		"sys/devices/system/cpu/online":                                   "0-1\n",
		"sys/module/rcupdate/parameters/rcu_cpu_stall_timeout":            "3\n",
		"sys/module/rcupdate/parameters/rcu_exp_cpu_stall_timeout":        "0\n",
	})
	got, err := Read(s)
	if err != nil {
		t.Fatal(err)
	}
	want := Facts{
		Release: "6.12.117", Version: "#1 SMP Mon Nov 30 15:17:45 UTC 2026", Arch: "x86_64",
		Preempt: rcu.None, Models: []rcu.Preemption{rcu.None}, Flavor: rcu.Sched, HZ: 250, Online: []int{0, 1}, Cmdline: "console=ttyS0 panic=0",
		ClockSource: "tsc", StallSec: 3, Stacks: true, Config: []string{"CONFIG_HZ=250", "CONFIG_PREEMPT_NONE=y"},
		Evidence: []string{
			"hz: /proc/config.gz says CONFIG_HZ=250",
			"preempt: /proc/config.gz says CONFIG_PREEMPT_NONE=y",
			"preempt: uname -v says no PREEMPT",
			"preempt: RCU's flavor says rcu_sched",
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Read (-want +got):\n%s", d)
	}
}

func TestReadBareMachine(t *testing.T) {
	got, err := Read(tree(t, map[string]string{"proc/sys/kernel/osrelease": "5.4.0\n"}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"arch", "cmdline", "clocksource", "cpus", "stall_sec", "exp_millis", "hz", "flavor", "preempt"}
	if d := cmp.Diff(want, got.Unknown); d != "" {
		t.Errorf("Unknown (-want +got):\n%s", d)
	}
}

func TestReadNoMachine(t *testing.T) {
	_, err := Read(tree(t, nil))
	if err == nil || !strings.Contains(err.Error(), "osrelease") {
		t.Errorf("Read of an empty tree: %v; want an error about osrelease", err)
	}
}

func TestPreempt(t *testing.T) {
	const release = "proc/sys/kernel/osrelease"
	for _, tt := range []struct {
		name    string
		files   map[string]string
		kmsg    string
		want    rcu.Preemption
		dynamic bool
		says    string // part of the evidence
	}{
		{name: "debugfs is what runs",
			files: map[string]string{"sys/kernel/debug/sched/preempt": "none voluntary full (lazy) \n",
				"proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC"},
			kmsg: "Dynamic Preempt: full\n", want: rcu.Lazy, dynamic: true,
			says: "contradiction: the boot log leaves full, the sources before it lazy"},
		{name: "boot line", kmsg: "x\nDynamic Preempt: voluntary\n",
			files: map[string]string{"proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC"}, want: rcu.Voluntary, dynamic: true},
		{name: "dynamic default of the config", want: rcu.None, dynamic: true,
			files: map[string]string{"boot/config-1": "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_NONE=y\n"}},
		{name: "command line over the default", want: rcu.Full, dynamic: true, says: "command line preempt=full",
			files: map[string]string{"boot/config-1": "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_NONE=y\n", "proc/cmdline": "preempt=lazyy preempt=full"}},
		{name: "config beside the kernel", want: rcu.Voluntary, says: "/boot/config-1 says CONFIG_PREEMPT_VOLUNTARY=y",
			files: map[string]string{"boot/config-1": "CONFIG_PREEMPT_VOLUNTARY=y\n", "proc/sys/kernel/version": "#1 SMP Debian"}},
		{name: "real time", want: rcu.RT, files: map[string]string{"proc/sys/kernel/version": "#1 SMP PREEMPT_RT x"}},
		{name: "no config: none or voluntary", says: "preempt: unknown, one of none, voluntary",
			files: map[string]string{"proc/sys/kernel/version": "#1 SMP Debian", "proc/9/comm": "rcu_sched"}},
		{name: "no config: full or lazy", says: "unknown, one of full, lazy",
			files: map[string]string{"proc/sys/kernel/version": "#0 SMP PREEMPT x", "proc/9/comm": "rcu_preempt"}},
		{name: "static lazy by flavor", want: rcu.Lazy,
			files: map[string]string{"proc/sys/kernel/version": "#0 SMP PREEMPT x", "proc/9/comm": "rcu_sched"}},
		{name: "flavor of the boot log", want: rcu.Lazy, kmsg: "rcu: Hierarchical RCU implementation.\n",
			files: map[string]string{"proc/sys/kernel/version": "#0 SMP PREEMPT x"}},
		{name: "config and uname contradict", want: rcu.None, says: "contradiction: uname -v leaves full, lazy",
			files: map[string]string{"boot/config-1": "CONFIG_PREEMPT_NONE=y\n", "proc/sys/kernel/version": "#0 SMP PREEMPT x"}},
		{name: "config of another kernel", want: rcu.None, says: "contradiction: RCU's flavor leaves full, lazy, rt",
			files: map[string]string{"boot/config-1": "CONFIG_PREEMPT_NONE=y\n", "proc/9/comm": "rcu_preempt"}},
		{name: "backtrace of a static kernel", want: rcu.Voluntary, says: "a backtrace in the kernel log says VOLUNTARY",
			kmsg:  "CPU: 1 UID: 0 PID: 88 Comm: napi/lan0-67 Not tainted 7.2.13-armmp #1 VOLUNTARY \n",
			files: map[string]string{"proc/sys/kernel/version": "#1 SMP Debian"}},
		{name: "backtrace of a dynamic kernel, the newest", want: rcu.Lazy, dynamic: true,
			kmsg: "CPU: 0 UID: 0 PID: 1 Comm: a Not tainted 6.18.2 #1 PREEMPT(none)\n[    9.1] CPU: 0 UID: 0 PID: 1 Comm: b c Tainted: G W 6.18.2 #2-Debian PREEMPT(lazy)\n"},
		{name: "dynamic 7.x has no none where there is lazy", says: "unknown, one of full, lazy", dynamic: true,
			files: map[string]string{"proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC", "proc/sys/kernel/arch": "x86_64", release: "7.3.4-amd64"}},
		{name: "dynamic 6.x may have", says: "unknown, one of none, voluntary, full, lazy", dynamic: true,
			files: map[string]string{"proc/sys/kernel/version": "#1 SMP PREEMPT_DYNAMIC", "proc/sys/kernel/arch": "x86_64", release: "6.18.4"}},
		{name: "dynamic none has rcu_preempt", want: rcu.None, dynamic: true,
			files: map[string]string{"boot/config-1": "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_NONE=y\n", "proc/9/comm": "rcu_preempt"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.files == nil {
				tt.files = map[string]string{}
			}
			if tt.files[release] == "" {
				tt.files[release] = "1"
			}
			s := tree(t, tt.files)
			s.Kmsg = tt.kmsg
			f, err := Read(s)
			if err != nil {
				t.Fatal(err)
			}
			if f.Preempt != tt.want || f.Dynamic != tt.dynamic {
				t.Errorf("preempt %q dynamic %v; want %q, %v\n%s", f.Preempt, f.Dynamic, tt.want, tt.dynamic, strings.Join(f.Evidence, "\n"))
			}
			if all := strings.Join(f.Evidence, "\n"); !strings.Contains(all, tt.says) {
				t.Errorf("evidence:\n%s\nwant in it: %s", all, tt.says)
			}
		})
	}
}

// The lines are those of real kernels built with these ticks.
func TestHZFromBootLine(t *testing.T) {
	for want, ns := range map[int]string{100: "19112604462750000", 250: "7645041785100000", 300: "6370867519511994", 1000: "1911260446275000"} {
		s := tree(t, map[string]string{"proc/sys/kernel/osrelease": "1"})
		s.Kmsg = "clocksource: jiffies: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: " + ns + " ns\n"
		f, err := Read(s)
		if err != nil {
			t.Fatal(err)
		}
		if f.HZ != want {
			t.Errorf("HZ by max_idle_ns %s = %d; want %d", ns, f.HZ, want)
		}
	}
}

func TestParseCPUList(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "0": {0}, "0-3\n": {0, 1, 2, 3}, "4,0-1": {0, 1, 4}, "1,1": {1}} {
		got, err := ParseCPUList(list)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("ParseCPUList(%q) = %v, %v; want %v", list, got, err, want)
		}
	}
	for _, bad := range []string{"a", "3-1", "0-", "-1", "0-70000", "1,,2"} {
		if got, err := ParseCPUList(bad); err == nil {
			t.Errorf("ParseCPUList(%q) = %v; want an error", bad, got)
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	f.Add("0-3,5")
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := ParseCPUList(list)
		for i, c := range cpus {
			if err == nil && (c < 0 || i > 0 && c <= cpus[i-1]) {
				t.Errorf("ParseCPUList(%q) = %v: not ascending", list, cpus)
			}
		}
	})
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("CONFIG_HZ=250\n# CONFIG_X is not set\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := parseConfig(unzip(text))
		for _, line := range c.kept {
			name, value, ok := strings.Cut(line, "=")
			if !ok || !strings.HasPrefix(name, "CONFIG_") || strings.Contains(value, "\n") {
				t.Errorf("kept %q", line)
			}
		}
	})
}
