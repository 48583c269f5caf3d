package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/runner"
)

// show plays what happens to a screen on a file and returns what was written to it.
func show(t *testing.T, terminal bool, play func(*screen)) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	s := newScreen(f)
	s.terminal, s.glyphs = terminal, asciiGlyphs()
	play(s)
	s.close()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func tick(phase string, elapsed time.Duration, done bool) runner.Progress {
	return runner.Progress{Trial: "000-stock-1", Arm: "stock", Index: 1, Total: 2, Planned: 2, Phase: phase, Elapsed: elapsed, Done: done}
}

func TestScreenWithoutTerminalWritesPhases(t *testing.T) {
	got := show(t, false, func(s *screen) {
		s.progress(tick("boot", 0, false))
		s.progress(tick("boot", time.Second, false))
		s.progress(tick("hold", 2*time.Second, false))
		s.progress(tick("hold", 3*time.Second, true))
	})
	want := runner.Line(tick("boot", 0, false)) + "\n" + runner.Line(tick("hold", 2*time.Second, false)) + "\n" +
		runner.Line(tick("hold", 3*time.Second, true)) + "\n"
	if got != want {
		t.Errorf("screen wrote\n%q; want\n%q", got, want)
	}
}

func TestScreenOnTerminalDrawsOneLinePerTrial(t *testing.T) {
	got := show(t, true, func(s *screen) {
		s.progress(tick("boot", 0, false))
		if _, err := s.Write([]byte("a remark\n")); err != nil {
			t.Error(err)
		}
		s.progress(tick("hold", time.Second, true))
	})
	const up = "\r\x1b[2A\x1b[J"
	drawn := "1/2  stock         boot       0 s\n0 of 2 trials done  0 stalls so far   _ under 32 ms, = over 1 s, # over 32 s\n"
	want := drawn + up + "a remark\n" + drawn + up + runner.Line(tick("hold", time.Second, true)) + "\n"
	if got != want {
		t.Errorf("screen wrote\n%q; want\n%q", got, want)
	}
}
