package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
)

const ms = time.Millisecond

// models of the evidence.
func facts(release, arch string, dynamic bool, models ...rcu.Preemption) machine.Facts {
	f := machine.Facts{Release: release, Arch: arch, Dynamic: dynamic, Models: models, Online: []int{0, 1}, StallSec: 21}
	if len(models) == 1 {
		f.Preempt = models[0]
	}
	return f
}

// board is an arm board under VOLUNTARY with vb in threaded mode, at rest.
func board() Case {
	return Case{
		Survey: machine.Survey{
			Facts: facts("7.2.13-armmp", "armv7l", false, rcu.Voluntary), Root: true,
			Devices: []machine.Device{
				{Name: "vb", Index: 3, Driver: "veth", Up: true, Threaded: new(1), NoCoalescing: "the driver has no such setting",
					NAPIs: []machine.NAPI{{ID: 8193, Index: 3, PID: new(88), Mode: machine.ModeThreaded}}},
				{Name: "eth0", Index: 2, Driver: "virtio_net", Up: true, Threaded: new(0), NAPIs: []machine.NAPI{{ID: 8194, Index: 2, Mode: machine.ModeSoftirq}}},
			},
			Threads: []machine.KThread{{PID: 88, Name: "napi/vb-8193", Device: "vb", State: "S", CPU: 1, CPUs: "0-1", Policy: "normal"}},
		},
		Watch: machine.Watch{Took: 500 * ms, Step: 50 * ms,
			Threads:      []machine.Watched{{PID: 88, Name: "napi/vb-8193", CPU: 1, Looks: 11, Took: 500 * ms, Voluntary: 3}},
			GracePeriods: []machine.Wait{{Took: 12 * ms}}},
	}
}

// hold makes the board's thread hold CPU 1.
func hold(c *Case) {
	c.Watch.Threads[0] = machine.Watched{PID: 88, Name: "napi/vb-8193", CPU: 1, Looks: 11, Took: 500 * ms, RunTime: 495 * ms, Longest: 450 * ms}
}

// A judged case: what is changed on the board, and what comes of it.
type judged struct {
	name       string
	change     func(*Case)
	verdict    Verdict
	confidence Confidence
	says       string // in the summary or a doubt
	findings   []string
}

// watchedCases are about the kernel and what it did.
func watchedCases() []judged {
	return []judged{
		{"at rest", func(*Case) {}, Exposed, High, "vb polls in a thread that nothing preempts. In the 0.50 s that were watched it did not happen",
			[]string{"loop-exit affected", "silent-waits note"}},
		{"a grace period does not end", func(c *Case) {
			hold(c)
			c.Watch.GracePeriods = []machine.Wait{{Took: 1200 * ms, Censored: true}}
		}, Happening, High, "napi/vb-8193 holds CPU 1", []string{"cpu-held happening", "loop-exit affected", "silent-waits note"}},
		{"others don't get the CPU, as under dynamic none", func(c *Case) {
			c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.None)
			hold(c)
			c.Watch.Turns = []machine.Wait{{CPU: new(1), Took: 1200 * ms, Censored: true}}
		}, Happening, High, "napi/vb-8193 holds CPU 1", []string{"cpu-held happening", "loop-exit affected", "silent-waits note"}},
		{"busy and yields: above the band", func(c *Case) {
			hold(c)
			c.Watch.Turns = []machine.Wait{{CPU: new(1), Took: 3 * ms}}
		}, Exposed, High, "did not happen", []string{"loop-exit affected", "busy-thread note", "silent-waits note"}},
		{"others wait for another CPU", func(c *Case) {
			hold(c)
			c.Watch.Turns = []machine.Wait{{CPU: new(0), Took: 1200 * ms, Censored: true}}
		}, Exposed, High, "", []string{"loop-exit affected", "busy-thread note", "silent-waits note"}},
		{"a late grace period without a culprit", func(c *Case) {
			c.Watch.GracePeriods = []machine.Wait{{Took: 1500 * ms}}
		}, Exposed, High, "", []string{"loop-exit affected", "slow-grace-period note", "silent-waits note"}},
		{"lazy", func(c *Case) { c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.Lazy) }, NotExposed, High,
			"vb polls in a thread, and the kernel (LAZY, dynamic) preempts it there", nil},
		{"lazy, and yet held", func(c *Case) {
			c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.Lazy)
			hold(c)
			c.Watch.GracePeriods = []machine.Wait{{Took: 1200 * ms, Censored: true}}
		}, NotExposed, High, "", []string{"cpu-held note"}},
		{"full or lazy", func(c *Case) { c.Survey.Facts = facts("7.3.4", "x86_64", true, rcu.Full, rcu.Lazy) }, NotExposed, High, "FULL or LAZY", nil},
		{"none or voluntary", func(c *Case) { c.Survey.Facts = facts("6.6.86", "mips", false, rcu.None, rcu.Voluntary) }, Exposed, High, "",
			[]string{"loop-exit affected", "d6dbbb11247c possible", "silent-waits note"}},
	}
}

// unsureCases are about what is not known.
func unsureCases() []judged {
	return []judged{
		{"unknown model", func(c *Case) {
			c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy)
		}, CannotTell, Low, "debugfs", []string{"loop-exit possible", "silent-waits note"}},
		{"unknown model, and held", func(c *Case) {
			c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.None, rcu.Voluntary, rcu.Full, rcu.Lazy)
			hold(c)
			c.Watch.Turns = []machine.Wait{{CPU: new(1), Took: 1200 * ms, Censored: true}}
		}, Happening, High, "", []string{"cpu-held happening", "loop-exit possible", "silent-waits note"}},
		{"unknown model, nothing threaded", func(c *Case) {
			c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.None, rcu.Full)
			c.Survey.Devices, c.Survey.Threads, c.Watch.Threads = c.Survey.Devices[1:], nil, nil
		}, NotExposed, High, "Nothing polls in a thread", nil},
		{"voluntary, nothing threaded", func(c *Case) {
			c.Survey.Devices, c.Survey.Threads, c.Watch.Threads = c.Survey.Devices[1:], nil, nil
		}, NotExposed, High, "With threaded=1 on a device it would be exposed: the kernel (VOLUNTARY)", nil},
		{"nothing threaded by sysfs alone", func(c *Case) {
			c.Survey.Devices, c.Survey.Threads, c.Watch.Threads = []machine.Device{{Name: "eth0", Index: 2, Threaded: new(0)}}, nil, nil
			c.Survey.Netlink = "no such family"
		}, NotExposed, Medium, "sysfs and the list of kernel threads alone", nil},
		{"a container", func(c *Case) {
			c.Survey.Devices, c.Survey.Threads, c.Watch.Threads, c.Survey.Hidden = c.Survey.Devices[1:], nil, nil, true
		}, CannotTell, Low, "not every poll thread can be seen", nil},
		{"a container on a kernel that preempts", func(c *Case) {
			c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.Full)
			c.Survey.Devices, c.Survey.Threads, c.Watch.Threads, c.Survey.Hidden = c.Survey.Devices[1:], nil, nil, true
		}, NotExposed, High, "nothing that can be seen polls in a thread", nil},
		{"contradicting sources", func(c *Case) {
			c.Survey.Facts.Evidence = []string{"preempt: contradiction: uname -v leaves full, the sources before it voluntary"}
		}, Exposed, Medium, "contradict each other: uname -v leaves full", []string{"loop-exit affected", "silent-waits note"}},
		{"moderated", func(c *Case) { c.Survey.Devices[0].Coalescing = &machine.Coalescing{RxUsecs: new(int64(125))} }, Exposed, Medium, "interrupt moderation keeps",
			[]string{"loop-exit affected", "silent-waits note"}},
	}
}

// deviceCases are about what polls.
func deviceCases() []judged {
	return []judged{
		{"RTNL held", func(c *Case) {
			c.Survey.Cut, c.Survey.Netlink, c.Survey.Devices[0].NAPIs, c.Survey.Devices[1].NAPIs = "NAPI instances", "no answer", nil, nil
		}, Exposed, High, "", []string{"loop-exit affected", "rtnl note", "silent-waits note"}},
		{"a hidden device of airoha", func(c *Case) {
			c.Survey.Devices = nil
			c.Survey.Threads = []machine.KThread{{PID: 90, Name: "napi/qdma_eth-3", Device: "qdma_eth", Policy: "normal"}}
			c.Watch.Threads = nil
		}, Exposed, High, "Whether it happens now was not watched", []string{"loop-exit affected", "silent-waits note"}},
		{"a thread of another namespace", func(c *Case) {
			c.Survey.Devices = c.Survey.Devices[1:]
			c.Watch.Threads = nil
		}, CannotTell, Low, "threaded mode of vb", nil},
		{"a thread of another namespace that runs", func(c *Case) {
			c.Survey.Devices = c.Survey.Devices[1:]
			c.Watch.Threads[0].RunTime = 20 * ms
		}, Exposed, High, "", []string{"loop-exit affected", "silent-waits note"}},
		{"backlog threads", func(c *Case) {
			c.Survey.Devices = c.Survey.Devices[1:]
			c.Survey.Threads = []machine.KThread{{PID: 17, Name: "backlog_napi/0", CPUs: "0"}, {PID: 18, Name: "backlog_napi/1", CPUs: "1"}}
			c.Watch.Threads = nil
		}, Exposed, High, "2 backlog threads run the same loop", []string{"backlog-threads affected", "silent-waits note"}},
		{"busy poll on 6.19.3", func(c *Case) {
			c.Survey.Facts = facts("6.19.3", "x86_64", false, rcu.Lazy)
			c.Survey.Devices[0].NAPIs[0].Mode = machine.ModeBusyPoll
		}, Exposed, High, "Tasks-RCU grace periods never end", []string{"CVE-2026-43385 affected"}},
		{"wireguard in a thread", func(c *Case) {
			c.Survey.Facts = facts("6.18.44", "x86_64", true, rcu.Full)
			c.Survey.Devices[0].Driver, c.Survey.Devices[0].Kind, c.Survey.Devices[0].Name = "", "wireguard", "wg0"
		}, NotExposed, High, "Another issue is possible", []string{"CVE-2026-52945 possible"}},
		{"nothing could be read", func(c *Case) { *c = Case{} }, CannotTell, Low, "could not be read", nil},
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range slices.Concat(watchedCases(), unsureCases(), deviceCases()) {
		c := board()
		tt.change(&c)
		r := Judge(c)
		var findings []string
		for _, f := range r.Findings {
			findings = append(findings, f.ID+" "+string(f.State))
		}
		if r.Verdict != tt.verdict || r.Confidence != tt.confidence || !slices.Equal(findings, tt.findings) {
			t.Errorf("%s: %s, %s, %q; want %s, %s, %q\n%+v", tt.name, r.Verdict, r.Confidence, findings, tt.verdict, tt.confidence, tt.findings, r)
		}
		if all := r.Summary + strings.Join(r.Doubts, "\n"); !strings.Contains(all, tt.says) {
			t.Errorf("%s: %q; want in it %q", tt.name, all, tt.says)
		}
		if r.Found() != (tt.verdict == Exposed || tt.verdict == Happening) {
			t.Errorf("%s: Found = %v", tt.name, r.Found())
		}
	}
}

// TestEveryRemedyHasAPrice and every finding its evidence.
func TestEveryRemedyHasAPrice(t *testing.T) {
	c := board()
	hold(&c)
	c.Watch.GracePeriods = []machine.Wait{{Took: 1200 * ms, Censored: true}}
	c.Survey.Devices[0].Coalescing = &machine.Coalescing{RxUsecs: new(int64(0))}
	for _, dynamic := range []bool{false, true} {
		c.Survey.Facts.Dynamic = dynamic
		for _, f := range Judge(c).Findings {
			if f.State != Note && len(f.Evidence) == 0 {
				t.Errorf("%s has no evidence", f.ID)
			}
			if f.State != Note && len(f.Remedies) == 0 {
				t.Errorf("%s has no remedy", f.ID)
			}
			for _, r := range f.Remedies {
				if r.What == "" || r.Price == "" {
					t.Errorf("%s: %+v has no price", f.ID, r)
				}
			}
		}
	}
}

func remedies(c Case) string {
	var b strings.Builder
	for _, f := range Judge(c).Findings {
		for _, r := range f.Remedies {
			b.WriteString(r.What + "\n" + strings.Join(r.Commands, "\n") + "\n")
			for _, file := range r.Persist {
				b.WriteString(file.Name + ":\n" + file.Text)
			}
		}
	}
	return b.String()
}

func TestRemedies(t *testing.T) {
	for _, tt := range []struct {
		name      string
		change    func(*Case)
		has, lack []string
	}{
		{"static arm", func(*Case) {}, []string{"CONFIG_PREEMPT=y", "echo 0 > /sys/class/net/vb/threaded", `KERNEL=="vb", ATTR{threaded}="0"`, "yield-on-exit.patch"},
			[]string{"debug/sched/preempt", "ethtool -C", "LAZY"}},
		{"static 6.18 amd64", func(c *Case) { c.Survey.Facts = facts("6.18.1", "x86_64", false, rcu.None) }, []string{"CONFIG_PREEMPT_LAZY=y"}, nil},
		{"dynamic 6.18 amd64", func(c *Case) { c.Survey.Facts = facts("6.18.1", "x86_64", true, rcu.None) },
			[]string{"echo lazy > /sys/kernel/debug/sched/preempt", "preempt=lazy"}, []string{"CONFIG_"}},
		{"dynamic 6.12 has no lazy", func(c *Case) { c.Survey.Facts = facts("6.12.117", "x86_64", true, rcu.Voluntary) },
			[]string{"echo full > /sys/kernel/debug/sched/preempt", "preempt=full"}, []string{"lazy"}},
		{"moderation", func(c *Case) {
			c.Survey.Devices[0].Coalescing = &machine.Coalescing{RxUsecs: new(int64(0)), Adaptive: new(false)}
		}, []string{"ethtool -C vb rx-usecs 100", "10-vb-coalesce.link", "OriginalName=vb", "UseAdaptiveRxCoalesce=yes"}, nil},
		{"moderation without adaption", func(c *Case) { c.Survey.Devices[0].Coalescing = &machine.Coalescing{RxUsecs: new(int64(0))} }, []string{"RxCoalesceSec=100us"}, nil},
		{"nothing to switch off", func(c *Case) {
			c.Survey.Devices = nil
			c.Survey.Threads = []machine.KThread{{PID: 90, Name: "napi/qdma_eth-3", Device: "qdma_eth"}}
		}, []string{"CONFIG_PREEMPT=y"}, []string{"threaded", "udev"}},
		{"a name for a shell", func(c *Case) { c.Survey.Devices[0].Name = "a'$(x)" }, []string{`'a'\''$(x)'`}, []string{"KERNEL=="}},
		{"busy poll", func(c *Case) { c.Survey.Devices[0].NAPIs[0].Mode = machine.ModeBusyPoll }, []string{`"id": 8193, "threaded": "disabled"`}, nil},
	} {
		c := board()
		tt.change(&c)
		got := remedies(c)
		for _, want := range tt.has {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, got)
			}
		}
		for _, not := range tt.lack {
			if strings.Contains(got, not) {
				t.Errorf("%s: %q in\n%s", tt.name, not, got)
			}
		}
	}
}

func TestIssueStates(t *testing.T) {
	for _, tt := range []struct {
		id, release string
		want        State
	}{
		{"d6dbbb11247c", "5.11.2", ""}, {"d6dbbb11247c", "6.8.1", Affected}, {"d6dbbb11247c", "6.8.2", ""}, {"d6dbbb11247c", "6.6.86", Possible},
		{"d6dbbb11247c", "6.9.0", ""}, {"d6dbbb11247c", "7.3.4", ""},
		{"CVE-2026-43385", "6.18.44", ""}, {"CVE-2026-43385", "6.19.8", Affected}, {"CVE-2026-43385", "6.19.9", ""}, {"CVE-2026-43385", "7.0.0", ""},
		{"CVE-2026-52945", "6.8.0", Possible}, {"CVE-2026-52945", "7.3.4", Possible},
		{"loop-exit", "5.10.1", ""}, {"loop-exit", "5.12.0", Affected}, {"loop-exit", "7.3.4", Affected},
		{"loop-exit", "unknown", Possible},
	} {
		r, known := machine.ParseRelease(tt.release)
		i := slices.IndexFunc(Issues(), func(i Issue) bool { return i.ID == tt.id })
		if got := Issues()[i].state(r, known); got != tt.want {
			t.Errorf("%s on %s: %q; want %q", tt.id, tt.release, got, tt.want)
		}
	}
}

// TestDataHasSources: nothing in the tables is without where it comes from.
func TestDataHasSources(t *testing.T) {
	for _, i := range Issues() {
		if i.ID == "" || i.Title == "" || i.Ranges == "" || i.Source == "" {
			t.Errorf("issue %+v is not whole", i)
		}
	}
	for _, h := range Habits() {
		if h.Driver == "" || h.Says == "" || h.Source == "" {
			t.Errorf("habit %+v is not whole", h)
		}
	}
}

func TestHabitOf(t *testing.T) {
	for _, tt := range []struct{ driver, device, want string }{
		{"airoha_eth", "lan1", "airoha_eth"}, {"", "qdma_eth", "airoha_eth"}, {"mt7915e", "wlan0", "mt76"}, {"", "phy0", "mt76"}, {"mt7530-mdio", "lan1", ""},
		{"mtk_eth_soc", "eth0", "mtk_eth_soc"}, {"wireguard", "wg0", "wireguard"}, {"veth", "phy0", ""}, {"", "eth0", ""},
	} {
		got := ""
		if h := habitOf(tt.driver, tt.device); h != nil {
			got = h.Driver
		}
		if got != tt.want {
			t.Errorf("habitOf(%q, %q) = %q; want %q", tt.driver, tt.device, got, tt.want)
		}
	}
}

func TestModerated(t *testing.T) {
	for _, tt := range []struct {
		device machine.Device
		napi   *machine.NAPI
		want   string
	}{
		{machine.Device{}, nil, ""},
		{machine.Device{Coalescing: &machine.Coalescing{RxUsecs: new(int64(8))}}, nil, ""},
		{machine.Device{Coalescing: &machine.Coalescing{RxUsecs: new(int64(100))}}, nil, "rx-usecs 100"},
		{machine.Device{Coalescing: &machine.Coalescing{RxUsecs: new(int64(0)), Adaptive: new(true)}}, nil, "adaptive-rx on"},
		{machine.Device{DeferHardIRQs: new(int64(2)), GROFlush: new(int64(200000))}, nil, "defer-hard-irqs 2 with gro-flush-timeout 200 µs"},
		{machine.Device{DeferHardIRQs: new(int64(2)), GROFlush: new(int64(200000))}, &machine.NAPI{DeferIRQs: new(int64(0)), GROFlush: new(int64(0))}, ""},
		{machine.Device{DeferHardIRQs: new(int64(2)), GROFlush: new(int64(20000))}, nil, ""},
		{machine.Device{Driver: "airoha_eth", DeferHardIRQs: new(int64(2)), GROFlush: new(int64(200000))}, nil, ""},
	} {
		if got := moderated(tt.device, tt.napi); got != tt.want {
			t.Errorf("moderated(%+v, %+v) = %q; want %q", tt.device, tt.napi, got, tt.want)
		}
	}
}

func TestReadLog(t *testing.T) {
	const text = `[   41.200011] rcu: INFO: rcu_sched self-detected stall on CPU
[   41.200490] rcu: 	1-....: (2099 ticks this GP) idle=7a1c/1/0x40000002 softirq=410/410 fqs=1048
[   41.201002] rcu: 	(t=2100 jiffies g=733 q=41 ncpus=2)
[   41.201500] CPU: 1 UID: 0 PID: 88 Comm: napi/lan0-67 Not tainted 7.2.13-armmp #1 VOLUNTARY
[   41.201600] PC is at veth_poll+0x10/0x40
[   41.201700] Call trace: 
[   41.201710]  veth_poll from __napi_poll+0x2c/0x1e0
[   41.201720]  __napi_poll from napi_threaded_poll_loop+0x1a0/0x25c
[   41.201730]  napi_threaded_poll_loop from napi_threaded_poll+0x60/0xb0
[   41.201740]  napi_threaded_poll from kthread+0x100/0x120
[   41.201750]  kthread from ret_from_fork+0x14/0x28
`
	l := ReadLog(text)
	if !l.Read || l.Threaded != 1 || l.Last == nil || *l.Last < 41 || l.Summary == "" {
		t.Errorf("ReadLog = %+v; want one incident of threaded NAPI", l)
	}
	c := board()
	c.Log = l
	if f := Judge(c).Findings; !slices.ContainsFunc(f, func(f Finding) bool { return f.ID == "log" && strings.Contains(f.Title, "1 incident") }) {
		t.Errorf("findings %+v; want what the log says", f)
	}
	if l := ReadLog(""); l.Read || l.Events > 0 {
		t.Errorf("ReadLog of nothing = %+v", l)
	}
	if l := ReadLog("[1.0] lan0: link up\n"); !l.Read || l.Events > 0 {
		t.Errorf("ReadLog of a quiet log = %+v", l)
	}
}

func TestBand(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		polls, full          uint64
		sleeps, nonvoluntary float64
		want                 explain.Band
	}{
		{"in", 300000, 0, 0, 0, explain.In},
		{"above", 300000, 100, 0, 0, explain.Above},
		{"below: it sleeps", 300000, 0, 5000, 0, explain.Below},
		{"below: too few", 1500, 0, 0, 0, explain.Below},
		{"preempted, in", 300000, 4, 0, 4, explain.In},
		{"sleeps more often than it fills", 300000, 4, 100, 0, explain.Below},
	} {
		p := machine.Polls{Took: 2 * time.Second, Polls: 2 * tt.polls, Full: 2 * tt.full}
		if tt.name == "below: too few" {
			p.Polls = tt.polls
		}
		if got := band(p, tt.sleeps, tt.nonvoluntary); got != tt.want {
			t.Errorf("%s: %s; want %s", tt.name, got, tt.want)
		}
	}
	c := board()
	hold(&c)
	c.Watch.Polls = []machine.Polls{{Device: "vb", Took: time.Second, Polls: 300000, Packets: 300000}, {Device: "eth0", Took: time.Second, Polls: 9}}
	for _, p := range Judge(c).Pollers {
		want := map[string]explain.Band{"vb": explain.In}[p.Device]
		if p.Band != want {
			t.Errorf("%s: band %q; want %q", p.Device, p.Band, want)
		}
	}
}
