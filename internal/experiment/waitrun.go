package experiment

import (
	"time"

	"github.com/napistall/napistall/internal/rcu"
)

// A WaitRun is a number of stack samples in a row that found a blocked task in one wait, entered from one site.
type WaitRun struct {
	Wait rcu.Wait `json:"wait"`
	// Site is where in the kernel the wait was entered: the calling function and the offset of the call in it, as in
	// "unregister_netdevice_many_notify+0x2f1". The model, which has no offsets, counts the calls instead:
	// "unregister_netdevice_many_notify#2/3" is the second of three. Empty where no more than the innermost function can be read.
	Site string `json:"site,omitempty"`
	// First and Last are when the first and the last of the samples were taken, counted from the operation's Start.
	First time.Duration `json:"first"`
	Last  time.Duration `json:"last"`
	N     int           `json:"n"` // samples, at least 1
}

// MaxRuns is how many runs a Sample keeps. Stack samples beyond are in its Waits alone.
const MaxRuns = 256

// See notes that a stack sample taken at after the operation's start found it in wait, entered from site.
func (s *Sample) See(at time.Duration, wait rcu.Wait, site string) {
	s.SeeMany(WaitRun{Wait: wait, Site: site, First: at, Last: at, N: 1})
}

// SeeMany notes r's stack samples, the next ones of s.
func (s *Sample) SeeMany(r WaitRun) {
	if s.Waits == nil {
		s.Waits = map[rcu.Wait]int{}
	}
	s.Waits[r.Wait] += r.N
	if n := len(s.Runs); n > 0 && s.Runs[n-1].Wait == r.Wait && s.Runs[n-1].Site == r.Site {
		s.Runs[n-1].Last = r.Last
		s.Runs[n-1].N += r.N
		return
	}
	if len(s.Runs) < MaxRuns {
		s.Runs = append(s.Runs, r)
	}
}
