package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/testenv"
)

// inNamespace runs f on a thread in a network namespace with a veth pair of which both ends are up.
func inNamespace(t *testing.T, f func() error) {
	t.Helper()
	testenv.Need(t, testenv.Root)
	th := newThread()
	defer th.end()
	err := th.do(func() error {
		if err := isolate(); err != nil {
			return err
		}
		p := &pair{socket: -1}
		for _, step := range []func() error{p.create, p.silence, func() error { return p.up(p.sender) }, func() error { return p.up(p.receiver) }} {
			if err := step(); err != nil {
				return err
			}
		}
		return f()
	})
	if errors.Is(err, errors.ErrUnsupported) {
		testenv.Lacks(t, testenv.Load, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// arrived is how many packets Device has received.
func arrived() (uint64, error) {
	l, err := netlink.LinkByName(Device)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Statistics.RxPackets, nil
}

func paced(rate, batch int) Stream {
	return Stream{Device: sender, To: net.HardwareAddr{2, 0, 0, 0, 0, 9}, Port: 9,
		Load: experiment.Load{Kind: experiment.Paced, Rate: rate, Batch: batch, Size: 60, Hold: 300 * time.Millisecond}}
}

func TestSendPaced(t *testing.T) {
	inNamespace(t, func() error {
		for _, s := range []Stream{paced(2000, 1), paced(2000, 7)} {
			before, err := arrived()
			if err != nil {
				return err
			}
			sent, err := Send(t.Context(), s)
			if err != nil {
				return err
			}
			after, err := arrived()
			if err != nil {
				return err
			}
			if got := after - before; got != sent.Sent-sent.Lost || got == 0 {
				t.Errorf("batch %d: sent %d, lost %d, arrived %d", s.Load.Batch, sent.Sent, sent.Lost, got)
			}
			// An open loop sends what is due, however late it is, and never more.
			if most := uint64(600 + s.Load.Batch); sent.Sent > most || sent.Sent%uint64(s.Load.Batch) != 0 || sent.Gaps.Count != sent.Sent/uint64(s.Load.Batch)-1 {
				t.Errorf("batch %d: sent %d with %d gaps; want at most %d", s.Load.Batch, sent.Sent, sent.Gaps.Count, most)
			}
		}
		return nil
	})
}

func TestSendStopsWithItsContext(t *testing.T) {
	inNamespace(t, func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := paced(10, 1)
		s.Load.Hold = time.Hour
		sent, err := Send(ctx, s)
		if sent.Took > time.Minute {
			t.Errorf("it went on for %v", sent.Took)
		}
		return err
	})
}

// Datagrams go out with the device's own address, and without one not at all.
func TestSendDatagrams(t *testing.T) {
	inNamespace(t, func() error {
		s := paced(1000, 1)
		s.IP = netip.MustParseAddr("198.18.0.1")
		if _, err := Send(t.Context(), s); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "no IPv4 address") {
			t.Errorf("without an address: %v", err)
		}
		l, err := netlink.LinkByName(sender)
		if err != nil {
			return err
		}
		if err := address(l, sourceAddress); err != nil {
			return err
		}
		sent, err := Send(t.Context(), s)
		if sent.Sent == 0 {
			t.Error("nothing was sent")
		}
		return err
	})
}

func TestSendTCP(t *testing.T) {
	inNamespace(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		read := make(chan int64, 1)
		go func() {
			defer close(read)
			if c, err := l.Accept(); err == nil {
				n, _ := io.Copy(io.Discard, c) // what came is counted, however it ended
				read <- n
			}
		}()
		s := Stream{Device: "lo", IP: netip.MustParseAddr("127.0.0.1"), Port: uint16(l.Addr().(*net.TCPAddr).Port),
			Load: experiment.Load{Kind: experiment.TCP, Size: 1514, Hold: 200 * time.Millisecond}}
		sent, err := Send(t.Context(), s)
		if n := <-read; n == 0 || sent.Sent == 0 || sent.Took < s.Load.Hold {
			t.Errorf("%d bytes arrived of %+v", n, sent.Progress)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		s.Port = 1
		if _, err := Send(t.Context(), s); err == nil || !strings.Contains(err.Error(), "must listen") {
			t.Errorf("to a closed port: %v", err)
		}
		return err
	})
}

// Without the right to send frames, it says which one is missing.
func TestSendNeedsARight(t *testing.T) {
	testenv.Need(t, testenv.Root)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread that has lost its rights ends with it
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- err
			return
		}
		s := paced(10, 1)
		s.Device = "lo"
		_, err := Send(t.Context(), s)
		done <- err
	}()
	if err := <-done; !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
		t.Errorf("Send = %v; want that CAP_NET_RAW is missing", err)
	}
}

func TestSendRefuses(t *testing.T) {
	s := paced(10, 1)
	s.Device = "nosuch0"
	if _, err := Send(t.Context(), s); err == nil || !strings.Contains(err.Error(), "nosuch0") {
		t.Errorf("through a device that isn't there: %v", err)
	}
	s.Device, s.Load.Kind = "lo", experiment.Windowed
	if _, err := Send(t.Context(), s); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("windowed: %v; want ErrUnsupported", err)
	}
}
