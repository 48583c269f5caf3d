package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

// A compareCommand holds compare's flags.
type compareCommand struct {
	match      []string
	thresholds []string
	format     string
	schema     bool
}

func newCompare() *cobra.Command {
	var c compareCommand
	cmd := &cobra.Command{
		Use:   "compare RUN [RUN...]",
		Short: "Hold arms of runs against each other, with intervals and warnings",
		Long: `Hold each arm of the first RUN against the arm of the same name in every other, or against the one that --match
names; of a single RUN, hold every arm against every other. Each number comes with its 95 % interval, each pair with a
sentence, and whatever else may be behind a difference with a warning. What decides is tests on one value of each trial,
corrected for their number, since the operations of one trial are not independent.

With --threshold, exit with status 3 unless the whole interval is on the right side of the limit:

  ARM: QUANTITY OP VALUE           over-1s, median, p95 or worst of one arm
  ARM vs ARM: QUANTITY OP VALUE    over-1s (the first arm's share minus the second's) or shift (how much longer the
                                   first arm's are)

OP is < <= > >=. VALUE of over-1s is a percentage (5%), of all others a duration (10ms). With several runs an arm is
named as stock@2, the 2 being its run's place on the command line; the number may be left out where only one has it.`,
		Example: `  napistall compare runs/before runs/after
  napistall compare runs/image-a runs/image-b --match stock=vendor
  napistall compare runs/today --threshold 'patched vs stock: over-1s < 5%' --threshold 'patched: p95 < 500ms'`,
		Args: usageArgs(func(cmd *cobra.Command, args []string) error {
			if c.schema {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.schema {
				_, err := io.WriteString(cmd.OutOrStdout(), report.CompareSchema())
				return err
			}
			return c.run(cmd.Context(), cmd.OutOrStdout(), args)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&c.match, "match", nil, "hold the arm `OLD=NEW` of the first run against another one; may be repeated")
	f.StringArrayVar(&c.thresholds, "threshold", nil, "exit with status 3 unless this `LIMIT` is kept; may be repeated")
	f.StringVar(&c.format, "format", "text", "text, json, mail or md")
	f.BoolVar(&c.schema, "schema", false, "print the JSON Schema of --format json and nothing else")
	return cmd
}

func (c compareCommand) run(ctx context.Context, w io.Writer, paths []string) error {
	write := map[string]func(report.Comparison) error{
		"text": func(r report.Comparison) error { return report.CompareText(w, r, textWidth(os.Stdout)) },
		"json": func(r report.Comparison) error { return report.CompareJSON(w, r) },
		"mail": func(r report.Comparison) error { return report.CompareMail(w, r) },
		"md":   func(r report.Comparison) error { return report.CompareMD(w, r) },
	}[c.format]
	if write == nil {
		return usagef("--format %s: want text, json, mail or md", c.format)
	}
	matches, err := parseMatches(c.match)
	if err != nil {
		return err
	}
	r := report.Comparison{}
	var sides []explain.Side
	for i, path := range paths {
		run, own, err := loadSides(path, i+1, len(paths) > 1)
		if err != nil {
			return err
		}
		r.Runs, sides = append(r.Runs, run), append(sides, own...)
	}
	pairs, unmatched, err := pairsOf(sides, paths, matches)
	if err != nil {
		return err
	}
	thresholds, err := parseThresholds(c.thresholds, sides)
	if err != nil {
		return err
	}
	r.Unmatched = unmatched
	if r.Comparisons, err = explain.CompareRuns(ctx, sides, pairs); err != nil {
		return err
	}
	r.Kept = explain.CheckThresholds(thresholds, sides)
	if err := write(r); err != nil {
		return err
	}
	if n := r.Unkept(); n > 0 {
		return fmt.Errorf("%w: %d of %d thresholds not kept, see above", errUnmet, n, len(r.Kept))
	}
	return nil
}

// loadSides opens a run, says what of it can't be used, and makes a side of each arm.
func loadSides(path string, number int, several bool) (report.ComparedRun, []explain.Side, error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return report.ComparedRun{}, nil, err
	}
	loaded := loadRun(dir)
	warnOf(dir)
	plan := dir.Plan()
	run := report.ComparedRun{Number: number, Path: path, Experiment: plan.Experiment.Name, Backend: plan.Backend, Version: plan.Version,
		Created: plan.Created, Planned: len(plan.Trials), Done: len(dir.Done()), Ended: dir.Ending().State == rundir.Complete}
	for _, p := range dir.Problems() {
		run.LeftOut = append(run.LeftOut, p.String())
	}
	starts := map[string]time.Time{}
	for _, id := range dir.Done() {
		if info, ok := dir.Info(id); ok {
			starts[id] = info.Started
		}
	}
	origin := explain.Origin{Version: plan.Version, Backend: plan.Backend, Host: hostOf(plan.Host), Tools: strings.Join(plan.Host.Tools, ", "),
		Quick: plan.Experiment.Quick}
	var sides []explain.Side
	for _, a := range loaded.Arms {
		label := a.Arm.Name
		if several {
			label = fmt.Sprintf("%s@%d", label, number)
		}
		sides = append(sides, explain.Side{Label: label, Run: number, Arm: a, Origin: origin, Starts: starts})
	}
	return run, sides, nil
}

func hostOf(h rundir.Host) string {
	if h.Release == "" && h.CPUs == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s, %d CPUs, %s", h.Release, h.Arch, h.CPUs, h.Model)
}

// A match says that an arm of the first run is held against one of another name.
type match struct{ older, newer string }

func parseMatches(words []string) ([]match, error) {
	var list []match
	for _, w := range words {
		older, newer, ok := strings.Cut(w, "=")
		if !ok || older == "" || newer == "" {
			return nil, usagef("--match %s: want OLD=NEW, the names of two arms", w)
		}
		list = append(list, match{older, newer})
	}
	return list, nil
}

// pairsOf says which sides are held against which, by their index, and which arms have no counterpart.
func pairsOf(sides []explain.Side, paths []string, matches []match) (pairs [][2]int, unmatched []string, err error) {
	used := map[int]bool{}
	add := func(i, j int) {
		pairs = append(pairs, [2]int{i, j})
		used[i], used[j] = true, true
	}
	if err := checkMatches(sides, paths, matches); err != nil {
		return nil, nil, err
	}
	for i, a := range sides {
		for j, b := range sides {
			if a.Run == 1 && counterparts(a, b, i < j, len(paths) == 1, matches) {
				add(i, j)
			}
		}
	}
	var names []string
	for i, s := range sides {
		if !used[i] {
			unmatched = append(unmatched, s.Label)
			names = append(names, harmlessName(s.Label))
		}
	}
	switch {
	case len(pairs) > 0 || len(paths) == 1 && len(sides) == 1:
		return pairs, unmatched, nil
	}
	return nil, nil, usagef("nothing to compare: no arm of %s has the name of one of the others (%s): say which belong together by --match OLD=NEW",
		paths[0], strings.Join(names, ", "))
}

// harmlessName writes an arm's name, which comes from a file, so that no terminal acts on it.
func harmlessName(s string) string { return strings.Trim(strconv.QuoteToGraphic(s), `"`) }

// counterparts reports whether a, of the first run, is to be held against b.
func counterparts(a, b explain.Side, before, single bool, matches []match) bool {
	if single && len(matches) == 0 {
		return before
	}
	if !single && b.Run == 1 {
		return false
	}
	i := slices.IndexFunc(matches, func(m match) bool { return m.older == a.Arm.Arm.Name })
	if i < 0 {
		return !single && a.Arm.Arm.Name == b.Arm.Arm.Name
	}
	return slices.Contains(matches, match{a.Arm.Arm.Name, b.Arm.Arm.Name})
}

func checkMatches(sides []explain.Side, paths []string, matches []match) error {
	has := func(name string, first bool) bool {
		return slices.ContainsFunc(sides, func(s explain.Side) bool {
			return s.Arm.Arm.Name == name && (s.Run == 1) == (first || len(paths) == 1)
		})
	}
	for _, m := range matches {
		switch {
		case !has(m.older, true):
			return usagef("--match %s=%s: %s has no arm %s: want one of %s", m.older, m.newer, paths[0], m.older, armNames(sides, true))
		case !has(m.newer, false):
			return usagef("--match %s=%s: no arm %s to hold against it: want one of %s", m.older, m.newer, m.newer, armNames(sides, len(paths) == 1))
		case len(paths) == 1 && m.older == m.newer:
			return usagef("--match %s=%s: want two arms of %s", m.older, m.newer, paths[0])
		}
	}
	return nil
}

func armNames(sides []explain.Side, first bool) string {
	var names []string
	for _, s := range sides {
		if name := harmlessName(s.Arm.Arm.Name); (s.Run == 1) == first && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func parseThresholds(texts []string, sides []explain.Side) ([]explain.Threshold, error) {
	var labels []string
	for _, s := range sides {
		labels = append(labels, s.Label)
	}
	var list []explain.Threshold
	for _, text := range texts {
		t, err := explain.ParseThreshold(text, labels)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}
