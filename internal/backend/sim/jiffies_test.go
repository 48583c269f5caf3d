package sim

import "testing"

func TestJiffies(t *testing.T) {
	for _, hz := range []int64{24, 100, 128, 250, 300, 1000, 1024} {
		k := jiffies{hz}
		for _, j := range []int64{0, 1, 2, 299, 300, 1023, 7_000_000} {
			at := k.at(j)
			if got := k.of(at); got != j {
				t.Errorf("HZ=%d: of(at(%d)) = %d", hz, j, got)
			}
			if at > 0 && k.of(at-1) != j-1 {
				t.Errorf("HZ=%d: of(at(%d)-1) = %d; want %d", hz, j, k.of(at-1), j-1)
			}
		}
	}
}

// TestTimerWheel: kernel/time/timer.c rounds up to a level's granularity, so that a timer is never early.
func TestTimerWheel(t *testing.T) {
	k := jiffies{250}
	for _, c := range []struct{ now, n, want int64 }{
		{1000, 1, 1002}, {1000, 62, 1063}, {1000, 63, 1064}, {1001, 63, 1072}, {1000, 503, 1504}, {1000, 504, 1536},
		{1000, 750, 1792}, {1000, 5250, 6656},
	} {
		if got := k.of(k.timer(k.at(c.now)+17, c.n)); got != c.want {
			t.Errorf("timer at jiffy %d for %d fires at %d; want %d", c.now, c.n, got, c.want)
		}
	}
}

// TestTiming holds RCU's times against what kernel/rcu/tree.c makes of HZ.
func TestTiming(t *testing.T) {
	for _, c := range []struct {
		hz                 int
		sched, first, next int64
	}{{100, 10, 1, 1}, {250, 25, 1, 1}, {300, 30, 2, 2}, {1000, 100, 3, 3}} {
		k := timingOf(c.hz, 2, tunables{}, 21, 0)
		if k.sched != c.sched || k.first != c.first || k.next != c.next || k.stall != 21*int64(c.hz) || k.exp != k.stall {
			t.Errorf("HZ=%d: %+v; want sched %d, first %d, next %d", c.hz, k, c.sched, c.first, c.next)
		}
	}
	k := timingOf(250, 8, tunables{sched: 5, first: 7, next: 9}, 3, 1)
	if k.sched != 5 || k.first != 7 || k.next != 9 || k.exp != 2 || k.slice != 2_800_000 {
		t.Errorf("with parameters: %+v", k)
	}
}
