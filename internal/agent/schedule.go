package agent

import (
	"cmp"
	"slices"
	"time"

	"github.com/napistall/napistall/internal/probe"
)

// A mark is an instant of a trial, counted from the load's start, at which the agent does something:
// read the counters, or say that the tail begins.
type mark struct {
	at   time.Duration
	tail bool
}

// beforeEnd is how long before the load's deadline its last counters are read.
const beforeEnd = 20 * time.Millisecond

// schedule lists a trial's marks in order: counters at its start, each second, just before the load
// ends and at the end, so that a hold shorter than two seconds has a difference to show too.
func schedule(hold, duration time.Duration) []mark {
	marks := []mark{{at: 0}, {at: duration}}
	for t := probe.Every; t < duration; t += probe.Every {
		marks = append(marks, mark{at: t})
	}
	if hold > 0 && hold <= duration {
		marks = append(marks, mark{at: hold, tail: true})
		if hold > beforeEnd {
			marks = append(marks, mark{at: hold - beforeEnd})
		}
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	return marks
}
