package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// checkArms are what TestCheck's expectations are about.
func checkArms() []ArmSummary {
	cut := stock()
	cut.arm.Name, cut.cut = "cut", true
	cutShort := healthy()
	cutShort.arm.Name, cutShort.cut = "cut-short", true
	uncounted := healthy()
	uncounted.arm.Name, uncounted.facts.ThreadPID = "uncounted", 0
	none := arm("none")
	few := lazy()
	few.arm.Name, few.deletes = "few", few.deletes[:2]
	rep := stock()
	rep.arm.Name = "repeated"
	repLazy := lazy()
	repLazy.arm.Name = "repeated-lazy"
	return []ArmSummary{
		armOf(stock()), armOf(lazy()), armOf(softirq()), armOf(above()), armOf(cut), armOf(cutShort), armOf(uncounted), armOf(few),
		Summarize(none, nil), armOf(rep, rep, rep, rep), armOf(repLazy, repLazy, repLazy, repLazy),
	}
}

type checkCase struct {
	e    experiment.Expectation
	want Status
	got  string
}

func checkCases() []checkCase {
	length := func(a, q, op string, d time.Duration) experiment.Expectation {
		return experiment.Expectation{Arm: a, Quantity: q, Op: op, Duration: d}
	}
	count := func(a, q, op string, n int) experiment.Expectation {
		return experiment.Expectation{Arm: a, Quantity: q, Op: op, Count: n}
	}
	word := func(a, op, w string) experiment.Expectation {
		return experiment.Expectation{Arm: a, Quantity: "band", Op: op, Word: w}
	}
	pair := func(a, b, q, op string) experiment.Expectation {
		return experiment.Expectation{Arm: a, Vs: b, Quantity: q, Op: op}
	}
	return []checkCase{
		{length("stock", "worst", ">=", 10*time.Second), Met, "30.1 s of 1 delete"},
		{length("stock", "worst", "<", time.Second), NotMet, "30.1 s"},
		{length("lazy", "worst", "<", time.Second), Met, "0.21 s of 70 deletes"},
		{length("stock", "median", ">", 10*time.Second), Met, "30.1 s of 1 delete"},
		{length("cut", "worst", ">=", 10*time.Second), Met, "over 30.1 s"},
		{length("cut", "worst", ">=", 40*time.Second), Unknown, "over 30.1 s"},
		{length("cut", "worst", "<", 10*time.Second), NotMet, "over 30.1 s"},
		{length("cut-short", "worst", "<", time.Second), Unknown, "over 0.18 s"},
		{length("none", "worst", "<", time.Second), Unknown, "no trial of none"},
		{length("nobody", "worst", "<", time.Second), Unknown, "no trial of nobody"},
		{count("stock", "stalls", "==", 2), Met, "2"},
		{count("stock", "classic", ">=", 1), Met, "1"},
		{count("stock", "expedited", "!=", 1), NotMet, "1"},
		{count("stock", "soft-lockups", ">", 0), NotMet, "0"},
		{count("stock", "deletes", "<=", 1), Met, "1"},
		{count("softirq", "over-1s", "==", 2), Met, "2 of 42 deletes"},
		{count("cut-short", "over-1s", "==", 0), Unknown, "0 of 59 deletes (and 1 cut before 1 s)"},
		{count("cut-short", "over-1s", "<", 2), Met, ""},
		{word("stock", "==", "in"), Met, "in: of 30 s counted"},
		{word("above-band", "==", "in"), NotMet, "above: of 30 s counted"},
		{word("above-band", "!=", "in"), Met, "above"},
		{word("softirq", "==", "in"), NotMet, "none"},
		{word("uncounted", "==", "in"), Unknown, "the NAPI thread was not found"},
		{pair("lazy", "stock", "over-1s", "lower"), Unknown, "0 of 70 deletes against 1 of 1 delete, not enough trials (n=70 and 1)"},
		{pair("repeated-lazy", "repeated", "over-1s", "lower"), Met, "0 of 280 deletes against 4 of 4 deletes, p < 0.0001"},
		{pair("repeated", "repeated-lazy", "over-1s", "higher"), Met, ""},
		{pair("repeated", "repeated-lazy", "over-1s", "lower"), NotMet, ""},
		{pair("few", "stock", "over-1s", "lower"), Unknown, "not enough trials"},
		{pair("softirq", "above-band", "over-1s", "same"), Met, "p = 0.17"},
		{pair("few", "stock", "over-1s", "same"), Unknown, "not enough trials"},
		{pair("above-band", "softirq", "worst", "lower"), Met, "worst 0.16 s against 2.30 s; all lengths, p "},
		{pair("repeated", "repeated-lazy", "worst", "higher"), Met, "worst 30.1 s against 0.21 s; longest of each trial, p = 0.029"},
		{pair("above-band", "softirq", "median", "lower"), Met, "median 0.13 s against"},
		{pair("stock", "lazy", "stalls", "higher"), Unknown, "in 1 of 1 trial against 0 of 1 trial, not enough trials"},
		{pair("repeated", "repeated-lazy", "stalls", "higher"), Met, "in 4 of 4 trials against 0 of 4 trials, p = 0.029"},
		{pair("stock", "none", "worst", "higher"), Unknown, "no trial of none"},
		{pair("stock", "lazy", "band", "same"), Unknown, "band can't be compared"},
	}
}

func TestCheck(t *testing.T) {
	arms := checkArms()
	for _, c := range checkCases() {
		r := Check([]experiment.Expectation{c.e}, arms)
		if len(r) != 1 || r[0].Status != c.want || !strings.Contains(r[0].Got, c.got) {
			t.Errorf("Check(%+v) = %+v; want %s, %q", c.e, r, c.want, c.got)
		}
	}
}

func TestWithinAgreesWithEveryValueInside(t *testing.T) {
	for _, op := range []string{"<", "<=", "==", "!=", ">=", ">"} {
		for lo := range 5 {
			for hi := lo; hi < 6; hi++ {
				for want := range 7 {
					n := 0
					for x := lo * 2; x <= hi*2; x++ { // halves too: the values are not whole numbers
						if holds(op, float64(x)/2, float64(want)) {
							n++
						}
					}
					status := Unknown
					if n == 0 {
						status = NotMet
					} else if n == 2*(hi-lo)+1 {
						status = Met
					}
					if got := within(op, float64(lo), float64(hi), float64(want)); got != status {
						t.Errorf("within(%s, %d, %d, %d) = %s; want %s", op, lo, hi, want, got, status)
					}
				}
			}
		}
	}
}
