package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/wire"
)

// The test binary is also the QEMU that the tests start: this variable names what it plays.
const fakeVar = "NAPISTALL_FAKE_QEMU"

func TestMain(m *testing.M) {
	if os.Getenv(parentVar) != "" {
		_ = os.Unsetenv(parentVar) // not for its QEMU
		os.Exit(parent())
	}
	if act := os.Getenv(fakeVar); act != "" {
		os.Exit(play(act, os.Args[1:]))
	}
	// The race detector lets a process linger for a second when it ends; the fakes need not.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// play does what a QEMU with the given fault does, and returns its exit status.
func play(act string, args []string) int {
	if slices.Contains(args, "--version") {
		fmt.Println("QEMU emulator version 0.0 (fake)")
		return 0
	}
	if slices.Contains(args, kvm) {
		if act, ok := os.LookupEnv(fakeVar + "_KVM"); ok {
			return playKVM(act)
		}
	}
	g := newGuest()
	switch act {
	case "dies":
		fmt.Fprintln(os.Stderr, "qemu: could not load kernel 'x': no such file")
		return 1
	case "mute":
		hang()
	case "VFS panic":
		g.print("Linux version 7.2.13", "Kernel panic - not syncing: VFS: Unable to mount root fs", "---[ end Kernel panic - not syncing: VFS ]---")
		hang()
	case "boots for ever":
		for range time.Tick(10 * time.Millisecond) {
			g.print("line")
		}
	case "garbage":
		g.boot()
		fmt.Fprintln(g.records, "\x00\xff{]")
		hang()
	case "no channel":
		g.boot()
		fmt.Print("napistall: no channel for records\r\n")
	case "powers off":
		g.boot()
		g.send(g.facts())
	case "crashes":
		g.boot()
		g.send(g.facts())
		g.send(phase(experiment.Hold, 1e9))
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		hang()
	case "no load":
		g.boot()
		g.send(g.facts())
		hang()
	case "gives up":
		g.boot()
		g.send(experiment.Record{End: &experiment.End{Outcome: experiment.Failed, Why: os.Getenv(fakeVar + "_WHY")}})
		hang()
	default:
		g.trial(act)
	}
	return 0
}

// playKVM does what QEMU does on a machine whose KVM does not work.
func playKVM(act string) int {
	switch act {
	case "msr":
		fmt.Fprintln(os.Stderr, "qemu-system-x86_64: error: failed to set MSR 0x10a to 0x69")
		return 134
	case "emulation":
		fmt.Fprintln(os.Stderr, "KVM internal error. Suberror: 1\nemulation failure\nRAX=0000000000000000 RBX=0000000000000000")
		hang()
	case "mute":
		hang()
	case "works":
		newGuest().boot()
		hang()
	case "panic":
		newGuest().print("Kernel panic - not syncing: VFS")
		hang()
	}
	return 0
}

// hang waits to be killed, but not for ever, should a test leave it behind.
func hang() { <-time.After(time.Minute) }

// A guest is what the fake's console and records channel show.
type guest struct {
	records *os.File
	w       *wire.Writer
	asked   experiment.Trial // as read from the initramfs
}

func newGuest() *guest {
	g := &guest{}
	initrd, err := os.Open(initrdPath)
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(initrd)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, &g.asked); err != nil {
		panic(err)
	}
	if g.records, err = os.OpenFile(recordsPath, os.O_WRONLY, 0); err != nil {
		panic(err)
	}
	g.w = wire.NewWriter(g.records)
	return g
}

func (g *guest) print(lines ...string) {
	for i, l := range lines {
		fmt.Printf("[%5d.%06d] %s\r\n", i, i, l)
	}
}

func (g *guest) boot() {
	g.print("Linux version 7.2.13", "Run /init as init process")
	fmt.Print("napistall: agent v0 up\r\n")
}

func (g *guest) send(recs ...experiment.Record) {
	for _, r := range recs {
		if err := g.w.Write(r); err != nil {
			panic(err)
		}
	}
}

func (g *guest) facts() experiment.Record {
	return experiment.Record{Facts: &experiment.Facts{
		Release: "7.2.13", CPUs: g.asked.Arm.VCPUs, Preempt: rcu.Voluntary, Agent: g.asked.ID()}}
}

func phase(name string, at rcu.Ktime) experiment.Record {
	return experiment.Record{At: at, Phase: &experiment.Phase{Name: name}}
}

func deleted(start rcu.Ktime, phase string) experiment.Record {
	return experiment.Record{At: start, Sample: &experiment.Sample{
		Op: experiment.LinkDel, Start: start, Took: 20 * time.Millisecond, Phase: phase}}
}

// trial plays a trial with the fault act.
func (g *guest) trial(act string) {
	const sec = rcu.Ktime(time.Second)
	g.boot()
	f := g.facts()
	if act == "wrong model" {
		f.Facts.Preempt = rcu.Lazy
	}
	if act == "one CPU" {
		f.Facts.CPUs = 1
	}
	if act == "unknown model" {
		f.Facts.Preempt, f.Facts.Unknown = "", []string{"preempt"}
	}
	g.send(f, phase(experiment.Setup, 0), phase(experiment.Hold, sec), deleted(sec+1, experiment.Hold))
	switch act {
	case "panics":
		g.send(experiment.Record{At: 9 * sec, Counters: &experiment.Counters{InHold: true}})
		g.print("Kernel panic - not syncing: hung_task: blocked tasks", "Call Trace:", "---[ end Kernel panic - not syncing: hung_task ]---")
		hang()
	case "panics and exits":
		g.print("Kernel panic - not syncing: hung_task: blocked tasks")
		return
	case "stale code":
		g.print("Oops: int3: 0000 [#1] SMP NOPTI", "RIP: 0010:enqueue_timer+0x1")
		g.print(make([]string, 2*shownLines)...)
		g.print("Kernel panic - not syncing: Fatal exception in interrupt", "---[ end Kernel panic - not syncing: Fatal exception in interrupt ]---")
		hang()
	case "stale code in the end":
		g.print("Oops: int3: 0000 [#1] SMP NOPTI")
	case "falls silent":
		g.send(experiment.Record{At: 9 * sec, Counters: &experiment.Counters{InHold: true}})
		g.print("rcu: INFO: rcu_sched self-detected stall on CPU")
		hang()
	}
	g.send(phase(experiment.Tail, 2*sec), deleted(2*sec+1, experiment.Tail),
		experiment.Record{At: 3 * sec, End: &experiment.End{Outcome: experiment.Completed}})
	hang() // as a guest that does not power off
}

// fake returns a backend whose QEMU plays act.
func fake(t *testing.T, act string) Backend {
	t.Helper()
	t.Setenv(fakeVar, act)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := Backend{Accel: tcg, Binary: exe, CacheDir: t.TempDir(), limits: wideLimits()}
	b.limits.panic = 300 * time.Millisecond
	switch act { // what is waited for in vain is not waited for long
	case "mute":
		b.limits.quiet = 300 * time.Millisecond
	case "boots for ever":
		b.limits.boot = time.Second
	case "no load":
		b.limits.setup = 300 * time.Millisecond
	case "falls silent":
		b.limits.grace = time.Second
	}
	b.fetch = func(context.Context, experiment.Arm) (kernel, error) {
		return kernel{
			image: "vmlinuz", goarch: "amd64", release: "7.2.13", channels: channels{virtio: true},
			write: func(w io.Writer, t experiment.Trial) error { return json.NewEncoder(w).Encode(t) },
		}, nil
	}
	return b
}

func fakeArm() experiment.Arm {
	return experiment.Arm{
		Name: "stock", Kernel: "fake", VCPUs: 2, Preempt: rcu.Voluntary,
		Duration: 200 * time.Millisecond,
		Probe:    experiment.Probe{Op: experiment.LinkDel, Every: 250 * time.Millisecond},
	}
}

// runFake runs one trial and returns what it said.
func runFake(t *testing.T, b Backend) ([]experiment.Record, error) {
	t.Helper()
	target, err := b.Acquire(t.Context(), fakeArm())
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	var recs []experiment.Record
	err = target.Run(t.Context(), experiment.Trial{Rep: 1, Arm: fakeArm()}, func(r experiment.Record) error {
		recs = append(recs, r)
		return nil
	})
	return recs, err
}

func consoleText(recs []experiment.Record) string {
	var b strings.Builder
	for _, r := range recs {
		if r.Console != nil {
			b.WriteString(r.Console.Text)
		}
	}
	return b.String()
}
