package sim

import (
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/model"
)

// tickJitter is how late a tick is at most, where passes of the poll loop are short: what delays a real one is whatever has
// interrupts off.
const tickJitter = 2 * microsecond

// lateness bounds how late CPU 0's ticks are, each drawn evenly: a whole number of passes, so that a tick finds the thread
// at each point of the loop as often as the thread is there. With less, ticks and a loop whose passes divide a tick's
// period would meet at the same few points for ever. No tick is later than a quarter of its period, whatever a pass takes.
func lateness(pass, tick int64) int64 {
	pass = max(pass, 1)
	return min((tickJitter+pass-1)/pass*pass, max(tick/4, 1))
}

// passTime is what one pass of the loop takes under arm's load, at most: exact for a bounce and for a steady load that is not
// above the band.
func (e *engine) passTime(arm experiment.Arm) int64 {
	base := int64(0)
	for _, s := range []model.StepID{
		model.StepWaitSet, model.StepWaitTest, model.StepLoopEntry, model.StepPoll, model.StepComplete, model.StepUnmask, model.StepBHEnable,
	} {
		base += e.p.step[s]
	}
	frames, weight := int64(0), e.dev.weight
	switch l := arm.Load; l.Kind {
	case experiment.Bounce:
		if frames = int64(l.Inflight); frames > e.dev.bulk {
			frames = weight
		}
	case experiment.Paced:
		// So many packets come while they are polled that the next pass finds as many.
		base += e.p.interrupt
		frames = weight
		if free := second - int64(l.Rate)*e.p.packet; free > 0 {
			frames = (base*int64(l.Rate) + free - 1) / free
		}
	case experiment.Windowed, experiment.TCP:
		base += e.p.interrupt
		frames = int64(l.Window)
	case experiment.Flood, experiment.Recorded:
		base += e.p.interrupt
		frames = weight
	}
	return base + min(frames, weight)*e.p.packet
}
