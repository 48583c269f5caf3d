package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestStoryPageInABrowser: every bar and mark is there and has a place, the buttons zoom, it is dark where that is asked for,
// nothing sticks out at 360 px, and what a kernel calls itself runs no script.
func TestStoryPageInABrowser(t *testing.T) {
	browser := newBrowser(t)
	page := func(name string, number int, change bool) tab {
		s := tell(number, nil)
		if change {
			s = tell(number, hostileStory)
		}
		var b bytes.Buffer
		if err := StoryHTML(&b, s); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name+".html")
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return openFile(t, browser, file)
	}
	p := page("held", 1, false)
	const drawn = `[...document.querySelectorAll("svg.track rect, svg.track line")].filter(e => { const b = e.getBoundingClientRect(); return b.height > 0 && b.right > 0; }).length`
	// 2 waits, 5 windows of the counters, 1 report, 2 predictions, the load.
	if n := evaluate[int](p, drawn); n != 11 {
		t.Errorf("%d bars and marks are drawn; want 11", n)
	}
	const ruler = `document.getElementById("ruler").textContent`
	whole := evaluate[string](p, ruler)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('[data-do="in"]').click()`))
	if got := evaluate[string](p, ruler); got == whole {
		t.Errorf("zoomed in, the ruler still says %s", got)
	}
	if got := evaluate[string](p, `document.querySelector("g.zoom").getAttribute("transform")`); got != "scale(2 1) translate(-250 0)" {
		t.Errorf("zoomed in: %s", got)
	}
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('[data-do="all"]').click()`))
	if got := evaluate[string](p, `document.querySelector("g.zoom").getAttribute("transform")`); got != "scale(1 1) translate(0 0)" {
		t.Errorf("all of it: %s", got)
	}
	const background = `getComputedStyle(document.body).backgroundColor`
	p.media("screen", "light")
	light := evaluate[string](p, background)
	p.media("screen", "dark")
	if dark := evaluate[string](p, background); dark == light {
		t.Errorf("dark and light are %s", dark)
	}
	for _, name := range []string{"held", "hostile"} {
		p := page(name, 1, name == "hostile")
		if _, err := chromedp.Call(p.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 360, Height: 800, DeviceScaleFactor: 1}); err != nil {
			t.Fatal(err)
		}
		if width := evaluate[int](p, `document.documentElement.scrollWidth`); width > 360 {
			t.Errorf("%s: %d px wide at 360", name, width)
		}
		if n := evaluate[int](p, `document.scripts.length`); n != 2 {
			t.Errorf("%s: %d scripts; want 2", name, n)
		}
	}
}
