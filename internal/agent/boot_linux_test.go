package agent

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The hold waits for the clock source that x86 boots with to go, but not for ever and not elsewhere.
func TestSettleClock(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "devices/system/clocksource/clocksource0/current_clocksource")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	tests := []struct {
		name, first string
		change      time.Duration // when it becomes tsc
		took        time.Duration
		err         bool
	}{
		{"settled", "tsc\n", 0, 0, false},
		{"arm", "arch_sys_counter\n", 0, 0, false},
		{"measuring", "tsc-early\n", 995 * time.Millisecond, time.Second, false},
		{"never", "tsc-early\n", 0, settleWait, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				write(tt.first)
				if tt.change > 0 {
					time.AfterFunc(tt.change, func() { write("tsc\n") })
				}
				start := time.Now()
				err := settleClock(t.Context(), dir)
				if took := time.Since(start); took != tt.took || (err != nil) != tt.err {
					t.Errorf("settleClock = %v after %v; want %v", err, took, tt.took)
				}
			})
		})
	}
	if err := settleClock(t.Context(), t.TempDir()); err != nil {
		t.Errorf("without clock sources: %v", err)
	}
}
