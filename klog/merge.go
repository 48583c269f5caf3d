package klog

import (
	"strings"
	"time"
)

// Merge joins two views of one log: kmsg, read from /dev/kmsg, and console, what came over a serial
// line. A line that both have, with the same stamp to the µs and the same text, is there once. What
// only one has is kept: the console sees the last lines of a kernel that stopped before anybody read
// its kmsg. A console line that is a cut or damaged copy of one in kmsg (same stamp, or none, and
// most of the text) is dropped in its favour. Lines of kmsg keep their order and the console's own are
// put between them by stamp, so that Merge(x, x) is x, and the result is in order of stamps
// where both views are. A text with line ends inside becomes several lines.
func Merge(kmsg, console []Line) []Line {
	kmsg, console = split(kmsg), split(console)
	m := merger{kmsg: kmsg, matched: make([]bool, len(kmsg)), partner: make([]int, len(console))}
	m.exact(console)
	m.damaged(console)
	return m.join(console)
}

// split makes one line of each line within a text.
func split(lines []Line) []Line {
	out := make([]Line, 0, len(lines))
	for _, l := range lines {
		if !strings.Contains(l.Text, "\n") {
			out = append(out, l)
			continue
		}
		for part := range strings.SplitSeq(l.Text, "\n") {
			out = append(out, Line{l.Stamp, l.HasStamp, part})
		}
	}
	return out
}

// A merger finds each console line's partner in kmsg.
type merger struct {
	kmsg    []Line
	matched []bool // kmsg lines that have a partner
	partner []int  // for each console line, its kmsg line, or alone
}

const alone = -1

// A lineKey is what makes two lines the same.
type lineKey struct {
	usec int64 // -1 without a stamp
	text string
}

func keyOf(l Line) lineKey {
	k := lineKey{-1, strings.TrimSpace(l.Text)}
	if l.HasStamp {
		k.usec = l.Stamp.Microseconds()
	}
	return k
}

// exact pairs equal lines in order, then console lines without a stamp with kmsg lines of their text.
func (m *merger) exact(console []Line) {
	places := make(map[lineKey][]int, len(m.kmsg))
	for i, l := range m.kmsg {
		places[keyOf(l)] = append(places[keyOf(l)], i)
	}
	m.pair(console, places)

	clear(places)
	for i, l := range m.kmsg {
		if k := keyOf(l); !m.matched[i] && l.HasStamp {
			k.usec = -1
			places[k] = append(places[k], i)
		}
	}
	for c := range console {
		if m.partner[c] == alone && !console[c].HasStamp {
			m.take(c, places, keyOf(console[c]))
		}
	}
}

func (m *merger) pair(console []Line, places map[lineKey][]int) {
	for c, l := range console {
		m.partner[c] = alone
		m.take(c, places, keyOf(l))
	}
}

// take makes the first free kmsg line under key the partner of console line c.
func (m *merger) take(c int, places map[lineKey][]int, key lineKey) {
	free := places[key]
	if len(free) == 0 {
		return
	}
	places[key] = free[1:]
	m.partner[c], m.matched[free[0]] = free[0], true
}

// nearby is how many free kmsg lines a damaged console line is compared with.
const nearby = 32

// damaged pairs what is left over: lines with the same stamp, or near by without one, that have most of
// their text in common.
func (m *merger) damaged(console []Line) {
	free := map[time.Duration][]int{}
	for i, l := range m.kmsg {
		if !m.matched[i] && l.HasStamp {
			t := l.Stamp.Truncate(time.Microsecond)
			free[t] = append(free[t], i)
		}
	}
	near := 0
	for c, l := range console {
		switch {
		case m.partner[c] != alone:
			near = max(near, m.partner[c])
		case l.HasStamp:
			t := l.Stamp.Truncate(time.Microsecond)
			m.adopt(c, l, free[t][:min(nearby, len(free[t]))])
		default:
			m.adoptNear(c, l, near)
		}
	}
}

func (m *merger) adopt(c int, l Line, candidates []int) {
	for _, i := range candidates {
		if !m.matched[i] && alike(m.kmsg[i].Text, l.Text) {
			m.partner[c], m.matched[i] = i, true
			return
		}
	}
}

// adoptNear looks around kmsg line near, where the console is.
func (m *merger) adoptNear(c int, l Line, near int) {
	for i := near; i < min(near+nearby, len(m.kmsg)); i++ {
		if !m.matched[i] && alike(m.kmsg[i].Text, l.Text) {
			m.partner[c], m.matched[i] = i, true
			return
		}
	}
}

// alike reports whether broken can be a cut or damaged copy of whole: it has the beginning or the end,
// or one is within the other.
func alike(whole, broken string) bool {
	const enough = 12 // bytes in common that are no accident
	whole, broken = strings.TrimSpace(whole), strings.TrimSpace(broken)
	short := min(len(whole), len(broken))
	if short < enough {
		return short > 0 && strings.HasPrefix(whole, broken)
	}
	return whole[:enough] == broken[:enough] ||
		whole[len(whole)-enough:] == broken[len(broken)-enough:] ||
		strings.Contains(broken, whole) || strings.Contains(whole, broken)
}

// join puts the console lines without a partner between those of kmsg.
func (m *merger) join(console []Line) []Line {
	out := make([]Line, 0, len(m.kmsg)+16)
	next := 0 // kmsg lines before it are in out
	for c, l := range console {
		if p := m.partner[c]; p != alone {
			if p >= next {
				out = append(out, m.kmsg[next:p+1]...)
				next = p + 1
			}
			continue
		}
		for l.HasStamp && next < len(m.kmsg) && m.kmsg[next].HasStamp && m.kmsg[next].Stamp <= l.Stamp {
			out = append(out, m.kmsg[next])
			next++
		}
		out = append(out, l)
	}
	return append(out, m.kmsg[next:]...)
}
