package probe

import (
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
