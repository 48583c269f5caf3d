package machine

import (
	"fmt"
	"strconv"
	"strings"
)

// A KThread is a kernel thread that polls for network devices, as /proc shows it.
type KThread struct {
	PID    int    `json:"pid"`
	Name   string `json:"name"`             // napi/eth0-8193; before 5.17 cut to 15 bytes
	Device string `json:"device,omitempty"` // as in its name; "" for a backlog thread
	State  string `json:"state"`            // R, S, …
	CPU    int    `json:"cpu"`              // where it ran last
	CPUs   string `json:"cpus"`             // where it may run, as a list
	Policy string `json:"policy"`           // normal, fifo, rr, batch, idle, deadline
	Nice   int    `json:"nice"`
	RTPrio int    `json:"rt_priority,omitempty"`
}

// Backlog reports whether the thread polls a CPU's backlog (thread_backlog_napi), not a device.
func (k KThread) Backlog() bool { return strings.HasPrefix(k.Name, backlogPrefix) }

const (
	napiPrefix    = "napi/"         // napi_kthread_create, since 5.12
	backlogPrefix = "backlog_napi/" // backlog_napi_setup, since 6.10
)

// NAPIThreads returns the kernel threads that poll, by pid. Hidden reports that kernel threads can't be seen
// at all, as in a container with processes of its own.
func (s Source) NAPIThreads() (threads []KThread, hidden bool, err error) {
	found, err := s.threads(napiPrefix, backlogPrefix)
	if err != nil {
		return nil, false, err
	}
	for _, t := range found {
		if k, ok := s.kthread(t); ok {
			threads = append(threads, k)
		}
	}
	return threads, s.text("proc/2/comm") != "kthreadd" && len(threads) == 0, nil
}

// kthread reads one; ok is false for a process that only has such a name, and for one that has ended.
func (s Source) kthread(t Thread) (k KThread, ok bool) {
	st, err := ParseStat(s.text(fmt.Sprintf("proc/%d/stat", t.PID)))
	if err != nil || !st.Kernel {
		return k, false
	}
	k = KThread{PID: t.PID, Name: t.Comm, State: st.State, CPU: st.CPU, Policy: policyName(st.Policy), Nice: st.Nice, RTPrio: st.RTPrio}
	for line := range strings.Lines(s.text(fmt.Sprintf("proc/%d/status", t.PID))) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			k.CPUs = strings.TrimSpace(list)
		}
	}
	if rest, ok := strings.CutPrefix(t.Comm, napiPrefix); ok {
		k.Device = rest
		if i := strings.LastIndexByte(rest, '-'); i > 0 {
			k.Device = rest[:i]
		}
	}
	return k, true
}

// policyName is the scheduling class by include/uapi/linux/sched.h.
func policyName(n int) string {
	names := map[int]string{0: "normal", 1: "fifo", 2: "rr", 3: "batch", 5: "idle", 6: "deadline", 7: "ext"}
	if name, ok := names[n]; ok {
		return name
	}
	return "policy " + strconv.Itoa(n)
}
