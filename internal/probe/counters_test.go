package probe

import (
	"errors"
	"testing"
)

const interrupts = `            CPU0       CPU3
   0:         10          2   IO-APIC   2-edge      timer
 LOC:       1000       2000   Local timer interrupts
 ERR:          7
 MIS:          0
`

func TestInterruptsOn(t *testing.T) {
	for cpu, want := range map[int]uint64{0: 1010, 3: 2002} {
		if got, err := interruptsOn(interrupts, cpu); err != nil || got != want {
			t.Errorf("interruptsOn(CPU %d) = %d, %v; want %d", cpu, got, err, want)
		}
	}
	if _, err := interruptsOn(interrupts, 1); err == nil {
		t.Error("interruptsOn of a CPU without a column: no error")
	}
}

func TestSoftnetOn(t *testing.T) {
	const now = "0000000a 00000001 00000002 0 0 0 0 0 0 0 0 00000000 00000000 0 0\n" +
		"000000ff 00000000 00000003 0 0 0 0 0 0 0 0 00000000 00000002 0 0\n"
	const old = "0000000a 00000001 00000002 0 0 0 0 0 0 0 0\n000000ff 00000000 00000003 0 0 0 0 0 0 0 0\n"
	for _, text := range []string{now, old} {
		got, err := softnetOn(text, 2, []int{0, 2})
		if want := (softnet{done: 255, squeezed: 3}); err != nil || got != want {
			t.Errorf("softnetOn = %v, %v; want %v", got, err, want)
		}
		if _, err := softnetOn(text, 1, []int{0, 2}); err == nil {
			t.Error("softnetOn of a CPU without a line: no error")
		}
	}
}

func FuzzSoftnet(f *testing.F) {
	f.Add("0000000a 00000001 00000002 0 0 0 0 0 0 0 0 00000000 00000000 0 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := softnetOn(text, 0, nil); err == nil && text == "" {
			t.Error("a CPU in an empty text")
		}
		if n, err := interruptsOn(text, 0); err != nil && n != 0 {
			t.Errorf("%d with %v", n, err)
		}
	})
}

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

func TestPollFormat(t *testing.T) {
	got, err := pollFormat(napiFormat)
	if want := (pollFields{devName: 16, work: 20, budget: 24}); err != nil || got != want {
		t.Errorf("pollFormat = %+v, %v; want %+v", got, err, want)
	}
	_, err = pollFormat("field:int work;	offset:20;	size:4;	signed:1;\n") // before 4.6 there was no work
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("pollFormat without the fields: %v; want errors.ErrUnsupported", err)
	}
	if _, err := pollFormat("field:int x;	offset:99999;	size:4;\n"); err == nil {
		t.Error("pollFormat of an offset outside of a page: no error")
	}
}

func FuzzPollFormat(f *testing.F) {
	f.Add(napiFormat)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := pollFormat(text)
		if err == nil && (p.devName >= 4096 || p.work >= 4096 || p.budget >= 4096) {
			t.Errorf("pollFormat(%q) = %+v", text, p)
		}
	})
}
