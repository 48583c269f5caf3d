package sim

import (
	"testing"

	"github.com/napistall/napistall/internal/experiment"
)

// benchmarkTrial runs a trial of arm and reports how fast.
func benchmarkTrial(b *testing.B, text string) {
	arm := armOf(b, text)
	target, err := Backend{}.Acquire(b.Context(), arm)
	if err != nil {
		b.Fatal(err)
	}
	var polls uint64
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		err := target.Run(b.Context(), experiment.Trial{Rep: 1, Seed: 1, Arm: arm}, func(r experiment.Record) error {
			if r.Counters != nil {
				polls = r.Counters.Polls
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(polls)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(b.N)*arm.Duration.Seconds()/b.Elapsed().Seconds(), "simulated-s/s")
}

func BenchmarkBounce(b *testing.B) {
	benchmarkTrial(b, "{name: a, kernel: debian:sid/armhf, load: {inflight: 1, hold: 20s}}")
}

func BenchmarkPacedIn(b *testing.B) {
	benchmarkTrial(b, "{name: a, kernel: model:6.18, config: {preempt: none}, load: {kind: paced, rate: 80862/s, hold: 60s}, model: {costs: {poll: 20us, packet: 9us}}}")
}

func BenchmarkPacedBelow(b *testing.B) {
	benchmarkTrial(b, "{name: a, kernel: model:6.18, config: {preempt: none}, load: {kind: paced, rate: 10k/s, hold: 60s}}")
}

func BenchmarkTCP(b *testing.B) {
	benchmarkTrial(b, "{name: a, kernel: model:6.18, config: {preempt: none}, load: {kind: tcp, hold: 20s}}")
}
