package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/klog"
)

// kmsgMax is more than the longest record that /dev/kmsg gives out (PRINTK_MESSAGE_MAX, 2 kB; 8 kB
// before 6.4): a shorter buffer would get EINVAL and lose it.
const kmsgMax = 16 << 10

// kmsgPoll is how long the pump waits for a line before it looks whether it should end.
const kmsgPoll = 100 // ms

// A kmsg reads the kernel's log from its first line that is still there.
type kmsg struct {
	fd   int
	buf  []byte
	next uint64 // the sequence number that must come next
	seen bool
	lost int // lines overwritten before they were read
	bad  int // records that are none
	why  error
}

func openKmsg() (*kmsg, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/kmsg: %w", err)
	}
	return &kmsg{fd: fd, buf: make([]byte, kmsgMax)}, nil
}

func (k *kmsg) close() error { return unix.Close(k.fd) }

// drain passes every line that is there to emit. It never waits.
func (k *kmsg) drain(emit func(experiment.Kmsg)) error {
	for {
		n, err := unix.Read(k.fd, k.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.EINTR):
			continue // overwritten: the gap in the sequence numbers says how many
		case err != nil:
			return fmt.Errorf("read /dev/kmsg: %w", err)
		}
		k.take(string(k.buf[:n]), emit)
	}
}

func (k *kmsg) take(record string, emit func(experiment.Kmsg)) {
	seq, level, line, err := klog.ParseKmsg(record)
	if err != nil {
		k.bad, k.why = k.bad+1, err
		return
	}
	if k.seen && seq > k.next {
		k.lost += int(min(seq-k.next, 1<<30))
	}
	k.next, k.seen = seq+1, true
	emit(experiment.Kmsg{Seq: seq, Stamp: line.Stamp, Level: level, Text: line.Text})
}

// pump drains the log until stop is closed, and then once more.
func (k *kmsg) pump(stop <-chan struct{}, emit func(experiment.Kmsg)) error {
	for {
		if err := k.drain(emit); err != nil {
			return err
		}
		select {
		case <-stop:
			return k.drain(emit)
		default:
		}
		poll := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, kmsgPoll); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for /dev/kmsg: %w", err)
		}
	}
}

// losses says what the log did not give us.
func (k *kmsg) losses() []experiment.Loss {
	var l []experiment.Loss
	if k.lost > 0 {
		l = append(l, experiment.Loss{What: "kmsg lines", Count: k.lost, Why: "overwritten in the kernel's log before they were read"})
	}
	if k.bad > 0 {
		l = append(l, experiment.Loss{What: "kmsg lines", Count: k.bad, Why: k.why.Error()})
	}
	return l
}

// bootText is the text of the lines in records, for what the boot log alone says.
func bootText(lines []experiment.Kmsg) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

// lag is how long the agent waits for a report that the kernel is printing when the trial ends.
const lag = 100 * time.Millisecond
