package model

import (
	"testing"

	"github.com/napistall/napistall/internal/rcu"
)

// FuzzPack walks any variant as the input says: keys tell states apart and give them back.
func FuzzPack(f *testing.F) {
	f.Add(uint16(0), []byte{})
	f.Add(uint16(2304+12), []byte("queue_work_on"))
	f.Add(uint16(77), []byte("napi_threaded_poll_loop"))
	f.Add(uint16(400), []byte{1, 2, 3, 250, 251, 252, 9, 9, 9, 17, 80})
	f.Fuzz(func(t *testing.T, variant uint16, choices []byte) {
		c := Config{
			Generation: Generation(variant % 3), Preempt: []rcu.Preemption{none, voluntary, full, lazy}[variant/3%4], Dynamic: variant/12%2 != 0,
			Loop: Loop(variant / 24 % 8), Latch: variant/192%2 != 0, CPUs: 2 + uint8(variant/384%3), Weight: 2, Ring: 3, Bulk: 1,
			Budget: 4, Backlog: true, User: variant/1152%2 != 0, Others: variant/2304%2 != 0, Programs: programs,
		}
		if c.Loop == BacklogThread {
			c.Latch, c.Programs[2] = false, Of(SyncExp)
		}
		m, err := New(c)
		if err != nil {
			t.Skip()
		}
		s := m.Initial()
		for _, b := range choices {
			set := m.Enabled(&s)
			e, rest := set.Next()
			for range int(b) % set.Len() {
				e, rest = rest.Next()
			}
			before := s
			m.Step(&s, e, int(b>>6)-1)
			var back State
			if m.Unpack(m.Pack(&s), &back); back != s {
				t.Fatalf("Unpack(Pack(%v)) = %v", &s, &back)
			}
			if (m.Pack(&before) == m.Pack(&s)) != (before == s) {
				t.Fatalf("%v and %v: keys %v, %v", &before, &s, m.Pack(&before), m.Pack(&s))
			}
		}
	})
}

// TestKeyLength: a checker's usual configurations fit into two words, and those then leave the third alone.
func TestKeyLength(t *testing.T) {
	for name, c := range map[string]Config{
		"link-del 6.12": with(small(V612, none, false), func(c *Config) { c.Programs[0] = LinkDel(V612, Dummy) }),
		"link-del 7.3":  with(small(V73, lazy, true), func(c *Config) { c.Programs[0] = LinkDel(V73, Queueing) }),
		"three waits":   with(small(V612, none, true), func(c *Config) { c.Programs = [MaxProbes]Program{Of(SyncRCU), Of(SyncExp), Of(Work)} }),
		"softirq": with(small(V612, none, false), func(c *Config) {
			c.Softirq, c.Budget, c.Restarts, c.Programs[0] = true, 4, 2, LinkDel(V612, Dummy)
		}),
	} {
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		s := m.Initial()
		p := packer{}
		if m.pack(&s, &p); p.at > 128 || p.k[2] != 0 {
			t.Errorf("%s: %d bits, key %v; want at most 128", name, p.at, p.k)
		}
	}
}
