package klog

import (
	"math"
	"strings"
)

// clip returns a copy of s that is short and doesn't keep the whole log in memory.
func clip(s string) string { return strings.Clone(s[:min(len(s), maxLineLen)]) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits returns how many decimal digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// number reads the decimal number, perhaps negative, that s begins with after spaces. One that is
// too large for an int64 stays at the largest.
func number(s string) (v int64, rest string, ok bool) {
	s = strings.TrimLeft(s, " ")
	digit, negative := strings.CutPrefix(s, "-")
	n := digits(digit)
	if n == 0 {
		return 0, s, false
	}
	for _, c := range []byte(digit[:n]) {
		if v > (math.MaxInt64-9)/10 {
			v = math.MaxInt64
			break
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	return v, digit[n:], true
}

// numberAfter reads the number that follows mark in s.
func numberAfter(s, mark string) (int64, bool) {
	_, rest, found := strings.Cut(s, mark)
	if !found {
		return 0, false
	}
	v, _, ok := number(rest)
	return v, ok
}

// small reads a number that fits in a PID or CPU, up to limit.
func small(s string, limit int64) (v int, rest string, ok bool) {
	n, rest, ok := number(s)
	if !ok || n < 0 || n > limit {
		return 0, rest, false
	}
	return int(n), rest, true
}

const maxPID = 1 << 22 // PID_MAX_LIMIT

// taskPID splits "comm:pid", where comm can have colons and spaces of its own.
func taskPID(s string) (task string, pid int, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	pid, rest, ok := small(s[i+1:], maxPID)
	if !ok || strings.Trim(rest, " .") != "" {
		return "", 0, false
	}
	return clip(strings.TrimSpace(s[:i])), pid, true
}

// cpuList reads a kernel CPU list like "0-3,5" into set.
func cpuList(set []int, s string) []int {
	for {
		lo, rest, ok := small(s, maxCPU)
		if !ok {
			return set
		}
		hi := lo
		if strings.HasPrefix(rest, "-") {
			if hi, rest, ok = small(rest[1:], maxCPU); !ok {
				return set
			}
		}
		for c := lo; c <= hi; c++ {
			set = insert(set, c)
		}
		if !strings.HasPrefix(rest, ",") {
			return set
		}
		s = rest[1:]
	}
}
