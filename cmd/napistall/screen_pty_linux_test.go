package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/runner"
	"github.com/napistall/napistall/internal/testenv"
)

// A terminal that a test looks at: what it shows of what was written to it. It breaks lines, and does so anew when
// its width changes, as most do.
type virtual struct {
	lines []string // whole ones, before they are broken
	width int
}

// rows are the lines as they are shown.
func (v *virtual) rows() []string {
	var out []string
	for _, l := range v.lines {
		r := []rune(l)
		for len(r) > v.width {
			out, r = append(out, string(r[:v.width])), r[v.width:]
		}
		out = append(out, string(r))
	}
	return out
}

// write takes what a screen writes: text, line ends, and the two sequences that it uses.
func (v *virtual) write(t *testing.T, text string) {
	t.Helper()
	for text != "" {
		switch {
		case strings.HasPrefix(text, "\x1b["):
			end := strings.IndexAny(text, "AJ")
			if end < 0 {
				t.Fatalf("sequence %q", text)
			}
			if text[end] == 'A' {
				n, err := strconv.Atoi(text[2:end])
				if err != nil {
					t.Fatal(err)
				}
				v.up(n)
			}
			text = text[end+1:]
			continue
		case text[0] == '\n':
			v.lines = append(v.lines, "")
		case text[0] == '\r':
		default:
			r, n := utf8.DecodeRuneInString(text)
			v.lines[len(v.lines)-1] += string(r)
			text = text[n:]
			continue
		}
		text = text[1:]
	}
}

// up takes n rows away below the one that the cursor goes up to; a screen always clears from there.
func (v *virtual) up(n int) {
	rows := len(v.rows()) - 1 // without the cursor's own
	for left := rows - n; len(v.lines) > 0 && len(v.rows()) > max(0, left); {
		v.lines = v.lines[:len(v.lines)-1]
	}
	v.lines = append(v.lines, "")
}

// playOnPTY opens a terminal of width columns and height rows for play, and returns what it shows at the end. look
// returns what it shows by then.
func playOnPTY(t *testing.T, width, height uint16, play func(s *screen, resize func(width, height uint16), look func() []string)) []string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		testenv.Lacks(t, "pty", err.Error())
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		testenv.Lacks(t, "pty", err.Error())
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		testenv.Lacks(t, "pty", err.Error())
	}
	defer slave.Close()
	t.Setenv("TERM", "xterm")
	t.Setenv("LC_ALL", "C.UTF-8")
	v := &virtual{lines: []string{""}}
	resize := func(width, height uint16) {
		if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
			t.Fatal(err)
		}
		v.width = int(width)
	}
	resize(width, height)
	s := newScreen(slave)
	if !s.terminal {
		t.Fatal("a terminal is taken for none")
	}
	look := func() []string {
		if _, err := slave.WriteString("\x00"); err != nil { // ends what was written
			t.Fatal(err)
		}
		var got []byte
		for buf := make([]byte, 4096); !bytes.HasSuffix(got, []byte{0}); {
			n, err := master.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, buf[:n]...)
		}
		v.write(t, string(got[:len(got)-1]))
		return v.rows()
	}
	play(s, resize, look)
	s.close()
	return look()
}

// running is the progress of a trial at its elapsed-th second.
func running(index int, arm string, elapsed int, latest ...time.Duration) runner.Progress {
	p := runner.Progress{Trial: fmt.Sprintf("%03d-%s-1", index-1, arm), Arm: arm, Index: index, Total: 12, Try: 1, Phase: "hold",
		Elapsed: time.Duration(elapsed) * time.Second, Expect: 45 * time.Second, Latest: latest, Planned: 12, Left: 10 * time.Minute}
	for _, d := range latest {
		p.Worst = max(p.Worst, d)
	}
	return p
}

func TestScreenOnPTY(t *testing.T) {
	slow := running(1, "stock", 21, 20*time.Millisecond, 150*time.Millisecond, 1500*time.Millisecond, 20*time.Second)
	slow.OverWorst, slow.Stalls = true, 1
	fast := running(2, "lazy", 12, 140*time.Millisecond, 150*time.Millisecond)
	end := playOnPTY(t, 90, 24, func(s *screen, resize func(uint16, uint16), look func() []string) {
		s.progress(slow)
		s.progress(fast)
		check := func(want ...string) {
			t.Helper()
			if d := cmp.Diff(append(want, ""), look()); d != "" {
				t.Errorf("the terminal (-want +got):\n%s", d)
			}
		}
		check(" 1/12  stock         hold      21/45 s  ▁▃▅▇  worst ≥ 20 s  1 stall",
			" 2/12  lazy          hold      12/45 s  ▃▃  worst 0.15 s",
			"0 of 12 trials done  1 stall so far  about 10 min left   ▁ under 32 ms, ▅ over 1 s, █ ov…")

		resize(40, 24) // the lines are broken, and drawn anew at the next news
		if n := len(look()); n != 8 {
			t.Errorf("%d rows after it became narrower; want 7 and the cursor's", n)
		}
		s.progress(fast)
		check(" 1/12  stock         worst ≥ 20 s  1 s…", " 2/12  lazy          ▃▃  worst 0.15 s", "0 of 12 trials done  1 stall so far  a…")

		if _, err := s.Write([]byte("a remark\n")); err != nil {
			t.Error(err)
		}
		look() // with the width that it was written for
		resize(12, 30)
		s.progress(fast)
		check("a remark", " 1/12  sto…", " 2/12  laz…", "0 of 12 tr…")
		resize(100, 24)
		s.progress(slow)
	})
	if d := cmp.Diff([]string{"a remark", ""}, end); d != "" {
		t.Errorf("the terminal at the end (-want +got):\n%s", d)
	}
}

// Three rows have room for two lines beside the cursor.
func TestScreenOnFewRows(t *testing.T) {
	end := playOnPTY(t, 50, 3, func(s *screen, _ func(uint16, uint16), look func() []string) {
		for i, arm := range []string{"a", "b", "c"} {
			s.progress(running(i+1, arm, 5, time.Second))
		}
		if d := cmp.Diff([]string{"and 3 more", "0 of 12 trials done  0 stalls so far  about 10 m…", ""}, look()); d != "" {
			t.Errorf("the terminal (-want +got):\n%s", d)
		}
	})
	if d := cmp.Diff([]string{""}, end); d != "" {
		t.Errorf("the terminal at the end (-want +got):\n%s", d)
	}
}
