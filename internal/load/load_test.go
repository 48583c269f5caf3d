package load

import (
	"errors"
	"strings"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
)

func TestCPUs(t *testing.T) {
	for _, tt := range []struct {
		want        int
		online      []int
		test, spare int
	}{
		{experiment.LastCPU, []int{0, 1}, 1, 0},
		{0, []int{0, 1}, 0, 1},
		{experiment.LastCPU, []int{0, 2, 5}, 5, 0},
		{2, []int{0, 2, 5}, 2, 0},
	} {
		test, spare, err := CPUs(tt.want, tt.online)
		if err != nil || test != tt.test || spare != tt.spare {
			t.Errorf("CPUs(%d, %v) = %d, %d, %v; want %d, %d", tt.want, tt.online, test, spare, err, tt.test, tt.spare)
		}
	}
}

func TestCPUsRefuses(t *testing.T) {
	if _, _, err := CPUs(experiment.LastCPU, []int{0}); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "2 are needed") {
		t.Errorf("CPUs of one CPU: %v; want that 2 are needed", err)
	}
	if _, _, err := CPUs(3, []int{0, 1}); err == nil || !strings.Contains(err.Error(), "not online") {
		t.Errorf("CPUs of one that is offline: %v", err)
	}
}

func TestSenderCPU(t *testing.T) {
	for _, tt := range []struct {
		test, spare int
		online      []int
		threaded    bool
		want        int
	}{
		{1, 0, []int{0, 1}, true, 0},
		{1, 0, []int{0, 1}, false, 1},
		{3, 0, []int{0, 1, 2, 3}, true, 2},
		{0, 1, []int{0, 1, 5}, true, 5},
	} {
		if got := senderCPU(tt.test, tt.spare, tt.online, tt.threaded); got != tt.want {
			t.Errorf("senderCPU(%d, %d, %v, %v) = %d; want %d", tt.test, tt.spare, tt.online, tt.threaded, got, tt.want)
		}
	}
}

func TestFrame(t *testing.T) {
	f := frame(frameLen)
	if len(f) != frameLen || f[12] != 0x88 || f[13] != 0xb5 || f[6]&1 != 0 {
		t.Errorf("frame = % x", f)
	}
}

func TestBounceProgramAssembles(t *testing.T) {
	p := bounceProgram(7, 1<<40)
	found := false
	for _, ins := range p {
		found = found || ins.Constant == 1<<40
	}
	if !found {
		t.Errorf("the deadline is not in the program:\n%v", p)
	}
}
