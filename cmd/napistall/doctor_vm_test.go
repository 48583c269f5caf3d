package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/u-root/u-root/pkg/cpio"

	"github.com/napistall/napistall/internal/backend/backendtest"
	"github.com/napistall/napistall/internal/kimage"
	"github.com/napistall/napistall/internal/testenv"
)

// A doctorGuest is a kernel on a machine.
type doctorGuest struct {
	spec, goarch, need string
	qemu               []string
	append             string
}

func armhfGuest() doctorGuest {
	return doctorGuest{"debian:sid/armhf", "arm", testenv.QEMUArm,
		[]string{"qemu-system-arm", "-M", "virt,highmem=off", "-cpu", "cortex-a15"}, "console=ttyAMA0"}
}

func amd64Guest(preempt string) doctorGuest {
	return doctorGuest{"debian:trixie-backports/amd64/cloud-amd64/6.18", "amd64", testenv.QEMUx86,
		[]string{"qemu-system-x86_64", "-M", "q35", "-cpu", "max,la57=off"}, "console=ttyS0 preempt=" + preempt}
}

// A doctorRun is what one napistall in the guest did.
type doctorRun struct {
	out    string
	status int
	took   time.Duration
	stderr string
}

// boot runs doctorguest in a guest and returns what the programs there did, the console, and whether times mean
// anything.
func (g doctorGuest) boot(t *testing.T) (runs map[string]doctorRun, console string, timed bool) {
	t.Helper()
	testenv.Need(t, g.need, testenv.Apt, testenv.Go)
	store, err := newStore("", false)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := kimage.ParseSpec(g.spec)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Fetch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(t.TempDir(), "initrd")
	g.initramfs(t, img, initrd)
	text, threads, err := backendtest.Boot(t, func(threads string) *exec.Cmd { return g.command(t, img.Path, initrd, threads) })
	if err != nil {
		t.Fatal(err)
	}
	runs = readRuns(t, string(text))
	if !bytes.Contains(text, []byte("@@ over")) || bytes.Contains(text, []byte("@@ failed")) {
		t.Fatalf("the guest did not come to its end:\n%s", text)
	}
	return runs, string(text), threads == backendtest.ThreadEach
}

// command starts the guest, its CPUs run as threads says.
func (g doctorGuest) command(t *testing.T, kernel, initrd, threads string) *exec.Cmd {
	t.Helper()
	args := append(slices.Clone(g.qemu[1:]), "-accel", "tcg,thread="+threads, "-smp", "2", "-m", "512", "-display", "none", "-no-reboot", "-nic", "none",
		"-serial", "stdio", "-kernel", kernel, "-initrd", initrd, "-append", g.append+" quiet panic=1")
	cmd := exec.CommandContext(t.Context(), g.qemu[0], args...)
	for _, dir := range filepath.SplitList(os.Getenv(realPath)) { // the scripts play a QEMU of their own
		if path := filepath.Join(dir, g.qemu[0]); fileExists(path) {
			cmd.Path, cmd.Err = path, nil
			break
		}
	}
	return cmd
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// initramfs writes two archives, one behind the other: what every guest has, and napistall.
func (g doctorGuest) initramfs(t *testing.T, img *kimage.Image, name string) {
	t.Helper()
	build := func(pkg string) []byte {
		out := filepath.Join(t.TempDir(), "program")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+g.goarch, "GOARM=7", "PATH="+os.Getenv(realPath))
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", pkg, err, text)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := kimage.WriteInitramfs(f, img, build("./testdata/doctorguest"), nil); err != nil {
		t.Fatal(err)
	}
	if err := padded(f); err != nil {
		t.Fatal(err)
	}
	more := cpio.Newc.Writer(f)
	if err := more.WriteRecord(cpio.StaticRecord(build("."), cpio.Info{Name: "napistall/program", Mode: cpio.S_IFREG | 0o755})); err != nil {
		t.Fatal(err)
	}
	if err := cpio.WriteTrailer(more); err != nil {
		t.Fatal(err)
	}
}

// padded fills f up to where the kernel takes another archive to begin.
func padded(f *os.File) error {
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, (512-at%512)%512))
	return err
}

var runEnd = regexp.MustCompile(`@@ end (\S+) status=(-?\d+) ms=(\d+) stderr=(".*")`)

func readRuns(t *testing.T, console string) map[string]doctorRun {
	t.Helper()
	runs := map[string]doctorRun{}
	var text strings.Builder
	for line := range strings.Lines(console) {
		line = strings.TrimSpace(line)
		if _, rest, ok := strings.Cut(line, "@= "); ok {
			text.WriteString(rest)
		}
		m := runEnd.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		out, err := base64.StdEncoding.DecodeString(text.String())
		if err != nil {
			t.Fatalf("%s: %v", m[1], err)
		}
		text.Reset()
		r := doctorRun{out: string(out)}
		r.status, _ = strconv.Atoi(m[2])
		ms, _ := strconv.Atoi(m[3])
		r.took = time.Duration(ms) * time.Millisecond
		r.stderr, _ = strconv.Unquote(m[4])
		runs[m[1]] = r
	}
	return runs
}

// TestDoctorInGuests runs doctor where it matters: on kernels that preempt the poll loop and that don't, at
// rest and while a frame bounces, and while a deletion holds RTNL because of it.
func TestDoctorInGuests(t *testing.T) {
	for _, tt := range []struct {
		name    string
		guest   doctorGuest
		exposed bool
	}{
		{"armhf", armhfGuest(), true},
		{"none", amd64Guest("none"), true},
		{"voluntary", amd64Guest("voluntary"), true},
		{"full", amd64Guest("full"), false},
		{"lazy", amd64Guest("lazy"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs, console, timed := tt.guest.boot(t)
			if dir := os.Getenv("DOCTOR_KEEP"); dir != "" {
				keepRuns(t, filepath.Join(dir, tt.name), runs, console)
			}
			want := map[string]string{"rest": "exposed", "bounce": "exposed and happening now", "rtnl": "exposed and happening now"}
			status := 3
			if !tt.exposed {
				want = map[string]string{"rest": "not exposed", "bounce": "not exposed", "rtnl": "not exposed"}
				status = 0
			}
			for name, verdict := range want {
				r := runs[name]
				if first, _, _ := strings.Cut(r.out, ","); first != "verdict: "+verdict || r.status != status {
					t.Errorf("%s: %q, status %d; want %s, %d\n%s%s", name, first, r.status, verdict, status, r.out, r.stderr)
				}
				t.Logf("%s: %s, %v", name, strings.SplitN(r.out, "\n", 2)[0], r.took)
			}
			if timed {
				checkTimes(t, runs, console, tt.name == "armhf")
			}
			if first := `"verdict": "not exposed"`; !strings.Contains(runs["plain"].out, first) {
				t.Errorf("plain: want %s\n%s%s", first, runs["plain"].out, runs["plain"].stderr)
			}
		})
	}
}

var deletion = regexp.MustCompile(`@@ deleted after (\d+) ms`)

// checkTimes: on a kernel that stalls for as long as the frame bounces, doctor answers while a deletion that waits for
// the CPU holds RTNL for 10 s and more. Where the emulation is quick enough to mean anything, it takes 2 s, and 3 with RTNL held.
func checkTimes(t *testing.T, runs map[string]doctorRun, console string, stalls bool) {
	t.Helper()
	const quick = 600 * time.Millisecond
	start := runs["start"].took
	for name, limit := range map[string]time.Duration{"plain": 2 * time.Second, "rest": 2 * time.Second, "bounce": 2 * time.Second, "rtnl": 3 * time.Second} {
		if took := runs[name].took; start < quick && took > 3*start+limit {
			t.Errorf("%s took %v; the program alone starts in %v", name, took, start)
		}
	}
	at := deletion.FindStringSubmatchIndex(console)
	if at == nil {
		t.Fatal("nothing was deleted")
	}
	ms, err := strconv.Atoi(console[at[2]:at[3]])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("RTNL was held for %d ms; the program alone starts in %v", ms, start)
	if !stalls {
		return
	}
	if end := strings.Index(console, "@@ end rtnl "); ms < 10000 || end < 0 || end > at[0] {
		t.Errorf("RTNL was held for %d ms; want 10 s or more, and doctor to answer before it was free", ms)
	}
	if !strings.Contains(runs["rtnl"].out, "Somebody holds RTNL") {
		t.Errorf("doctor did not say that RTNL was held:\n%s", runs["rtnl"].out)
	}
}

func keepRuns(t *testing.T, dir string, runs map[string]doctorRun, console string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, r := range runs {
		text := r.out + fmt.Sprintf("# status %d, %v\n# %s\n", r.status, r.took, r.stderr)
		if strings.HasSuffix(name, "snapshot") {
			text, name = r.out, name+".tar"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "console"), []byte(console), 0o644); err != nil {
		t.Fatal(err)
	}
}
