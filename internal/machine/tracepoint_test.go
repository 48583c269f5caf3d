package machine

import (
	"errors"
	"testing"
)

// The format of 6.12 on x86_64.
const napiFormat = `name: napi_poll
ID: 100
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:struct napi_struct * napi;	offset:8;	size:8;	signed:0;
	field:__data_loc char[] dev_name;	offset:16;	size:4;	signed:0;
	field:int work;	offset:20;	size:4;	signed:1;
	field:int budget;	offset:24;	size:4;	signed:1;

print fmt: "napi poll on napi struct %p"
`

func TestParsePollFields(t *testing.T) {
	got, err := ParsePollFields(napiFormat)
	if want := (PollFields{Name: 16, Work: 20, Budget: 24}); err != nil || got != want {
		t.Errorf("ParsePollFields = %+v, %v; want %+v", got, err, want)
	}
	_, err = ParsePollFields("field:int work;	offset:20;	size:4;	signed:1;\n") // before 4.6 there was no work
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("ParsePollFields without the fields: %v; want errors.ErrUnsupported", err)
	}
	if _, err := ParsePollFields("field:int x;	offset:99999;	size:4;\n"); err == nil {
		t.Error("ParsePollFields of an offset outside of a page: no error")
	}
}

func FuzzParsePollFields(f *testing.F) {
	f.Add(napiFormat)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePollFields(text)
		if err == nil && (p.Name >= 4096 || p.Work >= 4096 || p.Budget >= 4096) {
			t.Errorf("ParsePollFields(%q) = %+v", text, p)
		}
	})
}
