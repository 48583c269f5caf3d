package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/napistall/napistall/internal/machine"
)

// A tree is the machine's processes, as /proc shows them.
type tree struct{ root string }

// A relative is a process on the way from us up to the first one.
type relative struct {
	pid, parent, session int
	comm                 string
	cpu                  int   // where it last ran
	allowed              []int // where it may run
}

// refuse returns why a load on CPU test would take the CPU of whoever started process pid, who could
// then not stop it: a process from us upwards that may run nowhere else, or the shell, which was there
// last. A shell that waits stays where it is; that it would be moved when it wakes up depends on what the
// other CPUs do then. The shell is what leads our session, or the one above where that is sudo's; a
// session of our own, as of a daemon, has none.
func (t tree) refuse(pid, test int) error {
	shell := false // seen
	for self := pid; pid > 1; {
		r, err := t.relative(pid)
		if err != nil {
			return nil // it is in another PID namespace, or has ended: then nothing waits there
		}
		who := fmt.Sprintf("%s (pid %d)", r.comm, r.pid)
		if slices.Equal(r.allowed, []int{test}) {
			return unsupported("%s, from which this program was started, may run on CPU %d only, the one that the load would take: "+
				"choose another with load: {cpu: N}", who, test)
		}
		if !shell && r.session == pid {
			shell = !slices.Contains([]string{"sudo", "su", "doas"}, r.comm)
			if shell && pid != self && r.cpu == test {
				return unsupported("the shell, %s, runs on CPU %d, which the load would take: move it with taskset -cp %s %d, "+
					"or choose another CPU with load: {cpu: N}", who, test, list(without(r.allowed, test)), pid)
			}
		}
		pid = r.parent
	}
	return nil
}

func without(cpus []int, cpu int) []int {
	return slices.DeleteFunc(slices.Clone(cpus), func(c int) bool { return c == cpu })
}

func list(cpus []int) string {
	var words []string
	for _, c := range cpus {
		words = append(words, strconv.Itoa(c))
	}
	return strings.Join(words, ",")
}

// relative reads what proc_pid_stat(5) and proc_pid_status(5) say about a process.
func (t tree) relative(pid int) (relative, error) {
	dir := filepath.Join(t.root, strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return relative{}, err
	}
	stat, err := machine.ParseStat(string(text))
	if err != nil {
		return relative{}, fmt.Errorf("read %s/stat: %w", dir, err)
	}
	r := relative{pid: pid, parent: stat.Parent, session: stat.Session, comm: stat.Comm, cpu: stat.CPU}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return relative{}, err
	}
	for line := range strings.Lines(string(status)) {
		if cpus, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			r.allowed, err = machine.ParseCPUList(cpus)
			return r, err
		}
	}
	return relative{}, fmt.Errorf("read %s/status: no Cpus_allowed_list", dir)
}
