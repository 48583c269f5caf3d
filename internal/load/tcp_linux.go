package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/machine"
)

// The addresses of a transfer's two ends, of the range that is set aside for measuring (RFC 2544). They
// exist in namespaces of ours only.
const (
	sinkAddress   = "198.18.0.1"
	sourceAddress = "198.18.0.2"
	addressBits   = "/30"
)

// A transfer is a bulk transfer that ends at the receiver.
type transfer struct {
	listener     *net.TCPListener
	source, sink *net.TCPConn
	segment      int // bytes of data in a packet
}

// headers of IPv4 and TCP without options.
const ipTCPLen = 20 + 20

// setupTCP readies TCP on the load's thread. Its frames go up the stack by a program that passes them: that
// gives veth a NAPI on every kernel, and takes the sender's segmentation offload away.
func (r *Running) setupTCP() (err error) {
	if r.Load.Size < minTCPSize {
		return fmt.Errorf("tcp with frames of %d bytes: IPv4's smallest MTU leaves %d: %w", r.Load.Size, minTCPSize, errors.ErrUnsupported)
	}
	r.Receiver = "takes each frame up the TCP stack to a reader on another CPU"
	r.couple, err = newCouple(r.options, r.CPU, r.Load, func(c *couple) error { return c.attach("pass", passProgram()) })
	if err != nil {
		return err
	}
	r.pair = &r.couple.pair
	r.tcp = &transfer{segment: r.Load.Size - headerLen - ipTCPLen}
	r.flow.rate.Store(int64(r.Load.Rate))
	r.flow.window.Store(int64(r.Load.Window))
	if err = r.listen(); err == nil {
		err = r.couple.peer.do(func() error { return address(r.pair.sender, sourceAddress) })
	}
	if err != nil {
		return errors.Join(err, r.tcp.close(), r.couple.remove())
	}
	return nil
}

// minTCPSize is the shortest frame with a full segment in the smallest MTU (IPV4_MIN_MTU, 68) and an Ethernet header.
const minTCPSize = 68 + headerLen

func (r *Running) listen() error {
	if err := address(r.pair.receiver, sinkAddress); err != nil {
		return err
	}
	var config net.ListenConfig
	config.SetMultipathTCP(false) // it has no window to clamp
	l, err := config.Listen(context.Background(), "tcp4", sinkAddress+":0")
	if err != nil {
		return fmt.Errorf("listen for the transfer: %w", err)
	}
	r.tcp.listener = l.(*net.TCPListener)
	return withFD(r.tcp.listener, func(fd int) error {
		// What is announced is what may be in flight; the buffer has to hold a page for each segment.
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, r.Load.Window*(r.tcp.segment+4096)),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, r.Load.Window*r.tcp.segment))
	})
}

func address(l netlink.Link, ip string) error {
	a, err := netlink.ParseAddr(ip + addressBits)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(l, a); err != nil {
		return fmt.Errorf("give %s an address: %w", l.Attrs().Name, err)
	}
	return nil
}

// withFD calls f with c's descriptor.
func withFD(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	if inner != nil {
		return fmt.Errorf("set up the transfer: %w", inner)
	}
	return nil
}

// startTCP connects the two ends and begins to send.
func (r *Running) startTCP(ctx context.Context) error {
	t := r.tcp
	to := t.listener.Addr().(*net.TCPAddr)
	err := r.couple.peer.do(func() error {
		d := net.Dialer{Timeout: connectTime, LocalAddr: &net.TCPAddr{IP: net.ParseIP(sourceAddress)}}
		c, err := d.DialContext(ctx, "tcp4", to.String())
		if err != nil {
			return fmt.Errorf("connect the transfer: %w", err)
		}
		t.source = c.(*net.TCPConn)
		return nil
	})
	if err != nil {
		return err
	}
	if t.sink, err = t.listener.AcceptTCP(); err != nil {
		return fmt.Errorf("accept the transfer: %w", err)
	}
	if r.Load.Rate > 0 {
		if err := r.setTCPRate(r.Load.Rate); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, t.interrupt)
	r.begin(func() error {
		defer stop()
		return r.source()
	})
	r.begin(r.drain)
	return nil
}

const connectTime = 10 * time.Second

// source sends until the deadline.
func (r *Running) source() error {
	runtime.LockOSThread() // never unlocked: the thread's CPU ends with it
	if err := machine.Pin(0, senderCPU(r.CPU, r.options.Spare, r.online, r.options.Threaded)); err != nil {
		return err
	}
	if err := fill(r.tcp.source, time.Now().Add(r.left())); err != nil {
		return err
	}
	return errors.Join(r.countSegments(), r.tcp.source.CloseWrite())
}

// drain reads what arrives and throws it away, until the source closes.
func (r *Running) drain() error {
	if _, err := io.Copy(io.Discard, r.tcp.sink); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("read the transfer: %w", err)
	}
	return nil
}

// countSegments takes over TCP's own counts.
func (r *Running) countSegments() error {
	var s Sent
	if err := s.read(r.tcp.source); err != nil {
		return err
	}
	r.flow.sent.Store(s.Sent)
	r.flow.lost.Store(s.Lost)
	return nil
}

// maxPacing is the fastest pace that SO_MAX_PACING_RATE takes everywhere, in bytes per second: it was 32 bits before 4.20,
// of which all set means none, and is an int on a 32-bit machine.
const maxPacing = 1<<31 - 1

func (r *Running) setTCPRate(rate int) error {
	r.flow.rate.Store(int64(rate))
	bytes := min(uint64(rate)*uint64(r.Load.Size), maxPacing)
	return withFD(r.tcp.source, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, int(bytes))
	})
}

func (r *Running) setTCPWindow(n int) error {
	r.flow.window.Store(int64(n))
	return withFD(r.tcp.sink, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP, n*r.tcp.segment)
	})
}

// interrupt makes both ends return from what they wait for.
func (t *transfer) interrupt() {
	past := time.Unix(1, 0)
	_ = t.source.SetDeadline(past) // a connection that is closed already needs none
	_ = t.sink.SetDeadline(past)
}

func (t *transfer) close() error {
	var errs []error
	if t.listener != nil {
		errs = append(errs, t.listener.Close())
	}
	for _, c := range []*net.TCPConn{t.source, t.sink} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}
