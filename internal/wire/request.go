package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/napistall/napistall/internal/experiment"
)

// A Request asks an agent on a live machine for one trial: one line on its standard input, of which
// the end asks it to stop and leave.
type Request struct {
	Trial experiment.Trial `json:"trial"`
	// Device is a real device to measure. Default: devices of the trial's own, in a network namespace of
	// its own.
	Device string `json:"device,omitempty"`
}

// A Greeting is the first thing that an agent on a live machine says, once it can take requests.
type Greeting struct {
	Version string `json:"version"`
	Release string `json:"release"` // the kernel's
	// Undone says what an agent before this one had left behind and this one has put back.
	Undone []string `json:"undone,omitempty"`
	// Refused says why the agent takes no request; it leaves after that.
	Refused string `json:"refused,omitempty"`
}

// greeting begins a Greeting's line, so that it is found among what a login prints.
const greeting = "napistall-agent "

// Line returns g as a line.
func (g Greeting) Line() ([]byte, error) { return line(greeting, g) }

// Line returns r as a line.
func (r Request) Line() ([]byte, error) { return line("", r) }

func line(prefix string, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return append([]byte(prefix), append(b, '\n')...), nil
}

// DecodeRequest returns the request in a line.
func DecodeRequest(line []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("not a request: %w", err)
	}
	return r, nil
}

// DecodeGreeting returns the greeting in a line, and false if there is none in it.
func DecodeGreeting(text string) (g Greeting, ok bool, err error) {
	_, body, ok := strings.Cut(text, greeting)
	if !ok {
		return g, false, nil
	}
	if err := json.Unmarshal([]byte(body), &g); err != nil {
		return g, true, fmt.Errorf("not a greeting: %w", err)
	}
	return g, true, nil
}
