package sim

import (
	"math"
	"testing"
)

func TestMinusLog(t *testing.T) {
	var r random
	r.seed(3, 3)
	check := func(u uint64) {
		got := float64(minusLog(u)) / (1 << logPoint)
		want := -math.Log(float64(u|1) / (1 << 32) / (1 << 32))
		if math.Abs(got-want) > 1.0/(1<<34) {
			t.Errorf("minusLog(%#x) = %.12f; want %.12f", u, got, want)
		}
	}
	for _, u := range []uint64{0, 1, 2, 3, 1 << 63, 1<<63 - 1, 1<<64 - 1, 1<<64 - 1<<40} {
		check(u)
	}
	for range 100_000 {
		u := r.pcg.Uint64()
		check(u)
		check(u >> (u & 63))
	}
}

// TestRandomIsTheSameEverywhere fixes numbers: another machine, or another version of Go, must give them too.
func TestRandomIsTheSameEverywhere(t *testing.T) {
	var r random
	r.seed(1, 2)
	for i, want := range []int64{262179031, 483800410, 242800487, 227406903} {
		if got := r.exponential(1_000_000_000); got != want {
			t.Errorf("exponential %d = %d; want %d", i, got, want)
		}
	}
	for i, want := range []int64{234276, 41205, 499911, 449383} {
		if got := r.below(1_000_000); got != want {
			t.Errorf("below %d = %d; want %d", i, got, want)
		}
	}
}

func TestExponential(t *testing.T) {
	var r random
	r.seed(9, 9)
	const n, mean = 1_000_000, 1_000_000
	sum, over := 0.0, 0
	for range n {
		x := r.exponential(mean)
		sum += float64(x)
		if x > 3*mean {
			over++
		}
	}
	if m := sum / n / mean; math.Abs(m-1) > 0.005 {
		t.Errorf("mean = %.4f of what was asked for; want 1", m)
	}
	if p := float64(over) / n; math.Abs(p-math.Exp(-3)) > 0.001 {
		t.Errorf("share over three means = %.4f; want %.4f", p, math.Exp(-3))
	}
	if x := r.exponential(0) + r.exponential(-5) + r.below(0) + r.below(-5); x != 0 {
		t.Errorf("of no mean and no range = %d; want 0", x)
	}
}
