package sim

import (
	"testing"

	"github.com/napistall/napistall/internal/backend"
	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/experiment"
)

// armOf parses an experiment of one arm.
func armOf(t testing.TB, text string) experiment.Arm {
	t.Helper()
	e, err := experiment.Parse("test", []byte("name: test\narms:\n  - "+text+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return e.Arms[0]
}

// records runs one trial.
func records(t testing.TB, arm experiment.Arm, seed uint64) []experiment.Record {
	t.Helper()
	target, err := Backend{}.Acquire(t.Context(), arm)
	if err != nil {
		t.Fatal(err)
	}
	var recs []experiment.Record
	err = target.Run(t.Context(), experiment.Trial{Rep: 1, Seed: seed, Arm: arm}, func(r experiment.Record) error {
		recs = append(recs, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func TestContract(t *testing.T) {
	arm := armOf(t, "{name: a, kernel: debian:sid/armhf, preempt: voluntary, load: {inflight: 1, hold: 2s}, duration: 3s}")
	backendtest.Run(t, func(*testing.T) backend.Backend { return Backend{} }, arm)
}
