package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/rcu"
)

// heldRecords are a trial's: a deletion that a NAPI thread held for 4 s, and one that it did not.
func heldRecords() (experiment.Trial, []experiment.Record) {
	begin := rcu.Ktime(5 * time.Second)
	arm := experiment.Arm{Name: "stock", Threaded: true, Load: experiment.Load{Kind: experiment.Bounce, Inflight: 1, Hold: 4 * time.Second},
		Probe: experiment.Probe{Op: experiment.LinkDel, Device: "dummy"}, Duration: 6 * time.Second}
	facts := experiment.Facts{Release: "6.12.117", Arch: "x86_64", Preempt: rcu.None, Flavor: rcu.Sched, HZ: 250, CPUs: 2, StallSec: 3, LoadCPU: 1, Thread: "napi/vb-3", ThreadPID: 63}
	r := []experiment.Record{{Facts: &facts}, {At: begin, Phase: &experiment.Phase{Name: experiment.Hold}}}
	for i := range 5 {
		n := uint64(i)
		r = append(r, experiment.Record{At: begin.Add(time.Duration(i) * 995 * time.Millisecond), Counters: &experiment.Counters{Traced: true, Polls: 300_000 * n, Packets: 300_000 * n,
			RunTime: time.Duration(i) * 995 * time.Millisecond, InHold: true}})
	}
	r = append(r, experiment.Record{At: begin.Add(3100 * time.Millisecond), Kmsg: &experiment.Kmsg{Stamp: time.Duration(begin.Add(3099 * time.Millisecond)), Level: 3,
		Text: "rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-.... } 762 jiffies s: 37 root: 0x2/."}})
	held := experiment.Sample{Op: experiment.LinkDel, Start: begin, Took: 4100 * time.Millisecond, Phase: experiment.Hold, Stack: []string{"rcu_barrier", "netdev_run_todo"}}
	ms := time.Millisecond
	held.SeeMany(experiment.WaitRun{Wait: rcu.SynchronizeNet, Site: "dev_deactivate_many+0x179", First: 50 * ms, Last: 4000 * ms, N: 80})
	held.SeeMany(experiment.WaitRun{Wait: rcu.Barrier, Site: "netdev_run_todo+0x9f", First: 4050 * ms, Last: 4050 * ms, N: 1})
	quick := experiment.Sample{Op: experiment.LinkDel, Start: begin.Add(4300 * ms), Took: 20 * ms, Phase: experiment.Tail}
	r = append(r, experiment.Record{Sample: &held}, experiment.Record{At: begin.Add(4010 * ms), Phase: &experiment.Phase{Name: experiment.Tail}},
		experiment.Record{At: begin.Add(5 * time.Second), Counters: &experiment.Counters{Traced: true, Polls: 1_200_000, Packets: 1_200_000, RunTime: 4 * time.Second, Voluntary: 1}},
		experiment.Record{Sample: &quick}, experiment.Record{End: &experiment.End{Outcome: experiment.Completed}})
	return experiment.Trial{Rep: 1, Arm: arm}, r
}

// storyText is markup, an escape, a mark that turns the writing direction and broken UTF-8.
const storyText = "<script>alert(1)</script>\x1b[31m\u202e\"'&\xff</script>"

func tell(number int, change func(*experiment.Trial, []experiment.Record)) explain.Story {
	trial, records := heldRecords()
	if change != nil {
		change(&trial, records)
	}
	t := explain.NewTeller(trial)
	for _, r := range records {
		t.Add(r)
	}
	return t.Tell(number)
}

func hostileStory(trial *experiment.Trial, records []experiment.Record) {
	trial.Arm.Name = storyText
	for _, r := range records {
		switch {
		case r.Facts != nil:
			r.Facts.Thread, r.Facts.Release = storyText, storyText
		case r.Kmsg != nil:
			r.Kmsg.Text = strings.Replace(r.Kmsg.Text, "root", storyText, 1)
		case r.Sample != nil && len(r.Sample.Runs) > 0:
			r.Sample.Runs[0].Site = storyText
			r.Sample.Runs[0].Wait = rcu.Wait(storyText)
			r.Sample.Stack = []string{storyText}
		}
	}
}

// TestStoryGoldens fixes each form of a held deletion, one that was not, one of hostile names and a trial without any.
func TestStoryGoldens(t *testing.T) {
	forms := map[string]func(io.Writer, explain.Story) error{
		"txt": func(w io.Writer, s explain.Story) error { return StoryText(w, s, 0) }, "json": StoryJSON, "trace.json": StoryTrace, "html": StoryHTML,
	}
	for name, s := range map[string]explain.Story{"held": tell(1, nil), "fine": tell(2, nil), "hostile": tell(1, hostileStory), "none": tell(9, nil)} {
		for form, write := range forms {
			var b bytes.Buffer
			if err := write(&b, s); err != nil {
				t.Fatalf("%s.%s: %v", name, form, err)
			}
			golden(t, "story-"+name+"."+form, b.String())
		}
	}
}

// TestStoryTextFits: no line but a longer word goes beyond the width.
func TestStoryTextFits(t *testing.T) {
	for _, width := range []int{0, 30, 60, 72, 80, 132} {
		var b bytes.Buffer
		if err := StoryText(&b, tell(1, nil), width); err != nil {
			t.Fatal(err)
		}
		limit := max(width, minStory)
		if width == 0 {
			limit = 80
		}
		for line := range strings.Lines(b.String()) {
			if n := runes(strings.TrimSuffix(line, "\n")); n > limit {
				t.Errorf("width %d: %d columns: %s", width, n, line)
			}
		}
	}
}

// TestStoryIsHarmless: what a kernel or a file calls itself is nothing but text in each form.
func TestStoryIsHarmless(t *testing.T) {
	s := tell(1, hostileStory)
	var text, page, doc, trace bytes.Buffer
	if err := errors.Join(StoryText(&text, s, 80), StoryHTML(&page, s), StoryJSON(&doc, s), StoryTrace(&trace, s)); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\u202e") || !utf8.Valid(text.Bytes()) {
		t.Errorf("text:\n%q", &text)
	}
	if got := page.String(); strings.Count(got, "<script") != 2 || strings.Count(got, "</script") != 2 || strings.Contains(got, "alert(1)</") || strings.Contains(got, "\x1b") {
		t.Errorf("page: %d scripts", strings.Count(got, "<script"))
	}
	if i := bytes.IndexFunc(doc.Bytes(), func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
		t.Errorf("the document has %q", doc.Bytes()[i:min(i+8, doc.Len())])
	}
	if !json.Valid(doc.Bytes()) || !json.Valid(trace.Bytes()) {
		t.Errorf("not JSON:\n%s\n%s", &doc, &trace)
	}
	_, embedded, _ := strings.Cut(page.String(), `id="story">`)
	embedded, _, _ = strings.Cut(embedded, "</script>")
	if !json.Valid([]byte(embedded)) {
		t.Errorf("the page's document is not JSON: %s", embedded)
	}
}
