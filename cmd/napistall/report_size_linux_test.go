package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/rundir"
	"github.com/napistall/napistall/internal/testenv"
)

// largeRun keeps a run with samples deletes in dir: of two arms, one of which stalls, in four trials each.
func largeRun(t testing.TB, dir string, samples int) {
	t.Helper()
	e, err := experiment.Parse("large.yaml", []byte(`
name: large
question: Does a report stay quick?
reps: 4
load: {kind: bounce, hold: 30s}
arms:
  - {name: stock, kernel: model:6.18, preempt: none}
  - {name: patched, kernel: model:6.18, preempt: none, loop: yield-on-exit}
`))
	if err != nil {
		t.Fatal(err)
	}
	plan := rundir.Plan{Backend: "sim", Experiment: *e, Trials: experiment.Plan(e)}
	d, err := rundir.Create(dir, []byte("name: large\n"), plan)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for _, trial := range plan.Trials {
		w, err := d.Begin(trial)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range largeTrial(random, trial, samples/len(plan.Trials)) {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Finish(rundir.Ending{State: rundir.Complete}, nil); err != nil {
		t.Fatal(err)
	}
}

func largeTrial(random *rand.Rand, trial experiment.Trial, samples int) []experiment.Record {
	began := rcu.Ktime(5 * time.Second)
	records := []experiment.Record{
		{Command: &experiment.Command{Argv: []string{"sim"}, Accel: "model"}},
		{Facts: &experiment.Facts{Release: "6.18", Arch: "x86_64", Preempt: rcu.None, CPUs: 2, PollTrace: true, ThreadPID: 7, StallSec: 21}},
		{At: began, Phase: &experiment.Phase{Name: experiment.Hold, Expect: trial.Arm.Load.Hold}},
	}
	for i := range 31 {
		n := uint64(i) * 300_000
		records = append(records, experiment.Record{At: began.Add(time.Duration(i) * time.Second),
			Counters: &experiment.Counters{InHold: true, Traced: true, Polls: n, Packets: n, RunTime: time.Duration(i) * time.Second}})
	}
	at := began
	for i := range samples {
		took := time.Duration(random.ExpFloat64() * 20e6)
		if trial.Arm.Name == "stock" && i%5000 == 4999 {
			took += 28 * time.Second
		}
		s := experiment.Sample{Op: experiment.LinkDel, Start: at, Took: took, Phase: experiment.Hold}
		if took > time.Second {
			s.Waits = map[rcu.Wait]int{rcu.SynchronizeNet: 500, rcu.Barrier: 60}
		}
		records = append(records, experiment.Record{At: at.Add(took), Sample: &s})
		at = at.Add(took + time.Millisecond)
	}
	return append(records, experiment.Record{End: &experiment.End{Outcome: experiment.Completed}})
}

// TestLargeReport: a run of 200,000 deletes, 100,000 of each arm, is printed within seconds of CPU time and 300 MB.
func TestLargeReport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program anew")
	}
	testenv.Need(t, testenv.Go)
	dir := t.TempDir()
	bin := filepath.Join(dir, "napistall")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil { // without the race detector
		t.Fatalf("%v\n%s", err, out)
	}
	largeRun(t, filepath.Join(dir, "run"), 200_000)
	for _, c := range []struct {
		args []string
		user time.Duration // four times what was measured, for a slower machine
	}{
		{[]string{"--format", "text"}, 2 * time.Second},
		{[]string{"--format", "text", "--long"}, 2 * time.Second},
		{[]string{"--format", "mail"}, 2 * time.Second},
		{[]string{"--format", "md"}, 2 * time.Second},
		{[]string{"--format", "json"}, 4 * time.Second},
		{[]string{"--format", "csv"}, 4 * time.Second},
		{[]string{"--format", "bench"}, 4 * time.Second},
		{[]string{"--format", "junit"}, 2 * time.Second},
		{[]string{"--format", "kcidb"}, 4 * time.Second},
	} {
		cmd := exec.CommandContext(t.Context(), bin, append([]string{"report", filepath.Join(dir, "run"), "-o", os.DevNull}, c.args...)...)
		peak, out, err := peakOf(cmd)
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
		t.Logf("%v: %v user, %d MB", c.args, cmd.ProcessState.UserTime(), peak>>20)
		if cmd.ProcessState.UserTime() > c.user || peak>>20 > 300 || peak == 0 {
			t.Errorf("%v takes %v of user CPU time and %d MB; want %v and 300 MB at most", c.args, cmd.ProcessState.UserTime(), peak>>20, c.user)
		}
	}
}

// peakOf runs cmd and returns the most memory in bytes that it had, but for its last milliseconds. Its rusage would not do: to the
// kernel what this process had when it started cmd is cmd's, too (exec_mmap, setmax_mm_hiwater_rss).
func peakOf(cmd *exec.Cmd) (peak int64, out []byte, err error) {
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil { // the program has begun when it returns
		return 0, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return peak, text.Bytes(), err
		case <-tick.C:
		}
		b, err := os.ReadFile(status)
		if err != nil {
			continue // it has ended
		}
		if _, rest, ok := strings.Cut(string(b), "VmHWM:"); ok {
			if kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
				peak = max(peak, kb<<10)
			}
		}
	}
}
