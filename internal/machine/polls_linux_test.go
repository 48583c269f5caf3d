package machine

import (
	"testing"

	"github.com/napistall/napistall/internal/testenv"
)

// TestPollProgram has the kernel's verifier look at the program, with the fields of a 64-bit kernel.
func TestPollProgram(t *testing.T) {
	testenv.Need(t, testenv.Root)
	counts, program, err := loadPolls(PollFields{Name: 16, Work: 20, Budget: 24})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = counts.Close() }() // nothing was counted
	if err := program.Close(); err != nil {
		t.Error(err)
	}
}
