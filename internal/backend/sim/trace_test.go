package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/napistall/napistall/internal/experiment"
)

// A countingWriter calls first before what it writes first, and fails with err if that is set.
type countingWriter struct {
	bytes.Buffer
	first func()
	err   error
}

func (w *countingWriter) Write(b []byte) (int, error) {
	if w.Len() == 0 {
		w.first()
	}
	if w.err != nil {
		return 0, w.err
	}
	return w.Buffer.Write(b)
}

// traced runs a trial whose loop takes some ten million steps, with a trace to w.
func traced(ctx context.Context, t *testing.T, w *countingWriter) error {
	t.Helper()
	b := Backend{Trace: func(experiment.Trial) (*Trace, error) {
		tr := NewTrace(w)
		tr.Max = 1 << 40
		return tr, nil
	}}
	arm := armOf(t, "{name: a, kernel: model:6.18, config: {preempt: none}, load: {kind: bounce, hold: 10s}}")
	target, err := b.Acquire(ctx, arm)
	if err != nil {
		t.Fatal(err)
	}
	return target.Run(ctx, experiment.Trial{Rep: 1, Arm: arm}, func(experiment.Record) error { return nil })
}

// A trace that is interrupted ends within the simulated second, and is a whole document.
func TestTraceInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &countingWriter{first: cancel}
	if err := traced(ctx, t, w); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v; want %v", err, context.Canceled)
	}
	if w.Len() > 1<<20 {
		t.Errorf("%d bytes were written after the interruption; want under 1 MiB", w.Len())
	}
	if !json.Valid(w.Bytes()) {
		t.Errorf("the trace is no JSON: it ends in %q", w.Bytes()[max(0, w.Len()-80):])
	}
}

// A trace that can't be written ends the trial.
func TestTraceUnwritable(t *testing.T) {
	full, writes := errors.New("full"), 0
	w := &countingWriter{first: func() { writes++ }, err: full}
	if err := traced(t.Context(), t, w); !errors.Is(err, full) {
		t.Errorf("Run = %v; want %v", err, full)
	}
	if writes != 1 {
		t.Errorf("%d writes; want 1", writes)
	}
}
