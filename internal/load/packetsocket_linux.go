package load

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsg is the kernel's struct mmsghdr.
type mmsg struct {
	hdr unix.Msghdr
	len uint32
}

// maxBurst is how many frames one system call sends at most (UIO_MAXIOV).
const maxBurst = 1024

// A packetSocket sends copies of one frame into a device, many with one system call. It is for one thread.
//
// It uses sendmmsg. A ring (PACKET_TX_RING) was measured beside it, 60-byte frames into a veth, per second of CPU
// time: 0.9 of it in bursts of 1, 1.0 to 1.1 in bursts of 64 and more.
type packetSocket struct {
	fd    int
	frame []byte
	iov   unix.Iovec
	msgs  []mmsg
}

// openPacketSocket opens a packet socket that sends frame into the device, in the calling thread's network
// namespace, in bursts of up to burst. Its errors match errors.ErrUnsupported where the kernel has none, and
// fs.ErrPermission without CAP_NET_RAW.
func openPacketSocket(ifindex int, frame []byte, burst int) (*packetSocket, error) {
	fd, err := bindPacketSocket(ifindex)
	if err != nil {
		return nil, err
	}
	p := &packetSocket{fd: fd, frame: frame, msgs: make([]mmsg, min(burst, maxBurst))}
	for _, o := range []struct {
		level, name, value int
	}{
		{unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1}, // no queue of ours before the device's: what it has no room for is lost
		{unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sendBuffer},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil && !errors.Is(err, unix.EPERM) { // EPERM: a small buffer will do
			return nil, errors.Join(fmt.Errorf("ready a packet socket: %w", err), p.close())
		}
	}
	p.iov.Base = &frame[0]
	p.iov.SetLen(len(frame))
	for i := range p.msgs {
		p.msgs[i].hdr.Iov = &p.iov
		p.msgs[i].hdr.SetIovlen(1)
	}
	return p, nil
}

// bindPacketSocket opens a packet socket that sends through device ifindex and receives nothing.
func bindPacketSocket(ifindex int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: it receives nothing
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return -1, fmt.Errorf("open a packet socket: this kernel has none (CONFIG_PACKET, or af_packet is not loaded): %w", errors.ErrUnsupported)
	}
	if err != nil {
		return -1, fmt.Errorf("open a packet socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: ifindex}); err != nil {
		return -1, errors.Join(fmt.Errorf("bind a packet socket to device %d: %w", ifindex, err), unix.Close(fd))
	}
	return fd, nil
}

// send sends n frames. sent is how many the device took; lost, how many it had no room for, each of which
// is given up. Together they are n, but for an error.
func (p *packetSocket) send(n int) (sent, lost int, err error) {
	for left := n; left > 0; {
		burst := min(left, len(p.msgs))
		// Raw: the thread is locked and the call is short, so that Go's scheduler need not hear of it.
		got, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(p.fd), uintptr(unsafe.Pointer(&p.msgs[0])), uintptr(burst), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == 0 && int(got) == burst:
			sent += burst
			left -= burst
		case errno == 0: // the one after them failed, and is gone
			sent += int(got)
			lost++
			left -= int(got) + 1
		case errno == unix.ENOBUFS || errno == unix.EAGAIN: // no room in the device, or in the socket's own buffer
			lost++
			left--
		case errno == unix.EINTR:
		default:
			return sent, lost, fmt.Errorf("send frames: %w", errno)
		}
	}
	return sent, lost, nil
}

// sendOne sends frame, which may be another one than the socket's own; sent and lost as of send.
func (p *packetSocket) sendOne(frame []byte) (sent, lost int, err error) {
	_, err = unix.Write(p.fd, frame)
	switch {
	case err == nil:
		return 1, 0, nil
	case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EAGAIN):
		return 0, 1, nil
	}
	return 0, 0, fmt.Errorf("send a frame: %w", err)
}

func (p *packetSocket) close() error { return unix.Close(p.fd) }
