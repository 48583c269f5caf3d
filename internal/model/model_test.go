package model

import (
	"math/rand/v2"
	"testing"
)

func TestSmoke(t *testing.T) {
	m, err := New(Config{Weight: 2, Ring: 3, Bulk: 1, Backlog: true, Latch: true, Programs: [MaxProbes]Program{LinkDel(V612, Dummy)}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	s := m.Initial()
	seen := map[Effects]int{}
	for i := range 200000 {
		e := m.Enabled(&s)
		k := r.IntN(e.Len())
		var ev Event
		for range k + 1 {
			ev, e = e.Next()
		}
		before := s
		o := m.Step(&s, ev, 1)
		if o.Step == StepNone && before != s {
			t.Fatal("none changed", ev)
		}
		for b := Effects(1); b < effEnd; b <<= 1 {
			if o.Effects&b != 0 {
				seen[b]++
			}
		}
		var u State
		m.Unpack(m.Pack(&s), &u)
		if u != s {
			t.Fatalf("%d %v\n%v\n%v\n%+v\n%+v", i, ev, &s, &u, s, u)
		}
	}
	for b := Effects(1); b < effEnd; b <<= 1 {
		t.Log(b, seen[b])
	}
	t.Log(m.KeyBits())
}

func BenchmarkLoop(b *testing.B) {
	m, err := New(Config{Latch: true})
	if err != nil {
		b.Fatal(err)
	}
	s := m.Initial()
	m.Step(&s, Arrive, 1)
	m.Step(&s, NICInterrupt, 0)
	b.ReportAllocs()
	entries := 0
	for b.Loop() {
		o := m.Step(&s, Run0, -1)
		if o.Step == StepPoll {
			m.Step(&s, Arrive, 1)
		}
		if o.Effects&EffLine != 0 {
			m.Step(&s, NICInterrupt, 0)
		}
		if o.Effects&EffReentry != 0 {
			entries++
		}
	}
	b.ReportMetric(float64(b.N)/float64(b.Elapsed().Seconds())/1e6, "Msteps/s")
	b.ReportMetric(float64(entries)/float64(b.Elapsed().Seconds())/1e6, "Mentries/s")
}
