package machine

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// helperEnv makes this test's program a helper, of one kind or another.
const helperEnv = "NAPISTALL_TEST_HELPER"

func TestMain(m *testing.M) {
	out := json.NewEncoder(os.Stdout)
	say := func(words ...Word) {
		for _, w := range words {
			_ = out.Encode(w)
		}
	}
	device := Word{Part: &Part{Device: &Device{Name: "eth9", Index: 9}}}
	switch os.Getenv(helperEnv) {
	case "":
		os.Exit(m.Run())
	case "real":
		_ = Serve(os.Stdin, os.Stdout)
	case "held": // as while somebody holds RTNL, and a grace period does not end
		say(Word{Part: &Part{Begins: "sysfs"}}, device, Word{Part: &Part{Begins: "netlink"}}, Word{Of: ofGracePeriods, Beat: &Beat{Begin: &Wait{}}})
		select {}
	case "noise":
		_, _ = os.Stdout.WriteString("not JSON\n{}\n")
		say(Word{Of: "something new", Beat: &Beat{}}, Word{Of: ofGracePeriods, Beat: &Beat{Why: "no such system call"}}, Word{Part: &Part{Netlink: new("no such family")}})
	case "mute":
	}
	os.Exit(0)
}

func examine(t *testing.T, kind string) (Examined, time.Duration) {
	t.Helper()
	start := time.Now()
	e := Examination{For: 300 * time.Millisecond, Helper: Helper{Command: []string{"/proc/self/exe"}, Env: []string{helperEnv + "=" + kind, "GORACE=atexit_sleep_ms=0"}}}
	found, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found, time.Since(start)
}

func TestExamineThisMachine(t *testing.T) {
	found, _ := examine(t, "real")
	v, w := found.Survey, found.Watch
	if v.Facts.Release == "" || len(v.Devices) == 0 || v.Cut != "" || v.Params == nil || v.Root != (os.Geteuid() == 0) {
		t.Errorf("survey %+v", v)
	}
	if w.Took < 300*time.Millisecond || len(w.GracePeriods)+len(w.NoGP) == 0 || w.NoPolls == "" {
		t.Errorf("watch %+v", w)
	}
}

// TestExaminationIsBounded: what does not answer is left behind, and what did answer is kept.
func TestExaminationIsBounded(t *testing.T) {
	found, took := examine(t, "held")
	v, w := found.Survey, found.Watch
	if v.Facts.Release == "" || len(v.Devices) != 1 || v.Cut != "netlink" {
		t.Errorf("survey %+v; want what was told, and netlink cut", v)
	}
	if len(newWatcher(Examination{}).online) > 1 && (len(w.GracePeriods) != 1 || !w.GracePeriods[0].Censored || w.GracePeriods[0].Took < LateGP) {
		t.Errorf("grace periods %+v; want one, censored after %v", w.GracePeriods, LateGP)
	}
	if took > LateGP+3*time.Second {
		t.Errorf("it took %v; want about %v", took, LateGP)
	}
}

func TestExaminationWithoutHelp(t *testing.T) {
	found, _ := examine(t, "noise")
	if found.Watch.NoGP == "" || found.Survey.Netlink != "no such family" || found.Survey.Cut != "" {
		t.Errorf("noise: %+v", found)
	}
	found, took := examine(t, "mute")
	if found.Survey.Facts.Release == "" || found.Survey.Cut == "" || took > 5*time.Second {
		t.Errorf("a helper that says nothing, after %v: %+v", took, found)
	}
	if _, err := (Examination{Helper: Helper{Command: []string{"/nonexistent"}}}).Run(t.Context()); err == nil {
		t.Error("a helper that isn't there: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	_, _ = Examination{For: time.Hour, Helper: Helper{Command: []string{"/proc/self/exe"}, Env: []string{helperEnv + "=held"}}}.Run(ctx) // what it found is not the point
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("an interrupted watch took %v", took)
	}
}

func TestSampleLooksAtThreads(t *testing.T) {
	x := newWatcher(Examination{For: 300 * time.Millisecond})
	x.helper = &session{in: &strings.Builder{}, done: make(chan struct{})}
	close(x.helper.done)
	x.began = time.Now()
	tallies := x.sample(t.Context(), []KThread{{PID: os.Getpid(), Name: "us"}, {PID: 1 << 30, Name: "nobody"}})
	if us, nobody := tallies[0].watched, tallies[1].watched; us.Looks < 3 || us.Took < 200*time.Millisecond || nobody.Looks != 0 {
		t.Errorf("us %+v, nobody %+v", us, nobody)
	}
}

// TestTurns: an isolated CPU is not asked, none twice at a time, and a CPU that lets others run says so.
func TestTurns(t *testing.T) {
	x := newWatcher(Examination{})
	orders := &strings.Builder{}
	x.helper = &session{in: orders, done: make(chan struct{})}
	x.isolated = []int{1}
	x.askTurns([]int{0})
	if orders.String() != "" {
		t.Errorf("orders %q before the helper has said a word", orders)
	}
	x.spoken = true
	x.askTurns([]int{0, 0, 1, 3})
	x.askTurns([]int{0, 3})
	if orders.String() != "turns 0,3\n" {
		t.Errorf("orders %q; want turns 0,3 once", orders)
	}
	var said []Beat
	if err := tellTurns([]int{0}, func(b Beat) error { said = append(said, b); return nil }); err != nil || len(said) != 2 || said[1].End == nil || said[1].End.Took <= 0 {
		t.Errorf("turns of CPU 0: %+v, %v", said, err)
	}
	for _, b := range said {
		x.hear(t.Context(), Word{Of: ofTurns, Beat: &b})
	}
	if len(x.turns) != 1 || len(x.asked) != 0 || len(x.ordered) != 1 {
		t.Errorf("heard %+v, outstanding %v, ordered %v", x.turns, x.asked, x.ordered)
	}
}

// TestPollsAreAskedForLate: not before a grace period has ended in time.
func TestPollsAreAskedForLate(t *testing.T) {
	for _, tt := range []struct {
		trace bool
		waits []Wait
		want  string
	}{
		{true, nil, ""}, {true, []Wait{{Took: time.Second}}, ""}, {false, []Wait{{Took: 1}}, ""}, {true, []Wait{{Took: time.Second}, {Took: 1}}, "polls\n"},
	} {
		x := newWatcher(Examination{Trace: tt.trace})
		orders := &strings.Builder{}
		x.helper, x.waits = &session{in: orders}, tt.waits
		x.askPolls()
		x.askPolls()
		if orders.String() != tt.want {
			t.Errorf("trace %v after %v: orders %q; want %q", tt.trace, tt.waits, orders, tt.want)
		}
	}
}

func TestServe(t *testing.T) {
	for _, bad := range []string{"dance\n", "turns\n", "turns x\n", "turns 0,-1\n"} {
		var out strings.Builder
		if err := Serve(strings.NewReader(bad), discard{}); err == nil {
			t.Errorf("Serve(%q): no error; said %s", bad, &out)
		}
	}
}

// discard forgets. Serve's measurements go on for as long as this test's program.
type discard struct{}

func (discard) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestPending: a helper that has said nothing is waited for, and each wait until it is late.
func TestPending(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, tt := range []struct {
		name string
		set  func(*watcher)
		want bool
	}{
		{"nothing", func(*watcher) {}, false},
		{"a helper that starts", func(x *watcher) { x.spoken, x.start = false, ago(5*time.Second) }, true},
		{"a helper that never starts", func(x *watcher) { x.spoken, x.start = false, ago(startTime) }, false},
		{"a helper that has ended", func(x *watcher) { x.spoken = false; close(x.helper.done) }, false},
		{"a grace period", func(x *watcher) { x.begun = new(ago(400 * time.Millisecond)) }, true},
		{"a late grace period", func(x *watcher) { x.begun = new(ago(LateGP)) }, false},
		{"a turn", func(x *watcher) { x.asked[1] = ago(400 * time.Millisecond) }, true},
		{"a late turn", func(x *watcher) { x.asked[1] = ago(LateTurn) }, false},
		{"a turn that was ordered", func(x *watcher) { x.ordered[1] = ago(Patience / 2) }, true},
		{"a turn that was ordered long ago", func(x *watcher) { x.ordered[1] = ago(Patience) }, false},
		{"devices that answer", func(x *watcher) { x.told, x.heard = false, ago(Patience/2) }, true},
		{"devices that don't", func(x *watcher) { x.told, x.heard = false, ago(Patience) }, false},
	} {
		x := newWatcher(Examination{})
		x.helper, x.spoken, x.told = &session{done: make(chan struct{})}, true, true
		tt.set(x)
		if got := x.pending(); got != tt.want {
			t.Errorf("%s: pending = %v; want %v", tt.name, got, tt.want)
		}
	}
}
