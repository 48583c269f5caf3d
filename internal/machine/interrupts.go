package machine

import (
	"strconv"
	"strings"
)

// ParseInterrupts returns how often each numbered interrupt has come on all CPUs, from the text of
// /proc/interrupts. Lines without a number (NMI, LOC, IPI0) are left out.
func ParseInterrupts(text string) map[int]uint64 {
	head, rest, _ := strings.Cut(text, "\n")
	cpus := len(strings.Fields(head))
	counts := map[int]uint64{}
	for line := range strings.Lines(rest) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		irq, err := strconv.ParseUint(strings.TrimSuffix(f[0], ":"), 10, 31)
		if err != nil || !strings.HasSuffix(f[0], ":") {
			continue
		}
		for _, word := range f[1:min(len(f), cpus+1)] {
			n, err := strconv.ParseUint(word, 10, 64)
			if err != nil {
				break
			}
			counts[int(irq)] += n
		}
	}
	return counts
}
