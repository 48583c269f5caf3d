package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rcu"
)

// A proveCommand holds prove's flags.
type proveCommand struct {
	tree, source, arch    string
	patches, preempt      []string
	allowKconfig          bool
	reps                  int
	seed                  uint64
	quick, dryRun, gate   bool
	noMainline            bool
	dir, resume           string
	format                string
	long                  bool
	backend, accel, cache string
	offline               bool
	loop, generation      string
	set                   func(name string) bool // whether a flag was given
	words                 []string               // of the command line, to repeat it
}

// mainlineKernel is a current kernel of an architecture that has no lazy preemption, as its distribution ships it.
const mainlineKernel = "debian:sid/armhf"

func newProve() *cobra.Command {
	var c proveCommand
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Prove that a patch ends the stalls: build stock and patched kernels, and run them all",
		Long: `Build a source as it is and with a patch, under every preemption model that it can have, run both in the band, above
it and in softirq mode, beside a current kernel as it is shipped, and print a matrix, a verdict and a mail for the
list. Before it starts it says what it will build and how long all of it takes; --dry-run says that alone.

The source is a tree, of which a copy is built, or a package of Debian's. Under none and voluntary the stock kernel is
expected to stall in the band and the patched one not to: at least 60 deletes, none over 1 s, the worst under
1.5 s; and nothing else to stall. --resume goes on with a run that was stopped; what was built is kept in any case,
so that the same command goes on with a stopped build.

With --gate, prove is a test for git bisect run: one kernel of the tree as it stands, one arm in the band.

Exit status: 0 proved fixed, 1 napistall failed or the kernel doesn't compile, 2 wrong usage, or a patch that doesn't
apply, 3 not proved (see the verdict), 69 not possible on this machine, 130 interrupted.
With --gate: 0 good, no stall; 1 bad, a stall; 125 undecided, for this revision doesn't build or boot, or its load was
not in the band: git bisect skips it; 128 not possible on this machine, 129 wrong usage and 130 interrupted, which end
the bisection.`,
		Example: `  napistall prove --debian-source trixie/linux-source-6.12 --patch yield-on-exit.patch
  napistall prove --tree ~/linux --patch fix.patch --preempt none --quick
  napistall prove --tree ~/linux@v7.3 --patch fix.patch --allow-kconfig --dry-run
  napistall prove --backend sim --loop yield-on-exit
  git bisect run napistall prove --gate --tree .`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.set = cmd.Flags().Changed
			c.words = repeatWords(cmd.Flags())
			return c.run(cmd)
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

func (c *proveCommand) flags(f *pflag.FlagSet) {
	f.SortFlags = false // help shows what matters first, and the command is repeated as it was typed
	f.StringVar(&c.tree, "tree", "", "build from the source tree `PATH[@REV]`, which is only read")
	f.StringVar(&c.source, "debian-source", "", "build from Debian's source package `SUITE/PACKAGE`, such as trixie/linux-source-6.12")
	f.StringArrayVar(&c.patches, "patch", nil, "prove the patch in `FILE`, or the built-in yield-on-exit.patch; may be repeated, all are applied")
	f.StringSliceVar(&c.preempt, "preempt", nil, "only under these `MODELS`: none, voluntary, full, lazy (default: all that the source can have)")
	f.StringVar(&c.arch, "arch", "", "build for "+listWords(experiment.BuildArches())+" (default amd64)")
	f.BoolVar(&c.allowKconfig, "allow-kconfig", false, "build none where Kconfig forbids it (since 7.0), by an edit that every report names")
	f.IntVar(&c.reps, "reps", 0, fmt.Sprintf("trials of each arm in the band under none and voluntary (default %d)", experiment.ProveReps))
	f.Uint64Var(&c.seed, "seed", 0, "order the trials from `N`")
	f.BoolVar(&c.quick, "quick", false, "shorter holds, one trial of patched arms, fewer controls; the output says so")
	f.BoolVar(&c.noMainline, "no-mainline", false, "leave out the kernel as it is shipped, "+mainlineKernel)
	f.BoolVar(&c.dryRun, "dry-run", false, "print the plan and the experiment's file, and do nothing")
	f.BoolVar(&c.dryRun, "plan", false, "the same as --dry-run")
	f.BoolVar(&c.gate, "gate", false, "for git bisect run: exit with 0 (no stall), 1 (stall) or 125 (undecided)")
	f.StringVar(&c.dir, "dir", "", "keep the run in `DIR`, which must not exist (default runs/prove-DATE-TIME)")
	f.StringVar(&c.resume, "resume", "", "go on with prove's run in `DIR`, or print it again")
	f.StringVar(&c.format, "format", "text", "text (matrix, verdict and mail), mail, or another format of napistall report")
	f.BoolVar(&c.long, "long", false, "show the expectations that were met, too")
	f.StringVar(&c.backend, "backend", "auto", "where trials run: auto or qemu, in virtual machines; sim, on a model, with --loop for a patch")
	f.StringVar(&c.accel, "accel", "auto", "what runs a guest: auto, kvm or tcg")
	f.StringVar(&c.loop, "loop", "", "sim: the variant of the poll loop that stands for the patch, such as yield-on-exit")
	f.StringVar(&c.generation, "generation", "6.12", "sim: the kernel's release: 6.12, 6.18 or 7.3")
	f.StringVar(&c.cache, "cache", "", "keep kernels in `DIR` (default napistall/kernels in the user's cache directory)")
	f.BoolVar(&c.offline, "offline", false, "fetch nothing; use the kernels and sources that are in the cache")
}

// repeatWords are the words that repeat a command, without what only says where things are kept or how they are
// shown.
func repeatWords(f *pflag.FlagSet) []string {
	words := []string{"napistall", "prove"}
	f.Visit(func(f *pflag.Flag) {
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			for _, x := range v.GetSlice() {
				words = append(words, "--"+f.Name, x)
			}
		default:
			switch {
			case slices.Contains([]string{"dir", "resume", "format", "long", "cache", "offline", "dry-run", "plan"}, f.Name):
			case f.Value.Type() == "bool":
				words = append(words, "--"+f.Name)
			default:
				words = append(words, "--"+f.Name, f.Value.String())
			}
		}
	})
	return words
}

func (c proveCommand) run(cmd *cobra.Command) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.resume != "" {
		return c.goOn(cmd)
	}
	p, err := c.proving(cmd.Context())
	if err != nil {
		return err
	}
	plan, err := c.plan(p)
	if err != nil {
		return err
	}
	return c.start(cmd, plan)
}

// check refuses flags that don't go together.
func (c proveCommand) check() error {
	if c.resume != "" {
		for _, name := range []string{"tree", "debian-source", "patch", "preempt", "arch", "allow-kconfig", "reps", "seed", "quick", "no-mainline", "dry-run", "plan", "gate", "dir", "loop", "generation"} {
			if c.set(name) {
				return usagef("--resume goes on with a run as it was planned: it can't be had with --%s", name)
			}
		}
		return c.checkFormat()
	}
	if c.backend == "sim" {
		return c.checkSim()
	}
	switch {
	case c.backend != "auto" && c.backend != "qemu":
		return usagef("--backend %s: prove boots kernels that it has built: want auto, qemu or sim", c.backend)
	case c.set("loop") || c.set("generation"):
		return usagef("--loop and --generation go with --backend sim: on a real kernel, a patch is what changes the loop")
	case c.tree != "" && c.source != "":
		return usagef("--tree and --debian-source both name a source: give one of them")
	case c.tree == "" && c.source == "":
		return usagef("no source: give --tree PATH[@REV] or --debian-source SUITE/PACKAGE")
	}
	if c.gate {
		return c.checkGate()
	}
	if len(c.patches) == 0 {
		return usagef("no patch: give --patch FILE; yield-on-exit.patch comes with napistall")
	}
	return c.checkRest()
}

func (c proveCommand) checkSim() error {
	for _, name := range []string{"tree", "debian-source", "patch", "allow-kconfig", "gate", "accel", "offline", "cache"} {
		if c.set(name) {
			return usagef("--%s goes with kernels: --backend sim builds and boots none, and takes --loop for a patch", name)
		}
	}
	if c.loop == "" {
		return usagef("--backend sim takes a variant of the poll loop for a patch: give --loop, such as yield-on-exit")
	}
	if !slices.Contains(experiment.Loops(), experiment.Loop(c.loop)) {
		var names []string
		for _, l := range experiment.Loops() {
			names = append(names, string(l))
		}
		return usagef("--loop %s: want %s", c.loop, listWords(names))
	}
	return c.checkRest()
}

func (c proveCommand) checkGate() error {
	for _, name := range []string{"patch", "debian-source", "quick", "no-mainline", "dry-run", "plan", "format", "long"} {
		if c.set(name) {
			return usagef("--gate tries the tree as it stands in one arm: it can't be had with --%s", name)
		}
	}
	if len(c.preempt) > 1 {
		return usagef("--gate tries one model: --preempt none or --preempt voluntary")
	}
	return c.checkRest()
}

func (c proveCommand) checkRest() error {
	if c.set("reps") && (c.reps < 1 || c.reps > experiment.MaxReps) {
		return usagef("--reps %d: want 1 to %d", c.reps, experiment.MaxReps)
	}
	for _, m := range c.preempt {
		if !slices.Contains(proveModels(), m) {
			return usagef("--preempt %s: want %s", m, listWords(proveModels()))
		}
	}
	if c.arch != "" {
		if _, ok := experiment.BuildArch(c.arch); !ok {
			return usagef("--arch %s: want %s", c.arch, listWords(experiment.BuildArches()))
		}
	}
	return c.checkFormat()
}

func proveModels() []string {
	return []string{string(rcu.None), string(rcu.Voluntary), string(rcu.Full), string(rcu.Lazy)}
}

// proving makes what was asked for into what is to be planned. It looks at the source.
func (c proveCommand) proving(ctx context.Context) (experiment.Proving, error) {
	p := experiment.Proving{
		Arch: "amd64", AllowKconfig: c.allowKconfig, Reps: c.reps, Quick: c.quick, Seed: c.seed, Mainline: mainlineKernel,
	}
	if c.arch != "" {
		p.Arch, _ = experiment.BuildArch(c.arch) // checked
	}
	for i, m := range c.preempt {
		if slices.Contains(c.preempt[:i], m) {
			return p, usagef("--preempt names %s twice", m)
		}
		p.Models = append(p.Models, rcu.Preemption(m))
	}
	if c.noMainline || c.gate {
		p.Mainline = ""
	}
	if c.backend == "sim" {
		return c.simProving(p)
	}
	for _, name := range c.patches {
		found, err := kimage.FindPatch("", name)
		if err != nil {
			return p, err
		}
		p.Patch = append(p.Patch, found)
	}
	var err error
	p.Kernel, p.Release, err = c.sourceOf(ctx)
	return p, err
}

func (c proveCommand) simProving(p experiment.Proving) (experiment.Proving, error) {
	p.Kernel = "model:" + c.generation + "/" + p.Arch
	k, err := experiment.ParseModelKernel(p.Kernel)
	if err != nil {
		return p, usagef("--generation %s: %w", c.generation, err)
	}
	if p.Release, err = parseProveRelease(k.Generation); err != nil {
		return p, err
	}
	p.Loop = experiment.Loop(c.loop)
	if p.Mainline != "" {
		p.Mainline = "model:7.3/armhf"
	}
	return p, nil
}

// A provePlan is an experiment that is to be run, as a file and read.
type provePlan struct {
	experiment.Proving
	text []byte
	e    *experiment.Experiment
}

func (c proveCommand) plan(p experiment.Proving) (provePlan, error) {
	write := experiment.Prove
	if c.gate {
		write = experiment.ProveGate
	}
	text, e, err := write(p)
	if err != nil {
		return provePlan{}, usageError{err}
	}
	return provePlan{p, text, e}, nil
}

// models names what the plan runs under.
func (p provePlan) models() string {
	var names []string
	for _, a := range p.e.Arms {
		name := string(a.Preempt)
		if a.Kernel == p.Kernel && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
