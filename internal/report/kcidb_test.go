package report

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
)

func kcidb(w io.Writer, r Run) error { return KCIDB(w, r, KCIDBOrigin) }

// The schema is what kcidb-io's v05_03 asks, in a file of our own: KernelCI publishes it as a Python program.
func TestKCIDBFollowsItsSchema(t *testing.T) {
	schema := schemaFile(t, "testdata/kcidb.schema")
	for name, r := range runs() {
		if err := conforms(schema, written(t, kcidb, r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole := written(t, kcidb, runs()["reproduced"])
	for _, wrong := range [][2]string{{`"major": 5`, `"major": 6`}, {`"status": "PASS"`, `"status": "OK"`}, {`"napistall:`, `"Napi:`},
		{`"path": "napistall.`, `"path": "napistall..`}, {`"tests"`, `"test"`}, {`"unit": "s"`, `"units": "s"`}, {`"build_id"`, `"build"`}} {
		if text := strings.Replace(whole, wrong[0], wrong[1], 1); text == whole || conforms(schema, text) == nil {
			t.Errorf("with %s for %s it still conforms", wrong[1], wrong[0])
		}
	}
}

// Every reference leads to an object, no identity stands twice, and no object is left out.
func TestKCIDBIsLinked(t *testing.T) {
	for name, r := range runs() {
		var d kcidbDocument
		if err := json.Unmarshal([]byte(written(t, kcidb, r)), &d); err != nil {
			t.Fatal(err)
		}
		checkouts, builds, tests := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, c := range d.Checkouts {
			checkouts[c.ID] = true
		}
		for _, b := range d.Builds {
			builds[b.ID] = true
			if !checkouts[b.CheckoutID] {
				t.Errorf("%s: build of checkout %s, which is not there", name, b.CheckoutID)
			}
		}
		for _, x := range d.Tests {
			tests[x.ID] = true
			if !builds[x.BuildID] {
				t.Errorf("%s: test of build %s, which is not there", name, x.BuildID)
			}
		}
		done, _ := r.trials()
		if want := done + len(r.Aborted) + len(r.NotRun); len(tests) != want || len(d.Tests) != want || len(checkouts) != len(d.Checkouts) || len(builds) != len(d.Builds) {
			t.Errorf("%s: %d tests by %d names; want %d", name, len(d.Tests), len(tests), want)
		}
	}
}

func TestKCIDBNamesWhatItSaw(t *testing.T) {
	ids := func(r Run, origin string) string {
		var b strings.Builder
		if err := KCIDB(&b, r, origin); err != nil {
			t.Fatal(err)
		}
		var d kcidbDocument
		if err := json.Unmarshal([]byte(b.String()), &d); err != nil {
			t.Fatal(err)
		}
		return d.Tests[0].ID
	}
	a, b := stock(), stock()
	b.deletes = some(2, 31e9)
	if x, y := ids(run("x", "", a), "lab"), ids(run("x", "", b), "lab"); x == y || !strings.HasPrefix(x, "lab:") {
		t.Errorf("two runs of one experiment have the tests %s and %s", x, y)
	}
	if x, y := ids(run("x", "", a), "lab"), ids(run("x", "", a), "lab"); x != y {
		t.Errorf("one run has the tests %s and %s", x, y)
	}
}

func TestKCIDBStatus(t *testing.T) {
	stalled, control, above, fine := stock().summary(), softirq().summary(), aboveBand().summary(), lazy().summary()
	panicked, silent := lazy(), lazy()
	panicked.outcome, silent.outcome = experiment.Panicked, experiment.Silent
	for _, c := range []struct {
		name string
		t    explain.TrialSummary
		want string
	}{{"stalled", stalled, "FAIL"}, {"control", control, "PASS"}, {"above the band", above, "DONE"}, {"in the band", fine, "PASS"},
		{"panicked", panicked.summary(), "FAIL"}, {"silent", silent.summary(), "ERROR"}} {
		if got := kcidbStatus(c.t); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
	}
}
