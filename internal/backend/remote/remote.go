// Package remote runs trials on a board, over ssh and under the kernel that runs the board. The agent's
// static program is sent over the session's standard input and removed before it starts, so that a lost
// connection, a reboot or a kill leaves no file; its records come back over standard output. When the
// session ends, however it ends, the agent's standard input does, and it stops and undoes what it did (see
// agent.Serve).
//
// The session is the system's ssh: it brings the user's configuration, agent, jump hosts and hardware keys, and
// its check of the host's key, which is insisted on.
package remote

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/wire"
)

// A Backend is a board. Its fields are not changed once it is in use.
type Backend struct {
	// Live is what it may do there.
	backend.Live
	// Target is user@host[:port], or a name of ssh's configuration.
	Target Target
	// Agent is the agent's program for the board. Default: the one that is built in for what uname -m says.
	Agent string
	// Log takes what a user should know and no record says, a line a call. Default: nobody.
	Log func(string)

	ssh     []string // the client's command; default: ssh
	options []string // for it, after ours: ssh takes the first of two that contradict each other
	limits  limits   // default: wideLimits
}

// limits say how long a step may take.
type limits struct {
	connect time.Duration // until the board has said what it is
	upload  time.Duration // until the agent greets
	leave   time.Duration // from the end of its input to the end of the session
	setup   time.Duration // from a request to the load
	grace   time.Duration // past a trial's duration
}

// wideLimits are for slow boards and links: an agent is 2 MB as it is sent. An agent waits for up to a minute
// for another's trial before it greets.
func wideLimits() limits {
	return limits{connect: 60 * time.Second, upload: 5 * time.Minute, leave: 60 * time.Second}
}

func (b Backend) limit() limits {
	if b.limits == (limits{}) {
		return wideLimits()
	}
	return b.limits
}

func (b Backend) log(text string) {
	if b.Log != nil {
		b.Log(text)
	}
}

// Slots returns 1: two trials on one board would measure each other.
func (b Backend) Slots() int { return 1 }

// Acquire connects to the board, sends the agent and waits for its greeting. It refuses what can't work or may
// not be done: an error that matches errors.ErrUnsupported says what would be needed.
func (b Backend) Acquire(ctx context.Context, arm experiment.Arm) (backend.Target, error) {
	if err := b.Refuse(arm); err != nil {
		return nil, err
	}
	s, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	return &target{b: b, arm: arm, session: s}, nil
}

// A target is a session with an agent on the board.
type target struct {
	b       Backend
	arm     experiment.Arm
	session *session
}

// Close ends the session and waits until the agent has undone everything and left.
func (t *target) Close() error {
	s := t.session
	t.session = nil
	if s == nil {
		return nil
	}
	return s.close(t.b.limit().leave)
}

// Run asks the agent for trial. After an error the session is of no more use, and closed.
func (t *target) Run(ctx context.Context, trial experiment.Trial, emit func(experiment.Record) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.session == nil {
		return &backend.MachineError{Op: "run the trial", Err: fmt.Errorf("the session with %s is closed", t.b.Target)}
	}
	err := t.run(ctx, trial, emit)
	if err != nil {
		err = t.session.explain(err)
		if closeErr := t.Close(); closeErr != nil {
			t.b.log(closeErr.Error())
		}
	}
	return err
}

func (t *target) run(ctx context.Context, trial experiment.Trial, emit func(experiment.Record) error) error {
	records, err := t.session.ask(wire.Request{Trial: trial, Device: t.b.Device})
	if err != nil {
		return &backend.MachineError{Op: "ask the agent", Err: err}
	}
	return backend.Follow(ctx, backend.Following{
		Arm:     trial.Arm,
		First:   []experiment.Record{{Command: &experiment.Command{Argv: t.session.argv(), Accel: "none"}}},
		Records: records,
		Setup:   t.b.limit().setup, Grace: t.b.limit().grace,
		Facts: func(f *experiment.Facts) error {
			f.Kernel = backend.LiveKernel
			return backend.CheckLive(*f, trial.Arm)
		},
		Late: func(quiet time.Duration) (experiment.End, error) {
			// A board that hangs and a cable that was pulled look the same from here: no data.
			return experiment.End{}, fmt.Errorf("nothing from %s for %.0f s, long past the trial's %v: the connection is lost, or the board hangs",
				t.b.Target, quiet.Seconds(), trial.Arm.Duration)
		},
	}, emit)
}

// A Target is where a board is.
type Target struct {
	Host string // user@host, or a name of ssh's configuration
	Port string // empty for ssh's own choice
}

// String returns the text that ParseTarget takes.
func (t Target) String() string {
	if t.Port == "" {
		return t.Host
	}
	if strings.Contains(t.Host, ":") {
		user, host, at := strings.Cut(t.Host, "@")
		if !at {
			return "[" + t.Host + "]:" + t.Port
		}
		return user + "@[" + host + "]:" + t.Port
	}
	return t.Host + ":" + t.Port
}

// ParseTarget reads [user@]host[:port]; an IPv6 address with a port is in brackets. What ssh would take for
// an option is refused.
func ParseTarget(text string) (Target, error) {
	const want = "want [user@]host[:port], such as root@192.168.1.1 or root@[fe80::1%%eth0]:2222"
	user, rest, at := strings.Cut(text, "@")
	if !at {
		user, rest = "", text
	}
	host, port := rest, ""
	if inner, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]"); ok && strings.HasPrefix(rest, "[") {
		if after != "" && !strings.HasPrefix(after, ":") {
			return Target{}, fmt.Errorf("%q: "+want, text)
		}
		host, port = inner, strings.TrimPrefix(after, ":")
		if after == ":" {
			return Target{}, fmt.Errorf("%q: "+want, text)
		}
	} else if h, p, ok := strings.Cut(rest, ":"); ok && !strings.Contains(p, ":") {
		if p == "" {
			return Target{}, fmt.Errorf("%q: "+want, text)
		}
		host, port = h, p
	}
	bad := host == "" || at && user == "" || strings.HasPrefix(text, "-") || strings.HasPrefix(host, "-") ||
		strings.ContainsAny(text, " \t\r\n\x00'\"`$\\;&|<>()") || strings.Trim(port, "0123456789") != "" || len(port) > 5
	if bad {
		return Target{}, fmt.Errorf("%q: "+want, text)
	}
	if at {
		host = user + "@" + host
	}
	return Target{Host: host, Port: port}, nil
}
