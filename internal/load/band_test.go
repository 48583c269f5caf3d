package load

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/experiment"
)

// A plant is a NAPI whose work per packet is done after its ring was read (as a driver's completion does
// it): a poll that took n packets works n·work, and takes at the next poll what came meanwhile.
type plant struct {
	work, over time.Duration // per packet, per poll
	n          float64       // packets waiting
	rng        *rand.Rand
}

const budget = 64

// run lets it go for a while at rate packets per second.
func (p *plant) run(rate float64, d time.Duration) Observation {
	var o Observation
	for t := time.Duration(0); t < d; {
		if p.n < 1 { // it sleeps until the next packet, and some more until it runs
			o.Sleeps++
			wake := time.Duration(float64(time.Second)/rate) + 20*time.Microsecond
			p.n += rate * wake.Seconds()
			t += wake
			continue
		}
		o.Polls++
		take := min(float64(int(p.n)), budget)
		if take == budget {
			o.Full++
		}
		p.n -= take
		took := time.Duration(take)*p.work + p.over
		took += time.Duration(p.rng.NormFloat64() * 0.01 * float64(took))
		p.n = min(p.n+rate*took.Seconds(), 256) // veth's ring
		t += took
	}
	return o
}

// steer runs the control on the plant for some looks and returns the share of time in the band in the
// second half.
func steer(p *plant, c *control, looks int, drift func(i int)) float64 {
	look := shortLook
	var in, all time.Duration
	for i := range looks {
		drift(i)
		o := p.run(c.set, look)
		if i >= looks/2 {
			all += look
			if o.in(look) {
				in += look
			}
		}
		c.observe(o, look)
		look = nextLook(look, o.in(look))
	}
	return in.Seconds() / all.Seconds()
}

func TestControlHoldsThePlant(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rate  float64
		work  time.Duration
		over  time.Duration
		drift float64 // how far the work per packet moves each way, as a share
	}{
		{"the board's", 80862, 12 * time.Microsecond, time.Microsecond, 0},
		{"far too fast", 200000, 12 * time.Microsecond, time.Microsecond, 0},
		{"far too slow", 20000, 12 * time.Microsecond, time.Microsecond, 0},
		{"emulated", 5000, 200 * time.Microsecond, 20 * time.Microsecond, 0},
		{"drifting", 80862, 12 * time.Microsecond, 2 * time.Microsecond, 0.05},
	} {
		p := &plant{work: tt.work, over: tt.over, rng: rand.New(rand.NewPCG(1, 1))}
		c := newControl(tt.rate, 1, 1e9, 0)
		share := steer(p, c, 60, func(i int) {
			phase := float64(i%30)/15 - 1 // from -1 to 1 and back at once
			p.work = tt.work + time.Duration(tt.drift*phase*float64(tt.work))
		})
		if share < 0.8 {
			t.Errorf("%s: in the band for %.0f %% of the time at %.0f/s; want 80 %%", tt.name, 100*share, c.set)
		}
	}
}

// Without the control the same plants are out of the band all the time: the test above can fail.
func TestPlantIsNotInTheBandByItself(t *testing.T) {
	for _, rate := range []float64{20000, 200000} {
		p := &plant{work: 12 * time.Microsecond, over: time.Microsecond, rng: rand.New(rand.NewPCG(1, 1))}
		if o := p.run(rate, time.Second); o.in(time.Second) {
			t.Errorf("at %.0f/s: %+v is in the band", rate, o)
		}
	}
}

// An open loop whose receiver works for each poll is in the band at the rate that was asked for and well beside it,
// without a control; where it works for each packet, a few per cent to either side are out.
func TestPollWorkHoldsByItself(t *testing.T) {
	for _, tt := range []struct{ rate, batch int }{{2500, 1}, {5000, 1}, {5000, 2}, {80862, 1}, {80862, 8}, {80862, 32}, {1000000, 16}} {
		for _, share := range []float64{0.9, 1, 1.25} {
			p := &plant{work: 50 * time.Nanosecond, over: pollWork(tt.rate, tt.batch) + 10*time.Microsecond, rng: rand.New(rand.NewPCG(1, 1))}
			rate := share * float64(tt.rate)
			p.run(rate, 100*time.Millisecond) // until it has begun
			if o := p.run(rate, time.Second); !o.in(time.Second) {
				t.Errorf("%d/s in batches of %d, at %.0f/s: %+v is not in the band", tt.rate, tt.batch, rate, o)
			}
		}
	}
	for _, share := range []float64{0.95, 1.05} {
		p := &plant{work: time.Second / 5000, over: time.Microsecond, rng: rand.New(rand.NewPCG(1, 1))}
		if o := p.run(share*5000, 5*time.Second); o.in(5 * time.Second) {
			t.Errorf("work for each packet, at %g of the rate: %+v is in the band", share, o)
		}
	}
}

// A patient control leaves alone what is no habit, and turns what is.
func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		o    Observation
		more int
	}{
		{Observation{Polls: 1500, Sleeps: 9}, 0},
		{Observation{Polls: 1500, Full: 149}, 0},
		{Observation{Polls: 400}, 0},
		{Observation{Polls: 1500, Sleeps: 150}, 1},
		{Observation{Polls: 1500, Full: 150}, -1},
		{Observation{}, 1},
	} {
		c := newControl(5000, 1, maxSteer, 0)
		c.patient = true
		if set := c.observe(tt.o, time.Second); (set > 5000) != (tt.more > 0) || (set < 5000) != (tt.more < 0) {
			t.Errorf("%+v: from 5000 to %g; want way %d", tt.o, set, tt.more)
		}
	}
}

func TestPush(t *testing.T) {
	for _, tt := range []struct {
		o    Observation
		want int
	}{
		{Observation{Polls: 12000}, 0},
		{Observation{Polls: 12000, Sleeps: 1}, 1},
		{Observation{Polls: 12000, Full: 1}, -1},
		{Observation{Polls: 12000, Full: 2, Sleeps: 3}, 1},
		{Observation{Polls: 12000, Full: 3, Sleeps: 3}, -1},
		{Observation{Polls: experiment.MinEntries - 1}, -1},
		{Observation{Polls: experiment.MinEntries}, 0},
		{Observation{}, 1},
		{Observation{Sleeps: 30, Polls: 30}, 1},
	} {
		if got := tt.o.push(time.Second); got != tt.want {
			t.Errorf("%+v pushes %d; want %d", tt.o, got, tt.want)
		}
	}
}

func TestControlOfAWindowStaysWhole(t *testing.T) {
	c := newControl(4, 1, 64, 1)
	for i := range 50 {
		o := Observation{Polls: 5000, Sleeps: 1}
		if i >= 25 {
			o = Observation{Polls: 5000, Full: 1}
		}
		set := c.observe(o, time.Second)
		if set != float64(int(set)) || set < 1 || set > 64 {
			t.Fatalf("look %d: the window is %g", i, set)
		}
		if i == 24 && set != 64 {
			t.Errorf("after 25 looks of sleeps the window is %g; want 64", set)
		}
	}
	if c.set != 1 {
		t.Errorf("after 25 looks of full polls the window is %g; want 1", c.set)
	}
}

func TestNextLook(t *testing.T) {
	if d := nextLook(time.Second, false); d != shortLook {
		t.Errorf("out of the band: %v", d)
	}
	if d := nextLook(longLook, true); d != longLook {
		t.Errorf("in the band: %v", d)
	}
	if d := nextLook(shortLook, true); d != 2*shortLook {
		t.Errorf("in the band, at first: %v", d)
	}
}
