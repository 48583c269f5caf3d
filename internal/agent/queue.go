package agent

import (
	"sync"

	"github.com/napistall/napistall/internal/experiment"
)

// A queue takes records from any goroutine without ever making one wait, and gives them to emit
// one at a time, in order, from a goroutine of its own.
type queue struct {
	emit func(experiment.Record) error
	fail func(error) // called with emit's first error

	mu     sync.Mutex
	more   *sync.Cond
	held   []experiment.Record
	closed bool
	done   chan struct{}
}

func newQueue(emit func(experiment.Record) error, fail func(error)) *queue {
	q := &queue{emit: emit, fail: fail, done: make(chan struct{})}
	q.more = sync.NewCond(&q.mu)
	go q.run()
	return q
}

func (q *queue) put(r experiment.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.held = append(q.held, r)
		q.more.Signal()
	}
}

// close returns when everything that was put has been emitted; what is put later is dropped.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	<-q.done
}

func (q *queue) run() {
	defer close(q.done)
	for {
		batch, ok := q.next()
		if !ok {
			return
		}
		for _, r := range batch {
			if err := q.emit(r); err != nil {
				q.fail(err)
				return
			}
		}
	}
}

// next waits for records; false means that there will be no more.
func (q *queue) next() ([]experiment.Record, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.held) == 0 && !q.closed {
		q.more.Wait()
	}
	batch := q.held
	q.held = nil
	return batch, len(batch) > 0
}
