package report

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/napistall/napistall/internal/testenv"
)

// newBrowser starts a browser without a screen for the length of t. As root it has no sandbox of its own.
func newBrowser(t *testing.T) context.Context {
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
	return ctx
}

// A tab is a page in a browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// open loads r's page from a file in a tab of its own. What the page's console says fails t at its end.
func open(t *testing.T, browser context.Context, r Run) tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, []byte(pageOf(t, r)), 0o644); err != nil {
		t.Fatal(err)
	}
	return openFile(t, browser, file)
}

func openFile(t *testing.T, browser context.Context, file string) tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	p := tab{t, ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	messages := chromedp.Console(ctx)
	done := make(chan []string)
	go func() {
		var said []string
		for m, err := range messages {
			if err != nil {
				break
			}
			said = append(said, m.String())
		}
		done <- said
	}()
	t.Cleanup(func() {
		cancel()
		if said := <-done; len(said) > 0 {
			t.Errorf("the page's console says %q", said)
		}
	})
	p.do(chromedp.Navigate("file://" + file))
	return p
}

func (p tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// media makes the page one for a screen or a printer of a colour scheme.
func (p tab) media(kind, scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: kind,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		p.t.Fatal(err)
	}
}

func evaluate[T any](p tab, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	return v
}

// drawn counts the marks of each plot that have a place on the page within their drawing.
const drawn = `(() => {
	const out = {};
	for (const plot of document.querySelectorAll("[data-plot]")) {
		let n = 0;
		for (const m of plot.querySelectorAll("[data-marks], .mark, .cell:not(.empty)")) {
			const box = m.getBoundingClientRect();
			const drawing = (m.closest("svg.plot") || plot).getBoundingClientRect();
			// A path of one dot has no extent of its own, only its stroke's.
			const seen = m.dataset.marks ? getComputedStyle(m).strokeWidth !== "0px" : box.width + box.height > 0;
			if (seen && box.right >= drawing.left - 8 && box.left <= drawing.right + 8 &&
				box.bottom >= drawing.top - 12 && box.top <= drawing.bottom + 12) {
				n += m.dataset.marks ? Number(m.dataset.marks) : 1;
			}
		}
		out[plot.dataset.plot] = (out[plot.dataset.plot] || 0) + n;
	}
	return out;
})()`

// tooPale lists texts whose contrast with what is behind them is under 4.5, WCAG's AA.
const tooPale = `(() => {
	const lum = c => { const v = c.map(x => { x /= 255; return x <= 0.04045 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4); });
		return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
	const parse = s => s.match(/[\d.]+/g).map(Number);
	const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
		if (c.length === 3 || c[3] > 0) return c.slice(0, 3); } return [255, 255, 255]; };
	const out = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = walk.nextNode());) {
		const e = n.parentElement;
		if (!n.textContent.trim() || ["SCRIPT", "STYLE", "TITLE", "title"].includes(e.tagName)) continue;
		const style = getComputedStyle(e);
		const a = lum(parse(e.closest("svg") ? style.fill : style.color).slice(0, 3)), b = lum(behind(e));
		if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) out.add(e.tagName + "." + (e.getAttribute("class") || "") + " " + n.textContent.trim().slice(0, 30));
	}
	return Array.from(out);
})()`

func TestPageInABrowser(t *testing.T) {
	browser := newBrowser(t)
	for _, name := range []string{"reproduced", "models", "hostile", "censored", "zero", "broken"} {
		t.Run(name, func(t *testing.T) {
			r := runs()[name]
			p := open(t, browser, r)
			els := elements(t, pageOf(t, r))
			p.do(chromedp.EmulateViewport(1100, 900))
			got := evaluate[map[string]int](p, `document.querySelectorAll("details").forEach(d => d.open = true), `+drawn)
			for _, plot := range []string{"strip", "cdf", "time", "waits", "heat"} {
				if want := marks(els, plot); got[plot] != want {
					t.Errorf("%s has %d marks that can be seen; want %d", plot, got[plot], want)
				}
			}
			colours := map[string]string{}
			for _, scheme := range []string{"light", "dark"} {
				p.media("screen", scheme)
				colours[scheme] = evaluate[string](p, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color`)
				if pale := evaluate[[]string](p, tooPale); len(pale) > 0 {
					t.Errorf("%s: too little contrast: %q", scheme, pale)
				}
			}
			if colours["light"] == colours["dark"] {
				t.Errorf("light and dark are both %s", colours["light"])
			}
			p.media("screen", "light")
			p.do(chromedp.EmulateViewport(360, 740))
			if w := evaluate[int](p, `Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)`); w > 360 {
				t.Errorf("at 360 px the page is %d px wide", w)
			}
			if size := evaluate[float64](p, `Math.min(...Array.from(document.querySelectorAll("body *")).filter(e => e.textContent.trim() && e.getClientRects().length).
				map(e => parseFloat(getComputedStyle(e).fontSize)))`); size < 11 {
				t.Errorf("at 360 px there is text of %v px", size)
			}
		})
	}
}

func TestPageIsPrinted(t *testing.T) {
	p := open(t, newBrowser(t), runs()["reproduced"])
	p.media("print", "dark")
	if c := evaluate[string](p, `getComputedStyle(document.documentElement).getPropertyValue("--ink") + getComputedStyle(document.body).backgroundColor`); c != "#1a1d21rgb(255, 255, 255)" {
		t.Errorf("print has the colours %s", c)
	}
	if n := evaluate[int](p, `getComputedStyle(document.querySelector("nav")).display === "none" ? 0 : 1`); n != 0 {
		t.Error("the navigation is printed")
	}
	closed := `Array.from(document.querySelectorAll("details")).filter(d => !d.open).length`
	before := evaluate[int](p, closed)
	during := evaluate[int](p, `dispatchEvent(new Event("beforeprint")), `+closed)
	after := evaluate[int](p, `dispatchEvent(new Event("afterprint")), `+closed)
	if before == 0 || during != 0 || after != before {
		t.Errorf("closed details before, while and after printing: %d, %d, %d", before, during, after)
	}
	if pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF()); err != nil || len(pdf) < 10_000 {
		t.Errorf("printed: %d bytes, %v", len(pdf), err)
	}
}

func TestPageGivesItsData(t *testing.T) {
	r := runs()["hostile"]
	p := open(t, newBrowser(t), r)
	got := evaluate[string](p, `(async () => {
		let blob, name;
		const make = URL.createObjectURL;
		URL.createObjectURL = b => { blob = b; return make.call(URL, b); };
		HTMLAnchorElement.prototype.click = function () { name = this.download; };
		document.getElementById("download").click();
		const data = JSON.parse(await blob.text());
		return [name, data.format, data.report.experiment.question, data.report.arms[0].name].join("|");
	})()`)
	// What is no UTF-8 can't be in JSON, and is U+FFFD there.
	want := "_SUM_A1_.json|" + PageFormat + "|" + strings.ToValidUTF8(r.Experiment.Question, "\ufffd") + "|" + r.Arms[0].Arm.Name
	if strings.ReplaceAll(got, "\ufffd\ufffd", "\ufffd") != want {
		t.Errorf("downloaded %q; want %q", got, want)
	}
}

// The keyboard reaches the skip link first, then everything that scrolls, opens or acts.
func TestPageByKeyboard(t *testing.T) {
	p := open(t, newBrowser(t), runs()["reproduced"])
	const focus = `(e => e.tagName + "." + e.className)(document.activeElement)`
	p.do(chromedp.KeyEvent("\t"))
	if got := evaluate[string](p, focus); got != "A.skip" {
		t.Errorf("the first Tab goes to %s", got)
	}
	seen := map[string]int{}
	for range 80 {
		p.do(chromedp.KeyEvent("\t"))
		seen[evaluate[string](p, focus)]++
	}
	for _, want := range []string{"DIV.scroll", "SUMMARY.", "BUTTON.", "PRE.command"} {
		if seen[want] == 0 {
			t.Errorf("Tab never comes to %s: %v", want, seen)
		}
	}
}

// browserTime is the CPU time that all of the browser's processes have used: other work on the machine is not in it.
func browserTime(t *testing.T, browser context.Context) time.Duration {
	t.Helper()
	info, err := chromedp.CallBrowser(browser, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, p := range info.ProcessInfo {
		sum += p.CPUTime
	}
	return time.Duration(sum * float64(time.Second))
}

func TestPageOfOneAndOfVeryMany(t *testing.T) {
	browser := newBrowser(t)
	for _, n := range []int{1, 200_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := many(n)
			file := filepath.Join(t.TempDir(), "many.html")
			f, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := HTML(f, r, extras(r)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			before := browserTime(t, browser)
			p := openFile(t, browser, file)
			took := browserTime(t, browser) - before
			marks := evaluate[map[string]int](p, drawn)
			t.Logf("%d samples: opened in %v of CPU time; marks %v", n, took, marks)
			if took <= 0 || took > 10*time.Second {
				t.Errorf("%d samples: opened in %v of CPU time; want under 3 s, and never over 10 s", n, took)
			}
			if marks["cdf"] != 1 || marks["strip"] < 1 || marks["time"] < n {
				t.Errorf("%d samples: marks %v", n, marks)
			}
			if said := evaluate[bool](p, `document.querySelector("#strip figcaption").textContent.includes("Thinned for drawing")`); said != (n > 1) {
				t.Errorf("%d samples: the page says that the strip is thinned: %v", n, said)
			}
			if count := evaluate[int](p, `JSON.parse(document.getElementById("data").textContent).report.arms[0].trials[0].samples.
				filter(s => s.op === "link-del" && s.phase === "hold").length`); count != n {
				t.Errorf("the data has %d samples; want %d", count, n)
			}
		})
	}
}

// many is a run with n deletes of 1 ms to 3 s in one trial.
func many(n int) Run {
	s := lazy()
	s.arm.Probe.Every = 0
	s.deletes = make([]time.Duration, n)
	for i := range s.deletes {
		d := time.Millisecond + time.Duration(i*7919%100_000)*time.Microsecond
		if i%5000 == 17 {
			d = time.Duration(1+i%3) * time.Second
		}
		s.deletes[i] = d
	}
	return run("many", "how large can it get?", s)
}
