package klog

import (
	"strconv"
	"strings"
	"time"
)

func gp(mark string, n int64) string { return mark + strconv.FormatInt(n, 10) }

// gpKthread takes in "rcu_sched kthread starved for 999 jiffies! g16541 …" and "rcu_sched kthread timer
// wakeup didn't happen for 1518 jiffies! g-1055 …"; " kthread " is at i.
func (p *parser) gpKthread(l Line, i int) bool {
	flavor := l.Text[strings.LastIndexByte(l.Text[:i], ' ')+1 : i]
	if !strings.HasPrefix(flavor, "rcu_") {
		return false
	}
	e := Event{Flavor: clip(flavor)}
	tail := l.Text[i+len(" kthread "):]
	switch {
	case strings.HasPrefix(tail, "starved for "):
		e.Kind = Starved
	case strings.HasPrefix(tail, "timer wakeup didn't happen for "):
		e.Kind = Timer
	default:
		return false
	}
	e.Jiffies, _ = numberAfter(tail, " for ")
	if c, ok := numberAfter(tail, "->cpu="); ok && c >= 0 && c <= maxCPU {
		e.CPUs = []int{int(c)}
	}
	r := p.begin(l, e)
	if g, ok := numberAfter(tail, "jiffies! g"); ok {
		r.GP = gp("g=", g)
		p.merge(r, key{e.Kind, r.Flavor, r.GP}, func(*report) bool { return true })
	}
	return true
}

// age takes in "rcu_tasks grace period number 85 (since boot) is 10658 jiffies old." of Tasks RCU.
func (p *parser) age(l Line) bool {
	before, rest, found := strings.Cut(l.Text, " grace period number ")
	flavor := before[strings.LastIndexByte(before, ' ')+1:]
	n, rest, ok := number(rest)
	if !found || !ok || !strings.HasPrefix(flavor, "rcu_tasks") {
		return false
	}
	e := Event{Kind: GPAge, Flavor: clip(flavor), GP: gp("n=", n)}
	e.Jiffies, _ = numberAfter(rest, " is ")
	r := p.begin(l, e)
	p.merge(r, key{GPAge, e.Flavor, e.GP}, func(*report) bool { return true })
	return true
}

// bug takes in what follows "BUG: ".
func (p *parser) bug(l Line, rest string) bool {
	if s, found := strings.CutPrefix(rest, "soft lockup - CPU#"); found {
		return p.softLockup(l, s)
	}
	if s, found := strings.CutPrefix(rest, "workqueue lockup - "); found {
		return p.workqueue(l, s)
	}
	return false
}

// softLockup takes in "0 stuck for 187s! [ksoftirqd/0:7]".
func (p *parser) softLockup(l Line, s string) bool {
	cpu, rest, ok := small(s, maxCPU)
	if !ok {
		return false
	}
	e := Event{Kind: SoftLockup, CPUs: []int{cpu}}
	e.Seconds, _ = numberAfter(rest, "stuck for ")
	if _, who, found := strings.Cut(rest, "! ["); found {
		who, _, _ = strings.Cut(who, "]")
		e.Task, e.PID, _ = taskPID(who)
	}
	p.lasting(p.begin(l, e), key{SoftLockup, e.Task, strconv.Itoa(cpu) + "/" + strconv.Itoa(e.PID)})
	return true
}

// workqueue takes in "pool cpus=3 node=0 flags=0x1 nice=0 stuck for 23152s!".
func (p *parser) workqueue(l Line, s string) bool {
	pool, rest, found := strings.Cut(s, " stuck for ")
	seconds, _, ok := number(rest)
	if !found || !ok {
		return false
	}
	e := Event{Kind: WorkqueueLockup, Seconds: seconds}
	if _, list, found := strings.Cut(pool, "cpus="); found {
		e.CPUs = cpuList(nil, list)
	}
	p.lasting(p.begin(l, e), key{WorkqueueLockup, clip(pool), ""})
	return true
}

// lasting merges r with an earlier report of the same trouble if it can still be that one: it has
// grown by the time that went by, or (older kernels print the same number again) the watchdog, which
// repeats itself each such period, was not due twice.
func (p *parser) lasting(r *report, k key) {
	if known := p.known[k]; known != nil && known.HasTime && r.HasTime {
		gap := int64((r.Last - known.Last).Abs() / time.Second)
		grown := r.Seconds - known.newest
		if (grown-gap < -10-gap/8 || grown-gap > 10+gap/8) && (grown > 1 || gap > 2*r.Seconds+10) {
			delete(p.known, k)
		}
	}
	p.merge(r, k, func(*report) bool { return true })
	p.known[k].newest = r.Seconds
}

// hung takes in what follows "INFO: task ": "ip:817 blocked for more than 122 seconds.", with " in I/O wait"
// since 7.x, and "ip:817 is blocked on a mutex likely owned by task kworker/u8:3:55." since 6.16, which
// belongs to a report of the same task before it.
func (p *parser) hung(l Line, s string) bool {
	i := strings.Index(s, " blocked ")
	if i < 0 {
		return false
	}
	who := strings.TrimSuffix(s[:i], " is")
	who, _, _ = strings.Cut(who, " <") // " <reader>" of an rwsem
	task, pid, ok := taskPID(who)
	if !ok {
		return false
	}
	e := Event{Kind: HungTask, Task: task, PID: pid}
	k := key{HungTask, task, strconv.Itoa(pid)}
	what := s[i+len(" blocked "):]
	if strings.HasPrefix(what, "on a") { // a mutex, an rw-semaphore
		if _, owner, found := strings.Cut(what, " by task "); found {
			owner, _, _ = strings.Cut(owner, " <")
			e.Owner, e.OwnerPID, _ = taskPID(owner)
		}
		r := p.begin(l, e)
		p.merge(r, k, func(known *report) bool { return false })
		return true
	}
	if e.Seconds, ok = numberAfter(what, "for more than "); !ok {
		return false
	}
	p.lasting(p.begin(l, e), k)
	return true
}

// hardLockup takes in "Watchdog detected hard LOCKUP on cpu 3" and its kin.
func (p *parser) hardLockup(l Line) {
	e := Event{Kind: HardLockup}
	for _, mark := range [...]string{"LOCKUP on cpu ", "watchdog: CPU"} {
		if c, ok := numberAfter(l.Text, mark); ok && c >= 0 && c <= maxCPU {
			e.CPUs = insert(e.CPUs, int(c))
			break
		}
	}
	p.begin(l, e)
}

// panicked takes in "Kernel panic - not syncing: …", but not the line that ends the dump below it.
func (p *parser) panicked(l Line) bool {
	if strings.Contains(l.Text, "end Kernel panic") {
		return false
	}
	p.begin(l, Event{Kind: Panic})
	return true
}
