package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/agent"
	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
	"github.com/napistall/napistall/internal/runner"
)

// defaultExperiment is what run runs without an argument: the one that needs nothing built.
const defaultExperiment = "mainline"

// liveExperiment is the one for a machine that runs already.
const liveExperiment = "here"

// A runCommand holds run's flags.
type runCommand struct {
	list, quick, long, offline bool
	print, resume, dir, cache  string
	backend, accel, fit        string
	live                       liveFlags
	arms                       []string
	reps                       int
	seed                       uint64
	seedSet, repsSet           bool
}

func newRun() *cobra.Command {
	var c runCommand
	cmd := &cobra.Command{
		Use:   "run [EXPERIMENT]",
		Short: "Run an experiment and print its table",
		Long: `Run an experiment's arms in virtual machines, show progress on stderr, print the table on stdout and
keep everything in a run directory. EXPERIMENT is a file, or the name of a built-in one (see --list);
without it, "` + defaultExperiment + `" is run.

With --backend host, the arms run on this machine, under its own kernel (kernel: host in the file) and in network
namespaces of their own; with --backend ssh, on the board that --target names. Without EXPERIMENT, that is
"` + liveExperiment + `". Nothing stays there, whatever ends the run. A load that holds a CPU, which bounce does, has to be
allowed with --allow-bounce and lasts 2s at most; it is refused on a machine's only CPU and on the shell's.`,
		Example: `  napistall run                            # the stall on a stock, current kernel
  napistall run --print band > mine.yaml   # a file to start from
  napistall run mine.yaml
  napistall run --backend host --allow-bounce
  napistall run --backend ssh --target root@192.168.1.1 --device eth0 external.yaml
  napistall run --resume runs/band-20261130-170000`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.seedSet, c.repsSet = cmd.Flags().Changed("seed"), cmd.Flags().Changed("reps")
			return c.run(cmd, args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return builtinNames(), cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.BoolVar(&c.list, "list", false, "list the built-in experiments")
	f.StringVar(&c.print, "print", "", "print the built-in experiment `NAME` as a file to start from")
	f.BoolVar(&c.quick, "quick", false, "shorten holds and set rcupdate.rcu_cpu_stall_timeout=3; the output says so")
	f.BoolVar(&c.long, "long", false, "print the long form of the table")
	f.StringVar(&c.resume, "resume", "", "go on with the run in `DIR`")
	f.StringVar(&c.dir, "dir", "", "keep the run in `DIR`, which must not exist (default runs/NAME-DATE-TIME)")
	f.StringVar(&c.backend, "backend", "auto", "where trials run: auto or qemu, in virtual machines; sim, on a model (see napistall sim); host, on this machine; ssh, on a board")
	c.live.register(f)
	f.StringVar(&c.accel, "accel", "auto", "what runs a guest: auto (KVM if a guest comes up under it, else TCG), kvm or tcg")
	f.StringVar(&c.fit, "fit", "", "sim: take the costs that fit the real run in `RUN` (see napistall sim fit)")
	f.BoolVar(&c.offline, "offline", false, "fetch nothing; use the kernels that are in the cache")
	f.StringVar(&c.cache, "cache", "", "keep kernels in `DIR` (default napistall/kernels in the user's cache directory)")
	f.StringSliceVar(&c.arms, "arm", nil, "run only the arm `NAME`; may be repeated")
	f.IntVar(&c.reps, "reps", 0, "trials per arm (default: the experiment's)")
	f.Uint64Var(&c.seed, "seed", 0, "order the trials from `N` (default: the experiment's)")
	return cmd
}

func (c runCommand) run(cmd *cobra.Command, args []string) error {
	switch {
	case c.list:
		return listBuiltins(cmd)
	case c.print != "":
		src, ok := experiment.Builtin(c.print)
		if !ok {
			return usagef("no built-in experiment %q: there are %s", c.print, strings.Join(builtinNames(), ", "))
		}
		_, err := cmd.OutOrStdout().Write(src)
		return err
	case c.resume != "":
		if len(args) > 0 || c.quick || c.repsSet || c.seedSet || len(c.arms) > 0 || c.dir != "" || c.fit != "" {
			return usagef("--resume goes on with a run as it was planned: give no experiment and none of --quick, --reps, --seed, --arm, --dir, --fit")
		}
		return c.goOn(cmd)
	}
	return c.start(cmd, args)
}

func listBuiltins(cmd *cobra.Command) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, b := range experiment.Builtins() {
		fmt.Fprintf(w, "%s\t%s\n", b.Name, b.About)
	}
	return w.Flush()
}

func builtinNames() []string {
	var names []string
	for _, b := range experiment.Builtins() {
		names = append(names, b.Name)
	}
	return names
}

// start makes a new run directory and runs the experiment in it.
func (c runCommand) start(cmd *cobra.Command, args []string) error {
	name := defaultExperiment
	if c.backend == "host" || c.backend == "ssh" {
		name = liveExperiment
	}
	if len(args) > 0 {
		name = args[0]
	}
	text, e, err := c.experiment(name)
	if err != nil {
		return err
	}
	b, backendName, err := c.place()
	if err != nil {
		return err
	}
	if c.fit != "" {
		if backendName != "sim" {
			return usagef("--fit %s: only --backend sim has costs to take", c.fit)
		}
		if err := applyFit(cmd.Context(), c.fit, e.Arms); err != nil {
			return err
		}
	}
	dir, err := c.create(text, rundir.Plan{
		Version: agent.Version(), Created: time.Now().UTC(), Backend: backendName,
		Options:    rundir.Options{Quick: c.quick, Accel: c.accel, Offline: c.offline, Live: c.live.Live},
		Command:    c.repeat(name),
		Host:       describeHost(cmd.Context()),
		Experiment: *e, Trials: experiment.Plan(e),
	})
	if err != nil {
		return err
	}
	return c.walk(cmd, b, dir)
}

// create makes the run directory: where --dir says, or one that bears the experiment's name and the time, with a number
// behind it where others began in the same second.
func (c runCommand) create(text []byte, plan rundir.Plan) (*rundir.Dir, error) {
	if c.dir != "" {
		dir, err := rundir.Create(c.dir, text, plan)
		if errors.Is(err, fs.ErrExist) {
			return nil, usagef("%s exists already: choose another --dir, or go on with that run by --resume %[1]s", c.dir)
		}
		return dir, err
	}
	path := filepath.Join("runs", plan.Experiment.Name+plan.Created.Local().Format("-20060102-150405"))
	dir, err := rundir.Create(path, text, plan)
	for n := 2; errors.Is(err, fs.ErrExist) && n < 1000; n++ {
		dir, err = rundir.Create(fmt.Sprintf("%s-%d", path, n), text, plan)
	}
	return dir, err
}

// goOn continues the run that --resume names.
func (c runCommand) goOn(cmd *cobra.Command) error {
	dir, err := rundir.Open(c.resume)
	if err != nil {
		return err
	}
	if err := dir.Lock(); err != nil {
		return err
	}
	o := dir.Plan().Options
	c.offline = c.offline || o.Offline
	if !cmd.Flags().Changed("accel") && o.Accel != "" {
		c.accel = o.Accel
	}
	if !cmd.Flags().Changed("backend") && dir.Plan().Backend != "" {
		c.backend = dir.Plan().Backend
	}
	if c.live.Live == (rundir.Live{}) {
		c.live.Live = o.Live
	}
	b, _, err := c.place()
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	warnOf(dir)
	slog.Info(fmt.Sprintf("%s: %d of %d trials are done", c.resume, len(dir.Done()), len(dir.Plan().Trials)))
	return c.walk(cmd, b, dir)
}

func (c runCommand) place() (backend.Backend, string, error) {
	var store kimage.Store
	if c.backend == "auto" || c.backend == "qemu" { // the others boot nothing, and run where there is no home
		var err error
		if store, err = newStore(c.cache, c.offline); err != nil {
			return nil, "", err
		}
	}
	return place{backend: c.backend, accel: c.accel, store: store, live: c.live}.open()
}

// experiment reads and narrows the experiment that name stands for.
func (c runCommand) experiment(name string) ([]byte, *experiment.Experiment, error) {
	text, builtin := experiment.Builtin(name)
	if !builtin {
		var err error
		if text, err = os.ReadFile(name); err != nil {
			if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "./") {
				return nil, nil, usagef("no built-in experiment %q (there are %s) and no file of that name",
					name, strings.Join(builtinNames(), ", "))
			}
			return nil, nil, usageError{err}
		}
	}
	e, err := experiment.Parse(name, text)
	if err != nil {
		return nil, nil, err
	}
	if err := checkKernels(name, text, e); err != nil {
		return nil, nil, err
	}
	if err := findPatches(filepath.Dir(name), e); err != nil {
		return nil, nil, err
	}
	if err := findRecorded(filepath.Dir(name), e); err != nil {
		return nil, nil, err
	}
	if c.quick {
		e.Shorten()
	}
	if c.seedSet {
		e.Seed = c.seed
	}
	if c.repsSet {
		if c.reps < 1 || c.reps > experiment.MaxReps {
			return nil, nil, usagef("--reps %d: want 1 to %d", c.reps, experiment.MaxReps)
		}
		e.Reps = c.reps
		for i := range e.Arms {
			e.Arms[i].Reps = 0 // whatever the file says of one
		}
	}
	return text, e, c.narrow(e)
}

// narrow leaves only the arms that --arm names, and the expectations about them.
func (c runCommand) narrow(e *experiment.Experiment) error {
	if len(c.arms) == 0 {
		return nil
	}
	var names []string
	for _, a := range e.Arms {
		names = append(names, a.Name)
	}
	for _, name := range c.arms {
		if !slices.Contains(names, name) {
			return usagef("--arm %s: %s has the arms %s", name, e.Name, strings.Join(names, ", "))
		}
	}
	gone := func(name string) bool { return name != "" && !slices.Contains(c.arms, name) }
	e.Arms = slices.DeleteFunc(e.Arms, func(a experiment.Arm) bool { return gone(a.Name) })
	e.Expect = slices.DeleteFunc(e.Expect, func(x experiment.Expectation) bool { return gone(x.Arm) || gone(x.Vs) })
	return nil
}

// checkKernels looks at the specs' form before anything starts, so that a mistake has its place.
func checkKernels(file string, text []byte, e *experiment.Experiment) error {
	for _, a := range e.Arms {
		for _, spec := range append([]string{a.Kernel}, a.KernelElse...) {
			if experiment.IsModel(spec) {
				continue // read already; a backend that hasn't got it says so
			}
			if _, err := kimage.ParseSpec(spec); err != nil {
				before, _, _ := bytes.Cut(text, []byte(spec))
				line := bytes.Count(before, []byte("\n")) + 1
				col := len(before) - bytes.LastIndexByte(before, '\n')
				return &experiment.ParseError{File: file, Line: line, Col: col, Msg: err.Error(),
					Source: strings.Split(string(text)+"\n", "\n")[line-1]}
			}
		}
	}
	return nil
}

// findPatches names patches and fragments by where they are, so that --resume finds them again. Their names start from
// the experiment's directory.
func findPatches(dir string, e *experiment.Experiment) (err error) {
	for i, a := range e.Arms {
		if f := a.Config.Fragment; f != "" {
			if e.Arms[i].Config.Fragment, err = kimage.FindFragment(dir, f); err != nil {
				return fmt.Errorf("arm %s: %w", a.Name, err)
			}
		}
		for i, name := range a.Patch {
			found, err := kimage.FindPatch(dir, name)
			if err != nil {
				return fmt.Errorf("arm %s: %w", a.Name, err)
			}
			a.Patch[i] = found
		}
	}
	return nil
}

// findRecorded names recorded loads likewise.
func findRecorded(dir string, e *experiment.Experiment) (err error) {
	for i := range e.Arms {
		if from := &e.Arms[i].Load.From; *from != "" && !filepath.IsAbs(*from) {
			if *from, err = filepath.Abs(filepath.Join(dir, *from)); err != nil {
				return fmt.Errorf("arm %s: recorded load: %w", e.Arms[i].Name, err)
			}
		}
	}
	return nil
}

// repeat is the command that repeats this run, without what only says where things are kept.
func (c runCommand) repeat(name string) []string {
	out := []string{"napistall", "run", name}
	if c.quick {
		out = append(out, "--quick")
	}
	if c.accel != "auto" {
		out = append(out, "--accel", c.accel)
	}
	if c.backend != "auto" {
		out = append(out, "--backend", c.backend)
	}
	out = append(out, c.live.words()...)
	if c.fit != "" {
		out = append(out, "--fit", c.fit)
	}
	if c.repsSet {
		out = append(out, "--reps", fmt.Sprint(c.reps))
	}
	if c.seedSet {
		out = append(out, "--seed", fmt.Sprint(c.seed))
	}
	for _, a := range c.arms {
		out = append(out, "--arm", a)
	}
	return out
}

// walk runs what is left of the plan, prints the table of what there is, and ends the run directory.
func (c runCommand) walk(cmd *cobra.Command, b backend.Backend, dir *rundir.Dir) error {
	runErr := runTrials(cmd.Context(), b, dir)

	table, err := c.finish(cmd, dir, runErr)
	if errors.Is(runErr, context.Canceled) {
		slog.Info(fmt.Sprintf("%d of %d trials are kept: go on with napistall run --resume %s",
			len(dir.Done()), len(dir.Plan().Trials), dir.Path()))
	}
	closeErr := dir.Close()
	switch {
	case runErr != nil:
		return errors.Join(runErr, err, closeErr)
	case err != nil || closeErr != nil:
		return errors.Join(err, closeErr)
	case table.Unmet() > 0:
		return fmt.Errorf("%w: %d of %d, see above", errUnmet, table.Unmet(), len(table.Results))
	}
	return nil
}

// runTrials runs what is left of dir's plan, with progress on stderr.
func runTrials(ctx context.Context, b backend.Backend, dir *rundir.Dir) error {
	screen := newScreen(os.Stderr)
	slog.SetDefault(slog.New(newPlainHandler(screen)))
	slog.Info("keeping the run in " + dir.Path())
	r := runner.Runner{Backend: b, Dir: dir, Progress: screen.progress, Log: slog.Default()}
	_, err := r.Run(ctx, dir.Plan().Trials)
	screen.close()
	return err
}

// endingOf says how a run ended that err stopped, if it did.
func endingOf(err error) rundir.Ending {
	switch {
	case errors.Is(err, context.Canceled):
		return rundir.Ending{State: rundir.Interrupted}
	case err != nil:
		return rundir.Ending{State: rundir.Failed, Why: err.Error()}
	}
	return rundir.Ending{State: rundir.Complete}
}

// finish prints the table and keeps it. A run that gave no trial has none.
func (c runCommand) finish(cmd *cobra.Command, dir *rundir.Dir, runErr error) (report.Run, error) {
	ending := endingOf(runErr)
	run := loadRun(dir)
	run.Interrupted = ending.State == rundir.Interrupted
	var table, shown bytes.Buffer
	if len(dir.Done()) > 0 {
		o := report.Options{Long: c.long, Width: textWidth(os.Stdout)}
		err := report.Text(&table, run, o)
		o.Color = hasColor(os.Stdout)
		if err = errors.Join(err, report.Text(&shown, run, o)); err != nil {
			return run, err
		}
	}
	// First it is kept: who reads our output may have gone, and SIGPIPE ends us.
	err := dir.Finish(ending, table.Bytes())
	_, printErr := cmd.OutOrStdout().Write(shown.Bytes())
	return run, errors.Join(err, printErr)
}
