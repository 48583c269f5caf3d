package doctor

import (
	"fmt"
	"strings"

	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
)

// An Answer is yes, no or unknown.
type Answer string

const (
	yes     Answer = "yes"
	no      Answer = "no"
	unknown Answer = "unknown"
)

// A model is the preemption model as far as it matters: does it preempt the poll loop?
type model struct {
	preempts Answer
	name     string // "VOLUNTARY", "NONE or VOLUNTARY"
	dynamic  bool
	doubts   []string // contradictions
	lacking  string   // what would decide, where preempts is unknown
}

func judgeModel(f machine.Facts) model {
	m := model{preempts: unknown, name: modelNames(f), dynamic: f.Dynamic}
	preempting, not := 0, 0
	for _, p := range f.Models {
		if p.Preempts() {
			preempting++
		} else {
			not++
		}
	}
	switch {
	case preempting > 0 && not == 0:
		m.preempts = yes
	case not > 0 && preempting == 0:
		m.preempts = no
	}
	for _, e := range f.Evidence {
		if rest, ok := strings.CutPrefix(e, "preempt: contradiction: "); ok {
			m.doubts = append(m.doubts, "sources of the preemption model contradict each other: "+rest)
		}
	}
	if m.preempts == unknown {
		m.lacking = "root can read it in /sys/kernel/debug/sched/preempt (mount -t debugfs none /sys/kernel/debug) or in the boot log (Dynamic Preempt)"
		if !f.Dynamic {
			m.lacking = "it stands in the kernel's configuration, which is neither in /proc/config.gz nor in /boot"
		}
	}
	return m
}

func modelNames(f machine.Facts) string {
	name := func(p rcu.Preemption) string {
		s := strings.ToUpper(string(p))
		if f.Dynamic && p != rcu.RT {
			s += ", dynamic"
		}
		return s
	}
	switch {
	case f.Preempt != "":
		return name(f.Preempt)
	case len(f.Models) == 0:
		return "of an unknown preemption model"
	}
	var all []string
	for _, p := range f.Models {
		all = append(all, strings.ToUpper(string(p)))
	}
	return strings.Join(all, " or ")
}

func (m model) confidence() Confidence {
	if len(m.doubts) > 0 {
		return Medium
	}
	return High
}

// says is the model in a sentence about the loop's exit.
func (m model) says() string {
	if m.dynamic && m.preempts == no {
		return fmt.Sprintf("%s: the exit of the poll loop is no preemption point. RCU is preemptible in such a kernel and ends its waits within seconds; workers of the CPU wait for as long as the load lasts", m.name)
	}
	return fmt.Sprintf("%s: the exit of the poll loop is no preemption point, so that grace periods and workers of the CPU wait for as long as the load lasts", m.name)
}
