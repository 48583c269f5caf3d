package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/napistall/napistall/internal/check"
)

// checkFormat is the version of check's JSON.
const checkFormat = "napistall/check/1"

// changed returns the flags that were given.
func changed(cmd *cobra.Command) []string {
	var out []string
	cmd.Flags().Visit(func(f *pflag.Flag) { out = append(out, f.Name) })
	return out
}

// printAnswer writes a verdict with what it took, and the story of a violation.
func printAnswer(w io.Writer, a *check.Answer, first bool) error {
	if first {
		v := a.Variant
		fmt.Fprintf(w, "%s\n", v)
	}
	fmt.Fprintf(w, "\n%s: %s\n", a.Property, sentence(a))
	fmt.Fprintf(w, "    %s\n", effort(a))
	if a.Entries != nil {
		fmt.Fprintf(w, "    %s\n", entries(a.Entries))
	}
	if a.Run == nil {
		return nil
	}
	story, err := a.Tell()
	if err != nil {
		return err
	}
	if a.Invariant == "" {
		fmt.Fprintf(w, "    a run that never gets there:\n")
	} else {
		fmt.Fprintf(w, "    a run that breaks it:\n")
	}
	story.Print(w)
	return nil
}

// sentence is what was asked with the verdict.
func sentence(a *check.Answer) string {
	text := a.Property.Text()
	if a.TicksOutside {
		text += ", if ticks land outside the BH-off part again and again"
	}
	text += ": " + string(a.Verdict)
	switch {
	case a.Invariant != "":
		text += ", as an invariant is broken: " + a.Invariant
	case a.Verdict == check.NotDecided:
		text += fmt.Sprintf(": no violation found within %d states, and there are more: %s", a.States, a.Why)
	case a.Verdict == check.Holds && a.Pending == 0:
		text += ", but nothing ever waits for it here"
	}
	return text
}

// effort says what the search took. Only the time depends on the machine.
func effort(a *check.Answer) string {
	return fmt.Sprintf("%d states (%d of them waiting), %d transitions, depth %d, %.2f s, %.1f MiB",
		a.States, a.Pending, a.Transitions, a.Depth, a.Elapsed.Seconds(), float64(a.Bytes)/(1<<20))
}

func entries(e *check.Entries) string {
	switch {
	case e.Unknown != "":
		return "entries that a waiter is passed over: not known: " + e.Unknown
	case e.Endless:
		return "entries that a waiter is passed over: ∞"
	}
	return fmt.Sprintf("entries that a waiter is passed over: at most %d, if whatever has to happen does so within one entry", e.Most)
}

// An answerJSON is an answer with its story.
type answerJSON struct {
	check.Answer
	Seconds float64      `json:"seconds"`
	Story   *check.Story `json:"story,omitempty"`
}

func toJSON(a check.Answer) (answerJSON, error) {
	j := answerJSON{Answer: a, Seconds: a.Elapsed.Seconds()}
	if a.Run == nil {
		return j, nil
	}
	story, err := a.Tell()
	j.Story = &story
	return j, err
}

func printAnswersJSON(w io.Writer, answers []check.Answer) error {
	doc := struct {
		Format  string       `json:"format"`
		Answers []answerJSON `json:"answers"`
	}{Format: checkFormat}
	for _, a := range answers {
		j, err := toJSON(a)
		if err != nil {
			return err
		}
		doc.Answers = append(doc.Answers, j)
	}
	return json.NewEncoder(w).Encode(doc)
}

// matrix computes and prints every cell, and complains if one isn't what was expected.
func (c *checkCommand) matrix(ctx context.Context, w io.Writer, lim check.Limits) error {
	began := time.Now()
	rows := check.Matrix()
	if err := check.Fill(ctx, rows, lim, nil); err != nil {
		return err
	}
	elapsed := time.Since(began)
	var err error
	if c.json {
		err = printMatrixJSON(w, rows, elapsed)
	} else {
		err = printMatrix(w, rows, elapsed)
	}
	return errors.Join(err, verdictOfMatrix(rows))
}

// verdictOfMatrix is errFound if a cell isn't what was expected, errUndecided if one is open.
func verdictOfMatrix(rows []check.Row) error {
	var err error
	for _, r := range rows {
		for _, cell := range r.Cells {
			switch {
			case cell.Computed == cell.Expected:
			case strings.Contains(cell.Computed, check.Open):
				err = fmt.Errorf("%w: %s, %s: %s", errUndecided, r.Title, r.Models, cell.Column)
			default:
				return errFound
			}
		}
	}
	return err
}

func printMatrix(w io.Writer, rows []check.Row, elapsed time.Duration) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "loop variant\tmodel\t%s\n", strings.Join(check.Columns(), "\t"))
	notes := map[string]int{}
	var order []string
	total := check.Answer{}
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s", r.Title, r.Models)
		for _, column := range check.Columns() {
			fmt.Fprintf(tw, "\t%s", cellText(r, column, notes, &order))
		}
		fmt.Fprintln(tw)
		for _, cell := range r.Cells {
			for _, a := range cell.Answers {
				total.States += a.States
				total.Transitions += a.Transitions
				total.Depth = max(total.Depth, a.Depth)
			}
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i, text := range order {
		fmt.Fprintf(w, "[%d] %s\n", i+1, text)
	}
	fmt.Fprintf(w, "%d states, %d transitions, depth up to %d, %.2f s\n", total.States, total.Transitions, total.Depth, elapsed.Seconds())
	return nil
}

// cellText is a cell, short; what doesn't fit goes into a note.
func cellText(r check.Row, column string, notes map[string]int, order *[]string) string {
	for _, cell := range r.Cells {
		if cell.Column != column {
			continue
		}
		text, note := cell.Computed, ""
		switch {
		case text == check.YesIfTicks:
			text, note = check.Yes, check.YesIfTicks
		case text != check.Yes && text != check.No && text != check.Open:
			text, note = "differs", text
		}
		text += citation(note, notes, order)
		if cell.Computed != cell.Expected {
			text += citation("expected: "+cell.Expected, notes, order)
		}
		return text
	}
	return "-"
}

// citation returns a note's number in brackets, a new one if it is new.
func citation(note string, notes map[string]int, order *[]string) string {
	if note == "" {
		return ""
	}
	if _, ok := notes[note]; !ok {
		*order = append(*order, note)
		notes[note] = len(*order)
	}
	return fmt.Sprintf(" [%d]", notes[note])
}

func printMatrixJSON(w io.Writer, rows []check.Row, elapsed time.Duration) error {
	return json.NewEncoder(w).Encode(struct {
		Format  string      `json:"format"`
		Rows    []check.Row `json:"rows"`
		Seconds float64     `json:"seconds"`
	}{checkFormat, rows, elapsed.Seconds()})
}
