package wire

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/rcu"
)

// Whatever a Writer makes of a plain sample is read without package json, and of others isn't.
func TestPlainSampleReadsWhatIsWritten(t *testing.T) {
	plain := experiment.Sample{Op: experiment.LinkDel, Start: 5_000_000_000, Took: 120 * time.Millisecond, Phase: experiment.Hold}
	cut, slow, refused, odd := plain, plain, plain, plain
	cut.Censored, cut.Phase, cut.Op = true, experiment.Tail, experiment.RCUBarrier
	slow.Waits = map[rcu.Wait]int{rcu.Barrier: 3}
	refused.Err = "EPERM"
	odd.Op = "netns-del"
	for _, c := range []struct {
		s    experiment.Sample
		fast bool
	}{{plain, true}, {cut, true}, {slow, false}, {refused, false}, {odd, false}} {
		var b bytes.Buffer
		want := experiment.Record{At: 5_120_000_000, Sample: &c.s}
		if err := NewWriter(&b).Write(want); err != nil {
			t.Fatal(err)
		}
		line := bytes.TrimSpace(b.Bytes())
		got, fast := plainSample(line)
		if fast != c.fast {
			t.Errorf("%s: read without json: %v; want %v", line, fast, c.fast)
		}
		if fast && cmp.Diff(want, got) != "" {
			t.Errorf("%s (-want +got):\n%s", line, cmp.Diff(want, got))
		}
	}
}

// FuzzPlainSample: what is read without package json is what json reads.
func FuzzPlainSample(f *testing.F) {
	for _, s := range []string{
		`{"n":7,"at":12,"sample":{"op":"link-del","start":1,"took":2,"phase":"hold"}}`, `{"n":0,"sample":{"op":"membarrier","start":0,"took":0,"censored":true,"phase":"tail"}}`,
		`{"n":07,"sample":{"op":"link-del","start":1,"took":2,"phase":"hold"}}`, `{"n":7,"sample":{"op":"link-del","start":1e9,"took":2.0,"phase":"hold"}}`,
		`{"n":7,"sample":{"op":"link-del","start":1,"took":9223372036854775808,"phase":"hold"}}`, `{"n":-7,"sample":{"op":"link-del","start":1,"took":2,"phase":"hold"}}`,
		`{"n":7,"sample":{"op":"link-del","start":1,"took":2,"phase":"hold"}}}`, `{"n":`, ``, `{"n":1,"at":,"sample":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, ok := plainSample(line)
		if !ok {
			return
		}
		var want experiment.Record
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatalf("%q is read, and json says %v", line, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-json +plain):\n%s", line, d)
		}
	})
}
