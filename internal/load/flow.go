package load

import "sync/atomic"

// A Flow is what a load's sender has done and how it is set. It may be used from any goroutine.
type Flow struct {
	sent, lost   atomic.Uint64
	rate, window atomic.Int64
}

// Progress is a Flow at one instant.
type Progress struct {
	Sent, Lost   uint64 // frames that a device took, and frames that got lost
	Rate, Window int    // as it is set; 0 where it has none
}

// Now returns what f has done so far.
func (f *Flow) Now() Progress {
	return Progress{Sent: f.sent.Load(), Lost: f.lost.Load(), Rate: int(f.rate.Load()), Window: int(f.window.Load())}
}
