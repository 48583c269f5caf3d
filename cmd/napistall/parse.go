package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"github.com/ulikunitz/xz"

	"github.com/napistall/napistall/klog"
)

// errFound says that parse found something. It is no fault, and nothing is printed about it.
var errFound = errors.New("the log reports trouble")

// A parseCommand holds parse's flags.
type parseCommand struct {
	json, npd, follow bool
}

func newParse() *cobra.Command {
	var c parseCommand
	cmd := &cobra.Command{
		Use:   "parse [FILE...]",
		Short: "Read kernel logs and say who holds a CPU and who waits",
		Long: `Read the kernel logs in FILEs, or standard input, and print each stall, lockup and hung task in them, and a
verdict: what kind of thing is behind it, how sure that is, and what to do. A log can be the output of dmesg or
journalctl -k (-o export and json as well), a console, a syslog, netconsole, pstore, or a mail about one; gzip, xz and
zstd are seen by content. Several reports of one grace period are one event. Logs can be of any size. A pipe
is waited for; Ctrl-C ends that.

Exit status: 0 nothing found, 3 something found, 1 a log could not be read, 2 there is no such file,
130 interrupted. All that could be read is printed in any case.`,
		Example: `  dmesg | napistall parse
  napistall parse --json /var/log/kern.log*
  napistall parse --follow                 # from /dev/kmsg, until Ctrl-C
  napistall parse --npd > napistall.json   # rules for Kubernetes' node-problem-detector`,
		Args: usageArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	cmd.Flags().BoolVar(&c.json, "json", false, "print one JSON document; with --follow one for each line")
	cmd.Flags().BoolVar(&c.npd, "npd", false, "print rules for node-problem-detector and read nothing")
	cmd.Flags().BoolVar(&c.follow, "follow", false, "read /dev/kmsg, or FILE, as it grows, until interrupted")
	return cmd
}

func (c *parseCommand) run(cmd *cobra.Command, args []string) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	found, err := c.into(cmd, args, out)
	if ferr := out.Flush(); err == nil && ferr != nil {
		err = fmt.Errorf("write the result: %w", ferr)
	}
	if err == nil && found {
		return errFound
	}
	return err
}

func (c *parseCommand) into(cmd *cobra.Command, args []string, out *bufio.Writer) (found bool, err error) {
	switch {
	case c.npd && (c.json || c.follow || len(args) > 0):
		return false, usagef("--npd goes with nothing else")
	case c.npd:
		return false, writeNPD(out)
	case c.follow && len(args) > 1:
		return false, usagef("--follow reads one log")
	case c.follow:
		return followLog(cmd.Context(), args, c.printer(out, true))
	}
	ctx := cmd.Context()
	p := c.printer(out, false)
	p.begin()
	defer func() { p.end() }()
	if len(args) == 0 {
		return parseLog(p, "", patientReader{ctx, cmd.InOrStdin()})
	}
	for _, name := range args {
		one, oneErr := parseFile(ctx, p, name, len(args) > 1)
		found, err = found || one, errors.Join(err, oneErr)
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
	}
	return found, err
}

// A logPrinter shows what logs report.
type logPrinter interface {
	begin()
	log(name string) // what follows is about this one
	incident(events []klog.Event, v klog.Verdict)
	nothing() // the log has no event
	end()
}

func (c *parseCommand) printer(out *bufio.Writer, lines bool) logPrinter {
	if c.json {
		return &jsonPrinter{out: out, lines: lines}
	}
	return &textPrinter{out: out}
}

func parseFile(ctx context.Context, p logPrinter, name string, several bool) (found bool, err error) {
	f, err := openLog(ctx, name)
	if err != nil {
		return false, named(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	title := name
	if !several {
		title = ""
	}
	if found, err = parseLog(p, title, patientReader{ctx, f}); err != nil {
		return found, named(fmt.Errorf("%s: %w", name, err))
	}
	return found, nil
}

// openLog opens the file called name, or returns when ctx is done: a pipe without a writer lets whoever opens it
// wait.
func openLog(ctx context.Context, name string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.Open(name)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-ctx.Done(): // nothing ends an open but a writer, or the end of this process, which is near
		return nil, ctx.Err()
	}
}

// A patientReader reads r until ctx is done. A reading that never returns is left to itself then, with the buffer
// that it was given: the process is about to end.
type patientReader struct {
	ctx context.Context
	r   io.Reader
}

func (p patientReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := p.r.Read(b)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	}
}

// parseLog shows the log that r has, incident by incident.
func parseLog(p logPrinter, name string, r io.Reader) (found bool, err error) {
	r, done, err := decompress(r)
	if err != nil {
		return false, err
	}
	defer done()
	p.log(name)
	var together []klog.Event
	flush := func() {
		if len(together) > 0 {
			p.incident(together, klog.Judge(together))
			together = together[:0]
		}
	}
	for e, readErr := range klog.Events(r) {
		if readErr != nil {
			err = readErr
			break
		}
		found = true
		if !klog.Together(together, e) {
			flush()
		}
		together = append(together, e)
	}
	flush()
	if !found && err == nil {
		p.nothing()
	}
	return found, err
}

// decompress finds out by its first bytes whether r is compressed. Done gives back what that took.
func decompress(r io.Reader) (plain io.Reader, done func(), err error) {
	const window = 128 << 20 // zstd --ultra -22 takes that much
	b := bufio.NewReaderSize(r, 64<<10)
	magic, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("read log: %w", err)
	}
	nothing := func() {}
	switch {
	case bytes.HasPrefix(magic, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("gzip: %w", err)
		}
		return z, nothing, nil
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		z, err := xz.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("xz: %w", err)
		}
		return z, nothing, nil
	case bytes.HasPrefix(magic, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, nil, fmt.Errorf("zstd: %w", err)
		}
		return z, z.Close, nil
	}
	return b, nothing, nil
}
