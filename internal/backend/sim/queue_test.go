package sim

import (
	"math/rand/v2"
	"testing"
)

func TestQueueGivesTheEarliest(t *testing.T) {
	q := newQueue()
	if _, at := q.next(); at != never {
		t.Fatalf("next of an empty queue = %d; want never", at)
	}
	g := rand.New(rand.NewPCG(1, 2))
	want := [slots]int64{}
	for i := range want {
		want[i] = never
	}
	for range 20_000 {
		i, at := g.IntN(slots), g.Int64N(40)
		switch g.IntN(4) {
		case 0:
			q.unset(i)
			want[i] = never
		default:
			q.set(i, at)
			want[i] = at
		}
		best := 0
		for j, at := range want {
			if at != q.at(j) {
				t.Fatalf("at(%d) = %d; want %d", j, q.at(j), at)
			}
			if at < want[best] {
				best = j
			}
		}
		if slot, at := q.next(); at != want[best] || at != never && slot != best {
			t.Fatalf("next = %d at %d; want %d at %d", slot, at, best, want[best])
		}
	}
}

func TestQueueBreaksTiesBySlot(t *testing.T) {
	q := newQueue()
	for _, i := range []int{17, 3, 30, 4} {
		q.set(i, 1000)
	}
	for _, want := range []int{3, 4, 17, 30} {
		got, _ := q.next()
		if got != want {
			t.Errorf("next = %d; want %d", got, want)
		}
		q.unset(got)
	}
}

// BenchmarkEvents is 16 events that each set their own next instant, exponentially distributed.
func BenchmarkEvents(b *testing.B) {
	q := newQueue()
	var r random
	r.seed(1, 1)
	for i := range 16 {
		q.set(i, r.exponential(1000))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		i, at := q.next()
		q.set(i, at+r.exponential(1000))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// mm1 serves n customers, one after another, who come and are served exponentially, and returns the sum of
// their times in the system and the time it all took.
func mm1(r *random, q *queue, waiting []int64, n int, between, service int64) (sojourn, now int64) {
	const arrive, leave = 0, 1
	q.reset()
	q.set(arrive, r.exponential(between))
	head, tail, came := 0, 0, 0
	for head < n {
		var slot int
		slot, now = q.next()
		if slot == arrive {
			waiting[tail%len(waiting)] = now
			if tail++; tail == head+1 {
				q.set(leave, now+r.exponential(service))
			}
			if came++; came < n {
				q.set(arrive, now+r.exponential(between))
			} else {
				q.unset(arrive)
			}
			continue
		}
		sojourn += now - waiting[head%len(waiting)]
		if head++; head < tail {
			q.set(leave, now+r.exponential(service))
		} else {
			q.unset(leave)
		}
	}
	return sojourn, now
}

// TestMM1 holds queue and generator against what is known of M/M/1: a customer is in the system for
// 1/(service rate - arrival rate) on average.
func TestMM1(t *testing.T) {
	var r random
	r.seed(7, 1)
	const n = 400_000
	sum, _ := mm1(&r, newQueue(), make([]int64, 1<<12), n, 2000, 1000)
	if mean := float64(sum) / n; mean < 1960 || mean > 2040 {
		t.Errorf("mean time in the system = %.0f; want 2000 within 2 %%", mean)
	}
}

// BenchmarkMM1 serves 200,000 customers at a load of 0.8.
func BenchmarkMM1(b *testing.B) {
	const n = 200_000
	var r random
	r.seed(1, 1)
	q, waiting := newQueue(), make([]int64, 1<<14)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		mm1(&r, q, waiting, n, 1000, 800)
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "customers/s")
}
