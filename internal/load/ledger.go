package load

import "slices"

// A ledger knows which frames of a closed loop are in flight. Each frame has a number; the receiver counts how
// often it has taken each, and how often it has dropped each after that. The loop is a queue: between two
// sightings of one frame, each other frame in it is seen once. So one that is not seen while another is
// seen again and again is lost, however long that takes, and no frame is sent twice.
type ledger struct {
	put  []uint64 // how often each number was sent into the loop
	lost []uint64 // how often each was found lost
	seen []uint64 // the counts of the last look that could tell
	late []bool   // sent since then, so that the counts don't tell yet
	all  uint64   // how many were found lost, in all
}

// A sighting is what the receiver has counted of one frame.
type sighting struct{ taken, gone uint64 }

// surely is how often another frame must have been seen for one that wasn't to be lost. Two are enough in a
// queue; the counts are not read all at one instant, which costs another.
const surely = 3

func newLedger(size int) *ledger {
	return &ledger{put: make([]uint64, size), lost: make([]uint64, size), seen: make([]uint64, size), late: make([]bool, size)}
}

// flying reports whether frame i may be in the loop.
func (l *ledger) flying(i int, s sighting) bool { return l.put[i] > s.gone+l.lost[i] }

// missing lists the frames below window that are not in the loop, and may be sent. s are the counts.
func (l *ledger) missing(window int, s []sighting) []int {
	var list []int
	for i := range min(window, len(l.put)) {
		if !l.flying(i, s[i]) {
			list = append(list, i)
		}
	}
	return list
}

// sent notes that frame i is in the loop.
func (l *ledger) sent(i int) {
	l.put[i]++
	l.late[i] = true
}

// look finds the frames that are lost. first and second are two readings of the counts, one after the
// other. idle says that the receiver was seen sleeping between them: if it has done nothing meanwhile,
// its ring is empty. It returns how many were lost.
func (l *ledger) look(first, second []sighting, idle bool) int {
	var rounds uint64
	for i, s := range first {
		rounds = max(rounds, s.taken-l.seen[i])
	}
	empty := idle && slices.Equal(first, second)
	if rounds < surely && !empty {
		return 0 // nothing can be told yet
	}
	n := 0
	for i, s := range second {
		if l.flying(i, s) && (empty || !l.late[i] && s.taken == l.seen[i]) {
			l.lost[i]++
			n++
		}
		l.seen[i], l.late[i] = s.taken, false
	}
	l.all += uint64(n)
	return n
}
