package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

func newReport() *cobra.Command {
	var format string
	var long bool
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Print a finished or interrupted run again",
		Long: `Print the run in the directory RUN: as the table (text; --long for all of it), as one JSON document, as
CSV with a row for each sample, or as plain text under 72 columns for a kernel mailing list (mail).`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return printReport(cmd, args[0], format, long)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, json, csv or mail")
	cmd.Flags().BoolVar(&long, "long", false, "print the long form of the text")
	return cmd
}

func printReport(cmd *cobra.Command, path, format string, long bool) error {
	w := cmd.OutOrStdout()
	write := map[string]func(report.Run) error{
		"text": func(r report.Run) error {
			return report.Text(w, r, report.Options{Long: long, Width: textWidth(os.Stdout)})
		},
		"json": func(r report.Run) error { return report.JSON(w, r) },
		"csv":  func(r report.Run) error { return report.CSV(w, r) },
		"mail": func(r report.Run) error { return report.Mail(w, r) },
	}[format]
	if write == nil {
		return usagef("--format %s: want text, json, csv or mail", format)
	}
	dir, err := rundir.Open(path)
	if err != nil {
		return err
	}
	run := loadRun(dir)
	warnOf(dir)
	run.Interrupted = dir.Ending().State != rundir.Complete
	return write(run)
}

// warnOf says what of a run can't be used.
func warnOf(dir *rundir.Dir) {
	for _, p := range dir.Problems() {
		slog.Warn(dir.Path() + ": left out: " + p.String())
	}
}
