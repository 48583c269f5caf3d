package klog

// telling reports whether a line outside of any report can begin one, or tells something that a later one
// needs. Nearly all lines of a log cannot: this is what makes reading fast.
func telling[T string | []byte](s T) bool { return find(tellingWords, s) }

// A wordFilter finds any of several words in one pass over a text, most of which it doesn't look at (Wu and
// Manber, "A fast algorithm for multi-pattern searching", 1994): the pair of bytes at the end of a window as
// long as the shortest word says how far on the next word can end.
type wordFilter struct {
	next  [1 << 16]uint8 // by pair: how far to go on; from bucket on, which words to compare
	words [][]string
}

const (
	window = 5 // the shortest word
	bucket = 128
)

// newWordFilter makes a filter of words of at least window bytes each, with at most 127 different pairs at their
// windows' ends.
func newWordFilter(words ...string) *wordFilter {
	f := &wordFilter{}
	for i := range f.next {
		f.next[i] = window - 1
	}
	for _, w := range words {
		for j := 1; j < window-1; j++ {
			p := pair(w[j-1], w[j])
			if f.next[p] < bucket {
				f.next[p] = min(f.next[p], uint8(window-1-j))
			}
		}
		p := pair(w[window-2], w[window-1])
		if f.next[p] < bucket {
			f.next[p] = uint8(bucket + len(f.words))
			f.words = append(f.words, nil)
		}
		b := f.next[p] - bucket
		f.words[b] = append(f.words[b], w)
	}
	return f
}

func pair(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// find reports whether s contains a word of f.
func find[T string | []byte](f *wordFilter, s T) bool {
	for i := window - 1; i < len(s); {
		n := f.next[pair(s[i-1], s[i])]
		if n < bucket {
			i += int(n)
			continue
		}
		at := i - (window - 1)
		for _, w := range f.words[n-bucket] {
			if len(s)-at >= len(w) && string(s[at:at+len(w)]) == w {
				return true
			}
		}
		i++
	}
	return false
}

// tellingWords has a part of every line that begins a report.
var tellingWords = newWordFilter(
	// heads
	"INFO: ", "BUG: ", " kthread ", "Kernel panic", "LOCKUP", "jiffies old", "unregister_netdevice", "RT throttling",
	"NOHZ ", "NOHZ:", "NETDEV WATCHDOG", "timeout", "timed out", "refcount_t", "WARNING: ", "Internal error", "Oops: ", "Oops[",
	"general protection fault", "Unable to handle", "kernel BUG", "[ end trace", "[ cut here",
	// pieces of reports without their heads
	"NMI backtrace", "Task dump", "Call Trace", "Call trace", "Backtrace:", " Comm: ", "task:", "RIP: ", "pc : ", "PC is at",
	"Krnl PSW", "Code: ", "(detected by", " this GP)", "s behind)", "blocking rcu_node", "All QSes", " nvcsw: ",
	// what is needed later
	"Linux version ", "scheduler-enlistment",
)
