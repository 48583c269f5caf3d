package klog

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// collect reads all events of r.
func collect(t testing.TB, r io.Reader) []Event {
	t.Helper()
	events := []Event{}
	for e, err := range Events(r) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// A stream gives what the text in one piece gives, however it comes.
func TestEventsAsParse(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text := read(t, filepath.Base(file))
		want := Parse(Lines(text))
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
			"CRLF": strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")), "error with data": iotest.DataErrReader(strings.NewReader(text)),
		} {
			if diff := cmp.Diff(want, collect(t, r)); diff != "" {
				t.Errorf("%s, %s (-Parse +Events):\n%s", file, name, diff)
			}
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	line := "[ 1234.567890] mtk_soc_eth 1e100000.ethernet eth0: port 2 link up at 1000Mbps, full duplex\n"
	text := []byte(strings.Repeat(line, 100_000))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		for e := range Events(bytes.NewReader(text)) {
			b.Fatalf("event %v", e)
		}
	}
}
