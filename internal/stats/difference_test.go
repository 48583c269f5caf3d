package stats

import (
	"math"
	"testing"
)

// Newcombe, Statistics in Medicine 17 (1998), 873–890, table II, method 10.
func TestNewcombe(t *testing.T) {
	tests := []struct {
		a, b   Proportion
		lo, hi float64
	}{
		{Proportion{56, 70}, Proportion{48, 80}, 0.0524, 0.3339},
		{Proportion{9, 10}, Proportion{3, 10}, 0.1705, 0.8090},
		{Proportion{6, 7}, Proportion{2, 7}, 0.0582, 0.8062},
		{Proportion{5, 56}, Proportion{0, 29}, -0.0381, 0.1926},
		{Proportion{0, 10}, Proportion{0, 20}, -0.1611, 0.2775},
		{Proportion{0, 10}, Proportion{0, 10}, -0.2775, 0.2775},
		{Proportion{10, 10}, Proportion{0, 20}, 0.6791, 1},
		{Proportion{10, 10}, Proportion{0, 10}, 0.6075, 1},
	}
	for _, tt := range tests {
		if lo, hi := newcombe(tt.a, tt.b); math.Abs(lo-tt.lo) > 6e-5 || math.Abs(hi-tt.hi) > 6e-5 {
			t.Errorf("newcombe(%v, %v) = %.5f, %.5f; want %.4f, %.4f", tt.a, tt.b, lo, hi, tt.lo, tt.hi)
		}
	}
}

// Expected values: R 4.2.2 by brute force (testdata/difference.R): every table, the constrained likelihood by
// optimize(), 500 nuisance values. The first pair is that of Perondi's trial, an example in the literature on such
// intervals.
func TestDifferenceOf(t *testing.T) {
	tests := []struct {
		a, b   Proportion
		lo, hi float64
	}{
		{Proportion{7, 34}, Proportion{1, 34}, 0.0194, 0.3584},
		{Proportion{0, 30}, Proportion{5, 8}, -0.9148, -0.2449},
		{Proportion{2, 30}, Proportion{1, 30}, -0.1112, 0.2001},
		{Proportion{0, 20}, Proportion{0, 15}, -0.2180, 0.1864},
		{Proportion{3, 7}, Proportion{5, 9}, -0.5873, 0.3784},
		{Proportion{10, 10}, Proportion{0, 10}, 0.6631, 1},
	}
	for _, tt := range tests {
		d := DifferenceOf(tt.a, tt.b)
		if d.Method != ChanZhang || math.Abs(d.Lo-tt.lo) > 5e-4 || math.Abs(d.Hi-tt.hi) > 5e-4 {
			t.Errorf("DifferenceOf(%v, %v) = %+v; want %.4f to %.4f", tt.a, tt.b, d, tt.lo, tt.hi)
		}
		r := DifferenceOf(tt.b, tt.a)
		if math.Abs(r.Lo+d.Hi) > 1e-9 || math.Abs(r.Hi+d.Lo) > 1e-9 || r.D != -d.D {
			t.Errorf("DifferenceOf(%v, %v) = %+v; want the mirror of %+v", tt.b, tt.a, r, d)
		}
	}
}

func TestDifferenceOfEnds(t *testing.T) {
	if d := DifferenceOf(Proportion{0, 0}, Proportion{1, 2}); d.Method != "" || d.Lo != -1 || d.Hi != 1 {
		t.Errorf("of nothing = %+v; want -1 to 1", d)
	}
	if d := DifferenceOf(Proportion{5, 5}, Proportion{0, 1}); d.D != 1 || d.Hi != 1 || d.Lo >= 1 {
		t.Errorf("all against none = %+v; want up to 1", d)
	}
	if d := DifferenceOf(Proportion{0, 1}, Proportion{1, 1}); d.D != -1 || d.Lo != -1 {
		t.Errorf("none against all = %+v; want from -1", d)
	}
	d := DifferenceOf(Proportion{20, 3000}, Proportion{10, 1500})
	if d.Method != Newcombe || d.D != 0 || d.Lo >= 0 || d.Hi <= 0 {
		t.Errorf("of many = %+v; want Newcombe's around 0", d)
	}
}

// The score statistic rises with the first count and falls with the second, which region relies on.
func TestScoreIsMonotonic(t *testing.T) {
	for _, n := range [][2]int{{5, 9}, {8, 8}, {30, 4}, {1, 20}} {
		for delta := -0.99; delta < 1; delta += 0.061 {
			for x := range n[0] + 1 {
				for y := range n[1] + 1 {
					s := score(Proportion{x, n[0]}, Proportion{y, n[1]}, delta)
					if x > 0 && s < score(Proportion{x - 1, n[0]}, Proportion{y, n[1]}, delta)-1e-7 ||
						y > 0 && s > score(Proportion{x, n[0]}, Proportion{y - 1, n[1]}, delta)+1e-7 {
						t.Fatalf("score(%d of %d, %d of %d, %.3f) = %v is out of order", x, n[0], y, n[1], delta, s)
					}
				}
			}
		}
	}
}

// Whatever the two probabilities, the exact interval covers their difference in at least 95 % of all cases.
func TestDifferenceCovers(t *testing.T) {
	const n, m = 9, 12
	var all [n + 1][m + 1]Difference
	for x := range n + 1 {
		for y := range m + 1 {
			all[x][y] = DifferenceOf(Proportion{x, n}, Proportion{y, m})
		}
	}
	least := 1.0
	for p := 0.0; p <= 1; p += 0.02 {
		for q := 0.0; q <= 1; q += 0.02 {
			first, i := binomial(n, p)
			second, j := binomial(m, q)
			covered := 0.0
			for x, f := range first {
				for y, g := range second {
					if d := all[i+x][j+y]; d.Lo <= p-q+1e-6 && p-q-1e-6 <= d.Hi {
						covered += f * g
					}
				}
			}
			least = min(least, covered)
		}
	}
	if least < Confidence || least > 0.97 {
		t.Errorf("least coverage %.4f; want a little over %v", least, Confidence)
	}
}

func TestBinomial(t *testing.T) {
	for _, n := range []int{1, 7, 400, 3000} {
		for _, p := range []float64{0, 1e-9, 0.01, 0.5, 0.97, 1} {
			probabilities, start := binomial(n, p)
			sum, mean := 0.0, 0.0
			for i, x := range probabilities {
				sum += x
				mean += x * float64(start+i)
			}
			if math.Abs(sum-1) > 1e-9 || math.Abs(mean-float64(n)*p) > 1e-6 {
				t.Errorf("binomial(%d, %v): sum %v, mean %v", n, p, sum, mean)
			}
		}
	}
}
