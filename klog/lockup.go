package klog

import (
	"strconv"
	"strings"
	"time"
)

func gp(mark string, n int64) string { return mark + strconv.FormatInt(n, 10) }

// gpKthread takes in "rcu_sched kthread starved for 999 jiffies! g16541 …" and "rcu_sched kthread timer
// wakeup didn't happen for 1518 jiffies! g-1055 …"; " kthread " is at i.
func (p *Parser) gpKthread(l Line, i int) bool {
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
func (p *Parser) age(l Line) bool {
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
func (p *Parser) bug(l Line, rest string) bool {
	if s, found := strings.CutPrefix(rest, "soft lockup - CPU#"); found {
		return p.softLockup(l, s)
	}
	if s, found := strings.CutPrefix(rest, "workqueue lockup - "); found {
		return p.workqueue(l, s)
	}
	return p.oops(l, rest)
}

// softLockup takes in "0 stuck for 187s! [ksoftirqd/0:7]".
func (p *Parser) softLockup(l Line, s string) bool {
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
func (p *Parser) workqueue(l Line, s string) bool {
	pool, rest, found := strings.Cut(s, " stuck for ")
	seconds, _, ok := number(rest)
	if !found || !ok {
		return false
	}
	p.pool, p.ofPool = clip(strings.TrimPrefix(pool, "pool ")), false
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
func (p *Parser) lasting(r *report, k key) {
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
func (p *Parser) hung(l Line, s string) bool {
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
		p.owner(r, k)
		return true
	}
	if e.Seconds, ok = numberAfter(what, "for more than "); !ok {
		return p.unfinished(l, what, "for more than", "in I/O wait for more than")
	}
	p.lasting(p.begin(l, e), k)
	return true
}

// owner adds the likely owner of the lock to the hung task k, or makes it an event of its own.
func (p *Parser) owner(r *report, k key) {
	if p.known[k] == nil {
		r.Kind = MutexOwner
		k.kind = MutexOwner
	}
	p.merge(r, k, func(known *report) bool { return false })
}

// hardLockup takes in "Watchdog detected hard LOCKUP on cpu 3" and its kin.
func (p *Parser) hardLockup(l Line) {
	e := Event{Kind: HardLockup}
	for _, mark := range [...]string{"LOCKUP on cpu ", "LOCKUP on other CPUs ", "watchdog: CPU", "Watchdog CPU:"} {
		if c, ok := numberAfter(l.Text, mark); ok && c >= 0 && c <= maxCPU {
			e.CPUs = insert(e.CPUs, int(c))
			break
		}
	}
	p.explains()
	p.begin(l, e)
}

// explains drops a warning just begun, because the line after it says what it is.
func (p *Parser) explains() {
	if r := p.anchor; r != nil && r.Kind == Warning && strings.Contains(r.Lines[0], "WARNING: ") && p.n-r.opened <= 3 && p.reports[len(p.reports)-1] == r {
		p.reports = p.reports[:len(p.reports)-1]
		p.anchor = nil
	}
}

// panicked takes in "Kernel panic - not syncing: …", but not the line that ends the dump below it.
func (p *Parser) panicked(l Line) bool {
	if strings.Contains(l.Text, "end Kernel panic") {
		return false
	}
	about := p.anchor
	p.begin(l, Event{Kind: Panic})
	if about != nil { // the backtrace below is still about what the kernel panics over
		p.anchor = about
	}
	return true
}

// trouble takes in the heads of what is no stall.
func (p *Parser) trouble(l Line) bool {
	text := l.Text
	switch {
	case strings.Contains(text, "unregister_netdevice: waiting for "):
		_, dev, _ := strings.Cut(text, "waiting for ")
		dev, _, _ = strings.Cut(dev, " ")
		p.once(l, Event{Kind: UnregisterWait, Device: name(dev)}, dev)
	case strings.Contains(text, "RT throttling activated"):
		p.once(l, Event{Kind: RTThrottle}, "")
	case strings.Contains(text, "NOHZ") && strings.Contains(text, "softirq") && strings.Contains(text, "pending"):
		p.once(l, Event{Kind: NOHZ}, "")
	case txTimeout(text):
		p.explains()
		dev := netdev(text)
		p.once(l, Event{Kind: TXTimeout, Device: name(dev)}, dev)
	case strings.Contains(text, "refcount_t: "):
		p.warning(l)
	case strings.Contains(text, "WARNING: "):
		return p.warn(l)
	case strings.Contains(text, "Internal error: "), strings.Contains(text, "Oops: "), strings.Contains(text, "Oops["),
		strings.Contains(text, "general protection fault"), strings.Contains(text, "Unable to handle kernel"),
		strings.Contains(text, "kernel BUG at "), strings.Contains(text, "Unhandled kernel "), strings.Contains(text, "Kernel bug detected"),
		strings.Contains(text, " 0000 [#"), strings.Contains(text, "skb_under_panic"), strings.Contains(text, "skb_over_panic"):
		return p.oops(l, text)
	case strings.Contains(text, "Show Blocked State"):
		p.rest()
		p.asked = true
	case strings.Contains(text, "oom-killer"), strings.Contains(text, "page allocation "), strings.Contains(text, "UBSAN: "),
		strings.Contains(text, "BUG kmalloc"), strings.Contains(text, "sysrq: "), strings.Contains(text, "SysRq : "):
		return p.strange()
	case strings.Contains(text, "[ end trace "):
		return p.endTrace(l)
	case strings.Contains(text, "[ cut here ]"), strings.Contains(text, "8<--- cut here"):
		p.rest()
		p.busy = p.n
	default:
		return p.context(l)
	}
	return true
}

// once takes in a line that the kernel repeats for as long as the trouble lasts.
func (p *Parser) once(l Line, e Event, identity string) {
	p.merge(p.begin(l, e), key{e.Kind, "", name(identity)}, func(*report) bool { return true })
}

func (p *Parser) warning(l Line) { p.sameDump(l, Warning) }

// sameDump begins an event of kind k, unless the line belongs to the dump of one just begun: the kernel
// says more than once what went wrong.
func (p *Parser) sameDump(l Line, k Kind) {
	if r := p.anchor; r != nil && r.Kind == k && p.n-r.opened < 40 && len(r.Traces) == 0 {
		r.note(l)
		return
	}
	p.begin(l, Event{Kind: k})
}

// warn takes in "WARNING: CPU: 0 PID: 0 at net/core/dev.c:6800 napi_complete_done+0x…", a WARN's line.
func (p *Parser) warn(l Line) bool {
	_, rest, _ := strings.Cut(l.Text, "WARNING: ")
	switch {
	case strings.Contains(rest, "dev_watchdog+"), strings.Contains(rest, "watchdog_overflow_callback"):
		return p.anchor != nil && p.anchor.Kind == TXTimeout || p.strange()
	case strings.HasPrefix(rest, "CPU: ") || strings.HasPrefix(rest, "at ") || strings.Contains(rest, " at ") && strings.Contains(rest, "+0x"):
		p.warning(l)
		return true
	case strings.HasPrefix(rest, "possible "), strings.HasPrefix(rest, "suspicious "), strings.HasPrefix(rest, "inconsistent "):
		return p.strange()
	}
	return false
}

// oops takes in what follows "BUG: ", and other words for a fault. A mere debugging complaint
// ("sleeping function called from invalid context") only takes the backtrace below it.
func (p *Parser) oops(l Line, rest string) bool {
	for _, s := range [...]string{"sleeping function", "scheduling while atomic", "using ", "spinlock", "Bad page", "Bad rss", "MAX_LOCK", "looking up", "rwlock", "key ", "held lock"} {
		if strings.HasPrefix(rest, s) {
			return p.strange()
		}
	}
	p.sameDump(l, Oops)
	return true
}

// strange notes that what follows is about something that is no event here.
func (p *Parser) strange() bool {
	p.rest()
	p.foreign = true
	return true
}

// endTrace takes in "---[ end trace 0000000000000000 ]---". Below no head that is known, it is all that
// the log has of a warning.
func (p *Parser) endTrace(l Line) bool {
	orphan := p.anchor == nil && !p.foreign && p.tr.open != nil
	if !orphan {
		p.rest()
		return true
	}
	t := *p.tr.open
	p.tr.open = nil
	r := p.begin(l, Event{Kind: Warning})
	r.Traces = append(r.Traces, t)
	p.anchor = nil
	return true
}

// txTimeout reports whether text is the network stack's or a driver's word for a stuck transmit queue.
func txTimeout(text string) bool {
	if strings.Contains(text, "NETDEV WATCHDOG") {
		return true
	}
	for _, s := range [...]string{"TX timeout", "Tx timeout", "tx timeout", "transmit timed out", "Transmit timeout", "transmit queue"} {
		if i := strings.Index(text, s); i >= 0 && strings.Contains(text[:i], ": ") {
			return s != "transmit queue" || strings.Contains(text, "timed out")
		}
	}
	return false
}

// netdev finds the network device in "NETDEV WATCHDOG: eth0 (r8169): transmit queue 0 timed out" or in what
// newer kernels and drivers print, "r8169 0000:02:00.0 eth0: …".
func netdev(text string) string {
	if _, rest, found := strings.Cut(text, "NETDEV WATCHDOG: "); found {
		dev, _, _ := strings.Cut(rest, " (")
		if !strings.ContainsAny(dev, " :") {
			return dev
		}
		text = strings.TrimSuffix(text, "NETDEV WATCHDOG: "+rest)
	}
	before, _, _ := strings.Cut(text, ": ")
	return before[strings.LastIndexByte(before, ' ')+1:]
}

// context takes in lines that say something about the log as a whole: HZ from the delay RCU computes from it
// (HZ/10, kernel/rcu/tree.c), and a driver's complaint about its device.
func (p *Parser) context(l Line) bool {
	if n, ok := numberAfter(l.Text, "scheduler-enlistment delay is "); ok {
		switch n {
		case 10, 25, 30, 100:
			p.hz = int(n) * 10
		}
		return false
	}
	if strings.HasSuffix(l.Text, "timeout") || strings.Contains(l.Text, "timed out") || strings.Contains(l.Text, " timeout ") {
		p.complaint = Line{l.Stamp, l.HasStamp, clip(l.Text)}
	}
	return false
}
