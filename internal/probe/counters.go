package probe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// interruptsOn returns how many interrupts CPU cpu has taken, from the text of /proc/interrupts:
// a head line of CPU names, then a line a source with one column a CPU.
func interruptsOn(text string, cpu int) (uint64, error) {
	head, rest, _ := strings.Cut(text, "\n")
	column := -1
	for i, name := range strings.Fields(head) {
		if name == "CPU"+strconv.Itoa(cpu) {
			column = i
		}
	}
	if column < 0 {
		return 0, fmt.Errorf("interrupts: no column for CPU %d", cpu)
	}
	var sum uint64
	for line := range strings.Lines(rest) {
		fields := strings.Fields(line)
		if len(fields) < column+2 || wholeMachine(fields[0]) {
			continue
		}
		n, err := strconv.ParseUint(fields[column+1], 10, 64)
		if err != nil {
			continue
		}
		sum += n
	}
	return sum, nil
}

// wholeMachine: the lines that have one number for all CPUs.
func wholeMachine(source string) bool { return strings.EqualFold(source, "ERR:") || source == "MIS:" }

// A softnet is one CPU's line of /proc/net/softnet_stat.
type softnet struct{ done, dropped, squeezed uint64 }

// softnetOn returns CPU cpu's counts. The CPU's number is the 13th column since 5.10; before, the
// lines are those of the online CPUs in turn.
func softnetOn(text string, cpu int, online []int) (softnet, error) {
	row := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		of := -1
		if len(fields) >= 13 {
			n, err := strconv.ParseUint(fields[12], 16, 31)
			if err != nil {
				return softnet{}, fmt.Errorf("softnet_stat: %w", err)
			}
			of = int(n)
		} else if row < len(online) {
			of = online[row]
		}
		row++
		if of != cpu {
			continue
		}
		var s softnet
		var errs [3]error
		s.done, errs[0] = strconv.ParseUint(fields[0], 16, 64)
		s.dropped, errs[1] = strconv.ParseUint(fields[1], 16, 64)
		s.squeezed, errs[2] = strconv.ParseUint(fields[2], 16, 64)
		if err := errors.Join(errs[:]...); err != nil {
			return s, fmt.Errorf("softnet_stat: %w", err)
		}
		return s, nil
	}
	return softnet{}, fmt.Errorf("softnet_stat: no line for CPU %d", cpu)
}
