package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/napistall/napistall/internal/experiment"
)

// Send sends s for as long as its load's Hold says, or until ctx ends, which is no error. It raises the
// priority of its thread as far as it may. An error matches errors.ErrUnsupported where this machine or
// this user can't: frames need CAP_NET_RAW.
func Send(ctx context.Context, s Stream) (Sent, error) {
	dev, err := net.InterfaceByName(s.Device)
	if err != nil {
		return Sent{}, fmt.Errorf("send through %s: %w", s.Device, err)
	}
	switch s.Load.Kind {
	case experiment.Paced:
		return s.sendPaced(ctx, dev)
	case experiment.TCP:
		return s.sendTCP(ctx)
	}
	return Sent{}, fmt.Errorf("send %s by itself: want %s or %s: %w", s.Load.Kind, experiment.Paced, experiment.TCP, errors.ErrUnsupported)
}

func (s Stream) sendPaced(ctx context.Context, dev *net.Interface) (Sent, error) {
	content, err := s.content(dev)
	if err != nil {
		return Sent{}, err
	}
	if want := len(content) - headerLen; want > dev.MTU {
		return Sent{}, fmt.Errorf("send frames of %d bytes through %s: its MTU is %d, want %d: %w", len(content), dev.Name, dev.MTU, want, errors.ErrUnsupported)
	}
	socket, err := openPacketSocket(dev.Index, content, s.Load.Batch)
	if errors.Is(err, os.ErrPermission) {
		return Sent{}, fmt.Errorf("send frames through %s: it needs root, or CAP_NET_RAW (setcap cap_net_raw+ep on this program): %w: %w", dev.Name, err, errors.ErrUnsupported)
	}
	if err != nil {
		return Sent{}, err
	}
	var out Sent
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread's priority ends with it
		done <- s.pace(ctx, socket, &out)
	}()
	err = <-done
	return out, errors.Join(err, socket.close())
}

// senderNice is the priority of a sender that has a machine to itself.
const senderNice = -20

func (s Stream) pace(ctx context.Context, socket *packetSocket, out *Sent) error {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, senderNice) // without the right to, what the pace was worth is in the result
	c, err := newClock()
	if err != nil {
		return err
	}
	var f Flow
	f.rate.Store(int64(s.Load.Rate))
	start := c.now()
	out.Gaps, err = c.paced(ctx, socket, &f, s.Load.Batch, start+s.Load.Hold, nil)
	out.Progress, out.Took = f.Now(), c.now()-start
	out.Due = uint64(out.Took.Seconds() * float64(s.Load.Rate))
	return err
}

// content returns the frame that s sends.
func (s Stream) content(dev *net.Interface) ([]byte, error) {
	if !s.IP.IsValid() {
		return rawFrame(s.Load.Size, dev.HardwareAddr, s.To), nil
	}
	source, err := addressOf(dev)
	if err != nil {
		return nil, err
	}
	return datagram(s.Load.Size, dev.HardwareAddr, s.To, source, s.IP, s.Port)
}

// addressOf returns the first IPv4 address of the device.
func addressOf(dev *net.Interface) (netip.Addr, error) {
	list, err := dev.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read the addresses of %s: %w", dev.Name, err)
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("send datagrams through %s: it has no IPv4 address to send them from: %w", dev.Name, errors.ErrUnsupported)
}

func (s Stream) sendTCP(ctx context.Context) (Sent, error) {
	rate := min(uint64(s.Load.Rate)*uint64(s.Load.Size), maxPacing)
	d := net.Dialer{Timeout: connectTime, Control: func(_, _ string, raw syscall.RawConn) error {
		var inner error
		err := raw.Control(func(fd uintptr) {
			inner = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, s.Device)
			if inner == nil && rate > 0 {
				inner = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, int(rate))
			}
		})
		return errors.Join(err, inner)
	}}
	to := netip.AddrPortFrom(s.IP, s.Port)
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return Sent{}, fmt.Errorf("connect to %v through %s, where something that reads must listen: %w", to, s.Device, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }) // one that is closed needs none
	defer stop()
	out := Sent{Progress: Progress{Rate: s.Load.Rate}}
	start := time.Now()
	err = fill(c, start.Add(s.Load.Hold))
	out.Took = time.Since(start)
	return out, errors.Join(err, out.read(c.(*net.TCPConn)), c.Close())
}

// fill writes into c until end, or until its deadline is set to the past.
func fill(c net.Conn, end time.Time) error {
	if err := c.SetWriteDeadline(end); err != nil {
		return err
	}
	data := make([]byte, 64<<10)
	for {
		_, err := c.Write(data)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("send the transfer: %w", err)
		}
	}
}

// read takes over what TCP has counted.
func (s *Sent) read(c *net.TCPConn) error {
	return withFD(c, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			s.Sent, s.Lost = uint64(info.Segs_out), uint64(info.Total_retrans)
			s.RTT = time.Duration(info.Rtt) * time.Microsecond
		}
		return err
	})
}
