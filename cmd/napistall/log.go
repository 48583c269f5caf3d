package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
)

// A plainHandler writes a record's message and attributes as one line a person can read: no time,
// no level. Progress and remarks go through it.
type plainHandler struct {
	mu    *sync.Mutex
	w     io.Writer
	attrs []slog.Attr
}

func newPlainHandler(w io.Writer) slog.Handler { return plainHandler{mu: new(sync.Mutex), w: w} }

// Enabled is true from Info on: nothing says more.
func (h plainHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h plainHandler) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	b.WriteString(r.Message)
	write := func(a slog.Attr) bool {
		b.WriteString(" " + a.String())
		return true
	}
	for _, a := range h.attrs {
		write(a)
	}
	r.Attrs(write)
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(b.Bytes())
	return err
}

func (h plainHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

func (h plainHandler) WithGroup(string) slog.Handler { return h }
