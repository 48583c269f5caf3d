package main

import (
	"testing"
	"time"

	"github.com/napistall/napistall/internal/kimage"
)

func TestBarLine(t *testing.T) {
	p := kimage.Progress{Files: 400, Of: 1600, Elapsed: 3 * time.Minute, Left: 9*time.Minute + 10*time.Second, File: "net/core/dev.o"}
	for _, tt := range []struct {
		change func(*kimage.Progress)
		width  int
		want   string
	}{
		{func(*kimage.Progress) {}, 80, "building [######..................] 25% 400/1600, 9 min to go  net/core/dev.o"},
		{func(*kimage.Progress) {}, 30, "building [######.............."},
		{func(p *kimage.Progress) { p.Left = 0 }, 80, "building [######..................] 25% 400/1600  net/core/dev.o"},
		{func(p *kimage.Progress) { p.Of = 0 }, 80, "building: 400 files, 3m0s  net/core/dev.o"},
	} {
		p := p
		tt.change(&p)
		if got := barLine(p, tt.width); got != tt.want {
			t.Errorf("barLine(%+v, %d) = %q; want %q", p, tt.width, got, tt.want)
		}
	}
}
