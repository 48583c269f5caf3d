package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/napistall/napistall/internal/explain"
)

// comparison holds the arms of runs against each other: those of one run pairwise, else of the first run against those
// of the others in the same place.
func comparison(thresholds []string, list ...Run) Comparison {
	c := Comparison{}
	var sides []explain.Side
	var labels []string
	var pairs [][2]int
	for i, r := range list {
		c.Runs = append(c.Runs, ComparedRun{Number: i + 1, Path: "runs/" + r.Experiment.Name, Experiment: r.Experiment.Name, Backend: r.Backend,
			Version: r.Version, Created: time.Date(2026, 11, 30+i, 17, 0, 0, 0, time.UTC), Planned: len(r.Arms), Done: len(r.Arms), Ended: true})
		for _, a := range r.Arms {
			label := a.Arm.Name
			if len(list) > 1 {
				label = fmt.Sprintf("%s@%d", label, i+1)
			}
			labels = append(labels, label)
			sides = append(sides, explain.Side{Label: label, Run: i + 1, Arm: a, Origin: explain.Origin{Version: r.Version, Backend: r.Backend}})
		}
	}
	for i := range sides {
		for j := range sides {
			if len(list) == 1 && i < j || sides[i].Run == 1 && sides[j].Run > 1 && j-len(list[0].Arms) == i {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	var err error
	if c.Comparisons, err = explain.CompareRuns(context.Background(), sides, pairs); err != nil {
		panic(err)
	}
	var parsed []explain.Threshold
	for _, text := range thresholds {
		t, err := explain.ParseThreshold(text, labels)
		if err != nil {
			panic(err)
		}
		parsed = append(parsed, t)
	}
	c.Kept = explain.CheckThresholds(parsed, sides)
	return c
}

// trialsOf makes n trials of a scene, each a little slower than the one before.
func trialsOf(s scene, n int) []scene {
	var list []scene
	for i := range n {
		x := s
		x.rep = i + 1
		x.deletes = nil
		for k, d := range s.deletes {
			x.deletes = append(x.deletes, d+time.Duration((7*i+3*k)%11)*time.Millisecond)
		}
		list = append(list, x)
	}
	return list
}

// comparisons are the kinds that every format has a golden file of.
func comparisons() map[string]Comparison {
	all := append(trialsOf(stock(), 6), trialsOf(patched(), 6)...)
	differs := comparison([]string{"patched vs stock: over-1s < 5%", "patched: over-1s < 0.1%", "stock: worst < 1s"}, run("patch", "", all...))
	other := run("patch", "", append(trialsOf(stock(), 6), trialsOf(lazy(), 6)...)...)
	two := comparison(nil, run("before", "", all...), other)
	two.Unmatched = []string{"idle@2"}
	two.Runs[1].LeftOut = []string{"trial 003-stock-2: records.jsonl is missing"}
	two.Runs[1].Done--

	few := comparison([]string{"patched: median < 1s"}, run("few", "", stock(), patched()))
	cut := stock()
	cut.cut, cut.outcome, cut.deletes = true, "silent", []time.Duration{32 * time.Second}
	censored := comparison(nil, run("censored", "", append(trialsOf(cut, 6), trialsOf(lazy(), 6)...)...))
	h := comparison(nil, hostile(), hostile())
	h.Runs[0].Path = "runs/\x1b[31mred <b>&|`x`"
	h.Unmatched = []string{"<img src=x>@1"}
	nothing := comparison(nil, runs()["zero"], runs()["zero"])
	return map[string]Comparison{"compare-differs": differs, "compare-two": two, "compare-few": few, "compare-censored": censored, "compare-hostile": h,
		"compare-zero": nothing}
}

func compareFormats() map[string]func(io.Writer, Comparison) error {
	return map[string]func(io.Writer, Comparison) error{
		"txt":    func(w io.Writer, c Comparison) error { return CompareText(w, c, 0) },
		"80.txt": func(w io.Writer, c Comparison) error { return CompareText(w, c, 80) },
		"mail":   CompareMail, "md": CompareMD, "json": CompareJSON,
	}
}

func TestCompareGolden(t *testing.T) {
	for name, c := range comparisons() {
		for ext, write := range compareFormats() {
			t.Run(name+"."+ext, func(t *testing.T) {
				var b bytes.Buffer
				if err := write(&b, c); err != nil {
					t.Fatal(err)
				}
				got := b.String()
				for i, line := range strings.Split(got, "\n") {
					for _, r := range line {
						if !unicode.IsPrint(r) {
							t.Errorf("line %d: %q has %U", i+1, line, r)
						}
						if ext == "mail" && r >= 0x80 {
							t.Errorf("line %d: %q is not ASCII", i+1, line)
						}
					}
					if limit := map[string]int{"mail": mailWidth, "80.txt": 80}[ext]; limit > 0 && runes(line) > limit {
						t.Errorf("line %d has %d characters: %q", i+1, runes(line), line)
					}
				}
				golden(t, name+"."+ext, got)
			})
		}
	}
}

func TestCompareJSONFollowsItsSchema(t *testing.T) {
	schema := schemaOf(t, CompareSchema())
	for name, c := range comparisons() {
		var b bytes.Buffer
		if err := CompareJSON(&b, c); err != nil {
			t.Fatal(err)
		}
		if err := conforms(schema, b.String()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name != "compare-differs" {
			continue
		}
		for _, wrong := range [][2]string{{CompareFormat, "napistall/compare/2"}, {`"outcome": "differs"`, `"outcome": "maybe"`}, {`"ns"`, `"sec"`},
			{`"status": "kept"`, `"status": "met"`}, {`"arms": [`, `"new": 1, "arms": [`}} {
			if got := strings.Replace(b.String(), wrong[0], wrong[1], 1); got == b.String() || conforms(schema, got) == nil {
				t.Errorf("with %s for %s it still conforms", wrong[1], wrong[0])
			}
		}
	}
}

// What a file says is never markup: the page has no elements but its own.
func TestCompareMDIsLiteral(t *testing.T) {
	for name, c := range comparisons() {
		var b bytes.Buffer
		if err := CompareMD(&b, c); err != nil {
			t.Fatal(err)
		}
		page := mdComment.ReplaceAllString(rendered(t, b.String()), "")
		for _, tag := range mdTag.FindAllStringSubmatch(page, -1) {
			if !slices.Contains(mdTags, tag[1]) {
				t.Errorf("%s: rendered with %s", name, tag[0])
			}
		}
	}
}

func TestCompareWriteErrors(t *testing.T) {
	for name, write := range compareFormats() {
		if err := write(failingWriter{}, comparisons()["compare-few"]); err == nil {
			t.Errorf("%s: no error of a full disk", name)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
