package model

import "testing"

// inBand takes one micro-step of CPU 0, with a packet for every poll and its interrupt as soon as it is unmasked.
func inBand(m *Model, s *State) Outcome {
	o := m.Step(s, Run0, -1)
	if o.Step == StepPoll {
		m.Step(s, Arrive, 1)
	}
	if o.Effects&EffLine != 0 {
		m.Step(s, NICInterrupt, 0)
	}
	return o
}

func busyBand(tb testing.TB, c Config) (*Model, State) {
	tb.Helper()
	m, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	s := m.Initial()
	m.Step(&s, Arrive, 1)
	m.Step(&s, NICInterrupt, 0)
	return m, s
}

// BenchmarkStep is one micro-step of the thread in the band; two of seven come with another event, which is not counted.
func BenchmarkStep(b *testing.B) {
	m, s := busyBand(b, Config{Latch: true})
	b.ReportAllocs()
	entries := 0
	for b.Loop() {
		if o := inBand(m, &s); o.Effects&EffEntry != 0 {
			entries++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Msteps/s")
	b.ReportMetric(float64(entries)/b.Elapsed().Seconds()/1e6, "Mentries/s")
}

// BenchmarkSuccessors is what a checker does with a state: unpack it, list its events, let each happen, pack the results.
func BenchmarkSuccessors(b *testing.B) {
	c := small(V73, lazy, true)
	c.Programs[0] = LinkDel(V73, Dummy)
	m, s := busyBand(b, c)
	m.Step(&s, Begin0, 0)
	k := m.Pack(&s)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		var from State
		m.Unpack(k, &from)
		next := k
		for set := m.Enabled(&from); set != 0; {
			var e Event
			e, set = set.Next()
			to := from
			m.Step(&to, e, 1)
			if p := m.Pack(&to); e == Run0 || p[0]&1 != 0 {
				next = p
			}
			n++
		}
		k = next
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mtransitions/s")
}

func TestNoAllocations(t *testing.T) {
	c := small(V73, lazy, true)
	c.Programs = programs
	m, s := busyBand(t, c)
	n := testing.AllocsPerRun(100, func() {
		for range 100 {
			for set := m.Enabled(&s); set != 0; {
				var e Event
				e, set = set.Next()
				to := s
				m.Step(&to, e, 1)
				m.Unpack(m.Pack(&to), &to)
				if e == Run0 || e == Run1 {
					s = to
				}
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations in 100 rounds of every event; want 0", n)
	}
}
