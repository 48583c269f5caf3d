package kimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sayEvery is how often a build says how far it is.
const sayEvery = 15 * time.Second

// enoughFiles is how many files have to be compiled before it is said how long the rest takes.
const enoughFiles = 20

// A kbuild runs make on one source tree and object directory.
type kbuild struct {
	target    buildTarget
	prefix    string // of the compiler
	tree, obj string
	say       func(string)
	progress  func(Progress) // may be nil; then say is told now and then
	usual     int            // how many files a whole build compiles; 0 if not known
	before    int            // how many of them earlier, stopped builds have compiled
}

// make runs make with args and returns how many files it compiled. Its whole output is kept in the object directory's
// build.log. Stopped at any point, even killed, it goes on the next time: make takes away what is half done.
func (k kbuild) make(ctx context.Context, args ...string) (files int, err error) {
	if err := os.MkdirAll(k.obj, 0o755); err != nil {
		return 0, err
	}
	logName := filepath.Join(k.obj, "build.log")
	log, err := os.Create(logName)
	if err != nil {
		return 0, err
	}
	defer log.Close() // what is in it serves reading only
	out := &makeOutput{log: log, kbuild: k, started: time.Now(), said: time.Now()}
	argv := []string{"-C", k.tree, "O=" + k.obj, "ARCH=" + k.target.kbuild, "-j" + strconv.Itoa(runtime.NumCPU())}
	if k.prefix != "" {
		argv = append(argv, "CROSS_COMPILE="+k.prefix)
	}
	cmd := exec.CommandContext(ctx, "make", append(argv, args...)...)
	cmd.Env = buildEnv()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	err = runTied(cmd)
	switch {
	case ctx.Err() != nil:
		return out.files, ctx.Err()
	case err == nil:
		return out.files, nil
	case out.full:
		return out.files, syscall.ENOSPC
	case out.first() == "":
		return out.files, fmt.Errorf("make: %w (its output is in %s)", err, logName)
	}
	return out.files, fmt.Errorf("make: %s (its whole output is in %s)", strings.ReplaceAll(out.first(), k.tree+"/", ""), logName)
}

var (
	compiled  = regexp.MustCompile(`^  (?:CC|AS|LD|AR|HOSTCC|HOSTLD|OBJCOPY|LDS|GEN|CALL)\s+(\S+)`)
	fileError = regexp.MustCompile(`^\S+:\d+:(?:\d+:)? (?:fatal )?error: `)
)

// A makeOutput takes what make prints and finds in it how far it is and what went wrong first.
type makeOutput struct {
	kbuild
	log           *os.File
	started, said time.Time
	part          []byte // of a line
	files         int
	full          bool // the disk
	// What can be wrong, from the most to the least telling: a compiler's error, another tool's, make's.
	errors [3]string
}

func (m *makeOutput) Write(b []byte) (int, error) {
	if _, err := m.log.Write(b); errors.Is(err, syscall.ENOSPC) {
		m.full = true // go on: make will find out too
	}
	m.part = append(m.part, b...)
	for {
		line, rest, ok := bytes.Cut(m.part, []byte("\n"))
		if !ok {
			break
		}
		m.line(string(line))
		m.part = rest
	}
	return len(b), nil
}

func (m *makeOutput) line(s string) {
	rank := -1
	switch {
	case strings.Contains(s, "No space left on device"):
		m.full = true
	case fileError.MatchString(s):
		rank = 0
	case strings.Contains(s, "undefined reference to"), strings.Contains(s, ": error: "), strings.HasPrefix(s, "Error: "),
		strings.Contains(s, "ld: "), strings.Contains(s, ": not found"), strings.Contains(s, "Kconfig:"):
		rank = 1
	case strings.Contains(s, ": *** "):
		rank = 2
	}
	if rank >= 0 && m.errors[rank] == "" {
		m.errors[rank] = strings.TrimSpace(s)
	}
	if c := compiled.FindStringSubmatch(s); c != nil {
		m.files++
		m.tell(c[1], time.Now())
	}
}

// tell says how far it is: always to whom that is told as a Progress, else now and then.
func (m *makeOutput) tell(file string, now time.Time) {
	p := Progress{Files: m.before + m.files, Elapsed: now.Sub(m.started), File: strings.TrimPrefix(file, m.obj+"/")}
	if m.usual > p.Files {
		p.Of = m.usual
		if m.files >= enoughFiles {
			p.Left = time.Duration(float64(p.Elapsed) / float64(m.files) * float64(p.Of-p.Files))
		}
	}
	switch {
	case m.progress != nil:
		m.progress(p)
	case now.Sub(m.said) >= sayEvery:
		m.said = now
		m.say(p.words())
	}
}

// first returns the most telling complaint.
func (m *makeOutput) first() string {
	for _, e := range m.errors {
		if e != "" {
			return e
		}
	}
	return ""
}
