package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

// loadRun reads a run directory into what reports are written of. A trial that can't be read is left
// out, and becomes a problem of dir.
func loadRun(dir *rundir.Dir) report.Run {
	plan := dir.Plan()
	var trials []explain.TrialSummary
	for _, t := range plan.Trials {
		if _, whole := dir.Info(t.ID()); !whole {
			continue
		}
		s, err := loadTrial(dir, t)
		if err != nil {
			dir.Reject(t.ID(), err)
			continue
		}
		trials = append(trials, s)
	}
	run := report.New(plan.Experiment, trials)
	run.Backend, run.Version = plan.Backend, plan.Version
	run.Host = hostWords(plan.Host, trials)
	if len(plan.Command) > 0 {
		run.Repeat = []string{plan.CommandLine()}
	}
	run.Text = ownText(dir)
	for _, a := range dir.Aborted() {
		run.Aborted = append(run.Aborted, report.Aborted{Trial: a.Trial, Arm: armOf(plan, a.Trial), Try: a.Try, Why: a.Error})
	}
	for _, n := range dir.NotRun() {
		run.NotRun = append(run.NotRun, report.NotRun{Arm: n.Arm, Why: n.Reason})
	}
	return run
}

func loadTrial(dir *rundir.Dir, t experiment.Trial) (explain.TrialSummary, error) {
	trial := explain.NewTrial(t)
	if err := addRecords(dir, t.ID(), trial); err != nil {
		return explain.TrialSummary{}, err
	}
	return trial.Summary(), nil
}

// A recordTaker is given a trial's records, one after another: an explain.Trial or an explain.Teller.
type recordTaker interface{ Add(r experiment.Record) }

// addRecords gives trial everything that dir has of the trial id.
func addRecords(dir *rundir.Dir, id string, trial recordTaker) error {
	if err := addConsole(dir, id, trial); err != nil {
		return err
	}
	for r, err := range dir.Load(id) {
		if err != nil {
			return err
		}
		trial.Add(r)
	}
	return nil
}

// addConsole gives trial the console's text first: the records, of which the End is the last, come
// after it, and lines that both have are merged by their stamps.
func addConsole(dir *rundir.Dir, id string, trial recordTaker) error {
	console, err := dir.Console(id)
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }() // it was only read
	r := bufio.NewReaderSize(console, 64<<10)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			trial.Add(experiment.Record{Console: &experiment.Console{Text: string(buf[:n])}})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func armOf(plan rundir.Plan, trial string) string {
	for _, t := range plan.Trials {
		if t.ID() == trial {
			return t.Arm.Name
		}
	}
	return ""
}

// ownText is the experiment's file, empty where napistall itself has it. One that can't be read is among the
// directory's problems, and no reason not to show the run.
func ownText(dir *rundir.Dir) string {
	text, err := dir.Experiment()
	if err != nil {
		return ""
	}
	if builtin, ok := experiment.Builtin(dir.Plan().Experiment.Name); ok && bytes.Equal(text, builtin) {
		return ""
	}
	return string(text)
}

// cpuModel is the name of the CPU in the text of /proc/cpuinfo, empty where the architecture has none.
func cpuModel(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// hostWords says in short what machine the trials ran on, with the tools that ran them.
func hostWords(h rundir.Host, trials []explain.TrialSummary) string {
	words := []string{h.Arch, fmt.Sprintf("%d CPUs", h.CPUs)}
	if h.Model != "" {
		words = append(words, h.Model)
	}
	if h.Release != "" {
		words = append(words, "Linux "+h.Release)
	}
	for _, tool := range h.Tools {
		name, version, _ := strings.Cut(tool, ": ")
		used := func(t explain.TrialSummary) bool {
			return len(t.Command.Argv) > 0 && filepath.Base(t.Command.Argv[0]) == name
		}
		if slices.ContainsFunc(trials, used) {
			words = append(words, name+" ("+version+")")
		}
	}
	return strings.Join(words, ", ")
}

// textWidth is the width of the terminal that f is, or 0 where it is none.
func textWidth(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// describeHost says what machine the run is on, as far as it can be told.
func describeHost(ctx context.Context) rundir.Host {
	host := rundir.Host{CPUs: runtime.NumCPU(), Arch: runtime.GOARCH, Model: cpuModel("/proc/cpuinfo")}
	if facts, err := machine.Read(machine.Source{}); err == nil {
		host.Release, host.Arch = facts.Release, facts.Arch
	}
	for _, tool := range []string{"qemu-system-x86_64", "qemu-system-arm", "qemu-system-aarch64"} {
		out, err := exec.CommandContext(ctx, tool, "--version").Output()
		if err != nil {
			continue // not installed, or not working: the backend says so where it matters
		}
		first, _, _ := strings.Cut(string(out), "\n")
		host.Tools = append(host.Tools, tool+": "+first)
	}
	return host
}
