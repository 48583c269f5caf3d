package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/explain"
	"github.com/napistall/napistall/internal/machine"
)

// A Poller is a NAPI instance, or a thread that polls for one which can't be seen.
type Poller struct {
	Device string // as the thread names it where there is no other
	Driver string
	ID     int // 0 unknown
	IRQ    *int
	Mode   string // softirq, threaded, busy-poll or unknown
	On     Answer // does it poll in a thread?
	Why    string // what On rests on
	// Moderated says what keeps its interrupts rare; "" if nothing does.
	Moderated string
	Thread    *machine.KThread
	Watched   *machine.Watched
	Known     *machine.Device // nil where it is in no view of ours
	Instance  *machine.NAPI
	Habit     *Habit
	// Band is where its load sits between the ways in which the loop lets others run; "" where polls were not counted.
	Band explain.Band
}

// pollers returns every instance and thread: those of devices by index and id, then threads without one by pid.
func pollers(c Case) []Poller {
	var all []Poller
	claimed := map[int]bool{}
	for i := range c.Survey.Devices {
		d := &c.Survey.Devices[i]
		for j := range d.NAPIs {
			p := instance(c, d, &d.NAPIs[j])
			if p.Thread != nil {
				claimed[p.Thread.PID] = true
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b Poller) int {
		if a.Known.Index != b.Known.Index {
			return a.Known.Index - b.Known.Index
		}
		return a.ID - b.ID
	})
	for i := range c.Survey.Threads {
		t := &c.Survey.Threads[i]
		if !claimed[t.PID] {
			all = append(all, loneThread(c, t))
		}
	}
	setBands(c, all)
	return all
}

func instance(c Case, d *machine.Device, n *machine.NAPI) Poller {
	p := Poller{Device: d.Name, Driver: driver(*d), ID: n.ID, IRQ: n.IRQ, Known: d, Instance: n, Habit: habitOf(driver(*d), d.Name)}
	if n.PID != nil {
		for i := range c.Survey.Threads {
			if c.Survey.Threads[i].PID == *n.PID {
				p.Thread = &c.Survey.Threads[i]
			}
		}
		p.Watched = watched(c, *n.PID)
	}
	switch {
	case n.Mode == machine.ModeSoftirq:
		p.On, p.Why = no, "netlink says threaded: disabled"
	case n.Mode != "":
		p.On, p.Why = yes, "netlink says threaded: "+n.Mode
	case d.Threaded != nil && *d.Threaded == 0:
		p.On, p.Why = no, "sysfs says threaded 0"
	case d.Threaded != nil && n.PID != nil:
		p.On, p.Why = yes, "sysfs says threaded 1"
	case n.PID == nil:
		p.On, p.Why = no, "it has no thread"
	default:
		p.On, p.Why = unknown, "it has a thread; the mode could not be read"
	}
	p.Mode = modeWord(p.On, n.Mode)
	p.Moderated = moderated(*d, n)
	return p
}

func modeWord(on Answer, mode string) string {
	switch {
	case mode == machine.ModeBusyPoll:
		return "busy-poll"
	case on == yes:
		return "threaded"
	case on == no:
		return "softirq"
	}
	return "unknown"
}

// loneThread is a thread that no instance names: of a kernel without netdev netlink, of another network
// namespace, or of a driver that polls on a device which it never registers.
func loneThread(c Case, t *machine.KThread) Poller {
	p := Poller{Device: t.Device, Thread: t, Watched: watched(c, t.PID), On: unknown}
	if _, id, ok := strings.Cut(strings.TrimPrefix(t.Name, "napi/"+t.Device), "-"); ok {
		p.ID, _ = strconv.Atoi(id) // 0 where the name was cut
	}
	if t.Backlog() {
		p.Device, p.On, p.Why = fmt.Sprintf("backlog of CPU %s", t.CPUs), yes, "thread_backlog_napi made its thread"
		p.Mode = modeWord(p.On, "")
		return p
	}
	for i := range c.Survey.Devices {
		if d := &c.Survey.Devices[i]; d.Name == t.Device {
			p.Known, p.Driver = d, driver(*d)
			p.Moderated = moderated(*d, nil)
		}
	}
	p.Habit = habitOf(p.Driver, t.Device)
	ran := p.Watched != nil && p.Watched.RunTime > 0
	switch {
	case p.Known != nil && p.Known.Threaded != nil && *p.Known.Threaded == 0:
		p.On, p.Why = no, "sysfs says threaded 0"
	case p.Known != nil && p.Known.Threaded != nil:
		p.On, p.Why = yes, "sysfs says threaded 1"
	case p.Habit != nil && p.Habit.Forced:
		p.On, p.Why = yes, p.Habit.Driver+" always polls in a thread, on a device of its own that nothing lists"
	case ran:
		p.On, p.Why = yes, "its thread ran while it was watched; its device is of another network namespace, or is listed nowhere"
	default:
		p.Why = "it has a thread, and its device is of another network namespace or listed nowhere"
	}
	p.Mode = modeWord(p.On, "")
	return p
}

func watched(c Case, pid int) *machine.Watched {
	for i := range c.Watch.Threads {
		if c.Watch.Threads[i].PID == pid {
			return &c.Watch.Threads[i]
		}
	}
	return nil
}

func driver(d machine.Device) string {
	if d.Driver == "" && d.Kind == "wireguard" {
		return "wireguard"
	}
	return d.Driver
}

// enoughUsecs: with an interrupt at most each 100 µs the loop is entered at most 10,000 times a second, fewer than the
// 12,069 of the report's board, which stalled.
const enoughUsecs = 100

// moderated says what holds interrupts back, if it is enough.
func moderated(d machine.Device, n *machine.NAPI) string {
	if c := d.Coalescing; c != nil {
		if c.Adaptive != nil && *c.Adaptive {
			return "adaptive-rx on"
		}
		if c.RxUsecs != nil && *c.RxUsecs >= enoughUsecs {
			return fmt.Sprintf("rx-usecs %d", *c.RxUsecs)
		}
	}
	deferred, flush := d.DeferHardIRQs, d.GROFlush
	if n != nil && n.DeferIRQs != nil {
		deferred, flush = n.DeferIRQs, n.GROFlush
	}
	// airoha_eth completes with napi_complete(), which never arms them.
	if deferred != nil && flush != nil && *deferred > 0 && *flush >= enoughUsecs*1000 && driver(d) != "airoha_eth" {
		return fmt.Sprintf("defer-hard-irqs %d with gro-flush-timeout %d µs", *deferred, *flush/1000)
	}
	return ""
}

func count(all []Poller, a Answer) int {
	n := 0
	for _, p := range all {
		if p.On == a {
			n++
		}
	}
	return n
}
