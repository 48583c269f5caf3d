package klog

import "strings"

// telling reports whether a line outside of any report can begin one, or tells something that a later one
// needs. Nearly all lines of a log cannot: this is what makes reading fast.
func telling[T string | []byte](s T) bool { return find(tellingWords, s) }

// A wordFilter finds any of several words in one pass over a text, most of which it doesn't look at (Wu and
// Manber, "A fast algorithm for multi-pattern searching", 1994). It looks for a window of each word: the pair of
// bytes at the window's end says how far on the next one can end.
type wordFilter struct {
	next  [1 << 16]uint8 // by pair: how far to go on; from bucket on, which words to compare
	words [][]windowed
}

// A windowed word has its window from at on.
type windowed struct {
	word string
	at   int
}

const (
	window = 5 // bytes; the shortest word
	bucket = 128
)

// newWordFilter makes a filter of words of at least window bytes each, with at most 127 different pairs at their
// windows' ends.
func newWordFilter(words ...string) *wordFilter {
	f := &wordFilter{}
	for i := range f.next {
		f.next[i] = window - 1
	}
	for _, word := range words {
		at := rarest(word)
		w := word[at : at+window]
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
		f.words[b] = append(f.words[b], windowed{word, at})
	}
	return f
}

// rarest finds the window of word whose end is least common in a log.
func rarest(word string) int {
	best, least := 0, 9
	for at := 0; at+window <= len(word); at++ {
		if c := commonness(word[at+window-2]) + commonness(word[at+window-1]); c < least {
			best, least = at, c
		}
	}
	return best
}

func commonness(c byte) int {
	switch {
	case c == ' ' || isDigit(c) || strings.IndexByte("etaionsr", c) >= 0:
		return 3
	case c >= 'a' && c <= 'z':
		return 2
	case c == ':':
		return 1
	}
	return 0
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
		for _, w := range f.words[n-bucket] {
			at := i - (window - 1) - w.at
			if at >= 0 && len(s)-at >= len(w.word) && string(s[at:at+len(w.word)]) == w.word {
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
	"INFO: ", "BUG: soft lockup", "BUG: workqueue lockup", "BUG: unable to", "BUG: kernel NULL", "BUG: KASAN", "BUG: KFENCE",
	"BUG: sleeping", "BUG: scheduling", "BUG: stack guard", " kthread ", "Kernel panic", "LOCKUP", "jiffies old", "unregister_netdevice", "RT throttling",
	"NOHZ ", "NOHZ:", "NETDEV WATCHDOG", "timeout", "timed out", "refcount_t", "WARNING: ", "Internal error", "Oops: ", "Oops[",
	"general protection fault", "Unable to handle", "kernel BUG", "Unhandled kernel", "Kernel bug detected",
	" 0000 [#", "skb_under_panic", "skb_over_panic", "[ end trace", "cut here",
	// heads of backtraces that are about something else
	"oom-killer", "page allocation", "UBSAN: ", "BUG: Bad ", "BUG: using ", "BUG: spinlock", "BUG kmalloc", "sysrq: ", "Show Blocked State", "SysRq : ",
	// pieces of reports without their heads
	"NMI backtrace", "Task dump", "Call Trace", "Call trace", "Backtrace:", " Comm: ", "task:", "RIP: 0010:", "RSP: 0018:", "PC is at",
	"Krnl PSW", "Code: ", "(detected by", "Tasks blocked on", " jiffies g=", " this GP)", "s behind)", "blocking rcu_node", "All QSes", " nvcsw: ",
	// what is needed later
	"Linux version ", "scheduler-enlistment",
)
