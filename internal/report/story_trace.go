package report

import (
	"io"
	"time"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/traceevent"
)

// The tracks of a story's trace, from top to bottom.
const (
	trackWaits = iota + 1
	trackThread
	trackLog
	trackRCU
	trackLoad
)

// StoryTrace writes s in Chrome's trace event format: a track of its waits, one of what the thread under test did between
// readings of its counters, which are there as counters too, one of the kernel's reports, one of what RCU is
// predicted to do and one of the load. Instants are the target's CLOCK_MONOTONIC.
func StoryTrace(w io.Writer, s explain.Story) error {
	t := traceevent.NewWriter(w)
	t.Open(traceevent.Args{"source": "napistall explain", "trial": s.Trial, "operation": s.Name(), "title": s.Title})
	t.Process(1, "napistall explain "+s.Name()+": "+s.Title)
	for _, x := range []struct {
		track int
		name  string
	}{{trackWaits, "waits of the " + s.Sample.Op}, {trackThread, threadTrack(s)}, {trackLog, "kernel log"}, {trackRCU, "RCU, predicted"}, {trackLoad, "load"}} {
		t.Thread(traceevent.Track{PID: 1, TID: x.track}, x.name)
	}
	begin := time.Duration(s.Sample.Start)
	when := func(d time.Duration) int64 { return int64(begin + d) }
	on := func(track int) traceevent.Track { return traceevent.Track{PID: 1, TID: track} }
	t.Slice(on(trackWaits), s.Sample.Op, when(0), when(s.Sample.Took), traceevent.Args{"number": s.Number, "of": s.Of, "censored": s.Sample.Censored})
	for _, x := range s.Spans {
		t.Slice(on(trackWaits), spanLabel(x), when(x.From), when(x.To), traceevent.Args{"site": x.Site, "stack samples": x.Samples, "doubt": x.Doubt.String(), "in order": s.Ordered})
	}
	for _, x := range s.Ticks {
		args := traceevent.Args{"polls": x.Window.Polls, "sleeps": x.Window.Sleeps, "other switches": x.Window.Nonvol, "ran": x.Window.RunTime.String()}
		if x.Window.Traced {
			args["full-budget polls"] = x.Window.Full
		}
		t.Slice(on(trackThread), bandName(x.Band), when(x.From), when(x.To), args)
		seconds := x.Window.Took.Seconds()
		t.Counter(1, "polls/s", when(x.From), float64(x.Window.Polls)/seconds)
		if x.Window.Traced {
			t.Counter(1, "full-budget polls/s", when(x.From), float64(x.Window.Full)/seconds)
		}
		t.Counter(1, "sleeps/s", when(x.From), float64(x.Window.Sleeps)/seconds)
	}
	for _, m := range s.Marks {
		switch {
		case m.Kind == explain.LoadBegins || m.Kind == explain.LoadEnds:
			t.Across(on(trackLoad), m.Text, when(m.At), nil)
		case m.Predicted:
			t.Instant(on(trackRCU), m.Text, when(m.At), nil)
		default:
			t.Across(on(trackLog), m.Text, when(m.At), nil)
		}
	}
	if s.HasLoad {
		t.Slice(on(trackLoad), string(s.Arm.Load.Kind), when(s.LoadBegin), when(s.LoadEnd), nil)
	}
	return t.Finish()
}

func threadTrack(s explain.Story) string {
	if s.Facts.Thread != "" {
		return s.Facts.Thread
	}
	return "NAPI under test"
}

func bandName(b explain.Band) string {
	if b == explain.NoBand {
		return "counted"
	}
	return string(b) + " the band"
}
