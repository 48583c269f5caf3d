package experiment

import "testing"

func TestLoadString(t *testing.T) {
	for _, tt := range []struct {
		load     Load
		want     string
		inflight int
	}{
		{Load{Kind: NoLoad}, "none", 0},
		{Load{Kind: Flood}, "flood", 0},
		{Load{Kind: Bounce, Inflight: 16}, "bounce of 16", 16},
		{Load{Kind: Paced, Rate: 80862, Batch: 1, Size: 60}, "paced 80862/s, 60 bytes", 0},
		{Load{Kind: Paced, Rate: 1000, Batch: 8, Size: 60, Band: HoldBand}, "paced 1000/s in batches of 8, 60 bytes, steered to stay in the band", 0},
		{Load{Kind: Windowed, Window: 64, Size: 60}, "windowed, 64 in flight, 60 bytes", 64},
		{Load{Kind: TCP, Rate: 1000, Window: 4, Size: 1514}, "tcp 1000/s, 4 in flight, 1514 bytes", 4},
		{Load{Kind: Recorded, From: "r/1"}, "recorded, from r/1", 0},
	} {
		if got := tt.load.String(); got != tt.want || tt.load.InFlight() != tt.inflight {
			t.Errorf("%+v: %q, %d in flight; want %q, %d", tt.load, got, tt.load.InFlight(), tt.want, tt.inflight)
		}
	}
}

// A real device is left in its mode unless the arm, or the one that it is like, says otherwise.
func TestExternalKeepsTheMode(t *testing.T) {
	e, err := Parse("x.yaml", []byte(`
name: x
load: {kind: external, hold: 5s}
arms:
  - {name: as-is, kernel: host}
  - {name: softirq, kernel: host, threaded: false}
  - {name: like, like: softirq}
  - {name: own, kernel: host, load: {kind: none}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, false, false} {
		if got := e.Arms[i].ModeAsIs; got != want {
			t.Errorf("arm %s: ModeAsIs = %v; want %v", e.Arms[i].Name, got, want)
		}
	}
}
