package traceevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	w.Open(Args{"source": "test"})
	w.Open(nil)
	w.Process(1, "machine")
	w.Thread(Track{1, 2}, "CPU")
	w.Slice(Track{1, 2}, "poll", 1500, 4001, Args{"n": 3})
	w.Instant(Track{1, 2}, "tick", 7, nil)
	w.Across(Track{1, 2}, "end", 9_000_000, nil)
	w.Counter(1, "polls", 5, 0.5)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	want := `{"displayTimeUnit":"ns","otherData":{"source":"test"},"traceEvents":[
{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"machine"}},
{"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"CPU"}},
{"name":"poll","ph":"X","pid":1,"tid":2,"ts":1.500,"dur":2.501,"args":{"n":3}},
{"name":"tick","ph":"i","s":"t","pid":1,"tid":2,"ts":0.007,"args":{}},
{"name":"end","ph":"i","s":"p","pid":1,"tid":2,"ts":9000.000,"args":{}},
{"name":"polls","ph":"C","pid":1,"ts":0.005,"args":{"value":0.5}}
]}
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &b, want)
	}
}

// TestWriterTakesAnyText: what a kernel calls its threads is whatever it is.
func TestWriterTakesAnyText(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	name := "a\"b\\c\x00\a\xff</script>\u2028"
	w.Open(Args{name: name})
	w.Process(1, name)
	w.Slice(Track{1, 1}, name, -5, -9, Args{name: name})
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []map[string]any `json:"traceEvents"`
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v:\n%s", err, &b)
	}
	if len(got.TraceEvents) != 2 || strings.Contains(b.String(), "</script>") {
		t.Errorf("got %s", &b)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterKeepsTheFirstError(t *testing.T) {
	w := NewWriter(failing{})
	for range 5000 {
		w.Instant(Track{}, "a name of some length", 1, nil)
	}
	if err := w.Finish(); err == nil || w.Err() == nil || !strings.Contains(err.Error(), "write the trace: disk full") {
		t.Errorf("Finish() = %v", err)
	}
}
