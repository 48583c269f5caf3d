package report

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

// unseen is the part of a wait that no stack sample looked at.
const unseen = "unseen"

// A waitPart is how long an arm's slow operations waited for one thing, together.
type waitPart struct {
	Wait  string
	Class string
	Time  string
	Share string
	took  time.Duration
}

// A waitBar is one arm's breakdown.
type waitBar struct {
	Arm   string
	Count int // operations over SlowLimit
	Total string
	Parts []waitPart
	Plot  template.HTML
}

// A waitFigure is the breakdown of all arms.
type waitFigure struct {
	Bars   []waitBar
	Legend []legendItem
	None   []string // arms without a slow operation
}

// newWaits sums up where the operations over SlowLimit waited: each one's time by the shares of its stack samples. What is
// not covered by samples is unseen.
func newWaits(r Run) waitFigure {
	var f waitFigure
	classes := map[string]string{unseen: "w-unseen"}
	var order []string
	for i, w := range rcu.Waits() {
		classes[string(w)] = fmt.Sprintf("w%d", i%6)
		order = append(order, string(w))
	}
	used := map[string]bool{}
	for _, a := range r.Arms {
		slow := a.SlowOnes()
		if len(slow) == 0 {
			f.None = append(f.None, clean(a.Arm.Name))
			continue
		}
		b := newWaitBar(a, slow, classes, &order)
		for _, p := range b.Parts {
			used[p.Wait] = true
		}
		f.Bars = append(f.Bars, b)
	}
	for _, w := range append(order, unseen) {
		if used[waitWords(w)] {
			f.Legend = append(f.Legend, legendItem{classes[w], waitWords(w)})
		}
	}
	return f
}

func newWaitBar(a explain.ArmSummary, slow []explain.Slow, classes map[string]string, order *[]string) waitBar {
	sums := map[string]time.Duration{}
	var total time.Duration
	for _, s := range slow {
		total += s.Sample.Took
		left := s.Sample.Took
		for _, w := range s.Waits.Shares {
			name := string(w.Wait)
			if _, known := classes[name]; !known {
				classes[name] = "w5"
				*order = append(*order, name)
			}
			part := time.Duration(float64(s.Sample.Took) * s.Waits.Coverage * w.Share)
			sums[name] += part
			left -= part
		}
		sums[unseen] += max(0, left)
	}
	b := waitBar{Arm: clean(a.Arm.Name), Count: len(slow), Total: explain.FormatDuration(total)}
	for _, name := range append(slices.Clone(*order), unseen) {
		share := sums[name].Seconds() / total.Seconds()
		if share < 0.0005 { // rounding
			continue
		}
		b.Parts = append(b.Parts, waitPart{waitWords(name), classes[name], explain.FormatDuration(sums[name]), explain.FormatShare(share), sums[name]})
	}
	b.Plot = drawWaits(b, total)
	return b
}

func drawWaits(b waitBar, total time.Duration) template.HTML {
	s := newSVG(26, fmt.Sprintf("%s: where its operations over 1 s waited; the numbers are in the table below", b.Arm))
	x := 0.0
	for _, p := range b.Parts {
		w := p.took.Seconds() / total.Seconds()
		s.rect("mark "+p.Class, x, x+w, 1, 24, fmt.Sprintf("%s: %s, %s", p.Wait, p.Time, p.Share))
		x += w
	}
	return s.html()
}

func waitWords(w string) string {
	switch w {
	case unseen:
		return "unseen (no stack sample)"
	case string(rcu.OtherWait):
		return "running, or blocked elsewhere"
	}
	return clean(w)
}
