package machine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSourceStaysInside: a snapshot is somebody else's, and its links may lead anywhere.
func TestSourceStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := tree(t, map[string]string{"proc/sys/kernel/osrelease": "6.1.0\n", "inside": "text"})
	for link, to := range map[string]string{"proc/cmdline": outside, "proc/up": "../../../../../../../" + outside, "etc": "/etc", "proc/good": "../inside"} {
		if err := os.Symlink(to, filepath.Join(s.Root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for p, want := range map[string]string{"proc/cmdline": "", "proc/up": "", "etc/passwd": "", "../secret": "", "proc/good": "text"} {
		if got := s.text(p); got != want {
			t.Errorf("text(%q) = %q; want %q", p, got, want)
		}
	}
	if f, err := Read(s); err != nil || strings.Contains(f.Cmdline, "secret") {
		t.Errorf("Read = cmdline %q, %v", f.Cmdline, err)
	}
}

// TestSourceDoesNotWait: a pipe in a snapshot has no other end.
func TestSourceDoesNotWait(t *testing.T) {
	s := tree(t, map[string]string{"proc/x": ""})
	if err := syscall.Mkfifo(filepath.Join(s.Root, "proc/cmdline"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() { got <- s.text("proc/cmdline") }()
	select {
	case text := <-got:
		if text != "" {
			t.Errorf("a pipe's text is %q", text)
		}
	case <-time.After(5 * time.Second):
		t.Error("reading a pipe waits")
	}
}

func TestParseRelease(t *testing.T) {
	for name, want := range map[string]string{
		"6.18.44-fc-v782": "6.18.44", "7.2.13+deb14-armmp": "7.2.13", "6.8.0-117-generic": "6.8", "6.1.150-174.273.amzn2023.x86_64": "6.1.150",
		"7.3-rc2": "7.3", "5.4": "5.4", "3.2.1.4": "3.2.1", "6.12.117": "6.12.117",
	} {
		if got, ok := ParseRelease(name); !ok || got.String() != want {
			t.Errorf("ParseRelease(%q) = %v, %v; want %s", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "next", "6", "6.", "6..1", ".6.1", "99999.1", "-6.1"} {
		if got, ok := ParseRelease(name); ok {
			t.Errorf("ParseRelease(%q) = %v; want none", name, got)
		}
	}
	for _, tt := range []struct {
		a, b string
		less bool
	}{{"6.9.0", "6.18.0", true}, {"6.18.1", "6.18.1", false}, {"6.19.9", "6.19.8", false}, {"5.12", "6.1", true}} {
		a, _ := ParseRelease(tt.a)
		b, _ := ParseRelease(tt.b)
		if a.Less(b) != tt.less {
			t.Errorf("%s older than %s = %v; want %v", tt.a, tt.b, !tt.less, tt.less)
		}
	}
}
