package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/napistall/napistall/internal/doctor"
	"github.com/napistall/napistall/internal/machine"
)

// A doctorCommand holds doctor's flags.
type doctorCommand struct {
	json, long    bool
	watch         time.Duration
	root, collect string
}

func newDoctor() *cobra.Command {
	var c doctorCommand
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether this machine is exposed, why, and what to do",
		Long: `Say whether this machine is exposed to the stalls of threaded NAPI, why, how sure that is, and what to do about
it at which price. Doctor changes nothing. It watches the poll threads for half a second, or as long as --for says; as
root it then also counts polls, with the tracepoint napi:napi_poll. Without root it reads what it may and says
what is missing.

Some of the questions take RTNL for a moment: the list of NAPI instances, and drivers and coalescing of devices that poll
in a thread or have hardware. A process of its own asks them; where it has no answer within a second, because
somebody holds RTNL, doctor goes on without and says so.

A machine can be judged elsewhere: --collect writes what decides, and nothing that says whose machine it is (no
addresses, no host name, no unknown words of the command line), and --root reads that archive, or a directory
that it was unpacked in, or copies of a machine's /proc and /sys.

Exit status: 0 not exposed, 3 exposed, 1 it can't be told or reading failed: a script must not take that for a no.`,
		Example: `  napistall doctor
  napistall doctor --for 5s
  napistall doctor --collect board.tar     # on the board
  napistall doctor --root board.tar        # on the desk`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.BoolVar(&c.json, "json", false, "print one JSON document")
	f.BoolVar(&c.long, "long", false, "print every NAPI instance, setting and issue")
	f.DurationVar(&c.watch, "for", 0, "watch for `TIME`, up to 1h (default 500ms)")
	f.StringVar(&c.root, "root", "", "judge the machine in `SNAPSHOT`, an archive (gzip or not) or a directory")
	f.StringVar(&c.collect, "collect", "", "write a snapshot of this machine to `FILE`.tar and judge nothing")
	cmd.AddCommand(newDoctorHelper())
	return cmd
}

// errCannotTell is exit status 1: the question was not answered.
var errCannotTell = errors.New("whether the machine is exposed can't be told from what could be read")

func (c *doctorCommand) run(cmd *cobra.Command) error {
	switch {
	case c.root != "" && (cmd.Flags().Changed("for") || c.collect != ""):
		return usagef("--root goes with neither --for nor --collect: what was watched is in the snapshot")
	case cmd.Flags().Changed("for") && (c.watch < 100*time.Millisecond || c.watch > time.Hour):
		return usagef("--for %v: want 100ms to 1h", c.watch)
	case c.collect != "" && c.json:
		return usagef("--collect judges nothing: --json goes with --root")
	}
	sick, err := c.read(cmd.Context())
	if err != nil {
		return err
	}
	if c.collect != "" {
		return writeSnapshot(cmd.OutOrStdout(), c.collect, sick)
	}
	report := doctor.Judge(sick.Case)
	if err := c.write(cmd.OutOrStdout(), sick.Case, report); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	switch {
	case cmd.Context().Err() != nil:
		return cmd.Context().Err() // what was watched so far is printed
	case report.Found():
		return errFound
	case report.Verdict == doctor.CannotTell:
		return errCannotTell
	}
	return nil
}

func (c *doctorCommand) write(w io.Writer, sick doctor.Case, report doctor.Report) error {
	out := bufio.NewWriter(w)
	if c.json {
		writeDoctorJSON(out, sick, report)
		return out.Flush()
	}
	var text bytes.Buffer
	words := bufio.NewWriter(&text)
	(&doctorText{out: words, long: c.long}).report(sick, report)
	_ = words.Flush() // into memory
	_, err := w.Write(harmless(text.Bytes()))
	return err
}

// A patient is a case with what only its snapshot needs.
type patient struct {
	doctor.Case
	kmsg string
}

func (c *doctorCommand) read(ctx context.Context) (patient, error) {
	if c.root == "" {
		return examine(ctx, c.watch)
	}
	return readPatient(c.root)
}

// readPatient reads a snapshot from an archive or a directory.
func readPatient(name string) (p patient, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return p, named(err)
	}
	dir := name
	if !info.IsDir() {
		dir, err = os.MkdirTemp("", "napistall-doctor-")
		if err != nil {
			return p, fmt.Errorf("unpack the snapshot: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if err := unpackFile(name, dir); err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
	}
	shot, err := machine.ReadSnapshot(dir)
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	p.Survey, p.Watch = shot.Survey, shot.Watch
	if shot.Log != nil {
		if err := json.Unmarshal(shot.Log, &p.Log); err != nil {
			return p, fmt.Errorf("%s: its log: %w", name, err)
		}
	}
	return p, nil
}

func unpackFile(name, dir string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return machine.Unpack(f, dir)
}

// writeSnapshot writes p to the file called name, "-" being standard output.
func writeSnapshot(stdout io.Writer, name string, p patient) (err error) {
	log, err := json.Marshal(p.Log)
	if err != nil {
		return fmt.Errorf("encode the snapshot: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find this host's name, to leave it out: %w", err)
	}
	shot := machine.Snapshot{Survey: p.Survey, Watch: p.Watch, Log: log}
	source := machine.Source{Kmsg: p.kmsg}
	if name == "-" {
		_, err := machine.Collect(stdout, source, host, shot)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	files, err := machine.Collect(f, source, host, shot)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: %d files; read it with: napistall doctor --root %s\n", name, len(files), name)
	return err
}
