package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// process is what a made-up /proc says of one.
type process struct {
	pid, parent, session, cpu int
	comm, allowed             string
}

func procOf(t *testing.T, processes ...process) tree {
	t.Helper()
	root := t.TempDir()
	for _, p := range processes {
		dir := filepath.Join(root, fmt.Sprint(p.pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		stat := fmt.Sprintf("%d (%s) S %d %d %d%s %d 0 0\n", p.pid, p.comm, p.parent, p.pid, p.session, strings.Repeat(" 0", 32), p.cpu)
		status := "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t" + p.allowed + "\n"
		for name, text := range map[string]string{"stat": stat, "status": status} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return tree{root}
}

func TestShellsCPU(t *testing.T) {
	login := process{10, 1, 10, 1, "sshd", "0-1"}
	shell := process{20, 10, 20, 0, "ba) (sh", "0-1"}
	us := process{30, 20, 20, 1, "napistall", "0-1"}
	for _, tc := range []struct {
		name   string
		change func(login, shell, us *process)
		want   string
	}{
		{"elsewhere", func(_, _, _ *process) {}, ""},
		{"the shell was there last", func(_, sh, _ *process) { sh.cpu = 1 }, "taskset -cp 0 20"},
		{"the shell may only be there", func(_, sh, _ *process) { sh.allowed = "1" }, "ba) (sh (pid 20), from which this program was started, may run on CPU 1 only"},
		{"we may only be there", func(_, _, us *process) { us.allowed = "1" }, "napistall (pid 30)"},
		{"the login may only be there", func(l, _, _ *process) { l.allowed = "1" }, "sshd (pid 10)"},
		{"no shell: a session of our own", func(_, sh, us *process) { us.session, sh.cpu = 30, 1 }, ""},
		{"sudo has a session of its own", func(l, sh, _ *process) { sh.comm, l.cpu = "sudo", 1 }, "taskset -cp 0 10"},
	} {
		l, sh, u := login, shell, us
		tc.change(&l, &sh, &u)
		err := procOf(t, l, sh, u).refuse(30, 1)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: refuse = %v; want nil", tc.name, err)
		case tc.want != "" && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: refuse = %v; want ErrUnsupported with %q", tc.name, err, tc.want)
		}
	}
	if err := procOf(t).refuse(30, 1); err != nil {
		t.Errorf("refuse = %v where there is no process; want nil", err)
	}
}
