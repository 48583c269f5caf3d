package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// statLine is /proc/PID/stat as a 6.18 kernel prints it.
func statLine(pid int, comm, state string, flags uint, utime, stime, nice, cpu, rtprio, policy int) string {
	return fmt.Sprintf("%d (%s) %s 2 0 0 0 -1 %d 0 0 0 0 %d %d 0 0 20 %d 1 0 61 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 %d %d %d 0 0 0 0 0 0 0 0 0 0 0\n",
		pid, comm, state, flags, utime, stime, nice, cpu, rtprio, policy)
}

const kernelThread = 0x208040

func TestNAPIThreads(t *testing.T) {
	s := tree(t, map[string]string{
		"proc/2/comm":     "kthreadd\n",
		"proc/88/comm":    "napi/eth0-8193\n",
		"proc/88/stat":    statLine(88, "napi/eth0-8193", "R", kernelThread, 0, 250, 0, 1, 0, 0),
		"proc/88/status":  "Name:\tnapi/eth0-8193\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n",
		"proc/90/comm":    "napi/cilium_wg0\n", // cut to 15 bytes, as before 5.17
		"proc/90/stat":    statLine(90, "napi/cilium_wg0", "S", kernelThread, 0, 0, 5, 0, 0, 0),
		"proc/91/comm":    "napi/br-lan-x-7\n",
		"proc/91/stat":    statLine(91, "napi/br-lan-x-7", "S", kernelThread, 0, 0, 0, 0, 50, 1),
		"proc/95/comm":    "napi/fake-1\n", // somebody's process
		"proc/95/stat":    statLine(95, "napi/fake-1", "S", 0x400000, 0, 0, 0, 0, 0, 0),
		"proc/96/comm":    "napi/gone-1\n", // ended meanwhile
		"proc/17/comm":    "backlog_napi/1\n",
		"proc/17/stat":    statLine(17, "backlog_napi/1", "S", kernelThread, 0, 0, 0, 1, 0, 0),
		"proc/17/status":  "Cpus_allowed_list:\t1\n",
		"proc/notapid/xx": "",
	})
	got, hidden, err := s.NAPIThreads()
	if err != nil || hidden {
		t.Fatalf("hidden %v, %v", hidden, err)
	}
	want := []KThread{
		{PID: 17, Name: "backlog_napi/1", State: "S", CPU: 1, CPUs: "1", Policy: "normal"},
		{PID: 88, Name: "napi/eth0-8193", Device: "eth0", State: "R", CPU: 1, CPUs: "0-1", Policy: "normal"},
		{PID: 90, Name: "napi/cilium_wg0", Device: "cilium_wg0", State: "S", Policy: "normal", Nice: 5},
		{PID: 91, Name: "napi/br-lan-x-7", Device: "br-lan-x", State: "S", Policy: "fifo", RTPrio: 50},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("NAPIThreads (-want +got):\n%s", d)
	}
	if !got[0].Backlog() || got[1].Backlog() {
		t.Error("which of them polls a backlog?")
	}
}

// TestHiddenThreads: in a container, PID 2 is somebody's process or nobody.
func TestHiddenThreads(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"other": {"proc/1/comm": "sh\n", "proc/2/comm": "sleep\n"}, "none": {"proc/1/comm": "sh\n"},
	} {
		if threads, hidden, err := tree(t, files).NAPIThreads(); err != nil || !hidden || len(threads) > 0 {
			t.Errorf("%s: %v, hidden %v, %v; want hidden", name, threads, hidden, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	st, err := ParseStat(statLine(7, "a) R (b", "S", kernelThread, 3, 4, -20, 2, 1, 2))
	want := Stat{Comm: "a) R (b", State: "S", Kernel: true, Parent: 2, Session: 0, Start: "61", CPU: 2, Policy: 2, Nice: -20, RTPrio: 1, Used: 70 * time.Millisecond}
	if err != nil || st != want {
		t.Errorf("ParseStat = %+v, %v; want %+v", st, err, want)
	}
	for _, bad := range []string{"", "7", "7 (x)", "7 (x) S 1 2", strings.Replace(statLine(7, "x", "S", 1, 3, 4, 0, 0, 0, 0), " 17 0", " 17 x", 1)} {
		if st, err := ParseStat(bad); err == nil {
			t.Errorf("ParseStat(%q) = %+v; want an error", bad, st)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(statLine(7, "napi/x-1", "S", kernelThread, 3, 4, 0, 0, 0, 0))
	f.Fuzz(func(t *testing.T, text string) {
		if st, err := ParseStat(text); err == nil && (st.State == "" || strings.ContainsAny(st.State, " \n")) {
			t.Errorf("ParseStat(%q) = %+v", text, st)
		}
	})
}
