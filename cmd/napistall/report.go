package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/napistall/napistall/internal/report"
	"github.com/napistall/napistall/internal/rundir"
)

// A reportCommand holds report's flags.
type reportCommand struct {
	format, out, origin, schema string
	long                        bool
}

// A reportFormat is one way to write a run that was read from dir.
type reportFormat struct {
	name, about string
	write       func(w io.Writer, dir *rundir.Dir, r report.Run) error
}

// formats are what --format names.
func (c reportCommand) formats() []reportFormat {
	plain := func(write func(io.Writer, report.Run) error) func(io.Writer, *rundir.Dir, report.Run) error {
		return func(w io.Writer, _ *rundir.Dir, r report.Run) error { return write(w, r) }
	}
	return []reportFormat{
		{"text", "the table and the verdict, for a terminal", plain(func(w io.Writer, r report.Run) error { return report.Text(w, r, c.text()) })},
		{"mail", "plain text under 72 columns, for a kernel mailing list", plain(report.Mail)},
		{"md", "Markdown, for GitHub", plain(report.MD)},
		{"json", "one document with everything", plain(report.JSON)},
		{"csv", "a row for each sample", plain(report.CSV)},
		{"html", "one page with everything and plots, which needs no network", writeHTML},
		{"bench", "lines of Go benchmarks, for benchstat", plain(report.Bench)},
		{"junit", "test suites in XML, for CI systems", plain(report.JUnit)},
		{"kcidb", fmt.Sprintf("KernelCI's schema %d.%d, under --origin", report.KCIDBMajor, report.KCIDBMinor),
			plain(func(w io.Writer, r report.Run) error { return report.KCIDB(w, r, c.origin) })},
	}
}

// text says how text is written: as wide as the terminal that it goes to.
func (c reportCommand) text() report.Options {
	o := report.Options{Long: c.long}
	if c.out == "" {
		o.Width, o.Color = textWidth(os.Stdout), hasColor(os.Stdout)
	}
	return o
}

// hasColor reports whether f is a terminal that draws colours, and nobody has asked for none (no-color.org).
func hasColor(f *os.File) bool {
	return isScreen(f) && os.Getenv("NO_COLOR") == ""
}

// isScreen reports whether f is a terminal that can move its cursor.
func isScreen(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

func newReport() *cobra.Command {
	var c reportCommand
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Print a finished or interrupted run again",
		Args: usageArgs(func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("schema") {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(1)(cmd, args)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.schema != "" {
				return c.printSchema(cmd.OutOrStdout())
			}
			return c.run(cmd.OutOrStdout(), args[0])
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.Long = "Print the run in the directory RUN in one of these formats, which docs/formats.md describes:\n"
	var names []string
	for _, f := range c.formats() {
		cmd.Long += "\n  " + f.name + strings.Repeat(" ", 7-len(f.name)) + f.about
		names = append(names, f.name)
	}
	cmd.Flags().StringVar(&c.format, "format", "text", listWords(names))
	cmd.Flags().BoolVar(&c.long, "long", false, "print the long form of the text")
	cmd.Flags().StringVar(&c.origin, "origin", report.KCIDBOrigin, "kcidb: submit as the system `NAME`, which KernelCI gave to you")
	cmd.Flags().StringVar(&c.schema, "schema", "", "print the JSON Schema of `FORMAT` ("+listWords(report.Schemas())+") and nothing else")
	cmd.Flags().StringVarP(&c.out, "output", "o", "", "write to `FILE`, which is only there, or replaced, once it is whole")
	return cmd
}

// listWords makes "a, b or c" of a list.
func listWords(list []string) string {
	n := len(list) - 1
	return strings.Join(list[:n], ", ") + " or " + list[n]
}

func (c reportCommand) printSchema(stdout io.Writer) error {
	text := report.Schema(c.schema)
	if text == "" {
		return usagef("--schema %q: want %s", c.schema, listWords(report.Schemas()))
	}
	return writeOutput(c.out, stdout, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func (c reportCommand) run(stdout io.Writer, path string) error {
	formats := c.formats()
	i := slices.IndexFunc(formats, func(f reportFormat) bool { return f.name == c.format })
	if i < 0 {
		var names []string
		for _, f := range formats {
			names = append(names, f.name)
		}
		return usagef("--format %q: want %s", c.format, listWords(names))
	}
	if c.long && c.format != "text" {
		return usagef("--long goes with --format text")
	}
	if !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(c.origin) {
		return usagef("--origin %q: want lower-case letters, digits and _", c.origin)
	}
	if c.origin != report.KCIDBOrigin && c.format != "kcidb" {
		return usagef("--origin goes with --format kcidb")
	}
	dir, err := rundir.Open(path)
	if err != nil {
		return err
	}
	run := loadRun(dir)
	warnOf(dir)
	run.Interrupted = dir.Ending().State != rundir.Complete
	return writeOutput(c.out, stdout, func(w io.Writer) error { return formats[i].write(w, dir, run) })
}

// warnOf says what of a run can't be used.
func warnOf(dir *rundir.Dir) {
	for _, p := range dir.Problems() {
		slog.Warn(dir.Path() + ": left out: " + p.String())
	}
}
