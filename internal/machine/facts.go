// Package machine reads what a Linux machine is (release, preemption model, RCU's parameters, CPUs)
// with the evidence for each answer, and changes its knobs in a way that can be undone.
package machine

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// Facts are what a machine says about itself. A field that could not be read is at its zero value,
// and Unknown holds its name.
type Facts struct {
	Release, Version, Arch string
	Preempt                rcu.Preemption
	Models                 []rcu.Preemption // what Preempt can be by the evidence; more than one when it is unknown
	Dynamic                bool             // PREEMPT_DYNAMIC
	Flavor                 rcu.Flavor
	HZ                     int   // ticks per second
	Online                 []int // CPUs, ascending
	Cmdline                string
	ClockSource            string
	StallSec               int // rcupdate.rcu_cpu_stall_timeout, seconds
	ExpMillis              int // rcupdate.rcu_exp_cpu_stall_timeout, ms; 0 follows StallSec
	Stacks                 bool
	Config                 []string // CONFIG_ lines that matter here
	Evidence               []string // "preempt: debugfs sched/preempt says (lazy)"
	Unknown                []string
}

// Read returns what the machine at s says about itself. Sources that are missing leave their field
// unknown; sources that contradict each other are both in the evidence. It returns an error only when
// s is no Linux machine at all.
func Read(s Source) (Facts, error) {
	var f Facts
	u := s.uname()
	f.Release, f.Version, f.Arch = u.release, u.version, u.machine
	if f.Release == "" {
		return f, errors.New("read the kernel's release: there is no proc/sys/kernel/osrelease, or nothing in it")
	}
	f.missing(f.Arch == "", "arch")
	f.Cmdline = s.text("proc/cmdline")
	f.missing(f.Cmdline == "" && !s.exists("proc/cmdline"), "cmdline")
	f.ClockSource = s.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
	f.missing(f.ClockSource == "", "clocksource")
	f.readOnline(s)
	f.readStallTimeouts(s)
	f.Stacks = s.stacks()
	conf := readConfig(s, f.Release)
	f.Config = conf.kept
	f.readHZ(s, conf)
	f.readPreempt(s, conf)
	return f, nil
}

// stacks reports whether another task's kernel stack can be read. kthreadd always sleeps, and so
// shows one; where it can't be seen, in a container, the file's existence must do.
func (s Source) stacks() bool {
	if s.text("proc/2/comm") == "kthreadd" {
		return s.text("proc/2/stack") != ""
	}
	return s.exists("proc/self/stack")
}

func (f *Facts) missing(is bool, name string) {
	if is {
		f.Unknown = append(f.Unknown, name)
	}
}

func (f *Facts) say(format string, args ...any) {
	f.Evidence = append(f.Evidence, fmt.Sprintf(format, args...))
}

func (f *Facts) readOnline(s Source) {
	list, err := ParseCPUList(s.text("sys/devices/system/cpu/online"))
	f.Online = list
	f.missing(err != nil || len(list) == 0, "cpus")
}

func (f *Facts) readStallTimeouts(s Source) {
	n, err := strconv.Atoi(s.text("sys/module/rcupdate/parameters/rcu_cpu_stall_timeout"))
	f.StallSec = n
	f.missing(err != nil, "stall_sec")
	// Since 5.19; before, expedited grace periods follow the classic timeout.
	n, err = strconv.Atoi(s.text("sys/module/rcupdate/parameters/rcu_exp_cpu_stall_timeout"))
	f.ExpMillis = n
	f.missing(err != nil, "exp_millis")
}

// jiffiesIdle is HZ × max_idle_ns of the clocksource "jiffies" as every kernel prints it at boot:
// the mask is 32 bits wide whatever HZ is, so that the product does not depend on it.
const jiffiesIdle = 1911260446275000e3

func (f *Facts) readHZ(s Source, conf config) {
	defer func() { f.missing(f.HZ == 0, "hz") }()
	if n, err := strconv.Atoi(conf.values["CONFIG_HZ"]); err == nil && n > 0 {
		f.HZ = n
		f.say("hz: %s says CONFIG_HZ=%d", conf.from, n)
		return
	}
	m := jiffiesLine.FindStringSubmatch(s.Kmsg)
	if m == nil {
		return
	}
	ns, err := strconv.ParseFloat(m[1], 64)
	if err != nil || ns <= 0 {
		return
	}
	n := int(math.Round(jiffiesIdle / ns))
	if n < 24 || n > 10000 {
		return
	}
	f.HZ = n
	f.say("hz: %d by the boot line of clocksource jiffies, max_idle_ns %s", n, m[1])
}

// ParseCPUList returns the CPUs in a list as the kernel prints it ("0-2,5"), ascending. A CPU above
// 65535 or a range that runs backwards is an error.
func ParseCPUList(list string) ([]int, error) {
	var cpus []int
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		a, err := strconv.ParseUint(lo, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", list, err)
		}
		b, err := strconv.ParseUint(hi, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", list, err)
		}
		if b < a {
			return nil, fmt.Errorf("CPU list %q: the range %s runs backwards", list, part)
		}
		for c := a; c <= b; c++ {
			cpus = append(cpus, int(c))
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

var jiffiesLine = regexp.MustCompile(`clocksource: jiffies: .*max_idle_ns: (\d+) ns`)
