package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/experiment"
	"github.com/napistall/napistall/internal/load"
)

// senderFlags are the flags of load.
type senderFlags struct {
	device, to, kind, rate string
	size, batch, port      int
	hold                   time.Duration
}

func newLoad() *cobra.Command {
	var f senderFlags
	cmd := &cobra.Command{
		Use:   "load --device DEV --to MAC[/IP] --rate N/s",
		Short: "Send the load of an experiment from a board's peer",
		Long: `Load is the sender of an experiment's load by itself, for the machine at the other end of a board's cable: the
board measures with load: {kind: external} meanwhile. It sends only to the address that it is given.

paced sends frames on an absolute schedule: of an experimental ethertype (0x88b5), which a kernel drops as soon as its
NAPI has taken them, or with an IP address behind the MAC as UDP datagrams to --port. tcp fills one connection to
IP and --port, where something has to read, such as nc -l. It prints what it sent, and how well it kept the pace.`,
		Example: `  napistall load --device eth0 --to 02:00:00:00:00:01 --rate 80k/s --for 10s
  napistall load --device eth0 --to 02:00:00:00:00:01/192.0.2.1 --rate 80862/s --batch 8 --size 512
  napistall load --device eth0 --to 192.0.2.1 --kind tcp --port 5001 --for 1m`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.stream()
			if err != nil {
				return err
			}
			sent, err := load.Send(cmd.Context(), s)
			if sent.Took > 0 {
				if err := writeSent(cmd.OutOrStdout(), s, sent); err != nil {
					return err
				}
			}
			if err == nil && cmd.Context().Err() != nil {
				return context.Canceled
			}
			return err
		},
	}
	cmd.Flags().StringVar(&f.device, "device", "", "device to send through")
	cmd.Flags().StringVar(&f.to, "to", "", "the board's MAC, MAC/IP, or for tcp its IP")
	cmd.Flags().StringVar(&f.kind, "kind", string(experiment.Paced), "paced or tcp")
	cmd.Flags().StringVar(&f.rate, "rate", "", "packets per second: 80862/s, 80k/s, 1.5M/s; for tcp a limit")
	cmd.Flags().IntVar(&f.size, "size", 0, "bytes of a frame without its checksum, 60 to 9000 (default 60; tcp 1514)")
	cmd.Flags().IntVar(&f.batch, "batch", 1, "packets sent at once, 1 to 1024")
	cmd.Flags().IntVar(&f.port, "port", 0, "UDP or TCP port (default 9, discard, for UDP)")
	cmd.Flags().DurationVar(&f.hold, "for", 10*time.Second, "how long")
	return cmd
}

// stream checks the flags.
func (f senderFlags) stream() (load.Stream, error) {
	s := load.Stream{Device: f.device, Load: experiment.Load{Kind: experiment.LoadKind(f.kind), Batch: f.batch, Size: f.size, Hold: f.hold}}
	tcp := s.Load.Kind == experiment.TCP
	switch {
	case f.device == "":
		return s, usagef("--device is missing: name the device that leads to the board")
	case !tcp && s.Load.Kind != experiment.Paced:
		return s, usagef("--kind %s can't be sent by itself: want paced or tcp", f.kind)
	case f.hold <= 0:
		return s, usagef("--for %v: want a duration such as 10s", f.hold)
	case f.batch < 1 || f.batch > 1024:
		return s, usagef("--batch %d: want 1 to 1024", f.batch)
	case tcp && f.batch != 1:
		return s, usagef("--batch belongs to paced")
	case f.port < 0 || f.port > 65535:
		return s, usagef("--port %d: want 1 to 65535", f.port)
	}
	if err := f.readRate(&s.Load); err != nil {
		return s, err
	}
	if err := f.readTarget(&s); err != nil {
		return s, err
	}
	return s, f.readPort(&s)
}

func (f senderFlags) readRate(l *experiment.Load) (err error) {
	switch {
	case l.Size == 0 && l.Kind == experiment.TCP:
		l.Size = 1514
	case l.Size == 0:
		l.Size = 60
	case l.Size < 60 || l.Size > 9000:
		return usagef("--size %d: want 60 to 9000", l.Size)
	}
	if f.rate == "" && l.Kind == experiment.TCP {
		return nil
	}
	if f.rate == "" {
		return usagef("--rate is missing: want packets per second, such as 80862/s")
	}
	if l.Rate, err = experiment.ParseRate(f.rate); err != nil {
		return usagef("--rate %w", err)
	}
	return nil
}

// readTarget reads MAC, MAC/IP, or for TCP just IP.
func (f senderFlags) readTarget(s *load.Stream) (err error) {
	want := "want the board's MAC, such as 02:00:00:00:00:01, or MAC/IP"
	text := f.to
	if s.Load.Kind == experiment.TCP {
		want = "want the board's IP, such as 192.0.2.1"
	} else {
		mac, ip, slash := strings.Cut(text, "/")
		if s.To, err = net.ParseMAC(mac); err != nil || len(s.To) != 6 {
			return usagef("--to %q: %s", f.to, want)
		}
		if s.To[0]&1 != 0 || bytes.Equal(s.To, make([]byte, 6)) { // IEEE 802's group bit
			return usagef("--to %q: that is a group of machines, or none: %s", f.to, want)
		}
		if !slash {
			return nil
		}
		text = ip
	}
	s.IP, err = netip.ParseAddr(text)
	switch {
	case err != nil:
		return usagef("--to %q: %s", f.to, want)
	case s.Load.Kind != experiment.TCP && !s.IP.Is4():
		return usagef("--to %q: want an IPv4 address", f.to)
	case s.IP.IsMulticast() || s.IP.IsUnspecified() || s.IP == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return usagef("--to %q: that is a group of machines, or none: %s", f.to, want)
	}
	return nil
}

func (f senderFlags) readPort(s *load.Stream) error {
	const discard = 9 // RFC 863
	s.Port = uint16(f.port)
	switch {
	case s.Load.Kind == experiment.TCP && f.port == 0:
		return usagef("--port is missing: want the one on which the board reads")
	case !s.IP.IsValid() && f.port != 0:
		return usagef("--port needs an IP: --to MAC/IP")
	case f.port == 0:
		s.Port = discard
	}
	return nil
}

// writeSent says what was sent and how well.
func writeSent(w io.Writer, s load.Stream, sent load.Sent) error {
	var b strings.Builder
	perSecond := float64(sent.Sent) / sent.Took.Seconds()
	fmt.Fprintf(&b, "sent %d packets of %d bytes through %s in %.1f s: %.0f/s", sent.Sent, s.Load.Size, s.Device, sent.Took.Seconds(), perSecond)
	if s.Load.Rate > 0 {
		fmt.Fprintf(&b, ", asked for %d/s", s.Load.Rate)
	}
	b.WriteByte('\n')
	if s.Load.Kind == experiment.TCP {
		fmt.Fprintf(&b, "%d of them again; round trip %v at the end\n", sent.Lost, sent.RTT.Round(time.Microsecond))
	} else {
		fmt.Fprintf(&b, "%d of them lost here, for want of room in %s\n", sent.Lost, s.Device)
		writePace(&b, s, sent)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func writePace(b *strings.Builder, s load.Stream, sent load.Sent) {
	g := &sent.Gaps
	if g.Count == 0 {
		b.WriteString("pace: no two bursts, so no gap\n")
		return
	}
	micros := func(q float64) float64 { return float64(g.Quantile(q)) / float64(time.Microsecond) }
	fmt.Fprintf(b, "pace: of %d gaps %.3f %% were off by at most %.0f µs; half by %.0f µs, 99 %% by %.0f µs, 99.9 %% by %.0f µs, the worst by %.0f µs\n",
		g.Count, 100*float64(g.Within)/float64(g.Count), float64(load.OnTime)/float64(time.Microsecond),
		micros(0.5), micros(0.99), micros(0.999), micros(1))
	if short := int64(sent.Due) - int64(sent.Sent); short > int64(max(s.Load.Batch, s.Load.Rate/1000)) {
		fmt.Fprintf(b, "this machine was too slow: %d packets that were due were not sent\n", short)
	}
}
