package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/napistall/napistall/internal/rundir"
	"github.com/napistall/napistall/internal/testenv"
)

// newTab returns a tab of a browser of its own, and what closes it.
func newTab(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	if testing.Short() {
		t.Skip("no browser with -short")
	}
	testenv.Need(t, testenv.Chromium)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx, cancel
}

// waitFor waits until condition is true of the page in ctx.
func waitFor(ctx context.Context, t *testing.T, condition string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(time.Minute))); err != nil {
		t.Fatalf("%s: %v", condition, err)
	}
}

// A browser that shows a run which goes on has each trial soon after it ended, and what its reader opened stays open.
func TestViewRenewsItselfInABrowser(t *testing.T) {
	ctx, cancel := newTab(t)
	dir := newTestRun(t)
	srv := httptest.NewServer(&viewer{path: dir.Path(), host: "127.0.0.1"})
	t.Cleanup(srv.Close)
	wait := func(condition string) { waitFor(ctx, t, condition) }
	messages := chromedp.Console(ctx)
	live := `document.getElementById("live").textContent`
	if err := chromedp.Do(ctx, chromedp.Navigate(srv.URL)); err != nil {
		t.Fatal(err)
	}
	wait(live + ` === "not ended: 0 of 2 trials done"`)
	runTrial(t, dir, 0)
	wait(live + ` === "not ended: 1 of 2 trials done" && document.querySelector("[data-plot=strip] [data-marks]") !== null`)
	wait(`Array.from(document.querySelectorAll("#targets details")).map(d => d.open = true).length === 1`)
	runTrial(t, dir, 1)
	if err := dir.Finish(rundir.Ending{State: rundir.Complete}, nil); err != nil {
		t.Fatal(err)
	}
	wait(live + ` === "complete: 2 of 2 trials done" && document.querySelector("[data-plot=strip] [data-marks]").dataset.marks === "2"`)
	wait(`document.querySelector("#targets details").open`)
	cancel()
	for m, err := range messages {
		if err != nil {
			break
		}
		t.Errorf("the page's console says %s", m)
	}
}

// A page that can't be made anew leaves the old one, and the reader is told why.
func TestViewSaysWhyItIsNotRenewed(t *testing.T) {
	ctx, _ := newTab(t)
	dir := newTestRun(t)
	v := &viewer{path: dir.Path(), host: "127.0.0.1"}
	var broken atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() && r.URL.Path == "/" {
			http.Error(w, "no page today", http.StatusInternalServerError)
			return
		}
		v.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	if err := chromedp.Do(ctx, chromedp.Navigate(srv.URL)); err != nil {
		t.Fatal(err)
	}
	live := `document.getElementById("live").textContent`
	waitFor(ctx, t, live+` === "not ended: 0 of 2 trials done"`)
	broken.Store(true)
	runTrial(t, dir, 0)
	waitFor(ctx, t, live+`.includes("no page today") && document.getElementById("main") !== null`)
	broken.Store(false)
	waitFor(ctx, t, live+` === "not ended: 1 of 2 trials done"`)
}
