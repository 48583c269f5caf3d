package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// sayEvery is how often a sweep says how far it is.
const sayEvery = 5 * time.Second

// each calls do for each of n points, on all cores, until ctx ends. Each sayEvery it tells say how many are done, and how long the
// rest will take if it takes as long for each.
func each(ctx context.Context, n int, done string, say func(string), do func(i int)) {
	var next, finished atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(i)
				finished.Add(1)
			}
		})
	}
	over := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		began := time.Now()
		tick := time.NewTicker(sayEvery)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				say(progressWords(done, int(finished.Load()), n, time.Since(began)))
			}
		}
	})
	workers.Wait()
	close(over)
	saying.Wait()
}

// progressWords says how far a sweep is: "1200 of 10000 points simulated, about 40 s to go".
func progressWords(done string, i, n int, took time.Duration) string {
	text := fmt.Sprintf("%d of %d points %s", i, n, done)
	if i == 0 {
		return text
	}
	left := time.Duration(float64(took) / float64(i) * float64(n-i))
	return text + fmt.Sprintf(", about %.0f s to go", left.Seconds())
}

// A noPointError says why no point of a sweep can be simulated. It matches errors.ErrUnsupported.
type noPointError []string

func (e noPointError) Error() string {
	return "no point can be simulated: " + strings.Join(e, "; ")
}

func (e noPointError) Is(target error) bool { return target == errors.ErrUnsupported }
