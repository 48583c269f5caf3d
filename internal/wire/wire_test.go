package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// everyPart returns a stream that holds each part of a record once.
func everyPart() []experiment.Record {
	return []experiment.Record{
		{Command: &experiment.Command{Argv: []string{"qemu-system-arm", "-append", "a b"}, Accel: "tcg"}},
		{Console: &experiment.Console{Text: "[    0.000000] half a li"}},
		{At: 5, Facts: &experiment.Facts{Release: "7.2.13", Preempt: rcu.Voluntary, CPUs: 2}},
		{At: 6, Phase: &experiment.Phase{Name: experiment.Hold, Expect: 30 * time.Second}},
		{At: 7, Sample: &experiment.Sample{
			Op: experiment.LinkDel, Start: 6, Took: 30 * time.Second, Censored: true, Phase: experiment.Hold,
			Waits: map[rcu.Wait]int{rcu.SynchronizeNet: 600}, Stack: []string{"schedule", "synchronize_rcu_expedited"},
		}},
		{At: 8, Counters: &experiment.Counters{Traced: true, Polls: 1 << 40, InHold: true}},
		{At: 9, Kmsg: &experiment.Kmsg{Seq: 1, Stamp: time.Microsecond, Level: 3, Text: "\"quoted\" \u2028 and <html>"}},
		{At: 10, Loss: &experiment.Loss{What: "kmsg lines", Count: 2}},
		{At: 11, End: &experiment.End{Outcome: experiment.Completed}},
	}
}

func write(t *testing.T, records []experiment.Record) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func read(s string) ([]experiment.Record, error) {
	r := NewReader(strings.NewReader(s))
	var out []experiment.Record
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, rec)
	}
}

func TestReaderReturnsWhatWriterWrote(t *testing.T) {
	want := everyPart()
	got, err := read(write(t, want))
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		want[i].N = i
	}
	want[len(want)-1].End = &experiment.End{Outcome: experiment.Completed, Records: len(want) - 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestWriterLeavesTheCallersEndAlone(t *testing.T) {
	end := &experiment.End{Outcome: experiment.Completed}
	write(t, []experiment.Record{{Loss: &experiment.Loss{What: "x", Count: 1}}, {End: end}})
	if end.Records != 0 {
		t.Errorf("Write set Records of the caller's End to %d", end.Records)
	}
}

func TestReaderCutAnywhere(t *testing.T) {
	whole := write(t, everyPart())
	for i := range len(whole) - 1 {
		got, err := read(whole[:i])
		if err == nil {
			t.Fatalf("a stream cut at byte %d of %d was read as whole", i, len(whole))
		}
		if n := strings.Count(whole[:i], "\n"); len(got) < n {
			t.Fatalf("cut at byte %d: %d records; want the %d whole ones", i, len(got), n)
		}
	}
}

func TestReaderCountsAGapAsLoss(t *testing.T) {
	lines := strings.SplitAfter(write(t, everyPart()), "\n")
	got, err := read(strings.Join(append(lines[:2:2], lines[5:]...), ""))
	if err != nil {
		t.Fatal(err)
	}
	want := &experiment.Loss{What: "records", Count: 3, Why: "a gap in their numbers"}
	if diff := cmp.Diff(want, got[2].Loss); diff != "" {
		t.Errorf("third record (-want +got):\n%s", diff)
	}
	if got[3].Counters == nil {
		t.Errorf("record after the loss = %+v; want the counters", got[3])
	}
}

func TestReaderRejects(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"no JSON", "hello\n", "line 1: not a record"},
		{"no part", `{"n":0}` + "\n", "line 1: not a record: 0 parts, want 1"},
		{"two parts", `{"n":0,"loss":{},"end":{}}` + "\n", "2 parts, want 1"},
		{"two values", `{"n":0,"loss":{}} {"n":1,"loss":{}}` + "\n", "after top-level value"},
		{"a brace too many", `{"n":0,"loss":{}}}` + "\n", "after top-level value"},
		{"backwards", `{"n":3,"loss":{}}` + "\n" + `{"n":2,"loss":{}}` + "\n", "line 2: record 2 after record 3"},
		{"negative", `{"n":-1,"loss":{}}` + "\n", "number -1"},
		{"line too long", strings.Repeat("x", MaxLine+1), "line 1: not a record: longer than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(tt.in)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("read = %v; want an error with %q", err, tt.want)
			}
		})
	}
}

func TestReaderSaysCut(t *testing.T) {
	if _, err := read(""); !errors.Is(err, ErrCut) {
		t.Errorf("read of nothing = %v; want ErrCut", err)
	}
}

// FuzzReader holds that whatever the bytes, what was read can be written and is read back the same.
func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, r := range everyPart() {
		_ = w.Write(r) // a bytes.Buffer takes everything
	}
	f.Add(b.String())
	f.Add(`{"n":7,"loss":{"what":"kmsg lines","count":-1}}`)
	f.Fuzz(func(t *testing.T, s string) {
		first, _ := read(s) // an error is fine; what came before it must round-trip
		again, err := read(write(t, first))
		if err != nil && !errors.Is(err, ErrCut) {
			t.Fatalf("read back: %v", err)
		}
		if len(again) != len(first) {
			t.Fatalf("read back %d records of %d", len(again), len(first))
		}
		for i := range first {
			first[i].N = i
			if first[i].End != nil {
				first[i].End.Records = i
			}
		}
		if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("round trip (-first +again):\n%s", diff)
		}
	})
}
