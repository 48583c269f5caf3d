package remote

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"board":                  {"board", ""},
		"root@10.0.0.1":          {"root@10.0.0.1", ""},
		"root@board:2222":        {"root@board", "2222"},
		"fe80::1":                {"fe80::1", ""},
		"root@[fe80::1%eth0]:22": {"root@fe80::1%eth0", "22"},
		"[::1]":                  {"::1", ""},
	} {
		got, err := ParseTarget(text)
		if err != nil || got != want {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		again, err := ParseTarget(got.String())
		if err != nil || again != got {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v again", got, again, err, got)
		}
	}
	for _, text := range []string{"", "@board", "root@", "-oProxyCommand=x", "root@-oX", "a b", "board:", "board:x", "board:222222", "[::1]x", "[::1]:", "a;b", "$(x)"} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("ParseTarget(%q) = %+v; want an error", text, got)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	f.Add("root@[fe80::1%eth0]:22")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTarget(text)
		if err != nil {
			return
		}
		if strings.HasPrefix(got.Host, "-") || got.Host == "" {
			t.Errorf("ParseTarget(%q) = %+v, which ssh takes for an option", text, got)
		}
		if again, err := ParseTarget(got.String()); err != nil || again != got {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v again", got.String(), again, err, got)
		}
	})
}

// Nothing that a login shell could take for something else is in the script.
func TestScriptCanBeQuoted(t *testing.T) {
	if strings.ContainsAny(script, "'\\\n!") {
		t.Error("the script has a quote, a backslash, a line break or an exclamation mark in it")
	}
}

func TestParseBoard(t *testing.T) {
	got, ok := parseBoard("\rnapistall-board mips 0 5.15.137\r\n")
	if want := (board{"mips", "5.15.137", true}); got != want || !ok {
		t.Errorf("parseBoard = %+v, %v; want %+v", got, ok, want)
	}
	for _, line := range []string{"BusyBox v1.36.1\n", "napistall-board\n", "sh: napistall-board: not found\n"} {
		if got, ok := parseBoard(line); ok {
			t.Errorf("parseBoard(%q) = %+v", line, got)
		}
	}
}

// A login that never ends its line does not fill our memory.
func TestEndlessLine(t *testing.T) {
	s := &session{out: bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 2*maxWord)), maxWord)}
	err := s.await(t.Context(), time.Minute, func(string) (bool, error) { return false, nil })
	if err == nil || !strings.HasPrefix(err.Error(), "a line of more than 65536 bytes") || len(err.Error()) > 300 {
		t.Errorf("await = %v; want that the line is too long", err)
	}
}

func TestProgram(t *testing.T) {
	for machine, want := range map[string]string{
		"mips": "mipsle", "mips64": "--agent FILE", "armv5tel": "GOARM", "riscv64": "riscv64", "sparc": "no agent is built in",
	} {
		_, err := Backend{}.program(board{machine: machine})
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("program(%s) = %v; want ErrUnsupported with %q", machine, err, want)
		}
	}
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file",
		text:                       "no program for Linux",
	} {
		if _, err := (Backend{Agent: file}).program(board{machine: "x86_64"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("program = %v; want %q", err, want)
		}
	}
}

func TestNoSSH(t *testing.T) {
	b := Backend{Target: Target{Host: "board"}, ssh: []string{"no-such-ssh"}}
	arm := experiment.Arm{Name: "a", Kernel: backend.LiveKernel, Load: experiment.Load{Kind: experiment.NoLoad}}
	if _, err := b.Acquire(t.Context(), arm); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "openssh-client") {
		t.Errorf("Acquire = %v; want what to install", err)
	}
}
