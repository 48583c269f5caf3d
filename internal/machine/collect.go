package machine

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/rcu"
)

// snapshotFormat names the document in a snapshot that holds what no file of /proc or /sys does.
const snapshotFormat = "napistall/snapshot/1"

// Where a snapshot keeps what is not a file of the machine.
const (
	snapshotFile = "napistall/snapshot.json"
	snapshotKmsg = "napistall/kmsg"
)

// A Snapshot is a machine to be judged elsewhere.
type Snapshot struct {
	Format string          `json:"format"`
	Survey Survey          `json:"survey"` // its Facts are in the snapshot's files
	Watch  Watch           `json:"watch"`
	Log    json.RawMessage `json:"log,omitempty"` // what was found in the kernel log, not the log
}

// Collect writes the machine at s as a tar archive and returns its files' names. Only what is listed here
// goes into it, and nothing that says whose machine it is: addresses, the host's name and unknown words of
// the command line are left out.
func Collect(w io.Writer, s Source, hostname string, shot Snapshot) ([]string, error) {
	scrub := newScrubber(hostname)
	shot.Format = snapshotFormat
	shot.Survey.Facts = Facts{}
	document, err := json.MarshalIndent(shot, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode the snapshot: %w", err)
	}
	files := s.evidence()
	files[snapshotFile] = string(document) + "\n"
	if kmsg := bootLines(s.Kmsg); kmsg != "" {
		files[snapshotKmsg] = kmsg
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	out := tar.NewWriter(w)
	for _, name := range names {
		text := scrub.text(files[name])
		if name == "proc/sys/kernel/osrelease" {
			text = scrub.names(files[name])
		}
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatUSTAR}
		if err := out.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("write the snapshot: %w", err)
		}
		if _, err := io.WriteString(out, text); err != nil {
			return nil, fmt.Errorf("write the snapshot: %w", err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("write the snapshot: %w", err)
	}
	return names, nil
}

// evidence returns the files that Read looks at, with what it looks at in them.
func (s Source) evidence() map[string]string {
	files := map[string]string{}
	keep := func(name, text string) {
		if text != "" {
			files[name] = text + "\n"
		}
	}
	names := s.uname()
	keep("proc/sys/kernel/osrelease", names.release)
	keep("proc/sys/kernel/version", names.version)
	keep("proc/sys/kernel/arch", names.machine)
	files["proc/cmdline"] = keptArguments(s.text("proc/cmdline")) + "\n"
	conf := readConfig(s, names.release)
	keep(strings.TrimPrefix(conf.from, "/"), strings.Join(conf.kept, "\n"))
	for _, name := range append(paramFiles(),
		"sys/kernel/debug/sched/preempt", "sys/devices/system/cpu/online",
		"sys/devices/system/clocksource/clocksource0/current_clocksource") {
		keep(name, s.text(name))
	}
	threads, _ := s.threads(string(rcu.Preempt), string(rcu.Sched)) // none where they can't be listed
	for _, t := range threads {
		keep(path.Join("proc", strconv.Itoa(t.PID), "comm"), t.Comm)
	}
	return files
}

var (
	flavorLine = regexp.MustCompile(`(?:Preemptible h|H)ierarchical RCU implementation\.`)
	stateWord  = regexp.MustCompile(`#\d\S* (\S+)\s*$`)
)

// bootLines returns of a kernel log what Read can use, and nothing else of these lines.
func bootLines(kmsg string) string {
	var lines []string
	if m := dynamicLine.FindString(kmsg); m != "" {
		lines = append(lines, m)
	}
	if m := flavorLine.FindString(kmsg); m != "" {
		lines = append(lines, m)
	}
	if m := jiffiesLine.FindStringSubmatch(kmsg); m != nil {
		lines = append(lines, "clocksource: jiffies: max_idle_ns: "+m[1]+" ns")
	}
	if last := lastDump(kmsg); last != nil {
		if m := stateWord.FindString(last[0]); m != "" {
			lines = append(lines, "CPU: 0 PID: 0 Comm: x "+strings.TrimSpace(m))
		}
	}
	if lines == nil {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// ReadSnapshot reads a machine of files: what Collect wrote and somebody unpacked, or copies of its /proc
// and /sys. What isn't there is unknown. Nothing outside dir is read.
func ReadSnapshot(dir string) (Snapshot, error) {
	s := Source{Root: dir}
	s.Kmsg = s.text(snapshotKmsg)
	b, err := s.read(snapshotFile)
	if errors.Is(err, fs.ErrNotExist) {
		v, err := s.survey()
		return Snapshot{Survey: v}, err
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("read the snapshot: %w", err)
	}
	var shot Snapshot
	if err := json.Unmarshal(b, &shot); err != nil {
		return shot, fmt.Errorf("%s: %w", snapshotFile, err)
	}
	if shot.Format != snapshotFormat {
		return shot, fmt.Errorf("%s: format %.40q; want %s", snapshotFile, shot.Format, snapshotFormat)
	}
	shot.Survey.Facts, err = Read(s)
	return shot, err
}

// Bounds of a snapshot: one of this machine has 20 files and 10 kB.
const (
	maxSnapshot      = 32 << 20
	maxSnapshotFiles = 1000
)

// Unpack writes the files of a snapshot's archive below dir, which exists and is empty. Anything that is no
// plain file, or has a name that leads out, is an error, as is an archive beyond all size.
func Unpack(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack the snapshot: %w", err)
	}
	defer func() { _ = root.Close() }() // its files are closed one by one
	err = walkArchive(r, func(name string, content io.Reader) error { return writeBelow(root, name, content) })
	if err != nil {
		return fmt.Errorf("unpack the snapshot: %w", err)
	}
	return nil
}

// walkArchive passes each file of a tar archive, gzip or not, to file, with a local name.
func walkArchive(r io.Reader, file func(name string, content io.Reader) error) error {
	var total int64
	b := bufio.NewReader(r)
	r = b
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" { // one that is shorter is no archive either
		z, err := gzip.NewReader(b)
		if err != nil {
			return err
		}
		r = z
	}
	in := tar.NewReader(io.LimitReader(r, maxSnapshot))
	for files := 0; ; files++ {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF) && files > 0:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("there are no files in it: want an archive that doctor --collect wrote")
		case errors.Is(err, tar.ErrHeader):
			return errors.New("it is no tar archive: want one that doctor --collect wrote")
		case err != nil:
			return err
		case h.Typeflag == tar.TypeDir:
			continue
		case h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%.100q: not a plain file", h.Name)
		case !filepath.IsLocal(h.Name):
			return fmt.Errorf("%.100q: a name that leads out", h.Name)
		case files == maxSnapshotFiles:
			return fmt.Errorf("more than %d files", maxSnapshotFiles)
		}
		// A sparse file can be larger than all that was read.
		if total += h.Size; h.Size > maxFile || total > maxSnapshot {
			return fmt.Errorf("%.100q: larger than a snapshot is", h.Name)
		}
		if err := file(path.Clean(h.Name), in); err != nil {
			return fmt.Errorf("%.100q: %w", h.Name, err)
		}
	}
}

func writeBelow(root *os.Root, name string, content io.Reader) (err error) {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, content)
	return err
}
