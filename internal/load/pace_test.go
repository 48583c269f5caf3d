package load

import (
	"math/big"
	"testing"
	"time"
)

// The schedule is what exact arithmetic says, after hours too.
func TestPaceNeverDrifts(t *testing.T) {
	for _, rate := range []int{1, 3, 7, 80862, 1_000_000, 148_809_523} {
		var p pace
		p.restart(5*time.Second, rate)
		for _, n := range []uint64{0, 1, 2, 1000, uint64(rate) - 1, uint64(rate), uint64(rate) + 1, 3600*uint64(rate) + 17, 100 * 3600 * uint64(rate)} {
			p.n = n
			exact := new(big.Int).Mul(new(big.Int).SetUint64(n), big.NewInt(int64(time.Second)))
			exact.Div(exact, big.NewInt(int64(rate)))
			if want := 5*time.Second + time.Duration(exact.Int64()); p.next() != want {
				t.Errorf("packet %d at %d/s is due after %v; want %v", n, rate, p.next(), want)
			}
		}
	}
}

func TestPaceRestarts(t *testing.T) {
	var p pace
	p.restart(0, 10)
	p.sent(5)
	if p.next() != 500*time.Millisecond {
		t.Errorf("the 6th of 10/s is due after %v; want 500ms", p.next())
	}
	p.restart(700*time.Millisecond, 1000)
	p.sent(1)
	if p.next() != 701*time.Millisecond {
		t.Errorf("after a restart the second is due after %v; want 701ms", p.next())
	}
}

func TestGaps(t *testing.T) {
	var g Gaps
	for i := range 1000 {
		g.add(100*time.Microsecond+time.Duration(i)*100*time.Nanosecond, 100*time.Microsecond)
	}
	g.add(0, time.Second)
	if g.Count != 1001 || g.Within != 201 || g.Max != time.Second {
		t.Errorf("%d gaps, %d within 20 µs, at most %v; want 1001, 201, 1s", g.Count, g.Within, g.Max)
	}
	for _, tt := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, 50 * time.Microsecond}, {0.99, 100 * time.Microsecond}, {1, time.Second}} {
		if got := g.Quantile(tt.q); (got - tt.want).Abs() > time.Microsecond {
			t.Errorf("quantile %g = %v; want %v", tt.q, got, tt.want)
		}
	}
	if none := (&Gaps{}).Quantile(0.5); none != 0 {
		t.Errorf("quantile of nothing = %v", none)
	}
}
