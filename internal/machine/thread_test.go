package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestThreads(t *testing.T) {
	s := tree(t, map[string]string{
		"proc/110/comm": "napi/vb-9\n", "proc/9/comm": "napi/vb-10\n", "proc/1/comm": "init\n", "proc/self/comm": "napi/vb-1\n",
	})
	got, err := s.Threads("napi/vb-")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Thread{{9, "napi/vb-10"}, {110, "napi/vb-9"}}, got); d != "" {
		t.Errorf("Threads (-want +got):\n%s", d)
	}
}

func TestUsage(t *testing.T) {
	const status = "Name:\tnapi\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t18446744073709551615\n"
	s := tree(t, map[string]string{
		"proc/7/status": status, "proc/7/schedstat": "9837698778 12 3\n",
		"proc/8/status": status,
		"proc/9/status": "Name:\tx\n",
	})
	got, err := s.Usage(7)
	if want := (Usage{5, 1<<64 - 1, 9837698778 * time.Nanosecond}); err != nil || got != want {
		t.Errorf("Usage = %v, %v; want %v", got, err, want)
	}
	if got, err := s.Usage(8); err != nil || got.RunTime != 0 || got.Voluntary != 5 {
		t.Errorf("Usage without schedstat = %v, %v; want no run time", got, err)
	}
	if _, err := s.Usage(9); err == nil {
		t.Error("Usage of a status without counts: no error")
	}
	if _, err := s.Usage(10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Usage of no thread: %v; want fs.ErrNotExist", err)
	}
}

func TestWriteAndUndo(t *testing.T) {
	for old, back := range map[string]string{"0\n": "0", "none (full) lazy \n": "full"} {
		knob := filepath.Join(t.TempDir(), "knob")
		if err := os.WriteFile(knob, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		undo, err := Write(knob, "1")
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(knob); b[0] != '1' {
			t.Errorf("after Write: %q", b)
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(knob); string(b[:len(back)]) != back {
			t.Errorf("after undo: %q; want %q", b, back)
		}
	}
}

func TestWriteMissingKnob(t *testing.T) {
	knob := filepath.Join(t.TempDir(), "none")
	if _, err := Write(knob, "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Write: %v; want fs.ErrNotExist", err)
	}
	if _, err := os.Stat(knob); err == nil {
		t.Error("Write made the file")
	}
}
