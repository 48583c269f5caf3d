package probe

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/machine"
	"github.com/napistall/napistall/internal/rcu"
	"github.com/napistall/napistall/internal/testenv"
)

// probing runs a probe until it has given n samples, and returns them.
func probing(t *testing.T, p experiment.Probe, n int) []experiment.Sample {
	t.Helper()
	var mu sync.Mutex
	var got []experiment.Sample
	full := make(chan struct{})
	pr, err := Open(t.Context(), Options{Probe: p, Isolate: true}, func(s experiment.Sample) {
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, s); len(got) == n {
			close(full)
		}
	})
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Lacks(t, "device-"+p.Device, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	pr.Begin()
	<-full
	if _, err := pr.Stop(); err != nil {
		t.Error(err)
	}
	if err := pr.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return got
}

func TestLinkDel(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, device := range []string{"dummy", "veth", "vlan"} {
		t.Run(device, func(t *testing.T) { checkSamples(t, experiment.Probe{Op: experiment.LinkDel, Device: device}) })
	}
}

func TestMembarrier(t *testing.T) { checkSamples(t, experiment.Probe{Op: experiment.Membarrier}) }

func TestRCUBarrier(t *testing.T) {
	testenv.Need(t, testenv.Root)
	checkSamples(t, experiment.Probe{Op: experiment.RCUBarrier})
}

func checkSamples(t *testing.T, p experiment.Probe) {
	t.Helper()
	last := rcu.Ktime(0)
	for _, s := range probing(t, p, 3) {
		if s.Op != p.Op || s.Err != "" || s.Censored || s.Took <= 0 || s.Start <= last {
			t.Errorf("sample %+v after %d", s, last)
		}
		last = s.Start
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, p := range []experiment.Probe{{Op: "sleep"}, {Op: experiment.LinkDel, Device: "bond"}} {
		if _, err := Open(t.Context(), Options{Probe: p}, nil); err == nil || !strings.Contains(err.Error(), "want ") {
			t.Errorf("Open(%v): %v; want an error that lists the choices", p, err)
		}
	}
}

// A blocked operation stands for one that the kernel under test holds up.
type blocked struct{ read, write *os.File }

func (b *blocked) open() (err error) {
	b.read, b.write, err = os.Pipe()
	return err
}
func (b *blocked) prepare() error { return nil }
func (b *blocked) close() error   { return b.read.Close() }
func (b *blocked) run() error {
	buf := make([]byte, 1)
	_, err := b.read.Read(buf)
	return err
}

func TestBlockedOperationIsCensored(t *testing.T) {
	op := &blocked{}
	if err := op.open(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p := &Prober{options: Options{Probe: experiment.Probe{Op: "block"}}, op: op, stop: stop, done: make(chan struct{}),
		emit: func(s experiment.Sample) { t.Errorf("emitted %+v after Stop", s) }}
	go func() {
		defer close(p.done)
		if err := p.loop(ctx); err != nil {
			t.Error(err)
		}
	}()
	var r Result
	for r.Blocked == nil { // until the operation has begun
		var err error
		if r, err = p.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if s := r.Blocked; !s.Censored || s.Op != "block" || s.Took < 0 || s.Took > time.Minute {
		t.Errorf("Blocked = %+v; want a censored sample", s)
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(short); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait for a blocked thread = %v; want context.Canceled", err)
	}
	if _, err := op.write.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLooksAreKeptInOrder: what the watcher sees of a thread that sleeps in the kernel is in the sample's runs as in its waits.
func TestLooksAreKeptInOrder(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	tids, ended := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		tids <- unix.Gettid()
		_, err := unix.Read(pipe[0], make([]byte, 1))
		ended <- err
	}()
	start, err := machine.Now()
	if err != nil {
		t.Fatal(err)
	}
	p := &Prober{tid: <-tids, current: &experiment.Sample{Start: start}}
	for range 3 {
		p.look()
	}
	s, n := p.current, 0
	for i, r := range s.Runs {
		n += r.N
		if r.N < 1 || r.First <= 0 || r.Last < r.First || i > 0 && r.First < s.Runs[i-1].Last {
			t.Errorf("run %+v", r)
		}
	}
	looked := 0
	for _, k := range s.Waits {
		looked += k
	}
	if n != looked || n+p.lost != 3 {
		t.Errorf("%d looks in the runs, %d in the waits, %d lost; want 3", n, looked, p.lost)
	}
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-ended, unix.Close(pipe[0]), unix.Close(pipe[1])); err != nil {
		t.Error(err)
	}
}

func TestOperationThatEndsAtTheStopIsNotCensored(t *testing.T) {
	p := &Prober{stop: func() {}, current: &experiment.Sample{Op: "over"}}
	p.ended.Store(true)
	r, err := p.Stop()
	if err != nil || r.Blocked == nil || r.Blocked.Censored {
		t.Errorf("Stop = %+v, %v; want a sample that is not censored", r.Blocked, err)
	}
}

func TestCounterOfAnIdleMachine(t *testing.T) {
	f, err := machine.Read(machine.Source{})
	if err != nil {
		t.Fatal(err)
	}
	packets := uint64(100)
	c, _, err := NewCounter(Target{CPU: f.Online[0], Online: f.Online, Thread: os.Getpid(), Inflight: 4,
		Packets: func() (uint64, error) { return packets, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	packets += 40
	n, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	if n.Traced || n.Packets != 40 || n.Polls != 10 || n.FullPolls != 0 || n.Voluntary > 1<<40 {
		t.Errorf("Read = %+v; want 40 packets, 10 polls", n)
	}
}

// TestPollProgram has the kernel's verifier look at the program, with the format of a 64-bit kernel.
func TestPollProgram(t *testing.T) {
	testenv.Need(t, testenv.Root)
	fields := machine.PollFields{Name: 16, Work: 20, Budget: 24}
	for _, device := range []string{"vb", "a15-byte-device"} {
		p, err := loadPolls(device, fields)
		if errors.Is(err, errors.ErrUnsupported) {
			testenv.Lacks(t, testenv.BPF, err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.read(); err != nil || n != (machine.PollCount{}) {
			t.Errorf("read = %v, %v; want nothing counted", n, err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}
