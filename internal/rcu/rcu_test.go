package rcu

import (
	"strings"
	"testing"
	"time"
)

func TestParsePreemption(t *testing.T) {
	for _, s := range []string{"none", "voluntary", "full", "lazy", "rt"} {
		if p, err := ParsePreemption(s); err != nil || string(p) != s {
			t.Errorf("ParsePreemption(%q) = %q, %v", s, p, err)
		}
	}
	for _, s := range []string{"", "None", "preempt"} {
		_, err := ParsePreemption(s)
		if err == nil || !strings.Contains(err.Error(), "none, voluntary, full, lazy or rt") {
			t.Errorf("ParsePreemption(%q) = %v; want an error that lists the names", s, err)
		}
	}
}

func TestPreempts(t *testing.T) {
	for p, want := range map[Preemption]bool{None: false, Voluntary: false, Full: true, Lazy: true, RT: true, "": false} {
		if got := p.Preempts(); got != want {
			t.Errorf("%q.Preempts() = %v; want %v", p, got, want)
		}
	}
}

func TestKtime(t *testing.T) {
	start := Ktime(1_000_000_000)
	if got := start.Add(time.Second).Sub(start); got != time.Second {
		t.Errorf("Add then Sub = %v; want 1s", got)
	}
}

func TestWaitsAreDistinct(t *testing.T) {
	seen := map[Wait]bool{}
	for _, w := range Waits() {
		if seen[w] {
			t.Errorf("Waits() has %q twice", w)
		}
		seen[w] = true
	}
	if len(seen) != 6 {
		t.Errorf("Waits() has %d waits; want 6", len(seen))
	}
}
