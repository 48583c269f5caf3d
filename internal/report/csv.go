package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

// CSVFormat names the layout that CSV writes; it changes when a column does.
const CSVFormat = "napistall/samples/1"

// CSV writes a row for each sample of each operation that the kernel did not refuse, in the order of
// arms, trials, operations and start, below a heading. Times are whole nanoseconds: start on the
// target's clock since its boot, took. The columns wait_… count the stack samples in each wait. A
// text that a spreadsheet would take for a formula has a ' before it.
func CSV(w io.Writer, r Run) error {
	out := csv.NewWriter(w)
	head := []string{"format", "experiment", "arm", "trial", "rep", "outcome", "release", "arch", "model", "dynamic", "threaded",
		"load", "inflight", "band", "op", "phase", "start_ns", "took_ns", "censored"}
	for _, wait := range rcu.Waits() {
		head = append(head, "wait_"+string(wait))
	}
	if err := out.Write(head); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	for _, a := range r.Arms {
		for _, t := range a.Trials {
			if err := csvTrial(out, r, t); err != nil {
				return err
			}
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func csvTrial(out *csv.Writer, r Run, t explain.TrialSummary) error {
	fixed := []string{CSVFormat, cell(r.Experiment.Name), cell(t.Arm.Name), cell(t.ID), count(t.Rep), cell(t.Outcome),
		cell(t.Facts.Release), cell(t.Facts.Arch), cell(string(t.Facts.Preempt)), strconv.FormatBool(t.Facts.Dynamic),
		strconv.FormatBool(t.Arm.Threaded), cell(string(t.Arm.Load.Kind)), count(t.Arm.Load.InFlight()), string(t.Band.Band)}
	for _, op := range t.Ops {
		for _, phase := range [][]experiment.Sample{op.Hold, op.Tail} {
			for _, s := range phase {
				row := append(fixed[:len(fixed):len(fixed)], cell(s.Op), cell(s.Phase), strconv.FormatInt(int64(s.Start), 10),
					strconv.FormatInt(int64(s.Took), 10), strconv.FormatBool(s.Censored))
				for _, wait := range rcu.Waits() {
					row = append(row, count(s.Waits[wait]))
				}
				if err := out.Write(row); err != nil {
					return fmt.Errorf("write report: %w", err)
				}
			}
		}
	}
	return nil
}

// cell makes text harmless in a spreadsheet, where a cell that begins with one of these is a formula.
func cell(s string) string {
	s = clean(s)
	if strings.ContainsAny(first(s), "=+-@\t\r") {
		return "'" + s
	}
	return s
}

func first(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}
