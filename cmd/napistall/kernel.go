package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/rcu"
)

// A kernelCommand holds what kernel's subcommands share.
type kernelCommand struct {
	cache   string
	offline bool
	json    bool
}

const kernelHelp = `A guest kernel is named

  debian:SUITE[/ARCH[/FLAVOUR[/RELEASE]]]   a package of this machine's Debian mirror: debian:sid/armhf,
                                            debian:trixie-backports/amd64/cloud-amd64/6.18
  deb:FILE,...                              package files
  file:IMAGE[,modules=DIR]                  a kernel image
  host                                      the kernel that runs this machine
  debian-source:SUITE/PACKAGE               built from Debian's source: debian-source:trixie/linux-source-6.12
  tree:PATH[@REV]                           built from a source tree, which is only read: as it stands, or as
                                            git has it in REV

Packages come through apt with a state of napistall's own: nothing on the system changes, other
architectures and suites work, and apt checks the signatures.`

func newKernel() *cobra.Command {
	var c kernelCommand
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "List, get, build and inspect guest kernels",
		Long:  kernelHelp,
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.StringVar(&c.cache, "cache", "", "keep kernels in `DIR` (default napistall/kernels in the user's cache directory)")
	f.BoolVar(&c.offline, "offline", false, "fetch nothing; use what is in the cache")
	f.BoolVar(&c.json, "json", false, "print JSON")
	cmd.AddCommand(c.list(), c.get(), c.build(), c.inspect(), c.prune())
	return cmd
}

func (c *kernelCommand) list() *cobra.Command {
	return &cobra.Command{
		Use:   "list SUITE[/ARCH]",
		Short: "List the kernels that a suite of the Debian mirror has",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := newStore(c.cache, c.offline)
			if err != nil {
				return err
			}
			suite, arch, _ := strings.Cut(strings.TrimPrefix(args[0], "debian:"), "/")
			packages, err := store.List(cmd.Context(), suite, arch)
			if err != nil {
				return specUsage(err)
			}
			if c.json {
				return printJSON(cmd, packages)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, p := range packages {
				fmt.Fprintf(w, "debian:%s/%s/%s/%s\t%s\n", suite, p.Arch, p.Flavour, p.Release, p.Version)
			}
			return w.Flush()
		},
	}
}

func (c *kernelCommand) get() *cobra.Command {
	return &cobra.Command{
		Use:   "get SPEC",
		Short: "Fetch a kernel into the cache and print where its image is",
		Long:  kernelHelp,
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			img, err := c.fetch(cmd, args[0])
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd, img)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), img.Path)
			return err
		},
	}
}

func (c *kernelCommand) build() *cobra.Command {
	var preempt string
	var b kimage.Build
	cmd := &cobra.Command{
		Use:   "build SPEC",
		Short: "Build a kernel from source and print where its image is",
		Long: `Build a small kernel that can be a guest, from debian-source:SUITE/PACKAGE or tree:PATH[@REV], and print
where its image is. The first build of a source takes long (15 minutes on 2 CPUs); one that differs in a
patch takes two, and the same again is in the cache. Ctrl-C stops a build, which then goes on the next time.

A tree is built as it stands, changes that aren't committed included; with @REV, as git has it in that
revision. Both are built from a copy in the cache: the tree, its index and its worktrees stay as they are.

Every option that is asked for has to hold in the kernel's configuration. Where the source's Kconfig forbids
preempt none or voluntary, as 7.x does on x86-64 and arm64, --allow-kconfig edits the copy, shows the edit,
and has the kernel called +kconfig in every report.`,
		Example: `  napistall kernel build debian-source:trixie/linux-source-6.12 --preempt none
  napistall kernel build tree:~/linux@v6.18 --preempt lazy --hz 1000 --patch fix.patch
  napistall kernel build tree:~/linux --preempt none --allow-kconfig --config debug.config --arch arm64`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := kimage.ParseSpec(args[0])
			if err != nil {
				return specUsage(err)
			}
			store, err := newStore(c.cache, c.offline)
			if err != nil {
				return err
			}
			if preempt != "dynamic" {
				b.Preempt = rcu.Preemption(preempt)
			}
			if b.Fragment != "" {
				if b.Fragment, err = kimage.FindFragment("", b.Fragment); err != nil {
					return err
				}
			}
			done := onTerminal(&store)
			img, err := store.Build(cmd.Context(), spec, b)
			done()
			if err != nil {
				return specUsage(err)
			}
			if c.json {
				return printJSON(cmd, img)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), img.Path)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&preempt, "preempt", "dynamic", "build with the preemption `MODEL` none, voluntary, full, lazy or rt, or with dynamic, which lets preempt= choose")
	f.IntVar(&b.HZ, "hz", 0, "timer interrupts per second: 100, 250, 300 or 1000 (default 250)")
	f.StringVar(&b.Arch, "arch", "", "build for `ARCH` amd64 (x86_64), arm64 or armhf (arm) (default amd64)")
	f.StringVar(&b.Fragment, "config", "", "configure with the CONFIG_ lines in `FILE` too")
	f.StringArrayVar(&b.Patches, "patch", nil, "apply the patch in `FILE`, or the built-in yield-on-exit.patch; may be repeated")
	f.BoolVar(&b.AllowKconfig, "allow-kconfig", false, "edit the copy's Kconfig where it forbids preempt none or voluntary")
	return cmd
}

func (c *kernelCommand) inspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect IMAGE|SPEC",
		Short: "Say what a kernel can do, without booting it",
		Long: `Say what a kernel can do, without booting it: from its package's configuration, the one built into the
image, or the version banner. What can't be found out is said to be unknown.

` + kernelHelp,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			img, err := c.fetch(cmd, imageOrSpec(args[0]))
			if err != nil {
				return err
			}
			in, err := kimage.Inspect(cmd.Context(), img)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd, in)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, f := range in.Facts() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.Value, f.Source)
			}
			return w.Flush()
		},
	}
}

func (c *kernelCommand) prune() *cobra.Command {
	var age time.Duration
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Take sources and objects out of the cache that nothing was built of lately",
		Long: `Take the copies of sources, and the objects built of them, out of the cache that nothing was built of lately.
Kernels stay. A source takes 1.5 GB and its objects 100 to 600 MB for each configuration; what is taken away
is made again when it is needed.`,
		Example: `  napistall kernel prune --older-than 168h`,
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if age < 0 {
				return usagef("--older-than %v: want a duration from 0s", age)
			}
			store, err := newStore(c.cache, c.offline)
			if err != nil {
				return err
			}
			gone, err := store.Prune(cmd.Context(), age)
			if c.json {
				return errors.Join(printJSON(cmd, append([]kimage.Pruned{}, gone...)), err)
			}
			for _, p := range gone {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\t%d MB\tlast used %s\n", p.Dir, p.Size>>20, p.Used.Format(time.DateOnly)); err != nil {
					return err
				}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&age, "older-than", 30*24*time.Hour, "what nothing was built of for this `TIME`")
	return cmd
}

// imageOrSpec lets a file's plain path stand for file:PATH.
func imageOrSpec(arg string) string {
	if _, err := kimage.ParseSpec(arg); err == nil {
		return arg
	}
	if _, err := os.Stat(arg); err == nil {
		return "file:" + arg
	}
	return arg
}

func (c *kernelCommand) fetch(cmd *cobra.Command, arg string) (*kimage.Image, error) {
	spec, err := kimage.ParseSpec(arg)
	if err != nil {
		return nil, specUsage(err)
	}
	store, err := newStore(c.cache, c.offline)
	if err != nil {
		return nil, err
	}
	img, err := store.Fetch(cmd.Context(), spec)
	return img, specUsage(err)
}

// specUsage makes a file that isn't there a usageError: it was named on the command line.
func specUsage(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return usageError{err}
	}
	return err
}

func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}
