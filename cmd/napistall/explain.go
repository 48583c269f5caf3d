package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

// An explainCommand holds explain's flags.
type explainCommand struct {
	json        bool
	trace, html string
}

func newExplain() *cobra.Command {
	var c explainCommand
	cmd := &cobra.Command{
		Use:   "explain RUN [ARM/TRIAL[/SAMPLE]]",
		Short: "Tell what one operation of a run went through",
		Long: `Tell the story of one operation in the run directory RUN: when it began, in which waits it sat and for how long, which
CPU had not reported and which thread ran there, how often its loop went round and by which exit, when RCU turned to what,
and what ended it. Every statement says what it rests on and how sure it is.

Without more it is the slowest operation of the run. ARM/TRIAL chooses a trial by its arm's name and its repetition, and
tells of its slowest; ARM/TRIAL/SAMPLE an operation of it, counted from 1 by when they began.`,
		Example: `  napistall explain runs/mainline
  napistall explain runs/mainline softirq/1
  napistall explain runs/mainline stock/1/2 --html story.html --trace story.json`,
		Args: usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.OutOrStdout(), args) },
	}
	f := cmd.Flags()
	f.BoolVar(&c.json, "json", false, "write JSON instead of text")
	f.StringVar(&c.trace, "trace", "", "also write the timeline to `FILE`, for ui.perfetto.dev or chrome://tracing")
	f.StringVar(&c.html, "html", "", "also write the story to `FILE` as one self-contained page")
	return cmd
}

func (c explainCommand) run(w io.Writer, args []string) error {
	if err := c.checkFiles(); err != nil {
		return err
	}
	dir, err := rundir.Open(args[0])
	if err != nil {
		return err
	}
	var story explain.Story
	if len(args) == 1 {
		story, err = slowestStory(dir)
	} else {
		story, err = chosenStory(dir, args[1])
	}
	warnOf(dir)
	if err != nil {
		return err
	}
	return errors.Join(
		writeStory(c.trace, story, report.StoryTrace),
		writeStory(c.html, story, report.StoryHTML),
		c.print(w, story),
	)
}

// checkFiles refuses what --trace and --html can't both, or not at all, be written to.
func (c explainCommand) checkFiles() error {
	seen := map[string]bool{}
	for _, f := range []struct{ flag, path string }{{"--trace", c.trace}, {"--html", c.html}} {
		if f.path == "" {
			continue
		}
		if st, err := os.Stat(f.path); err == nil && st.IsDir() {
			return usagef("%s %s: that is a directory, want a file", f.flag, f.path)
		}
		whole, err := filepath.Abs(f.path)
		if err != nil {
			return err
		}
		if seen[whole] {
			return usagef("--trace and --html name the same file %s", f.path)
		}
		seen[whole] = true
	}
	return nil
}

func (c explainCommand) print(w io.Writer, s explain.Story) error {
	if c.json {
		return report.StoryJSON(w, s)
	}
	return report.StoryText(w, s, textWidth(os.Stdout))
}

// writeStory writes s to the file path, whole or not at all, as writeOutput does; an empty path is no file.
func writeStory(path string, s explain.Story, write func(io.Writer, explain.Story) error) error {
	if path == "" {
		return nil
	}
	return writeOutput(path, nil, func(w io.Writer) error { return write(w, s) })
}

// slowestStory tells of the operation of dir that took longest.
func slowestStory(dir *rundir.Dir) (explain.Story, error) {
	var best *explain.Teller
	longest := experiment.Sample{Took: -1}
	for _, t := range wholeTrials(dir) {
		teller, err := tellerOf(dir, t)
		if err != nil {
			dir.Reject(t.ID(), err)
			continue
		}
		n := teller.Slowest()
		switch {
		case n > 0 && teller.Operations()[n-1].Took > longest.Took:
			best, longest = teller, teller.Operations()[n-1]
		case best == nil:
			best = teller // with nothing to tell, which is something to say
		}
	}
	if best == nil {
		return explain.Story{}, fmt.Errorf("%s: no trial of it is whole", dir.Path())
	}
	return best.Tell(best.Slowest()), nil
}

// chosenStory tells of what name names: ARM/TRIAL[/SAMPLE].
func chosenStory(dir *rundir.Dir, name string) (explain.Story, error) {
	arm, rest, _ := strings.Cut(name, "/")
	rep, sample, hasSample := strings.Cut(rest, "/")
	t, err := findTrial(dir, name, arm, rep)
	if err != nil {
		return explain.Story{}, err
	}
	teller, err := tellerOf(dir, t)
	if err != nil {
		dir.Reject(t.ID(), err)
		return explain.Story{}, fmt.Errorf("%s: trial %s can't be read", dir.Path(), t.ID())
	}
	if !hasSample {
		return teller.Tell(teller.Slowest()), nil
	}
	n, err := strconv.Atoi(sample)
	if all := teller.Operations(); err != nil || n < 1 || n > len(all) {
		return explain.Story{}, usagef("%q: %s", name, samplesWords(arm, t.Rep, all))
	}
	return teller.Tell(n), nil
}

// findTrial returns the trial that arm and rep name; rep may be empty where the arm has but one.
func findTrial(dir *rundir.Dir, name, arm, rep string) (experiment.Trial, error) {
	var found []experiment.Trial
	known := false
	for _, t := range dir.Plan().Trials {
		if t.Arm.Name != arm {
			continue
		}
		known = true
		if rep == "" || strconv.Itoa(t.Rep) == rep {
			found = append(found, t)
		}
	}
	whole := wholeTrials(dir)
	switch {
	case !known:
		return experiment.Trial{}, usagef("%q: the run has no arm of that name; it has %s", name, trialNames(whole))
	case len(found) == 0:
		return experiment.Trial{}, usagef("%q: arm %s has no such trial; the run has %s", name, arm, trialNames(whole))
	case len(found) > 1:
		return experiment.Trial{}, usagef("%q: arm %s has %d trials: choose one of %s", name, arm, len(found), trialNames(found))
	}
	if _, ok := dir.Info(found[0].ID()); !ok {
		return experiment.Trial{}, fmt.Errorf("%s: trial %s/%d was not run to its end, or can't be read; there is %s", dir.Path(), arm, found[0].Rep, trialNames(whole))
	}
	return found[0], nil
}

// wholeTrials lists the trials of dir that have records, in the plan's order.
func wholeTrials(dir *rundir.Dir) []experiment.Trial {
	return slices.DeleteFunc(slices.Clone(dir.Plan().Trials), func(t experiment.Trial) bool {
		_, whole := dir.Info(t.ID())
		return !whole
	})
}

func tellerOf(dir *rundir.Dir, t experiment.Trial) (*explain.Teller, error) {
	teller := explain.NewTeller(t)
	return teller, addRecords(dir, t.ID(), teller)
}

// trialNames lists trials as they are asked for.
func trialNames(trials []experiment.Trial) string {
	const most = 12
	var names []string
	for i, t := range trials {
		if i == most {
			return strings.Join(names, ", ") + fmt.Sprintf(" and %d more", len(trials)-most)
		}
		names = append(names, fmt.Sprintf("%s/%d", t.Arm.Name, t.Rep))
	}
	if len(names) == 0 {
		return "no whole trial"
	}
	return strings.Join(names, ", ")
}

// samplesWords says which operations there are to choose from.
func samplesWords(arm string, rep int, all []experiment.Sample) string {
	if len(all) == 0 {
		return fmt.Sprintf("trial %s/%d has no operation", arm, rep)
	}
	type numbered struct {
		n    int
		took string
	}
	var slow []numbered
	for i, s := range all {
		if s.Took > explain.SlowLimit {
			slow = append(slow, numbered{i + 1, explain.FormatDuration(s.Took)})
		}
	}
	text := fmt.Sprintf("want an operation of %s/%d from 1 to %d", arm, rep, len(all))
	if len(slow) == 0 {
		return text + "; none took over 1 s"
	}
	for i, x := range slow {
		if i == 8 {
			return text + fmt.Sprintf(" and %d more", len(slow)-8)
		}
		text += map[bool]string{true: "; over 1 s: ", false: ", "}[i == 0] + fmt.Sprintf("%d (%s)", x.n, x.took)
	}
	return text
}
