package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/wire"
)

// stream writes records as an agent does.
func stream(t *testing.T, records ...experiment.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// outcome reads a stream and returns its End.
func outcome(t *testing.T, b []byte) experiment.End {
	t.Helper()
	r := wire.NewReader(bytes.NewReader(b))
	for {
		rec, err := r.Read()
		if err != nil {
			t.Fatalf("no end: %v", err)
		}
		if rec.Loss != nil && rec.Loss.What == "records" {
			t.Errorf("a gap: %+v", rec.Loss)
		}
		if rec.End != nil {
			return *rec.End
		}
	}
}

func TestRelayWhole(t *testing.T) {
	in := stream(t, experiment.Record{Phase: &experiment.Phase{Name: experiment.Setup}},
		experiment.Record{Kmsg: &experiment.Kmsg{Text: `no "end": here`}},
		experiment.Record{End: &experiment.End{Outcome: experiment.Completed}})
	var out bytes.Buffer
	n, ended, err := relay(&out, bytes.NewReader(in))
	if n != 3 || !ended || err != nil || !bytes.Equal(in, out.Bytes()) {
		t.Errorf("relay = %d, %v, %v, %d bytes of %d", n, ended, err, out.Len(), len(in))
	}
}

// TestAgentDies: what the first process writes continues the second's records.
func TestAgentDies(t *testing.T) {
	in := stream(t, experiment.Record{Phase: &experiment.Phase{Name: experiment.Setup}}, experiment.Record{Phase: &experiment.Phase{Name: experiment.Hold}})
	in = append(in, []byte(`{"n":2,"kms`)...) // it died while it wrote
	var out bytes.Buffer
	n, ended, err := relay(&out, bytes.NewReader(in))
	if n != 2 || ended || err != nil {
		t.Fatalf("relay = %d, %v, %v; want 2 whole records and no end", n, ended, err)
	}
	if err := endFor(&out, n, errors.New("the agent died: panic: x")); err != nil {
		t.Fatal(err)
	}
	want := experiment.End{Outcome: experiment.Failed, Records: 2, Why: "the agent died: panic: x"}
	if d := cmp.Diff(want, outcome(t, out.Bytes())); d != "" {
		t.Errorf("end (-want +got):\n%s", d)
	}
}

func TestFailedSaysUnsupported(t *testing.T) {
	got := failed(fmt.Errorf("no veth: %w", errors.ErrUnsupported)).End
	if got.Outcome != experiment.Failed || !strings.HasPrefix(got.Why, experiment.UnsupportedWhy+"no veth") {
		t.Errorf("end = %+v", got)
	}
	if got := failed(io.ErrUnexpectedEOF).End; got.Why != io.ErrUnexpectedEOF.Error() {
		t.Errorf("end = %+v", got)
	}
}

func TestTailKeepsTheBeginning(t *testing.T) {
	var last tail
	for range 3 {
		if n, err := last.Write(bytes.Repeat([]byte("x"), tailMax/2+1)); n != tailMax/2+1 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if len(last.text()) != tailMax {
		t.Errorf("kept %d bytes; want %d", len(last.text()), tailMax)
	}
}

func TestVirtioPort(t *testing.T) {
	class := t.TempDir()
	for port, name := range map[string]string{"vport0p1": "org.other", "vport1p2": RecordsPort} {
		if err := os.MkdirAll(filepath.Join(class, port), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, port, "name"), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := virtioPort(class, RecordsPort); got != "/dev/vport1p2" || err != nil {
		t.Errorf("virtioPort = %q, %v", got, err)
	}
	if _, err := virtioPort(class, "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("virtioPort of no port: %v", err)
	}
}

func TestKmsgCountsWhatIsLost(t *testing.T) {
	k := &kmsg{}
	var got []experiment.Kmsg
	for _, record := range []string{"6,10,1500,-;one\n", "3,11,2000,-;two\n SUBSYSTEM=net\n", "garbage", "6,15,3000,-;three\n"} {
		k.take(record, func(l experiment.Kmsg) { got = append(got, l) })
	}
	want := []experiment.Kmsg{
		{Seq: 10, Stamp: 1500e3, Level: 6, Text: "one"}, {Seq: 11, Stamp: 2000e3, Level: 3, Text: "two"},
		{Seq: 15, Stamp: 3000e3, Level: 6, Text: "three"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
	if l := k.losses(); len(l) != 2 || l[0].Count != 3 || l[1].Count != 1 {
		t.Errorf("losses = %+v; want 3 overwritten and 1 that is none", l)
	}
	if text := bootText(got); text != "one\ntwo\nthree\n" {
		t.Errorf("bootText = %q", text)
	}
}
