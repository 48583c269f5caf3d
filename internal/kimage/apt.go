package kimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// indexAge is how long a suite's index is used before it is asked for again.
const indexAge = 6 * time.Hour

// aptTries is how often an index or a download is tried: a mirror in the middle of a sync serves
// indexes that don't match their signatures.
const aptTries = 3

// An aptState is apt's private state for one suite and architecture: indexes, caches and
// configuration in a directory of ours. Its methods are called with the directory's lock held.
type aptState struct {
	dir         string // <cache>/apt/SUITE_ARCH
	suite, arch string
	mirror      mirror
	pause       time.Duration // between tries
	say         func(string)
}

func (a aptState) conf() string  { return filepath.Join(a.dir, "apt.conf") }
func (a aptState) lists() string { return filepath.Join(a.dir, "state", "lists") }
func (a aptState) stamp() string { return filepath.Join(a.dir, "updated") }

// updated returns when the index was fetched; zero when there is none.
func (a aptState) updated() time.Time {
	info, err := os.Stat(a.stamp())
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// write makes the directory and its configuration.
func (a aptState) write() error {
	for _, d := range []string{filepath.Join(a.lists(), "partial"), filepath.Join(a.dir, "cache", "archives", "partial")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("make apt's directory: %w", err)
		}
	}
	abs, err := filepath.Abs(a.dir)
	if err != nil {
		return fmt.Errorf("make apt's directory: %w", err)
	}
	if strings.ContainsAny(abs, "\"\n") {
		return fmt.Errorf("make apt's directory: apt can't take the name %q", abs)
	}
	sources := fmt.Sprintf("Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n", a.mirror.uri, a.suite)
	if a.mirror.signedBy != "" {
		sources += "Signed-By: " + a.mirror.signedBy + "\n"
	}
	files := map[string]string{"apt.conf": a.config(abs), "debian.sources": sources, "state/status": ""}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write apt's configuration: %w", err)
		}
	}
	return nil
}

// config is read by apt after the machine's own configuration, which keeps its proxies and
// credentials; hooks, pinning and everything that would touch the machine's state are cleared.
func (a aptState) config(dir string) string {
	var b strings.Builder
	for _, hook := range []string{"APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success",
		"DPkg::Pre-Invoke", "DPkg::Post-Invoke", "DPkg::Pre-Install-Pkgs", "APT::Architectures", "APT::Default-Release"} {
		fmt.Fprintf(&b, "#clear %s;\n", hook)
	}
	options := [][2]string{
		{"Dir::Etc::SourceParts", "/dev/null"},
		{"Dir::Etc::SourceList", dir + "/debian.sources"},
		{"Dir::Etc::Preferences", "/dev/null"},
		{"Dir::Etc::PreferencesParts", "/dev/null"},
		{"Dir::State", dir + "/state"},
		{"Dir::State::status", dir + "/state/status"},
		{"Dir::Cache", dir + "/cache"},
		{"Dir::Cache::pkgcache", "pkgcache.bin"},
		{"Dir::Cache::srcpkgcache", ""},
		{"Dir::Log", dir + "/cache"},
		{"APT::Architecture", a.arch},
		{"APT::Architectures::", a.arch},
		{"APT::Update::Error-Mode", "any"},
		{"Acquire::Languages", "none"},
		{"Acquire::PDiffs", "false"},
		{"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false"},
		{"Acquire::IndexTargets::deb::CNF::DefaultEnabled", "false"},
		{"Acquire::http::Timeout", "30"},
		{"Acquire::https::Timeout", "30"},
		{"Acquire::Retries", "1"},
	}
	if os.Geteuid() == 0 {
		// The downloading user _apt cannot enter root's cache directory.
		options = append(options, [2]string{"APT::Sandbox::User", "root"})
	}
	for _, o := range options {
		fmt.Fprintf(&b, "%s \"%s\";\n", o[0], o[1])
	}
	return b.String()
}

// update fetches the suite's index. It tries again when the mirror is at fault.
func (a aptState) update(ctx context.Context) error {
	if err := a.write(); err != nil {
		return err
	}
	a.say(fmt.Sprintf("fetching the package index of %s for %s", a.suite, a.arch))
	_, err := a.retry(ctx, a.dir, "apt-get", "-q", "-c", a.conf(), "update")
	if err != nil {
		return fmt.Errorf("fetch the package index of %s for %s: %w", a.suite, a.arch, err)
	}
	if there := a.architectures(); len(there) > 0 && !strings.Contains(" "+strings.Join(there, " ")+" ", " "+a.arch+" ") {
		return &SpecError{"debian:" + a.suite + "/" + a.arch,
			fmt.Sprintf("%s has no architecture %s; it has %s", a.suite, a.arch, strings.Join(there, ", "))}
	}
	now := time.Now()
	if err := os.WriteFile(a.stamp(), nil, 0o644); err != nil {
		return fmt.Errorf("mark the package index: %w", err)
	}
	if err := os.Chtimes(a.stamp(), now, now); err != nil {
		return fmt.Errorf("mark the package index: %w", err)
	}
	return nil
}

// architectures reads which ones the fetched suite has, from its signed release file.
func (a aptState) architectures() []string {
	files, _ := filepath.Glob(filepath.Join(a.lists(), "*Release")) // the only error is a bad pattern
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(line, "Architectures:"); ok {
				return strings.Fields(strings.Replace(v, " all ", " ", 1))
			}
		}
	}
	return nil
}

// download puts the packages, each given as NAME=VERSION, into dir. Apt checks them against the
// signed index.
func (a aptState) download(ctx context.Context, dir string, pkgs []string) error {
	args := append([]string{"-q", "-c", a.conf(), "download"}, pkgs...)
	if _, err := a.retry(ctx, dir, "apt-get", args...); err != nil {
		return fmt.Errorf("download %s: %w", strings.Join(pkgs, " "), err)
	}
	return nil
}

// retry runs a command up to aptTries times while what it says is the mirror's or network's fault.
func (a aptState) retry(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	for try := 1; ; try++ {
		out, err := a.run(ctx, dir, name, args...)
		var failed *aptError
		if err == nil || !errors.As(err, &failed) || !failed.transient() || ctx.Err() != nil {
			return out, err
		}
		if try == aptTries {
			return nil, fmt.Errorf("%w (tried %d times)", err, try)
		}
		a.say(fmt.Sprintf("%v; trying again", err))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(a.pause << (try - 1)):
		}
	}
}

func (a aptState) run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, unsupportedError("there is no apt on this machine (" + name + " is not in PATH): use deb:FILE… or file:IMAGE")
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = runTied(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, &aptError{name: name, text: errs.String(), err: err, suite: a.suite}
	}
	return out.Bytes(), nil
}

// An aptError is a failed run of one of apt's programs.
type aptError struct {
	name, suite string
	text        string // what it wrote to its standard error
	err         error
}

// Error gives the first error line, without the decoration; the last line of all if there is none.
func (e *aptError) Error() string {
	last := ""
	for line := range strings.Lines(e.text) {
		line = strings.TrimSpace(line)
		if msg, ok := strings.CutPrefix(line, "E: "); ok {
			return e.name + ": " + msg
		}
		if line != "" {
			last = ": " + line
		}
	}
	return fmt.Sprintf("%s: %v%s", e.name, e.err, last)
}

func (e *aptError) Unwrap() error {
	if e.has("No space left on device", "enough free space") {
		return syscall.ENOSPC
	}
	return e.err
}

func (e *aptError) has(texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(e.text, t) {
			return true
		}
	}
	return false
}

// noSuite reports whether the mirror answered that it has no such suite.
func (e *aptError) noSuite() bool { return e.has("does not have a Release file") && !e.networkDown() }

func (e *aptError) networkDown() bool {
	return e.has("Temporary failure resolving", "Could not resolve", "Could not connect", "Connection failed", "timed out",
		"Unable to connect", "Connection refused")
}

// transient reports whether another try may help.
func (e *aptError) transient() bool {
	return !errors.Is(e, syscall.ENOSPC) && (e.networkDown() || e.has("unexpected size", "Hash Sum mismatch", "Mirror sync", "Could not get lock",
		"Unable to lock", "Undetermined Error", "503", "502", "500  ", "429", "Connection timed out", "Some index files failed"))
}
