package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/qemu"
	"github.com/napistall/napistall/internal/kimage"
)

// A place says where trials run, as asked for on the command line.
type place struct {
	backend string // auto, qemu, sim, host or ssh
	accel   string // auto, kvm or tcg
	store   kimage.Store
	live    liveFlags
}

// open returns the backend and its name. This switch is the list of backends.
func (p place) open() (backend.Backend, string, error) {
	switch p.accel {
	case "auto", "kvm", "tcg":
	default:
		return nil, "", usagef("--accel %s: want auto, kvm or tcg", p.accel)
	}
	if p.accel != "auto" && slices.Contains([]string{"sim", "host", "ssh"}, p.backend) {
		return nil, "", usagef("--accel %s goes with --backend qemu: nothing else boots a guest", p.accel)
	}
	if err := p.live.check(p.backend); err != nil {
		return nil, "", err
	}
	switch p.backend {
	case "auto", "qemu":
		return qemu.Backend{Accel: p.accel, Store: p.store, Log: func(line string) { slog.Info(line) }}, "qemu", nil
	case "sim":
		return newSimBackend(), "sim", nil
	case "host":
		return p.live.host(), "host", nil
	case "ssh":
		b, err := p.live.ssh()
		return b, "ssh", err
	}
	return nil, "", usagef("--backend %s: want auto, qemu, sim, host or ssh", p.backend)
}

// newStore returns the kernel cache in dir, or in the user's cache directory if dir is empty.
func newStore(dir string, offline bool) (kimage.Store, error) {
	if dir == "" {
		var err error
		if dir, err = kimage.DefaultDir(); err != nil {
			return kimage.Store{}, fmt.Errorf("%w: choose another with --cache", err)
		}
	}
	dir, err := filepath.Abs(dir) // make and apt are run in directories of their own
	if err != nil {
		return kimage.Store{}, fmt.Errorf("find the cache directory: %w", err)
	}
	return kimage.Store{Dir: dir, Offline: offline, Log: func(line string) { slog.Info(line) }}, nil
}
