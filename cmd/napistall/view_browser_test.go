package main

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/napistall/napistall/internal/rundir"
	"github.com/napistall/napistall/internal/testenv"
)

// A browser that shows a run which goes on has each trial soon after it ended, and what its reader opened stays open.
func TestViewRenewsItselfInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("no browser with -short")
	}
	testenv.Need(t, testenv.Chromium)
	dir := newTestRun(t)
	srv := httptest.NewServer(&viewer{path: dir.Path(), host: "127.0.0.1"})
	t.Cleanup(srv.Close)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	messages := chromedp.Console(ctx)
	wait := func(condition string) {
		t.Helper()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(time.Minute))); err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
	}
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
