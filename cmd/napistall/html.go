package main

import (
	"fmt"
	"io"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

// writeHTML writes run, which was read from dir, as a page.
func writeHTML(w io.Writer, dir *rundir.Dir, run report.Run) error {
	x, err := loadExtras(dir, run)
	if err != nil {
		return err
	}
	return report.HTML(w, run, x)
}

// loadExtras reads what a page shows of run beside run itself.
func loadExtras(dir *rundir.Dir, run report.Run) (report.Extras, error) {
	var x report.Extras
	for _, p := range dir.Problems() {
		x.Problems = append(x.Problems, p.String())
	}
	for _, a := range run.Arms {
		for _, t := range a.Trials {
			extra, err := loadExtra(dir, t)
			if err != nil {
				return x, err
			}
			if extra.Command, err = dir.Command(t.ID); err != nil { // every other format does without it
				x.Problems = append(x.Problems, fmt.Sprintf("command file: %v", err))
			}
			x.Trials = append(x.Trials, extra)
		}
	}
	return x, nil
}

func loadExtra(dir *rundir.Dir, t explain.TrialSummary) (report.TrialExtra, error) {
	watch := report.NewWatch(t.ID)
	if err := addRecords(dir, t.ID, watch); err != nil {
		return report.TrialExtra{}, err
	}
	return watch.Extra(t), nil
}
