package testenv

import (
	"strings"
	"testing"
)

// A recorder is a test that only remembers how it ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()                        {}
func (r *recorder) Skipf(format string, _ ...any)  { r.end("skip " + format) }
func (r *recorder) Fatalf(format string, _ ...any) { r.end("fail " + format) }
func (r *recorder) end(how string) {
	r.ended = how
	panic(r)
}

func TestNeed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for must, want := range map[string]string{"": "skip", "qemu-arm,root": "skip", "root,apt": "fail", "all": "fail"} {
		t.Setenv(Must, must)
		r := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }() // the recorder's way to stop
			Need(r, Apt)
		}()
		if !strings.HasPrefix(r.ended, want) {
			t.Errorf("%s=%q: Need(apt) = %q; want %s", Must, must, r.ended, want)
		}
	}
}

func TestMissing(t *testing.T) {
	if why := missing("a unicorn"); why == "" {
		t.Error("a unicorn is there")
	}
	if why := missing(Go); why != "" {
		t.Errorf("go runs this test and is missing: %s", why)
	}
}
