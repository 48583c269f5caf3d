package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/agent"
	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

// start says what the plan takes, builds its kernels and runs it.
func (c proveCommand) start(cmd *cobra.Command, p provePlan) error {
	ctx := cmd.Context()
	store, err := newStore(c.cache, c.offline)
	if err != nil {
		return notHereError{err}
	}
	b, backendName, err := place{backend: c.backend, accel: c.accel, store: store}.open()
	if err != nil {
		return err
	}
	builds, err := p.builds()
	if err != nil {
		return err
	}
	if c.tree != "" {
		slog.Info("reading " + p.Kernel)
	}
	if err := look(ctx, store, builds); err != nil {
		return notHere(err)
	}
	if c.dryRun {
		if err := p.tell(cmd.OutOrStdout(), builds, b.Slots()); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%s", p.text)
		return err
	}
	if err := p.tell(os.Stderr, builds, b.Slots()); err != nil {
		return err
	}
	if p, err = c.needQEMU(p, backendName); err != nil {
		return err
	}
	if err := canKeep(store.Dir); len(builds) > 0 && err != nil {
		return notHereError{fmt.Errorf("keep kernels in %s: %w", store.Dir, err)}
	}
	if _, err := os.Lstat(c.dir); c.dir != "" && err == nil {
		return usagef("%s exists already: choose another --dir, or go on with that run by --resume %[1]s", c.dir)
	}
	if err := buildAll(ctx, store, builds); err != nil {
		return err
	}
	if p, err = c.shipped(ctx, store, p); err != nil {
		return err
	}
	dir, err := c.create(ctx, p, backendName)
	if err != nil {
		return notHereError{err} // the next revision's run would be kept in the same place
	}
	return c.walk(cmd, b, dir)
}

// buildAll builds what isn't there. A kernel that the source can't have is left for its arms to say; none at all is an error.
func buildAll(ctx context.Context, store kimage.Store, builds []proveBuild) error {
	var cant []error
	for i, b := range builds {
		if !b.Cached {
			slog.Info(fmt.Sprintf("kernel %d of %d", i+1, len(builds)))
		}
		_, err := store.Build(ctx, b.spec, b.what)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w\nwhat is built is kept: the same command goes on from there", err)
		case errors.Is(err, errors.ErrUnsupported):
			slog.Warn(fmt.Sprintf("%s: not run: %v", listAnd(b.arms), err))
			cant = append(cant, err)
		case err != nil:
			return err
		}
	}
	if len(builds) > 0 && len(cant) == len(builds) {
		return errors.Join(cant...)
	}
	return nil
}

// shipped fetches the kernel that is only fetched. Where it can't be had, the plan goes on without it and says so.
func (c proveCommand) shipped(ctx context.Context, store kimage.Store, p provePlan) (provePlan, error) {
	if p.Mainline == "" || experiment.IsModel(p.Mainline) {
		return p, nil
	}
	spec, err := kimage.ParseSpec(p.Mainline)
	if err != nil {
		return p, err
	}
	_, err = store.Fetch(ctx, spec)
	if err == nil {
		return p, nil
	}
	if ctx.Err() != nil {
		return p, err
	}
	return c.withoutShipped(p, err)
}

// withoutShipped is the plan without the kernel that is only fetched, and says why.
func (c proveCommand) withoutShipped(p provePlan, why error) (provePlan, error) {
	slog.Warn(fmt.Sprintf("without the kernel as it is shipped: %v", why))
	q := p.Proving
	q.Notes = append(slices.Clone(q.Notes), fmt.Sprintf("a current kernel as it is shipped, %s, is not in the table: it could not be had.", p.Mainline))
	q.Mainline = ""
	return c.plan(q)
}

// create makes the run directory, whose experiment.yaml is the file that --dry-run prints.
func (c proveCommand) create(ctx context.Context, p provePlan, backendName string) (*rundir.Dir, error) {
	plan := rundir.Plan{
		Version: agent.Version(), Created: time.Now().UTC(), Backend: backendName,
		Options:    rundir.Options{Accel: c.accel, Offline: c.offline},
		Command:    c.words,
		Host:       describeHost(ctx),
		Experiment: *p.e, Trials: experiment.Plan(p.e),
	}
	if c.dir != "" {
		return runCommand{dir: c.dir}.create(p.text, plan)
	}
	runs, err := p.outOfTree()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(runs, p.e.Name+plan.Created.Local().Format("-20060102-150405"))
	dir, err := rundir.Create(path, p.text, plan)
	for n := 2; errors.Is(err, fs.ErrExist) && n < 1000; n++ {
		dir, err = rundir.Create(fmt.Sprintf("%s-%d", path, n), p.text, plan)
	}
	return dir, err
}

// goOn runs what is left of a run of prove's, and prints it.
func (c proveCommand) goOn(cmd *cobra.Command) error {
	dir, err := rundir.Open(c.resume)
	if err != nil {
		return err
	}
	plan := dir.Plan()
	if len(plan.Command) < 2 || plan.Command[1] != "prove" || plan.Experiment.Name != "prove" {
		return usagef("%s is no run of prove: go on with it by napistall run --resume %[1]s", c.resume)
	}
	if err := dir.Lock(); err != nil {
		return err
	}
	c.offline = c.offline || plan.Options.Offline
	if !c.set("accel") && plan.Options.Accel != "" {
		c.accel = plan.Options.Accel
	}
	if !c.set("backend") {
		c.backend = plan.Backend
	}
	store, err := newStore(c.cache, c.offline)
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	b, _, err := place{backend: c.backend, accel: c.accel, store: store}.open()
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	warnOf(dir)
	slog.Info(fmt.Sprintf("%s: %d of %d trials are done", c.resume, len(dir.Done()), len(plan.Trials)))
	return c.walk(cmd, b, dir)
}

// walk runs what is left of the plan, and ends the run directory.
func (c proveCommand) walk(cmd *cobra.Command, b backend.Backend, dir *rundir.Dir) error {
	runErr := runTrials(cmd.Context(), b, dir)
	run, err := c.finish(cmd.OutOrStdout(), dir, runErr)
	if errors.Is(runErr, context.Canceled) {
		slog.Info(fmt.Sprintf("%d of %d trials are kept: %s", len(dir.Done()), len(dir.Plan().Trials), c.again(dir)))
	}
	closeErr := dir.Close()
	if err := errors.Join(runErr, err, closeErr); err != nil {
		return err
	}
	if c.gate {
		return gateResult(cmd.OutOrStdout(), run)
	}
	switch proof := explain.Prove(run.Arms); {
	case proof.Word != explain.ProvedFixed:
		return fmt.Errorf("%w: %s", errUnmet, proof.Word)
	case run.Unmet() > 0:
		return fmt.Errorf("%w: %d of %d, see above", errUnmet, run.Unmet(), len(run.Results))
	}
	return nil
}

// again says how to go on after a stop. A gate's one arm is tried anew: by then another revision may be checked out.
func (c proveCommand) again(dir *rundir.Dir) string {
	if c.gate {
		return "run the same command again"
	}
	return "go on with napistall prove --resume " + dir.Path()
}

// finish prints the run and keeps its table. A run that gave no trial has none; a gate's is only kept.
func (c proveCommand) finish(stdout io.Writer, dir *rundir.Dir, runErr error) (report.Run, error) {
	ending := endingOf(runErr)
	run := loadRun(dir)
	run.Interrupted = ending.State == rundir.Interrupted
	var table bytes.Buffer
	if len(dir.Done()) == 0 {
		return run, dir.Finish(ending, nil)
	}
	if err := report.Text(&table, run, report.Options{Width: textWidth(os.Stdout)}); err != nil {
		return run, err
	}
	if err := dir.Finish(ending, table.Bytes()); err != nil || c.gate {
		return run, err
	}
	return run, c.print(stdout, dir, run)
}

// checkFormat refuses formats that there are not.
func (c proveCommand) checkFormat() error {
	var names []string
	for _, f := range c.formats() {
		names = append(names, f.name)
	}
	if !slices.Contains(names, c.format) {
		return usagef("--format %q: want %s", c.format, listWords(names))
	}
	if c.long && c.format != "text" {
		return usagef("--long goes with --format text")
	}
	return nil
}

// formats are report's, but for those in which prove has more to say.
func (c proveCommand) formats() []reportFormat {
	list := reportCommand{}.formats()
	for i := range list {
		switch list[i].name {
		case "text":
			list[i].write = c.text
		case "mail":
			list[i].write = func(w io.Writer, _ *rundir.Dir, r report.Run) error { return report.MatrixMail(w, r) }
		}
	}
	return list
}

func (c proveCommand) print(w io.Writer, dir *rundir.Dir, run report.Run) error {
	formats := c.formats()
	i := slices.IndexFunc(formats, func(f reportFormat) bool { return f.name == c.format })
	return formats[i].write(w, dir, run)
}

// text is the matrix with its verdict, and the mail below it.
func (c proveCommand) text(w io.Writer, _ *rundir.Dir, run report.Run) error {
	if err := report.Matrix(w, run, report.Options{Long: c.long, Width: textWidth(os.Stdout)}); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\nfor the list:\n\n"); err != nil {
		return err
	}
	return report.MatrixMail(w, run)
}
