package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/u-root/u-root/pkg/cpio"

	"github.com/napistall/napistall/internal/agent"
	"github.com/napistall/napistall/internal/experiment"
)

// The scripts run the whole program. Its QEMU is played by this test binary: it boots nothing, and
// answers with the records that a real guest of the arm's name once sent (testdata/guests).
func TestMain(m *testing.M) {
	if os.Getenv(realPath) == "" {
		_ = os.Setenv(realPath, os.Getenv("PATH")) // it can only fail for a name that is none
	}
	testscript.Main(m, map[string]func(){
		"napistall":          main,
		"qemu-system-x86_64": playGuest,
	})
}

// realPath is the environment variable that holds PATH without the scripts' programs.
const realPath = "NAPISTALL_TEST_PATH"

func TestScripts(t *testing.T) {
	guests, err := filepath.Abs("testdata/guests")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/bisect.md")
	if err != nil {
		t.Fatal(err)
	}
	bisect := []byte(blockOf(t, string(page), "```sh") + "\n")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GUESTS", guests)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
			if err := os.WriteFile(filepath.Join(env.WorkDir, "bisect.sh"), bisect, 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "bzImage"), bzImage("6.12.0 (a@b) #1 SMP Mon"), 0o644)
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"appears": appears,
			"alone":   alone,
			"cut":     cut,
			"garble":  garble,
			"gone":    gone,
		},
	})
}

// condition knows [race], which holds in tests that were built with the race detector.
func condition(cond string) (bool, error) {
	if cond != "race" {
		return false, fmt.Errorf("unknown condition %s", cond)
	}
	info, _ := debug.ReadBuildInfo() // a test's binary has one
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}), nil
}

// exits STATUS COMMAND... runs COMMAND, which must end with exit status STATUS.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d; want %d", got, want)
	}
}

// appears FILE waits until there is a FILE.
func appears(ts *testscript.TestScript, neg bool, args []string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for {
		if _, err := os.Stat(ts.MkAbs(args[0])); (err == nil) != neg {
			return
		}
		select {
		case <-limit:
			ts.Fatalf("%s: not after 20 s", args[0])
		case <-tick.C:
		}
	}
}

// alone leaves nothing in PATH but napistall itself.
func alone(ts *testscript.TestScript, _ bool, _ []string) {
	self, err := exec.LookPath("napistall")
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, "napistall"); err != nil {
			_, err = os.Stat(path)
			self = path
		}
	}
	ts.Check(err)
	bin := ts.MkAbs("alone")
	ts.Check(os.Mkdir(bin, 0o755))
	ts.Check(os.Symlink(self, filepath.Join(bin, "napistall")))
	ts.Setenv("PATH", bin)
}

// cut FILE N leaves the first N bytes of FILE.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// garble FILE leaves FILE's size and nothing else.
func garble(ts *testscript.TestScript, _ bool, args []string) {
	text := bytes.Repeat([]byte("{"), len(ts.ReadFile(args[0])))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o644))
}

// bzImage returns the head of an x86 kernel image with a version banner (Documentation/arch/x86/boot.rst)
// and nothing to run.
func bzImage(banner string) []byte {
	const setupSectors, bannerAt = 4, 0x400
	b := make([]byte, (setupSectors+1)*512+4096)
	b[0x1f1] = setupSectors
	binary.LittleEndian.PutUint16(b[0x1fe:], 0xaa55)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x020f)
	binary.LittleEndian.PutUint16(b[0x20e:], bannerAt-0x200)
	b[0x211] = 1 // LOADED_HIGH
	binary.LittleEndian.PutUint16(b[0x236:], 1)
	copy(b[bannerAt:], banner+"\x00")
	return b
}

// playGuest is QEMU as far as napistall sees it: the console is its standard output, the records go to
// file descriptor 4, the initramfs is behind 3. An arm whose name starts with "hang" never ends.
func playGuest() {
	if slices.Contains(os.Args, "--version") {
		fmt.Println("QEMU emulator version 0.0 (played by a test)")
		return
	}
	if err := play(); err != nil {
		fmt.Fprintln(os.Stderr, "played guest:", err)
		os.Exit(1)
	}
}

func play() error {
	trial, err := trialOf("/dev/fd/3")
	if err != nil {
		return err
	}
	name, err := guestOf(trial.Arm)
	if err != nil {
		return err
	}
	hangs := strings.HasPrefix(name, "hang")
	if rest, ok := strings.CutPrefix(name, "hang-"); ok {
		name = rest
	} else if hangs {
		name = "stock"
	}
	base := filepath.Join(os.Getenv("GUESTS"), name)
	console, err := os.ReadFile(base + ".console")
	if err != nil {
		return err
	}
	if _, err := os.Stdout.Write(console); err != nil {
		return err
	}
	records, err := os.ReadFile(base + ".jsonl")
	if err != nil {
		return err
	}
	if hangs {
		inHold, _, _ := bytes.Cut(records, []byte(`"name":"tail"`))
		records = inHold[:bytes.LastIndexByte(inHold, '\n')+1]
	}
	if _, err := os.NewFile(4, "records").Write(records); err != nil {
		return err
	}
	if hangs {
		if err := os.WriteFile(filepath.Join(os.Getenv("WORK"), "hanging"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			return err
		}
		<-time.After(time.Minute)
	}
	return nil
}

// guestOf names the guest that plays arm: the one of its name, unless its kernel was made by the scripts' make out
// of a source that says what its poll loop does ("loop stalls", "loop fixed", "loop crashes"; "loop waits" hangs until
// there is a file go).
func guestOf(arm experiment.Arm) (string, error) {
	image, err := os.ReadFile(os.Args[slices.Index(os.Args, "-kernel")+1])
	if err != nil {
		return "", err
	}
	name := "none-stock"
	switch {
	case bytes.Contains(image, []byte("loop crashes")):
		return "", errors.New("the kernel crashes before it says anything")
	case bytes.Contains(image, []byte("loop fixed")):
		name = "none-patched"
	case bytes.Contains(image, []byte("loop waits")):
		if _, err := os.Stat(filepath.Join(os.Getenv("WORK"), "go")); err != nil {
			name = "hang-" + name
		}
	case !bytes.Contains(image, []byte("loop stalls")):
		return arm.Name, nil
	}
	switch {
	case !arm.Threaded:
		name += "-softirq"
	case arm.Load.Inflight > 16:
		name += "-above"
	}
	return name, nil
}

// trialOf finds the trial in an initramfs.
func trialOf(initrd string) (experiment.Trial, error) {
	var t experiment.Trial
	all, err := os.ReadFile(initrd)
	if err != nil {
		return t, err
	}
	archive := cpio.Newc.Reader(bytes.NewReader(all))
	for {
		rec, err := archive.ReadRecord()
		if err != nil {
			return t, fmt.Errorf("look for the trial: %w", err)
		}
		if rec.Name == strings.TrimPrefix(agent.TrialFile, "/") {
			return readTrial(io.NewSectionReader(rec, 0, int64(rec.FileSize)))
		}
	}
}

func readTrial(r io.Reader) (experiment.Trial, error) {
	var t experiment.Trial
	b, err := io.ReadAll(r)
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(b, &t)
}

// gone FILE waits until the process that FILE names has ended.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	limit := time.Now().Add(20 * time.Second)
	for syscall.Kill(pid, 0) == nil && !zombie(pid) {
		if time.Now().After(limit) {
			ts.Fatalf("process %d is still there", pid)
		}
		runtime.Gosched()
	}
}

// zombie reports whether a process has ended and only waits for its parent to notice.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}
