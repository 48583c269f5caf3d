package kimage

import (
	"testing"

	"github.com/napistall/napistall/internal/rcu"
)

// What a build would have to do is known before: all, what a patch changes, nothing.
func TestOutlook(t *testing.T) {
	f := newFakeBuild(t)
	s, _ := f.store()
	spec, err := ParseSpec("debian-source:trixie/linux-source-6.12")
	if err != nil {
		t.Fatal(err)
	}
	look := func(b Build) Outlook {
		t.Helper()
		o, err := s.Outlook(t.Context(), spec, b, b)
		if err != nil {
			t.Fatal(err)
		}
		if len(o) != 2 || o[0] != o[1] {
			t.Fatalf("of the same build twice: %+v", o)
		}
		return o[0]
	}
	stock := Build{Preempt: rcu.None}
	patched := Build{Preempt: rcu.None, Patches: []string{"yield-on-exit.patch"}}
	other := Build{Preempt: rcu.Voluntary}
	first := look(stock)
	if first.Cached || first.Again || first.Objects == "" {
		t.Errorf("before any build: %+v", first)
	}
	if made := f.made(); made != "" {
		t.Errorf("looking made %q", made)
	}
	if _, err := s.Build(t.Context(), spec, stock); err != nil {
		t.Fatal(err)
	}
	if o := look(stock); !o.Cached || o.Objects != first.Objects {
		t.Errorf("once it is built: %+v; before: %+v", o, first)
	}
	if o := look(patched); o.Cached || !o.Again || o.Objects != first.Objects {
		t.Errorf("with a patch: %+v; without: %+v", o, first)
	}
	if o := look(other); o.Cached || o.Again || o.Objects == first.Objects {
		t.Errorf("with another model: %+v; built: %+v", o, first)
	}
	if _, err := s.Outlook(t.Context(), spec, Build{HZ: 7}); err == nil {
		t.Error("HZ 7 has an outlook")
	}
}
