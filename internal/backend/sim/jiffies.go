package sim

import (
	"math/bits"
	"time"
)

// A jiffies is a kernel's tick rate. Jiffy j begins at nanosecond j·10⁹/HZ, rounded down.
type jiffies struct{ hz int64 }

// at returns when jiffy j begins.
func (k jiffies) at(j int64) int64 {
	hi, lo := bits.Mul64(uint64(j), uint64(second))
	q, _ := bits.Div64(hi, lo, uint64(k.hz))
	return int64(q)
}

// of returns the jiffy of instant t.
func (k jiffies) of(t int64) int64 {
	hi, lo := bits.Mul64(uint64(t)+1, uint64(k.hz))
	lo, borrow := bits.Sub64(lo, 1, 0)
	q, _ := bits.Div64(hi-borrow, lo, uint64(second))
	return int64(q)
}

// after returns when a comparison first holds that asks for more than n jiffies since jiffy j.
func (k jiffies) after(j, n int64) int64 { return k.at(j + n + 1) }

// timer returns when a timer fires that is set at instant t for n jiffies: kernel/time/timer.c rounds up to the
// granularity of the wheel's level, which is a jiffy below 64, eight times as much below 512, and so on. So a
// short one takes up to a jiffy more than it was asked for.
func (k jiffies) timer(t, n int64) int64 {
	expires := k.of(t) + n
	shift := uint(0)
	for level := int64(63); n >= level; level <<= 3 { // LVL_START
		shift += 3
	}
	return k.at((expires + 1<<shift) >> shift << shift)
}

// timing holds RCU's and the scheduler's times, in jiffies (kernel/rcu/tree.c, tree_stall.h; kernel/sched/fair.c).
type timing struct {
	jiffies
	sched       int64 // jiffies_to_sched_qs
	first, next int64 // jiffies_till_first_fqs, jiffies_till_next_fqs
	stall       int64 // RCU's stall timeout
	exp         int64 // that of expedited grace periods
	stamp       int64 // rcu_softirq_qs_periodic: HZ/10
	softirq     int64 // MAX_SOFTIRQ_TIME, at least a jiffy
	slice       int64 // base slice, ns
}

func timingOf(hz, cpus int, t tunables, stallSec, expMillis int) timing {
	k := timing{jiffies: jiffies{int64(hz)}}
	d := int64(1)
	if hz > 250 {
		d++
	}
	if hz > 500 {
		d++
	}
	k.first, k.next = d, d
	if t.first > 0 {
		k.first = t.first
	}
	if t.next > 0 {
		k.next = t.next
	}
	k.sched = max(k.first+2*k.next, k.hz/10)
	if t.sched > 0 {
		k.sched = t.sched
	}
	k.stall = int64(stallSec) * k.hz
	k.exp = k.stall
	if expMillis > 0 {
		k.exp = max(2, (int64(expMillis)*k.hz+999)/1000)
	}
	k.stamp = k.hz / 10
	k.softirq = max(1, 2*k.hz/1000)
	k.slice = int64(700*time.Microsecond) * int64(bits.Len(uint(min(cpus, 8))))
	return k
}
