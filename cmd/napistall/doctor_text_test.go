package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestDoctorTextIsHarmless: what a snapshot says of itself reaches a terminal as text.
func TestDoctorTextIsHarmless(t *testing.T) {
	dir := t.TempDir()
	kernel := filepath.Join(dir, "proc/sys/kernel")
	if err := os.MkdirAll(kernel, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"osrelease": "6.18\x1b[2J\x00\xff\u202e", "version": "#1 SMP\x07\x9b PREEMPT_DYNAMIC", "arch": "x\x1b]0;t\x07"} {
		if err := os.WriteFile(filepath.Join(kernel, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, long := range []string{"--long", "--long=false"} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"doctor", "--root", dir, long})
		if err := root.ExecuteContext(t.Context()); err != nil && !errors.Is(err, errCannotTell) && !errors.Is(err, errFound) {
			t.Fatal(err)
		}
		text := out.String()
		bad := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if i := strings.IndexFunc(text, bad); i >= 0 || !utf8.ValidString(text) || !strings.Contains(text, "6.18") {
			t.Errorf("doctor --root %s printed %q", long, text)
		}
	}
}
