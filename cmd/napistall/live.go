package main

import (
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/host"
	"github.com/napistall/napistall/internal/backend/remote"
	"github.com/napistall/napistall/internal/rundir"
)

// A liveFlags holds run's flags about machines that live on after a run.
type liveFlags struct {
	rundir.Live
	agent string
}

func (l *liveFlags) register(f *pflag.FlagSet) {
	f.StringVar(&l.Target, "target", "", "ssh: the board, [user@]host[:port] or a name of ssh's configuration, as root and with a key")
	f.StringVar(&l.agent, "agent", "", "ssh: send the static program `FILE` to the board (default: the one built in for its architecture)")
	f.StringVar(&l.Device, "device", "", "host, ssh: measure the network device `NAME` under the load external; its addresses, routes and state are left alone")
	f.BoolVar(&l.Bounce, "allow-bounce", false, "host, ssh: allow loads that hold a CPU of the machine inside the kernel, for up to 2s")
	f.BoolVar(&l.Owned, "i-own-this-machine", false, "host, ssh: the same for up to 10s")
}

// check refuses flags that mean nothing to the backend: somebody thinks that the run is elsewhere.
func (l liveFlags) check(name string) error {
	lives := name == "host" || name == "ssh"
	for _, f := range []struct {
		flag     string
		set, may bool
		where    string
	}{
		{"--target", l.Target != "", name == "ssh", "--backend ssh"},
		{"--agent", l.agent != "", name == "ssh", "--backend ssh"},
		{"--device", l.Device != "", lives, "--backend host or ssh"},
		{"--allow-bounce", l.Bounce, lives, "--backend host or ssh"},
		{"--i-own-this-machine", l.Owned, lives, "--backend host or ssh"},
	} {
		if f.set && !f.may {
			return usagef("%s goes with %s", f.flag, f.where)
		}
	}
	if name == "ssh" && l.Target == "" {
		return usagef("--backend ssh: add --target and the board, such as --target root@192.168.1.1")
	}
	return nil
}

// words repeats the flags.
func (l liveFlags) words() []string {
	var out []string
	for _, f := range []struct{ flag, value string }{{"--target", l.Target}, {"--agent", l.agent}, {"--device", l.Device}} {
		if f.value != "" {
			out = append(out, f.flag, f.value)
		}
	}
	if l.Bounce {
		out = append(out, "--allow-bounce")
	}
	if l.Owned {
		out = append(out, "--i-own-this-machine")
	}
	return out
}

func (l liveFlags) may() backend.Live {
	return backend.Live{Device: l.Device, Bounce: l.Bounce, Owned: l.Owned}
}

func (l liveFlags) host() backend.Backend {
	return host.Backend{Live: l.may(), Log: func(line string) { slog.Info(line) }}
}

func (l liveFlags) ssh() (backend.Backend, error) {
	target, err := remote.ParseTarget(l.Target)
	if err != nil {
		return nil, usagef("--target %w", err)
	}
	return remote.Backend{Live: l.may(), Target: target, Agent: l.agent, Log: func(line string) { slog.Info(line) }}, nil
}
