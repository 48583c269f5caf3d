package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

// A scene is a trial told in brief, to be played as records.
type scene struct {
	arm     experiment.Arm
	rep     int
	facts   experiment.Facts
	accel   string
	second  experiment.Counters // what each second of the hold adds
	deletes []time.Duration     // begun in the hold
	cut     bool                // the last of them is censored
	kmsg    []string
	outcome string
	loss    experiment.Loss
}

const began = rcu.Ktime(5 * time.Second)

func arm(name string) experiment.Arm {
	return experiment.Arm{
		Name: name, Kernel: "debian:sid/armhf", VCPUs: 2, Threaded: true,
		Load:     experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: 30 * time.Second, CPU: experiment.LastCPU},
		Probe:    experiment.Probe{Op: experiment.LinkDel, Device: "dummy", Every: 250 * time.Millisecond},
		Duration: 33 * time.Second,
	}
}

func stock() scene {
	return scene{
		arm: arm("stock"), accel: "tcg",
		facts: experiment.Facts{Release: "7.2.13-armmp-lpae", Version: "#1 SMP Debian 7.2.13-1", Arch: "armv7l", Preempt: rcu.Voluntary,
			Flavor: rcu.Sched, HZ: 250, CPUs: 2, StallSec: 21, Stacks: true, PollTrace: true, LoadCPU: 1,
			Config: []string{"CONFIG_PREEMPT_VOLUNTARY=y", "CONFIG_HZ=250"}, Thread: "napi/vb-8193", ThreadPID: 71},
		second:  experiment.Counters{Traced: true, Polls: 340_000, Packets: 340_000, RunTime: time.Second, Interrupts: 250},
		deletes: []time.Duration{30100 * time.Millisecond},
		kmsg: []string{
			"rcu: INFO: rcu_sched self-detected stall on CPU",
			"rcu: \t1-....: (5250 ticks this GP) idle=5f1c/1/0x40000002 softirq=86/86 fqs=2625",
			"rcu: \t(t=5250 jiffies g=101 q=12 ncpus=2)",
			"rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-.... } 5253 jiffies s: 201 root: 0x2/.",
		},
	}
}

func aboveBand() scene {
	s := stock()
	s.arm.Name, s.arm.Load.Inflight, s.kmsg = "above-band", 40, nil
	s.second = experiment.Counters{Traced: true, Polls: 6_000, FullPolls: 6_000, Packets: 384_000, Nonvoluntary: 24, RunTime: time.Second}
	s.deletes = some(59, 100*time.Millisecond)
	return s
}

func softirq() scene {
	s := stock()
	s.arm.Name, s.arm.Threaded, s.kmsg = "softirq", false, nil
	s.facts.Thread, s.facts.ThreadPID = "", 0
	s.deletes = append(some(40, 200*time.Millisecond), 2*time.Second, 2300*time.Millisecond)
	return s
}

func lazy() scene {
	s := stock()
	s.arm.Name, s.arm.Kernel, s.kmsg = "lazy", "debian:sid/amd64", nil
	s.facts.Release, s.facts.Arch, s.facts.Preempt, s.facts.Dynamic, s.facts.Flavor = "7.3.4-cloud-amd64", "x86_64", rcu.Lazy, true, rcu.Preempt
	s.facts.Config = []string{"CONFIG_PREEMPT_LAZY=y", "CONFIG_PREEMPT_DYNAMIC=y"}
	s.second.Nonvoluntary = 4
	s.deletes = some(70, 140*time.Millisecond)
	return s
}

func patched() scene {
	s := stock()
	s.arm.Name, s.arm.Kernel, s.arm.Patch, s.kmsg = "patched", "tree:linux", []string{"yield-on-exit.patch"}, nil
	s.second.Nonvoluntary = 12
	s.deletes = some(60, 120*time.Millisecond)
	return s
}

// dynamic is a PREEMPT_DYNAMIC kernel under preempt=none: slow, and a soft lockup.
func dynamic() scene {
	s := lazy()
	s.arm.Name, s.facts.Preempt, s.second.Nonvoluntary = "none", rcu.None, 0
	s.deletes = append(some(6, 400*time.Millisecond), some(8, 2500*time.Millisecond)...)
	s.kmsg = []string{"watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [napi/vb-8193:71]"}
	return s
}

// some returns n lengths from d on, 1 ms apart.
func some(n int, d time.Duration) []time.Duration {
	s := make([]time.Duration, n)
	for i := range s {
		s[i] = d + time.Duration(i)*time.Millisecond
	}
	return s
}

func (s scene) summary() explain.TrialSummary {
	hold := s.arm.Load.Hold
	t := explain.NewTrial(experiment.Trial{Rep: max(1, s.rep), Arm: s.arm})
	t.Add(experiment.Record{Command: &experiment.Command{Argv: []string{"qemu-system-arm", "-M", "virt"}, Accel: s.accel}})
	t.Add(experiment.Record{Facts: &s.facts})
	t.Add(experiment.Record{At: began, Phase: &experiment.Phase{Name: experiment.Hold, Expect: hold}})
	total := experiment.Counters{InHold: true, Traced: s.second.Traced}
	for i := range int(hold/time.Second) + 1 {
		c := total
		t.Add(experiment.Record{At: began.Add(time.Duration(i) * time.Second), Counters: &c})
		total.Polls += s.second.Polls
		total.FullPolls += s.second.FullPolls
		total.Packets += s.second.Packets
		total.Voluntary += s.second.Voluntary
		total.Nonvoluntary += s.second.Nonvoluntary
		total.RunTime += s.second.RunTime
		total.Interrupts += s.second.Interrupts
	}
	for i, l := range s.kmsg {
		at := time.Duration(began) + 22*time.Second + time.Duration(i)*time.Millisecond
		t.Add(experiment.Record{Kmsg: &experiment.Kmsg{Stamp: at, Level: 3, Text: l}})
	}
	s.samples(t, s.arm.Probe.Op, s.deletes, experiment.Hold, began)
	s.samples(t, s.arm.Probe.Op, some(8, 20*time.Millisecond), experiment.Tail, began.Add(hold))
	s.samples(t, experiment.Membarrier, s.deletes[:min(3, len(s.deletes))], experiment.Hold, began)
	s.samples(t, experiment.RCUBarrier, s.deletes[:min(2, len(s.deletes))], experiment.Hold, began)
	if s.loss.What != "" {
		t.Add(experiment.Record{Loss: &s.loss})
	}
	if s.outcome == "" {
		s.outcome = experiment.Completed
	}
	t.Add(experiment.Record{End: &experiment.End{Outcome: s.outcome}})
	return t.Summary()
}

func (s scene) samples(t *explain.Trial, op string, took []time.Duration, phase string, at rcu.Ktime) {
	for i, d := range took {
		x := experiment.Sample{Op: op, Start: at, Took: d, Phase: phase,
			Censored: s.cut && op == s.arm.Probe.Op && phase == experiment.Hold && i == len(took)-1}
		if d > explain.SlowLimit && op == s.arm.Probe.Op {
			n := int(d / experiment.StackEvery)
			x.Waits = map[rcu.Wait]int{rcu.SynchronizeNet: n - n/10, rcu.Barrier: n / 10}
			x.Stack = []string{"__schedule", "synchronize_rcu_expedited"}
		}
		t.Add(experiment.Record{Sample: &x})
		at = at.Add(d + s.arm.Probe.Every)
	}
}

// run makes a Run of scenes; scenes of one arm are its repetitions.
func run(name, question string, scenes ...scene) Run {
	e := experiment.Experiment{Name: name, Question: question, Reps: 1}
	var trials []explain.TrialSummary
	for _, s := range scenes {
		same := func(a experiment.Arm) bool { return a.Name == s.arm.Name }
		if !slices.ContainsFunc(e.Arms, same) {
			e.Arms = append(e.Arms, s.arm)
		}
		e.Reps = max(e.Reps, s.rep)
		trials = append(trials, s.summary())
	}
	r := New(e, trials)
	r.Backend, r.Version = "qemu", "v0.1.0"
	r.Repeat = []string{fmt.Sprintf("napistall run %s", name)}
	return r
}

func expect(r Run, list ...experiment.Expectation) Run {
	r.Experiment.Expect = list
	r.Results = explain.Check(list, r.Arms)
	return r
}

// runs are the kinds of outcome that every format has a golden file of.
func runs() map[string]Run {
	reproduced := run("mainline", "threaded NAPI on stock kernels, one packet in flight", stock(), aboveBand(), softirq(), lazy())
	reproduced = expect(reproduced,
		experiment.Expectation{Text: "stock.worst >= 10s", Arm: "stock", Quantity: "worst", Op: ">=", Duration: 10 * time.Second},
		experiment.Expectation{Text: "lazy.worst < 1s", Arm: "lazy", Quantity: "worst", Op: "<", Duration: time.Second})
	reproduced.Repeat = []string{"napistall run mainline", "make repro"}
	reproduced.Experiment.Notes = []string{"stock and lazy differ in architecture, release and preemption model at once."}

	fixed := run("patch", "does yielding on every exit of the threaded NAPI poll loop end the stalls, on this tree and under this load?",
		patched(), lazy())

	a := aboveBand()
	notInBand := run("nic", "", a)

	few := patched()
	few.deletes, few.second.Traced = few.deletes[:4], false
	few.facts.Stacks = false
	inconclusive := expect(run("few", "is this enough?", few, lazy()),
		experiment.Expectation{Text: "patched vs lazy: worst lower", Arm: "patched", Vs: "lazy", Quantity: "worst", Op: "lower"},
		experiment.Expectation{Text: "patched.worst >= 10s", Arm: "patched", Quantity: "worst", Op: ">=", Duration: 10 * time.Second})

	broken := run("broken", "what does a broken machine look like?", lazy())
	missing := arm("stock")
	missing.Kernel = "debian:sid/armhf"
	broken.Experiment.Arms = append([]experiment.Arm{missing}, broken.Experiment.Arms...)
	broken.Arms = append([]explain.ArmSummary{explain.Summarize(missing, nil)}, broken.Arms...)
	broken.Verdict = explain.Judge(broken.Arms)
	broken.Aborted = []Aborted{
		{Trial: "000-stock-1", Arm: "stock", Try: 1, Why: "boot the guest: no first line within 60 s"},
		{Trial: "000-stock-1", Arm: "stock", Try: 2, Why: "boot the guest: QEMU died: signal: killed"},
	}
	broken.NotRun = []NotRun{{Arm: "stock", Why: "two tries failed"}}
	broken.Interrupted = true

	cut := stock()
	cut.cut, cut.outcome, cut.deletes = true, experiment.Silent, []time.Duration{32 * time.Second}
	cut.loss = experiment.Loss{What: "kmsg lines", Count: 7, Why: "the buffer was overrun"}
	censored := run("censored", "what of a delete that never ended?", cut)

	nothing := lazy()
	nothing.arm.Load.Kind, nothing.deletes = experiment.NoLoad, nil
	zero := run("zero", "what of no delete at all?", nothing)

	quick := stock()
	quick.arm.Load.Hold, quick.arm.StallTimeout, quick.facts.StallSec = 12*time.Second, 3*time.Second, 3
	quick.deletes = []time.Duration{12 * time.Second}
	quickRun := run("mainline", "in a hurry", quick)
	quickRun.Experiment.Quick = true

	third := run("models", "one kernel under two models", dynamic(), lazy())

	first, second, other := stock(), stock(), lazy()
	first.rep, second.rep, other.rep = 1, 2, 1
	again := other
	again.rep = 2
	second.deletes = append(some(3, 50*time.Millisecond), 29*time.Second)
	reps := run("reps", "twice", first, other, second, again)

	return map[string]Run{
		"reproduced": reproduced, "fixed": fixed, "not-in-band": notInBand, "inconclusive": inconclusive, "broken": broken,
		"censored": censored, "zero": zero, "quick": quickRun, "models": third, "reps": reps, "hostile": hostile(),
	}
}

// hostile has what a kernel or a file may say to whoever prints it unseen.
func hostile() Run {
	s := stock()
	s.arm.Name = "=cmd|'/c calc'!A1"
	s.arm.Kernel = "file:\x1b]0;owned\x07<img src=x>"
	s.facts.Release = "7.2\x1b[2J\u202eevil"
	s.facts.Arch = "-arm\n\nverdict: fixed"
	s.kmsg = append(s.kmsg, "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [napi/\x1b[31mvb:71]")
	r := run("@SUM(A1)", "</script><b>\xff\xfe\r\nbcc: all", s)
	r.Aborted = []Aborted{{Trial: "+1", Arm: s.arm.Name, Try: 1, Why: "\x1b[5mblink\u2028"}}
	return r
}
