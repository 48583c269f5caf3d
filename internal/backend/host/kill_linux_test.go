package host

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/experiment"
)

// victimVar makes this test's program a napistall that runs a trial until it is killed.
const victimVar = "NAPISTALL_TEST_VICTIM"

// killsVar is the number of runs that TestKillLeavesNothing kills, 8 by default.
const killsVar = "NAPISTALL_TEST_KILLS"

// victim runs trials of an arm that changes all it can, one after another.
func victim() int {
	arm := backendtest.LiveArm()
	arm.StallTimeout = 77 * time.Second
	b := Backend{Live: backend.Live{Bounce: true}}
	target, err := b.Acquire(context.Background(), arm)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for range 2 {
		err = target.Run(context.Background(), experiment.Trial{Rep: 1, Arm: arm}, func(experiment.Record) error { return nil })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// A state is what a trial could leave on a machine.
type state struct {
	namespaces map[string]bool // network and mount namespaces that threads are in
	devices    string
	threads    map[string]bool // of ours, and NAPI threads
	knobs      map[string]string
	modules    string
	files      []string
	mounts     string
}

// look sees everything but what vanishes by itself in a moment.
func look(t *testing.T) state {
	t.Helper()
	s := state{namespaces: map[string]bool{}, threads: map[string]bool{}, knobs: map[string]string{}}
	for _, kind := range []string{"net", "mnt"} {
		names, _ := filepath.Glob("/proc/[0-9]*/task/*/ns/" + kind) // only a bad pattern
		for _, n := range names {
			if to, err := os.Readlink(n); err == nil {
				s.namespaces[to] = true
			}
		}
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range stats {
		dir := filepath.Dir(name)
		comm, line := text(name), strings.ReplaceAll(text(filepath.Join(dir, "cmdline")), "\x00", " ")
		ours := strings.HasPrefix(line, "napistall trial") || strings.HasPrefix(line, "napistall agent")
		if ours || strings.HasPrefix(comm, "napi/v") {
			s.threads[filepath.Base(dir)+" "+comm+" "+line] = true
		}
	}
	for _, k := range []string{
		"/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout", "/sys/module/rcupdate/parameters/rcu_exp_cpu_stall_timeout",
		"/proc/sys/net/ipv6/conf/all/disable_ipv6", "/proc/sys/net/core/netdev_budget", "/proc/sys/net/core/bpf_jit_enable",
		"/proc/sys/kernel/sched_rt_runtime_us", "/proc/sys/net/core/netdev_max_backlog",
	} {
		s.knobs[k] = text(k)
	}
	s.devices, s.mounts = text("/proc/net/dev_mcast"), text("/proc/self/mountinfo")
	links, _ := filepath.Glob("/sys/class/net/*")
	s.devices += strings.Join(links, " ")
	for line := range strings.Lines(text("/proc/modules")) {
		name, _, _ := strings.Cut(line, " ")
		s.modules += name + " "
	}
	for _, dir := range []string{"/run", "/tmp"} {
		left, _ := filepath.Glob(filepath.Join(dir, "napistall-undo-*"))
		s.files = append(s.files, left...)
	}
	return s
}

func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// differs says what s has that before had not, or has otherwise.
func (s state) differs(before state) string {
	var d []string
	for ns := range s.namespaces {
		if !before.namespaces[ns] {
			d = append(d, "namespace "+ns)
		}
	}
	for th := range s.threads {
		if !before.threads[th] {
			d = append(d, "process "+th)
		}
	}
	for k, v := range s.knobs {
		if before.knobs[k] != v {
			d = append(d, fmt.Sprintf("%s is %s, was %s", k, v, before.knobs[k]))
		}
	}
	for _, f := range s.files {
		if !slices.Contains(before.files, f) {
			d = append(d, "file "+f)
		}
	}
	if s.devices != before.devices {
		d = append(d, "devices: "+s.devices)
	}
	if s.modules != before.modules {
		d = append(d, "modules: "+s.modules)
	}
	if s.mounts != before.mounts {
		d = append(d, "mounts: "+s.mounts)
	}
	slices.Sort(d)
	return strings.Join(d, "; ")
}

// settleTime is for the load's deadline, the trial's end, and the kernel's own cleaning.
const settleTime = 60 * time.Second

// settle waits until the machine is as before, and says what is not.
func settle(t *testing.T, before state) string {
	t.Helper()
	limit := time.After(settleTime)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		d := look(t).differs(before)
		if d == "" {
			return ""
		}
		select {
		case <-limit:
			return "left behind: " + d
		case <-tick.C:
		}
	}
}

// family returns the process and its descendants, the oldest first. Not every kernel lists a thread's children.
func family(pid int) []int {
	pids := []int{pid}
	names, _ := filepath.Glob("/proc/[0-9]*") // only a bad pattern
	for _, name := range names {
		child, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if r, err := (tree{root: "/proc"}).relative(child); err == nil && r.parent == pid {
			pids = append(pids, family(child)...)
		}
	}
	return pids
}

// Kills that a run must survive without a trace; each is for a run's processes, the oldest first.
func kills() map[string]func(family []int) []int {
	return map[string]func([]int) []int{
		"napistall":            func(f []int) []int { return f[:1] },
		"the agent":            func(f []int) []int { return f[min(1, len(f)-1):min(2, len(f))] },
		"the trial":            func(f []int) []int { return f[len(f)-1:] },
		"napistall, the agent": func(f []int) []int { return f[:min(2, len(f))] },
		"napistall, the trial": func(f []int) []int { return []int{f[0], f[len(f)-1]} },
		"the agent, the trial": func(f []int) []int { return f[min(1, len(f)-1):] },
		"all three":            func(f []int) []int { return f },
	}
}

// TestKillLeavesNothing kills runs at random moments. Where all the run's processes are killed at once, nobody is left
// to undo what does not vanish by itself, and the next run does: one that is not killed comes after that.
func TestKillLeavesNothing(t *testing.T) {
	here(t)
	n := 8
	if text := os.Getenv(killsVar); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", killsVar, err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	sweepByRun(t) // what a test before this one has left
	before := look(t)
	names := slices.Sorted(maps.Keys(kills()))
	window := lifetime(t)
	var worst time.Duration
	swept, early := 0, 0
	for i := range n {
		who := names[i%len(names)]
		if i%2 == 0 {
			who = "napistall"
		}
		killed, said := killOne(t, who, time.Duration(random.Int64N(int64(window))))
		if killed < 3 {
			early++
		}
		began := time.Now()
		if who == "all three" {
			if journals, _ := filepath.Glob("/run/napistall-undo-*"); len(journals) > 0 {
				swept++
			}
			sweepByRun(t)
		}
		if left := settle(t, before); left != "" {
			t.Fatalf("run %d, killed %s, of %d processes: %s\nit said: %s", i, who, killed, left, said)
		}
		worst = max(worst, time.Since(began))
	}
	t.Logf("%d runs killed, %d before the trial's process was there; clean after %v at most; %d of the runs that were killed whole left a journal, "+
		"which the next run undid", n, early, worst.Round(time.Millisecond), swept)
}

// lifetime is how long a run takes that nobody kills.
func lifetime(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if out, err := start(t).output(); err != nil {
		t.Fatalf("the run that is not killed: %v: %s", err, out)
	}
	return time.Since(began)
}

// A started is a napistall with a session of its own.
type started struct {
	*exec.Cmd
	said *bytes.Buffer
}

func start(t *testing.T) started {
	t.Helper()
	s := started{exec.CommandContext(t.Context(), "/proc/self/exe"), new(bytes.Buffer)}
	s.Env = append(os.Environ(), victimVar+"=1")
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	s.Stderr = s.said
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s started) output() (string, error) {
	err := s.Wait()
	return s.said.String(), err
}

// killOne starts a run and kills some of its processes after a while. It returns how many there were, and what the
// run said.
func killOne(t *testing.T, who string, after time.Duration) (processes int, said string) {
	t.Helper()
	run := start(t)
	<-time.After(after)
	f := family(run.Process.Pid)
	for _, pid := range kills()[who](f) {
		_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
	}
	said, err := run.output() // killed, or told that its trial has died
	return len(f), fmt.Sprint(said, err)
}

// sweepByRun runs one trial to its end, as the next user of the machine would.
func sweepByRun(t *testing.T) {
	t.Helper()
	arm := backendtest.LiveArm()
	arm.Load, arm.Duration = experiment.Load{Kind: experiment.NoLoad, CPU: experiment.LastCPU}, 100*time.Millisecond
	if _, err := run(t, Backend{Log: func(s string) { t.Log(s) }}, arm, func(experiment.Record) {}); err != nil {
		t.Fatal(err)
	}
}
