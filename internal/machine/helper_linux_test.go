package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// helperEnv makes this test's program a helper.
const helperEnv = "NAPISTALL_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "" {
		os.Exit(m.Run())
	}
	out := json.NewEncoder(os.Stdout)
	beat := func(b Beat) error { return out.Encode(b) }
	switch question := os.Args[1]; question {
	case "survey":
		if err := Tell(func(p Part) error { return out.Encode(p) }); err != nil {
			os.Exit(1)
		}
	case "held": // as while somebody holds RTNL
		_ = out.Encode(Part{Facts: &Facts{Release: "6.18.1", Online: []int{0, 1}}})
		_ = out.Encode(Part{Begins: "the rest"})
		select {}
	case "never":
		_ = out.Encode(Beat{Begin: &Wait{}})
		select {}
	case "gps":
		_ = TellGracePeriods(beat)
	case "turns":
		cpu, _ := strconv.Atoi(os.Args[2])
		_ = TellTurns([]int{cpu}, beat)
	case "none":
		_ = out.Encode(Beat{Why: "no such system call"})
	case "noise":
		fmt.Println("not JSON")
	}
	os.Exit(0)
}

func helper(t *testing.T) Helper {
	t.Helper()
	return Helper{Command: []string{"/proc/self/exe"}, Env: []string{helperEnv + "=1", "GORACE=atexit_sleep_ms=0"}}
}

func TestSurveyOfThisMachine(t *testing.T) {
	v, _, err := helper(t).Survey(t.Context(), "survey")
	if err != nil {
		t.Fatal(err)
	}
	if v.Facts.Release == "" || len(v.Devices) == 0 || v.Cut != "" || v.Params == nil {
		t.Errorf("survey %+v", v)
	}
}

// TestSurveyIsBounded: what does not answer is left behind.
func TestSurveyIsBounded(t *testing.T) {
	start := time.Now()
	v, _, err := helper(t).Survey(t.Context(), "held")
	if err != nil || v.Facts.Release != "6.18.1" || v.Cut != "the rest" {
		t.Errorf("survey %+v, %v; want what was told, and the rest cut", v, err)
	}
	if took := time.Since(start); took < Patience || took > Patience+3*time.Second {
		t.Errorf("it took %v; want about %v", took, Patience)
	}
	if v, _, err := helper(t).Survey(t.Context(), "noise"); err == nil {
		t.Errorf("survey of noise: %+v; want an error", v)
	}
	if _, _, err := (Helper{Command: []string{"/nonexistent"}}).Survey(t.Context(), "x"); err == nil {
		t.Error("a helper that isn't there: no error")
	}
}

func TestWatchThisMachine(t *testing.T) {
	w := Watching{For: 300 * time.Millisecond, Helper: helper(t), GracePeriods: "gps", Turns: "turns"}.Run(t.Context())
	if w.Took < 300*time.Millisecond || len(w.GracePeriods)+len(w.NoGP) == 0 || w.NoPolls == "" {
		t.Errorf("watch %+v", w)
	}
}

func TestSampleLooksAtThreads(t *testing.T) {
	x := newWatcher(Watching{For: 300 * time.Millisecond})
	tallies := x.sample(t.Context(), []KThread{{PID: os.Getpid(), Name: "us"}, {PID: 1 << 30, Name: "nobody"}})
	if us, nobody := tallies[0].watched, tallies[1].watched; us.Looks < 3 || us.Took < 200*time.Millisecond || nobody.Looks != 0 {
		t.Errorf("us %+v, nobody %+v", us, nobody)
	}
}

// TestWatchIsBounded: a grace period that never ends is given up, and said to be censored.
func TestWatchIsBounded(t *testing.T) {
	w := Watching{For: 100 * time.Millisecond, Helper: helper(t), GracePeriods: "never"}.Run(t.Context())
	if len(newWatcher(Watching{}).online) == 1 {
		if w.NoGP == "" {
			t.Errorf("watch of one CPU %+v; want why there is no grace period", w)
		}
		return
	}
	if len(w.GracePeriods) != 1 || !w.GracePeriods[0].Censored || w.GracePeriods[0].Took < Late {
		t.Errorf("grace periods %+v; want one, censored after %v", w.GracePeriods, Late)
	}
	w = Watching{For: 100 * time.Millisecond, Helper: helper(t), GracePeriods: "none"}.Run(t.Context())
	if w.NoGP == "" || len(w.GracePeriods) > 0 {
		t.Errorf("watch %+v; want why there is no grace period", w)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	_ = Watching{For: time.Hour, Helper: helper(t), GracePeriods: "never"}.Run(ctx)
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("an interrupted watch took %v", took)
	}
}

// TestTurns: a CPU that lets others run says so, an isolated one is not asked, and none twice at a time.
func TestTurns(t *testing.T) {
	x := newWatcher(Watching{Helper: helper(t), Turns: "turns"})
	x.isolated = []int{1}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	x.askTurns(ctx, []int{0, 0, 1})
	x.askTurns(ctx, []int{0})
	x.helpers.Wait()
	if len(x.turns) != 1 || *x.turns[0].CPU != 0 || x.turns[0].Took <= 0 || x.pending() {
		t.Errorf("turns %+v, pending %v; want one of CPU 0", x.turns, x.pending())
	}
}

// TestPending: a helper that has said nothing is waited for, and a wait until it is late.
func TestPending(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, tt := range []struct {
		name string
		set  func(*watcher)
		want bool
	}{
		{"nothing", func(*watcher) {}, false},
		{"a helper that starts", func(x *watcher) { x.silent["gps"] = ago(5 * time.Second) }, true},
		{"a helper that never starts", func(x *watcher) { x.silent["gps"] = ago(startTime) }, false},
		{"a grace period", func(x *watcher) { x.begun = new(ago(time.Second)) }, true},
		{"a late grace period", func(x *watcher) { x.begun = new(ago(Late)) }, false},
		{"a turn", func(x *watcher) { x.asked[1] = ago(time.Second) }, true},
		{"a late turn", func(x *watcher) { x.asked[1] = ago(Late) }, false},
	} {
		x := newWatcher(Watching{})
		tt.set(x)
		if got := x.pending(); got != tt.want {
			t.Errorf("%s: pending = %v; want %v", tt.name, got, tt.want)
		}
	}
}
