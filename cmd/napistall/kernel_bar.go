package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/napistall/napistall/internal/kimage"
)

// A buildBar draws how far a build is on a terminal, in one line that is drawn anew. It may be used concurrently.
type buildBar struct {
	mu    sync.Mutex
	f     *os.File
	drawn time.Time
	there bool // a line is drawn
}

// onTerminal makes store draw a bar if stderr is a terminal, and returns what takes it away.
func onTerminal(store *kimage.Store) (done func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	b := &buildBar{f: os.Stderr}
	store.Progress = b.draw
	store.Log = func(line string) {
		b.erase()
		slog.Info(line)
	}
	return b.erase
}

func (b *buildBar) draw(p kimage.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.drawn) < 100*time.Millisecond {
		return
	}
	b.drawn = now
	width, _, err := term.GetSize(int(b.f.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	_, _ = fmt.Fprint(b.f, "\r"+barLine(p, width-1)+"\x1b[K") // a terminal that is gone needs no bar
	b.there = true
}

func (b *buildBar) erase() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.there {
		_, _ = fmt.Fprint(b.f, "\r\x1b[K") // as above
	}
	b.there = false
}

// barLine says p in one line of at most width columns: a bar where it is known how much there is to do.
func barLine(p kimage.Progress, width int) string {
	text := fmt.Sprintf("building: %d files, %v", p.Files, p.Elapsed.Round(time.Second))
	if p.Of > 0 {
		const cells = 24
		full := min(cells*p.Files/p.Of, cells)
		text = fmt.Sprintf("building [%s%s] %2d%% %d/%d", strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*p.Files/p.Of, p.Files, p.Of)
		if p.Left > 0 {
			text += fmt.Sprintf(", %.0f min to go", p.Left.Minutes())
		}
	}
	if r := []rune(text + "  " + p.File); len(r) > width {
		return string(r[:width])
	}
	return text + "  " + p.File
}
