package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/stats"
)

func TestScaleTicks(t *testing.T) {
	for _, c := range []struct {
		s    scale
		want string
	}{
		{timeScale(time.Millisecond, 30*time.Second), "1 ms, 10 ms, 100 ms, 1 s, 10 s"},
		{timeScale(50*time.Millisecond, time.Second), "50 ms, 100 ms, 200 ms, 500 ms, 1 s"},
		{timeScale(9*time.Millisecond, 2*time.Second), "10 ms, 30 ms, 100 ms, 300 ms, 1 s"},
		{timeScale(time.Second, time.Second), "1 s, 2 s, 5 s, 10 s"},
		{timeScale(0, -time.Second), "1 µs, 2 µs, 5 µs, 10 µs"},
		{scale{lo: 0, hi: 43}, "0, 10, 20, 30, 40"},
		{scale{lo: -3, hi: 7}, "-2, 0, 2, 4, 6"},
	} {
		var got []string
		for _, tk := range c.s.ticks() {
			got = append(got, tk.label)
			if tk.at < axisRoom-1e-9 || tk.at > 1-axisRoom+1e-9 {
				t.Errorf("%+v: tick %s at %v", c.s, tk.label, tk.at)
			}
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("ticks of %+v = %s; want %s", c.s, g, c.want)
		}
	}
}

func TestScaleKeepsEverythingOnThePage(t *testing.T) {
	for _, s := range []scale{timeScale(time.Millisecond, time.Minute), {lo: 0, hi: 30}, {}, {lo: 5, hi: 5}} {
		for _, v := range []float64{0, -1, 1e-300, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
			if at := s.at(v); !(at >= 0 && at <= 1) {
				t.Errorf("%+v.at(%v) = %v", s, v, at)
			}
		}
		if n := len(s.ticks()); n > 30 {
			t.Errorf("%+v has %d ticks", s, n)
		}
	}
	if a, b := timeScale(time.Millisecond, time.Minute).at(0.001), timeScale(time.Millisecond, time.Minute).at(60); math.Abs(a-axisRoom) > 1e-9 || math.Abs(b-1+axisRoom) > 1e-9 {
		t.Errorf("the ends are at %v and %v", a, b)
	}
}

func TestCurve(t *testing.T) {
	sc := scale{lo: -3, hi: 1, log: true}
	values := []stats.Value{{D: 10 * time.Millisecond}, {D: 100 * time.Millisecond}, {D: time.Second, Censored: true}, {D: 10 * time.Second}}
	survival := stats.KaplanMeier(values)
	for _, c := range []struct {
		d    time.Duration
		want float64
	}{{0, 0}, {10 * time.Millisecond, 0.25}, {time.Second, 0.5}, {10 * time.Second, 1}} {
		if got := doneBy(survival, c.d); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("doneBy(%v) = %v; want %v", c.d, got, c.want)
		}
	}
	if got, want := stepPath(survival, stats.Summarize(values, time.Second), sc), "M0 228H260V174.5H500V121H980V14H1000"; got != want {
		t.Errorf("path %s; want %s", got, want)
	}
	values[3].Censored = true
	if got, want := stepPath(stats.KaplanMeier(values), stats.Summarize(values, time.Second), sc), "M0 228H260V174.5H500V121H980"; got != want {
		t.Errorf("path with the last one cut %s; want %s", got, want)
	}
}

// A thousand deletes of one length and one of another: the many are thinned, the one is not lost.
func TestStripThinsHonestly(t *testing.T) {
	s := lazy()
	s.deletes = make([]time.Duration, 1000)
	for i := range s.deletes {
		s.deletes[i] = 100 * time.Millisecond
	}
	s.deletes = append(s.deletes, 700*time.Millisecond)
	r := run("many", "", s)
	st := newStrip(r, extras(r), lengthScale(r))
	if want := (1000 + stripStack - 1) / stripStack; st.PerMark != want || st.N != 1001 {
		t.Errorf("a mark stands for %d of %d; want %d of 1001", st.PerMark, st.N, want)
	}
	if n := strings.Count(string(st.Lanes[0].Plot), "h0"); n != stripStack+1 {
		t.Errorf("%d dots; want a full stack and one more", n)
	}
	if text := pageOf(t, r); !strings.Contains(text, "a mark stands for up to 56") {
		t.Error("the page does not say that it was thinned")
	}
}

// TestCDFCountsTicks: the values that were cut and have no tick are counted and said.
func TestCDFCountsTicks(t *testing.T) {
	for n, want := range map[int]int{0: 0, maxCutTick: 0, maxCutTick + 7: 7} {
		r := run("cut", "", lazy())
		values := r.Arms[0].Hold.Values
		for i := range values {
			values[i].Censored = i < n
		}
		if got := newCDF(r, lengthScale(r)); got.NoTick != want || got.Cut != (n > 0) {
			t.Errorf("%d of %d cut: %d without a tick; want %d", n, len(values), got.NoTick, want)
		}
		if said := strings.Contains(pageOf(t, r), "7 more that were cut have no tick, a line has 60 at most"); said != (want > 0) {
			t.Errorf("%d of %d cut: said is %v", n, len(values), said)
		}
	}
}

func TestKinds(t *testing.T) {
	r := runs()["reproduced"]
	tr := r.Arms[0].Trials[0]
	x := extras(r).trial(tr.ID)
	long := tr.Main().Hold[0]
	short, seen := long, long
	short.Took = 200 * time.Millisecond
	seen.Took = 22 * time.Second // shorter than 0.9 of the hold, with the report in it
	missed := seen
	missed.Took = 20 * time.Second // ended before the report
	cutOne := missed
	cutOne.Censored = true
	for _, c := range []struct {
		name string
		got  kind
		want kind
	}{
		{"held by the load", kindOf(long, tr, TrialExtra{}), stalled},
		{"quick", kindOf(short, tr, x), quick},
		{"with a report in it", kindOf(seen, tr, x), stalled},
		{"over before the report", kindOf(missed, tr, x), slow},
		{"without reports", kindOf(seen, tr, TrialExtra{}), slow},
		{"cut", kindOf(cutOne, tr, x), cut},
	} {
		if c.got != c.want {
			t.Errorf("%s: kind %d; want %d", c.name, c.got, c.want)
		}
	}
	if !held(explain.MinStall, explain.MinStall) || held(explain.MinStall-1, explain.MinStall) || held(time.Hour, 0) {
		t.Error("held is not explain's")
	}
}
