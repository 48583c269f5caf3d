package model

// Competitor reports whether another task is queued behind CPU 0's current one.
func (s *State) Competitor() bool { return s.competitor() }

// GPAge returns how often AgeGP can still happen before the grace period in progress is as old as matters, and whether
// AgeResched can.
func (s *State) GPAge() (older int, resched bool) {
	if s.gp&gActive == 0 {
		return 0, false
	}
	return int(3 - s.gp&gAgeMask/gAge), s.gp&gRecent != 0
}

// HouseTicks reports whether Tick(1) is enabled: cheaper than Enabled.
func (m *Model) HouseTicks(s *State) bool { return m.houseTicks(s) }

// Forget clears what no later step can tell any more, so that states that differ in nothing else become one. No
// Outcome and no set of enabled events depends on whether it was called. A checker calls it before Pack.
func (m *Model) Forget(s *State) {
	if s.gp&gActive == 0 || s.gp&gFirst != 0 {
		// The first scan takes a snapshot of the dyntick counter.
		s.rcu[0] &^= rEQS
		s.rcu[1] &^= rEQS
	}
	if m.preemptRCU {
		s.rcu[0] &^= rHeavy // only rcu_all_qs and the other rcu_note_context_switch answer it
	}
}
