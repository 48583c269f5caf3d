package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rundir"
)

// newTestRun makes a run directory of one arm with two trials that nobody has run.
func newTestRun(t *testing.T) *rundir.Dir {
	t.Helper()
	text := []byte("name: two\nreps: 2\nload: {kind: bounce, hold: 5s}\narms: [{name: a, kernel: \"file:x\"}]\n")
	e, err := experiment.Parse("two.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := rundir.Create(filepath.Join(t.TempDir(), "a [1]"), text, rundir.Plan{Experiment: *e, Trials: experiment.Plan(e), Backend: "sim"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() }) // only a lock
	return dir
}

func runTrial(t *testing.T, dir *rundir.Dir, i int) {
	t.Helper()
	w, err := dir.Begin(dir.Plan().Trials[i])
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []experiment.Record{
		{Facts: &experiment.Facts{Release: "6.1<i>", CPUs: 2}},
		{At: 1e9, Phase: &experiment.Phase{Name: experiment.Hold}},
		{Sample: &experiment.Sample{Op: experiment.LinkDel, Start: 1e9, Took: 20 * time.Millisecond, Phase: experiment.Hold}},
		{End: &experiment.End{Outcome: experiment.Completed}},
	} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func answer(v *viewer, method, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	return w
}

func TestViewFollowsARun(t *testing.T) {
	dir := newTestRun(t)
	v := &viewer{path: dir.Path(), host: "127.0.0.1"}
	state := func() news {
		t.Helper()
		w := answer(v, "GET", "127.0.0.1:1234", "/state")
		var n news
		if err := json.Unmarshal(w.Body.Bytes(), &n); err != nil || w.Code != http.StatusOK {
			t.Fatalf("/state: %d, %v: %s", w.Code, err, w.Body)
		}
		return n
	}
	page := func() string {
		t.Helper()
		w := answer(v, "GET", "127.0.0.1:1234", "/")
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Fatalf("/: %d %v: %s", w.Code, w.Header(), w.Body)
		}
		return w.Body.String()
	}
	first := state()
	if first.Ended || first.Live != "not ended: 0 of 2 trials done" {
		t.Errorf("before the first trial: %+v", first)
	}
	if p := page(); !strings.Contains(p, "not run") || !strings.Contains(p, first.State) {
		t.Errorf("the page before the first trial lacks its state or its arm")
	}
	w, err := dir.Begin(dir.Plan().Trials[0])
	if err != nil {
		t.Fatal(err)
	}
	if n := state(); n.State != first.State || !strings.Contains(n.Live, "under way: 000-a-1 (begun ") {
		t.Errorf("while a trial runs: %+v", n)
	}
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	runTrial(t, dir, 0)
	second := state()
	if second.State == first.State || second.Live != "not ended: 1 of 2 trials done" {
		t.Errorf("after the first trial: %+v", second)
	}
	if p := page(); !strings.Contains(p, "6.1&lt;i&gt;") || !strings.Contains(p, second.State) {
		t.Error("the page after the first trial does not show it")
	}
	runTrial(t, dir, 1)
	if err := dir.Finish(rundir.Ending{State: rundir.Complete}, nil); err != nil {
		t.Fatal(err)
	}
	if n := state(); !n.Ended || n.Live != "complete: 2 of 2 trials done" || n.State == second.State {
		t.Errorf("after the end: %+v", n)
	}
}

func TestViewRefusesStrangers(t *testing.T) {
	v := &viewer{path: newTestRun(t).Path(), host: "board.lan"}
	for _, c := range []struct {
		method, host, path string
		want               int
	}{
		{"GET", "127.0.0.1:80", "/", 200},
		{"GET", "[::1]:80", "/state", 200},
		{"GET", "localhost:80", "/", 200},
		{"GET", "LOCALHOST", "/", 200},
		{"GET", "192.168.1.2:8080", "/", 200},
		{"GET", "board.lan:80", "/", 200},
		{"GET", "evil.example:80", "/", 403},
		{"GET", "evil.example", "/state", 403},
		{"GET", "localhost.evil.example", "/", 403},
		{"GET", "127.0.0.1.evil.example:80", "/", 403},
		{"GET", "", "/", 403},
		{"POST", "evil.example", "/", 403},
		{"POST", "localhost", "/", 405},
		{"HEAD", "localhost", "/", 405},
		{"PUT", "localhost", "/state", 405},
		{"GET", "localhost", "/trials/", 404},
		{"GET", "localhost", "/../plan.json", 404},
	} {
		w := answer(v, c.method, c.host, c.path)
		if w.Code != c.want {
			t.Errorf("%s %s of %q: %d; want %d", c.method, c.path, c.host, w.Code, c.want)
		}
		if h := w.Header(); h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, h)
		}
	}
	gone := &viewer{path: filepath.Join(t.TempDir(), "gone")}
	for _, path := range []string{"/", "/state"} {
		if w := answer(gone, "GET", "localhost", path); w.Code != 500 || !strings.Contains(w.Body.String(), "gone") {
			t.Errorf("%s of a run that is gone: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestPageDoesWithoutACommand: of a trial whose command can't be read, the rest is shown, and what is missing is said.
func TestPageDoesWithoutACommand(t *testing.T) {
	made := newTestRun(t)
	runTrial(t, made, 0)
	dir, err := rundir.Open(made.Path())
	if err != nil {
		t.Fatal(err)
	}
	id := dir.Plan().Trials[0].ID()
	if err := os.Remove(filepath.Join(dir.Path(), "trials", id, "command")); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := writeHTML(&page, dir, loadRun(dir)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"left out: command file: trial " + id + ": open ", "6.1&lt;i&gt;"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestLiveWords(t *testing.T) {
	dir := newTestRun(t)
	for _, c := range []struct {
		end  rundir.Ending
		want string
	}{
		{rundir.Ending{State: rundir.Interrupted}, "interrupted: 0 of 2 trials done, 1 aborted"},
		{rundir.Ending{State: rundir.Failed, Why: "no disk"}, "failed: 0 of 2 trials done, 1 aborted: no disk"},
	} {
		if len(dir.Aborted()) == 0 {
			if err := dir.AddAborted(rundir.Aborted{Trial: dir.Plan().Trials[0].ID(), Error: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := dir.Finish(c.end, nil); err != nil {
			t.Fatal(err)
		}
		if got := liveWords(dir, time.Now()); got != c.want {
			t.Errorf("%v: %q; want %q", c.end.State, got, c.want)
		}
	}
	if got := fmt.Sprint(underWay(dir, time.Now())); got != "[]" {
		t.Errorf("under way: %s", got)
	}
}
