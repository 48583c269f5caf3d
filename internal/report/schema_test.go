package report

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

// schemaOf compiles the JSON Schema in text.
func schemaOf(t testing.TB, text string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// conforms holds the JSON text against s.
func conforms(s *jsonschema.Schema, text string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(doc)
}

func schemaFile(t testing.TB, name string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return schemaOf(t, string(text))
}

// TestJSONFollowsItsSchema holds every kind of run against it, and runs that were read from hostile records.
func TestJSONFollowsItsSchema(t *testing.T) {
	schema := schemaOf(t, Schema("json"))
	for name, r := range schemaRuns() {
		if err := conforms(schema, written(t, JSON, r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	text := written(t, JSON, runs()["reproduced"])
	for _, wrong := range [][2]string{{JSONFormat, "napistall/report/2"}, {`"quick"`, `"quik"`}, {`"reps": 1`, `"reps": "1"`},
		{`"word": "reproduced"`, `"word": "seen"`}, {`"took_ns"`, `"took"`}, {`"band": "in"`, `"band": "inside"`}, {`"arms": [`, `"new": 1, "arms": [`}} {
		if got := strings.Replace(text, wrong[0], wrong[1], 1); got == text || conforms(schema, got) == nil {
			t.Errorf("with %s for %s it still conforms", wrong[1], wrong[0])
		}
	}
}

// schemaRuns are the runs of the golden files and some that nobody would draw.
func schemaRuns() map[string]Run {
	all := runs()
	all["empty"] = New(experiment.Experiment{}, nil)
	all["no record"] = New(experiment.Experiment{Arms: []experiment.Arm{arm("a")}},
		[]explain.TrialSummary{explain.NewTrial(experiment.Trial{Rep: 1, Arm: arm("a")}).Summary()})
	s := stock()
	s.facts.Preempt, s.facts.Flavor, s.facts.Unknown = "evil", "rcu_\x00", []string{"\xff"}
	s.outcome, s.arm.Probe.Op = "\u202e", "rm -rf"
	s.arm.StallTimeout, s.arm.Load.Kind = math.MaxInt64, experiment.External
	s.deletes = []time.Duration{0, math.MaxInt64, math.MinInt64, -1}
	s.second.Polls, s.second.RunTime, s.second.Interrupts = math.MaxUint64/40, math.MaxInt64/40, math.MaxUint64
	s.loss = experiment.Loss{What: "\x1b", Count: math.MaxInt}
	s.kmsg = append(s.kmsg, "INFO: task ip:99 blocked for more than 120 seconds.", "BUG: workqueue lockup - pool cpus=1 node=0 flags=0x0 nice=0 stuck for 44s!")
	all["extremes"] = run("x", "", s)
	return all
}

// TestCSVFollowsItsSchema holds the heading and every row against it.
func TestCSVFollowsItsSchema(t *testing.T) {
	var columns struct {
		PrefixItems []struct{ Title, Description string }
	}
	if err := json.Unmarshal([]byte(Schema("csv")), &columns); err != nil {
		t.Fatal(err)
	}
	schema := schemaOf(t, Schema("csv"))
	rows := 0
	for name, r := range schemaRuns() {
		all, err := csv.NewReader(strings.NewReader(written(t, CSV, r))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range columns.PrefixItems {
			if len(all[0]) != len(columns.PrefixItems) || all[0][i] != c.Title || c.Description == "" {
				t.Fatalf("%s: the heading is %q; want the schema's titles, each with a description", name, all[0])
			}
		}
		for _, row := range all[1:] {
			cells := make([]any, len(row))
			for i, c := range row {
				cells[i] = c
			}
			if rows++; schema.Validate(cells) != nil {
				t.Fatalf("%s: %q: %v", name, row, schema.Validate(cells))
			}
			cells[0] = "napistall/samples/2"
			if schema.Validate(cells) == nil || schema.Validate(cells[1:]) == nil {
				t.Fatal("a row of another format conforms")
			}
		}
	}
	if rows < 900 {
		t.Errorf("only %d rows were looked at", rows)
	}
}

func TestSchemaNames(t *testing.T) {
	for _, name := range Schemas() {
		if !json.Valid([]byte(Schema(name))) {
			t.Errorf("the schema of %s is no JSON", name)
		}
	}
	if Schema("text") != "" {
		t.Error("text has a schema")
	}
}
